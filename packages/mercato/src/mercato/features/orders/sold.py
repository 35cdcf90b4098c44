"""What reports read of an order: amounts and lines, a twentieth of its content, stored beside it."""

from functools import lru_cache
from typing import Final

import msgspec

from mercato_contract.money import MAX_TEXTS, to_minor
from mercato_contract.placements import Amounts, CommerceCart
from mercato_contract.wire import Wire


class SoldLine(Wire, frozen=True, array_like=True):
    """A line of an order as far as a report counts it, without its modifiers."""

    quantity: int
    name: str | None


class Sold(Wire, frozen=True, array_like=True):
    """The amounts of an order in minor units, as it was placed, and its lines."""

    sub_total: int
    adjustments: int
    fees: int
    promotions: int
    taxes: int
    tip: int
    lines: tuple[SoldLine, ...]


class _Line(Wire):
    quantity: int
    name: str | None = None


class _Cart(Wire):
    line_items: tuple[_Line, ...]


class _Amounts(Wire):
    sub_total: str
    adjustments: str
    fees: str
    promotions: str
    taxes: str
    tip: str


class _Content(Wire):
    cart: _Cart
    amounts: _Amounts


_content: Final = msgspec.json.Decoder(_Content)

decode_sold: Final = msgspec.json.Decoder(Sold).decode
"""Read what is stored of it."""


def sold_in(content: bytes, currency: str) -> Sold:
    """Return what reports read of an order that was stored without it, from its content, which never changes."""
    found = _content.decode(content)
    return sold_of(found.cart, found.amounts, currency)


def sold_of(cart: CommerceCart | _Cart, amounts: Amounts | _Amounts, currency: str) -> Sold:
    """Return what reports read of an order."""
    return Sold(
        _minor(amounts.sub_total, currency),
        _minor(amounts.adjustments, currency),
        _minor(amounts.fees, currency),
        _minor(amounts.promotions, currency),
        _minor(amounts.taxes, currency),
        _minor(amounts.tip, currency),
        tuple([SoldLine(line.quantity, line.name or None) for line in cart.line_items]),
    )


# Few amounts differ: prices are those of a menu, and most of the others are zero.
_minor: Final = lru_cache(maxsize=MAX_TEXTS)(to_minor)
