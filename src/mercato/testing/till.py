"""The sums of a merchant: tax, totals, and whether amounts that were sent are what they should be."""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

TAX: Final = Decimal("0.05")
TAX_NAME: Final = "Sales tax, 5 %"

ADDED: Final = ("fees", "taxes", "adjustments", "tip")


def tax_on(amount: str) -> str:
    """Return the tax on a decimal amount, at the amount's own scale."""
    base = Decimal(amount)
    return str((base * TAX).quantize(base, rounding=ROUND_HALF_UP))


def total_of(amounts: Mapping[str, Any]) -> Decimal:
    """Return what the amounts come to: subTotal + fees - promotions + taxes + adjustments + tip."""
    added = sum((_member(amounts, name) for name in ADDED), Decimal(0))
    return _member(amounts, "subTotal") + added - _member(amounts, "promotions")


def with_tax(amounts: Mapping[str, Any], sub_total: Decimal | None) -> dict[str, Any]:
    """Return what a merchant adds to amounts that were sent; `sub_total` is its own, None if it knows no better."""
    sent = Decimal(amounts["subTotal"])
    own = str(sent if sub_total is None else sub_total.quantize(sent))
    tax = tax_on(own)
    total = total_of({**amounts, "subTotal": own, "taxes": tax})
    return {
        "subTotal": own,
        "taxes": tax,
        "taxesDescription": [{"amount": tax, "description": TAX_NAME}],
        "total": str(total),
    }


def faults_of(amounts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is wrong with the amounts of an order that is to be taken: tax, then total."""
    tax = Decimal(tax_on(amounts["subTotal"]))
    faults = []
    if _member(amounts, "taxes") != tax:
        faults.append(different("/amounts/taxes", f"Our tax on that is {tax}."))
    if _member(amounts, "total") != total_of(amounts):
        faults.append(different("/amounts/total", f"That comes to {total_of(amounts)}."))
    return faults


def different(pointer: str, message: str) -> dict[str, Any]:
    """Return the error that an amount is not what it should be."""
    return {"code": "ORDER_TOTAL_DIFFERENT", "message": message, "pointer": pointer}


def spoiled(amounts: Mapping[str, Any], member: str) -> dict[str, Any]:
    """Return the amounts with one of them a unit of its last digit too high, and all others as they were."""
    right = Decimal(amounts[member])
    wrong = right + Decimal(1).scaleb(int(right.as_tuple().exponent))
    return {**amounts, member: str(wrong)}


def _member(amounts: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(str(amounts.get(name) or 0))
