"""The codes that an order's `errors` may have, and the problem that lists them."""

from collections.abc import Sequence
from typing import Final

from mercato.features.carts.errors import ItemUnavailable, ModifierLimitExceeded, ModifierRequired
from mercato.features.orders.errors import (
    AddressInvalid,
    AddressOutOfRange,
    CartEmpty,
    ItemPriceChanged,
    OrderBelowMinimum,
    OrderTotalDifferent,
    Other,
    PaymentDeclined,
    PaymentFailed,
    PaymentMethodInvalid,
    StoreClosed,
)
from mercato.platform.errors import Problem, ValidationFailed
from mercato_contract.problems import ORDER_ERROR_CODES, OTHER, PROBLEMS, OrderError

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


def order_error_code(code: str) -> str:
    """Return a store's code: OTHER in place of one of this service's that can't apply to an order."""
    return OTHER if code in PROBLEMS and code not in ORDER_ERROR_CODES else code


def problem_of(listed: Sequence[OrderError]) -> Problem:
    """Return the problem with the first error's code and status that lists all of them."""
    first = listed[0]
    more = "" if len(listed) == 1 else f" ({len(listed)} reasons: see errors.)"
    kind = _KINDS.get(first.code)
    if kind is None:
        return Other(first.message + more, store_code=first.code, errors=listed)
    return kind(first.message + more, errors=listed)
