"""Why an order can't be had: the codes that may stand in `errors`, and the problem that they make together."""

from collections.abc import Sequence
from typing import Final

from mercato.kernel import errors
from mercato.kernel.errors import OTHER, OrderError, Problem

_KINDS: Final[dict[str, type[Problem]]] = {
    kind.code: kind
    for kind in (
        errors.CartEmpty,
        errors.ModifierRequired,
        errors.ModifierLimitExceeded,
        errors.ItemUnavailable,
        errors.ItemPriceChanged,
        errors.StoreClosed,
        errors.OrderBelowMinimum,
        errors.OrderTotalDifferent,
        errors.AddressInvalid,
        errors.AddressOutOfRange,
        errors.PaymentDeclined,
        errors.PaymentMethodInvalid,
        errors.PaymentFailed,
        errors.ValidationFailed,
    )
}

ORDER_REASONS: Final = frozenset({*_KINDS, OTHER})
"""The codes of ours that can concern an order."""

_OURS: Final = frozenset(kind.code for kind in errors.all_problems())


def reason_of(code: str) -> str:
    """Return the code as a reason: one of ours that can't concern an order is OTHER, unknown ones stay."""
    return OTHER if code in _OURS and code not in ORDER_REASONS else code


def words_for(code: str) -> str:
    """Return what is said of a reason that came without words."""
    return f"{_KINDS.get(code, errors.Other).title}."


def refusal(reasons: Sequence[OrderError]) -> Problem:
    """Return the problem that stands for the reasons: the first one's code and status, all of them listed."""
    first = reasons[0]
    more = "" if len(reasons) == 1 else f" ({len(reasons)} reasons: see errors.)"
    kind = _KINDS.get(first.code)
    if kind is None:
        return errors.Other(first.message + more, said=first.code, errors=reasons)
    return kind(first.message + more, errors=reasons)
