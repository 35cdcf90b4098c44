"""Taxes and fees of stores that set them once: what they add to the amounts of an order. Pure.

Each charge is computed once, on the sum and not on each line, and rounded half up at the currency's scale. So the
entries add up to the amounts, and the amounts to the total, to the last digit.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from mercato_contract.amounts import AmountEntries, AmountEntry, Sums
from mercato_contract.money import decimal_to_minor, minor_to_decimal
from mercato_contract.stores import RATE_SCALE, Charge, ChargeBase, ChargeKind, FulfillmentMode

_WHOLE: Final = 100 * 10**RATE_SCALE
"""A rate of 100 percent."""


def apply_charges(sums: Sums, charges: Sequence[Charge], *, mode: FulfillmentMode) -> Sums:
    """Return the sums with the fees and taxes of the charges that apply to an order that is handed over so.

    `sums` are in minor units. Fees come first, each on the subTotal, or on the subTotal and the fees before it. Taxes
    follow, each on the subTotal, or on the subTotal and all fees. Taxes that the prices contain are entries of zero
    that say how much they are: all that are contained in one sum are taken from it together, `sum * rate / (100 + all
    rates)`. The tip is never charged. Raises MoneyError for an amount that the currency doesn't have.
    """
    applied = [charge for charge in charges if charge.mode in {None, mode}]
    fees = _fees(sums, [charge for charge in applied if charge.kind is ChargeKind.FEE])
    bases = {
        ChargeBase.ITEMS: sums.sub_total,
        ChargeBase.ALL: sums.sub_total + sum(fee.amount for fee in fees),
    }
    taxes = _taxes(sums, [charge for charge in applied if charge.kind is ChargeKind.TAX], bases)
    return replace(sums, extras=replace(sums.extras, fees=fees, taxes=tuple(taxes)))


def _fees(sums: Sums, charges: Sequence[Charge]) -> AmountEntries:
    fees: list[AmountEntry] = []
    so_far = sums.sub_total
    for charge in charges:
        base = so_far if charge.applies_to is ChargeBase.ALL else sums.sub_total
        fee = _amount(charge, base, sums.scale)
        so_far += fee
        fees.append(AmountEntry(fee, charge.name))
    return tuple(fees)


def _taxes(sums: Sums, charges: Sequence[Charge], bases: dict[ChargeBase, int]) -> Iterable[AmountEntry]:
    contained = dict.fromkeys(ChargeBase, 0)
    for charge in charges:
        if charge.included and charge.rate is not None:
            contained[charge.applies_to] += decimal_to_minor(charge.rate, RATE_SCALE)
    for charge in charges:
        whole = _WHOLE + contained[charge.applies_to] if charge.included else _WHOLE
        tax = _amount(charge, bases[charge.applies_to], sums.scale, whole=whole)
        if charge.included:
            shown = minor_to_decimal(tax, sums.scale)
            yield AmountEntry(0, f"{charge.name}: {shown} {sums.currency} included")
        else:
            yield AmountEntry(tax, charge.name)


def _amount(charge: Charge, base: int, scale: int, *, whole: int = _WHOLE) -> int:
    """Return the charge in minor units: its amount, or its rate of the base, half up."""
    if charge.rate is None:
        return decimal_to_minor(charge.amount or "0", scale)
    return (2 * base * decimal_to_minor(charge.rate, RATE_SCALE) + whole) // (2 * whole)
