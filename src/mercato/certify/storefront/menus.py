"""The stores that a certified storefront finds: what can be bought there, behind what can't."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID, uuid5

from mercato import clock
from mercato.certify.shop import Shop, item, shop_of
from mercato.wire import as_json

_MAKER: Final = UUID("7c0e1c52-1f0e-4d8a-9a3c-7b5a2f2c9e10")

NAME: Final = "Harbour Ramen"


def _id(name: str) -> str:
    return str(uuid5(_MAKER, name))


GONE: Final = _id("gone")
SOLD_OUT: Final = UUID(_id("sold out"))
SET: Final = _id("set")
RAMEN: Final = _id("ramen")
BROTH: Final = _id("broth")

PRICES: Final = {
    "USD": ("13.50", "6.25", "1.75"),
    "KWD": ("4.125", "1.905", "0.335"),
    "JPY": ("950", "480", "130"),
}
"""Of the soup, the side and the extra, in currencies of two, three and no decimals."""


class Trap(StrEnum):
    """What stands first on a menu."""

    NONE = "none"
    GONE = "gone"
    """Items that can't be had: not available, sold out, without a price."""
    CHOICE = "choice"
    """An item that needs a choice."""


def menu(currency: str = "USD", trap: Trap = Trap.NONE) -> dict[str, Any]:
    """Return the document."""
    soup, side, extra = PRICES[currency]
    gone = [
        item("Yesterday's ramen", soup, GONE, isAvailable=False),
        item("Sold-out ramen", soup, str(SOLD_OUT)),
        item("Ramen broth to go, with a dish only", None, _id("priceless")),
    ]
    needy = item("Ramen set", soup, SET, modifierGroupIds=[BROTH])
    plain = [item("Miso ramen", soup, RAMEN), item("Gyoza with ramen crumbs", side, _id("gyoza"))]
    items = {
        Trap.NONE: [*plain, needy],
        Trap.GONE: [*gone, *plain, needy],
        Trap.CHOICE: [needy, *plain],
    }[trap]
    choices = [item("Clear broth", "0", _id("clear")), item("Rich broth", extra, _id("rich"))]
    group = {
        "name": "Broth",
        "itemIds": [one["itemId"] for one in choices],
        "minimumAllowed": 1,
        "maximumAllowed": 1,
    }
    return {
        "currency": currency,
        "sections": [{"name": "Ramen", "itemIds": [one["itemId"] for one in items]}],
        "items": {one["itemId"]: one for one in [*items, *choices]},
        "modifierGroups": {BROTH: group},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A store that a purchase finds. With an `old_document` it sold something else before."""

    name: str = NAME
    document: dict[str, Any]
    old_document: dict[str, Any] | None = None
    sold_out: tuple[UUID, ...] = ()
    is_paused: bool = False


def offer(*, currency: str = "USD", trap: Trap = Trap.NONE) -> Offer:
    """Return a store that has changed its menu once."""
    document = menu(currency, trap)
    old_sections = [section | {"name": "Soups"} for section in document["sections"]]
    return Offer(
        document=document,
        old_document=document | {"sections": old_sections},
        sold_out=(SOLD_OUT,) if trap is Trap.GONE else (),
    )


def street() -> Sequence[Offer]:
    """Return more stores than fit on a page; those that are open come last by their names."""
    document = menu()
    return [
        Offer(name=f"Corner {number:03}", document=document, is_paused=number < CLOSED)
        for number in range(CLOSED + 2)
    ]


CLOSED: Final = 101
"""Stores before the first that is open: more than the largest page has."""


def shop() -> Shop:
    """Return a store that nobody runs; events are about its orders."""
    made = shop_of(
        as_json(menu()),
        store_id=clock.new_id(),
        partner_store_id=NAME,
        timezone="UTC",
        onboarding_id=clock.new_id(),
        is_theirs=False,
        name=NAME,
    )
    assert made is not None, "the menu is valid"
    return made
