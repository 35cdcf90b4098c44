"""Refusals of carts and orders, a store's own included."""

from collections.abc import Iterable

from mercato.kernel.errors.problem import OTHER, OrderError, Problem, shown


class MissingStoreId(Problem):
    status, code, category = 400, "MISSING_STORE_ID", "validation"
    title = "A storeId is needed"


class CatalogSetRequired(Problem):
    status, code, category = 400, "CATALOGSET_REQUIRED", "validation"
    title = "A catalogSetId is needed"


class CartEmpty(Problem):
    status, code, category = 400, "CART_EMPTY", "validation"
    title = "The cart has no line items"


class ModifierRequired(Problem):
    status, code, category = 400, "MODIFIER_REQUIRED", "validation"
    title = "A required modifier is missing"


class ModifierLimitExceeded(Problem):
    status, code, category = 400, "MODIFIER_LIMIT_EXCEEDED", "validation"
    title = "More modifiers are chosen than the group allows"


class OrderBelowMinimum(Problem):
    status, code, category = 400, "ORDER_BELOW_MINIMUM", "validation"
    title = "The order is below the store's minimum"


class OrderTotalDifferent(Problem):
    status, code, category = 400, "ORDER_TOTAL_DIFFERENT", "validation"
    title = "The total differs from the order's current total"


class AddressInvalid(Problem):
    status, code, category = 400, "ADDRESS_INVALID", "validation"
    title = "The delivery address is not complete"


class AddressOutOfRange(Problem):
    status, code, category = 400, "ADDRESS_OUT_OF_RANGE", "validation"
    title = "The store does not deliver there"


class OrderTokenInvalid(Problem):
    status, code, category = 400, "ORDER_TOKEN_INVALID", "validation"
    title = "The validatedOrderToken is not valid for this order"


class StoreClosed(Problem):
    status, code, category = 400, "STORE_CLOSED", "availability"
    title = "The store is not open"


class ItemUnavailable(Problem):
    status, code, category = 400, "ITEM_UNAVAILABLE", "availability"
    title = "An item is not available now"


class ItemPriceChanged(Problem):
    status, code, category = 400, "ITEM_PRICE_CHANGED", "availability"
    title = "A price has changed"


class PaymentDeclined(Problem):
    status, code, category = 400, "PAYMENT_DECLINED", "payment"
    title = "The payment was declined"


class PaymentMethodInvalid(Problem):
    status, code, category = 400, "PAYMENT_METHOD_INVALID", "payment"
    title = "The payment method cannot be used"


class PaymentFailed(Problem):
    status, code, category = 400, "PAYMENT_FAILED", "payment"
    title = "The payment failed"
    retryable = True


class Other(Problem):
    """A store's refusal with a code of its own, which is passed on; its documentation page is that of OTHER."""

    status, code, category = 400, OTHER, "validation"
    title = "The store refused the order for a reason of its own"

    def __init__(self, detail: str, *, store_code: str = OTHER, errors: Iterable[OrderError] = ()) -> None:
        super().__init__(detail, errors=errors)
        self._store_code = store_code

    @property
    def error_code(self) -> str:
        return self._store_code


class LineItemNotFound(Problem):
    status, code, category = 404, "LINE_ITEM_NOT_FOUND", "not_found"
    title = "No such line item in the cart"


class OrderNotFound(Problem):
    status, code, category = 404, "ORDER_NOT_FOUND", "not_found"
    title = "No such order in this account"

    def __init__(self, order_id: object) -> None:
        super().__init__(f"This account has no order {shown(order_id)}.")


class OrderAlreadyPlaced(Problem):
    status, code, category = 409, "ORDER_ALREADY_PLACED", "conflict"
    title = "This validated order was placed already"


class OrderClosed(Problem):
    status, code, category = 409, "ORDER_CLOSED", "conflict"
    title = "The order is closed"


class InvalidStatusTransition(Problem):
    status, code, category = 409, "INVALID_STATUS_TRANSITION", "conflict"
    title = "An order's status cannot go backward"


class StoreUnreachable(Problem):
    status, code, category = 503, "STORE_UNREACHABLE", "availability"
    title = "The store's system did not answer"
    retryable = True
