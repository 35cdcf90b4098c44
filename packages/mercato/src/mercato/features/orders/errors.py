"""Refusals of orders, a store's own included, and the problem that lists an order's errors."""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from msgspec import UNSET

from mercato_catalog.carts.errors import ItemUnavailable, ModifierLimitExceeded, ModifierRequired
from mercato_contract import problems
from mercato_contract.problems import OTHER, OrderError
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.texts import shown

RETRY_SECONDS: Final = 5
"""The Retry-After of a request whose store didn't answer."""


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
    """A store's refusal with the store's own code, which is passed on; its documentation page is that of OTHER."""

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


class CancellationRefused(Problem):
    kind = problems.CANCELLATION_REFUSED


class InvalidStatusTransition(Problem):
    kind = problems.INVALID_STATUS_TRANSITION


class SpendLimitExceeded(Problem):
    kind = problems.SPEND_LIMIT_EXCEEDED


class ApprovalRequired(Problem):
    kind = problems.APPROVAL_REQUIRED


class StoreUnreachable(Problem):
    kind = problems.STORE_UNREACHABLE


def already_placed(order_id: UUID) -> OrderAlreadyPlaced:
    return OrderAlreadyPlaced(
        "An order was placed with this validatedOrderToken. Read it by its orderId.",
        extensions={"orderId": str(order_id)},
    )


def unanswered(order_id: UUID) -> StoreUnreachable:
    return StoreUnreachable(
        "The store has not answered yet. The order is stored and resent for some minutes. Repeat the "
        "request with the same Idempotency-Key, or read the order.",
        retry_after=RETRY_SECONDS,
        extensions={"orderId": str(order_id)},
    )


# --- the errors of an order ---------------------------------------------------------------------

_KINDS: Final[dict[str, type[Problem]]] = {
    kind.code: kind
    for kind in (
        AddressInvalid,
        AddressOutOfRange,
        CartEmpty,
        ItemPriceChanged,
        ItemUnavailable,
        ModifierLimitExceeded,
        ModifierRequired,
        OrderBelowMinimum,
        OrderTotalDifferent,
        PaymentDeclined,
        PaymentFailed,
        PaymentMethodInvalid,
        StoreClosed,
        ValidationFailed,
    )
}


def problem_of(listed: Sequence[OrderError]) -> Problem:
    """Return the problem with the first error's code and status that lists all of them."""
    first = listed[0]
    more = "" if len(listed) == 1 else f" ({len(listed)} reasons: see errors.)"
    kind = _KINDS.get(first.code)
    if kind is None:
        return Other(first.message + more, store_code=first.code, errors=listed)
    if first.opens_at is UNSET:
        return kind(first.message + more, errors=listed)
    hours = {"opensAt": first.opens_at, "closesAt": first.closes_at}
    return kind(first.message + more, errors=listed, extensions=hours)
