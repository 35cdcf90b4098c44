"""Refusals of orders, a store's own included."""

from collections.abc import Iterable

from mercato.platform.errors import Problem
from mercato.platform.texts import shown
from mercato_contract import problems
from mercato_contract.problems import OTHER, OrderError


class CartEmpty(Problem):
    kind = problems.CART_EMPTY


class OrderBelowMinimum(Problem):
    kind = problems.ORDER_BELOW_MINIMUM


class OrderTotalDifferent(Problem):
    kind = problems.ORDER_TOTAL_DIFFERENT


class AddressInvalid(Problem):
    kind = problems.ADDRESS_INVALID


class AddressOutOfRange(Problem):
    kind = problems.ADDRESS_OUT_OF_RANGE


class OrderTokenInvalid(Problem):
    kind = problems.ORDER_TOKEN_INVALID


class StoreClosed(Problem):
    kind = problems.STORE_CLOSED


class ItemPriceChanged(Problem):
    kind = problems.ITEM_PRICE_CHANGED


class PaymentDeclined(Problem):
    kind = problems.PAYMENT_DECLINED


class PaymentMethodInvalid(Problem):
    kind = problems.PAYMENT_METHOD_INVALID


class PaymentFailed(Problem):
    kind = problems.PAYMENT_FAILED


class Other(Problem):
    """A store's refusal with a code of its own, which is passed on; its documentation page is that of OTHER."""

    kind = problems.OTHER_REFUSAL

    def __init__(self, detail: str, *, store_code: str = OTHER, errors: Iterable[OrderError] = ()) -> None:
        super().__init__(detail, errors=errors)
        self._store_code = store_code

    @property
    def error_code(self) -> str:
        return self._store_code


class OrderNotFound(Problem):
    kind = problems.ORDER_NOT_FOUND

    def __init__(self, order_id: object) -> None:
        super().__init__(f"This account has no order {shown(order_id)}.")


class OrderAlreadyPlaced(Problem):
    kind = problems.ORDER_ALREADY_PLACED


class OrderClosed(Problem):
    kind = problems.ORDER_CLOSED


class InvalidStatusTransition(Problem):
    kind = problems.INVALID_STATUS_TRANSITION


class StoreUnreachable(Problem):
    kind = problems.STORE_UNREACHABLE
