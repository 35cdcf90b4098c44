"""The stores that a certified storefront finds: what it can buy there, behind what it can't."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID, uuid5

from msgspec import Struct

from mercato.tools.certify.sample_store import SampleStore, item, sample_store
from mercato_contract.wire import as_json

_NAMESPACE: Final = UUID("7c0e1c52-1f0e-4d8a-9a3c-7b5a2f2c9e10")

NAME: Final = "Harbour Ramen"


def _id(name: str) -> str:
    return str(uuid5(_NAMESPACE, name))


UNAVAILABLE: Final = _id("gone")
SOLD_OUT: Final = UUID(_id("sold out"))
SET: Final = _id("set")
RAMEN: Final = _id("ramen")
BROTH: Final = _id("broth")

PRICES: Final = {
    "USD": ("13.50", "6.25", "1.75"),
    "KWD": ("4.125", "1.905", "0.335"),
    "JPY": ("950", "480", "130"),
}
"""Of the main dish, the side and the modifier, in currencies of two, three and no decimals."""

PAUSED_STORES: Final = 101
"""More than fit on the largest page of a search."""


class Offer(Struct, frozen=True, kw_only=True):
    """A store that a scenario needs. With a `previous_document` it has changed its menu once."""

    name: str = NAME
    document: dict[str, Any]
    previous_document: dict[str, Any] | None = None
    sold_out: tuple[UUID, ...] = ()
    is_paused: bool = False

    def sample(self, **ids: Any) -> SampleStore:
        """Return the store as the certifier orders from it."""
        document, sold_out = as_json(self.document), self.sold_out
        sample = sample_store(document, partner_store_id=self.name, sold_out=sold_out, **ids)
        assert sample is not None, "the menu is valid"
        return sample


def offer(*, currency: str = "USD", unavailable_first: bool = False, choice_first: bool = False) -> Offer:
    """Return a store that has changed its menu once."""
    document = _menu(currency, unavailable_first=unavailable_first, choice_first=choice_first)
    previous_sections = [section | {"name": "Soups"} for section in document["sections"]]
    return Offer(
        document=document,
        previous_document=document | {"sections": previous_sections},
        sold_out=(SOLD_OUT,) if unavailable_first else (),
    )


def many_stores() -> Sequence[Offer]:
    """Return more stores than fit on a page; by name, the open ones come last."""
    document = _menu("USD")
    return [
        Offer(name=f"Corner {number:03}", document=document, is_paused=number < PAUSED_STORES)
        for number in range(PAUSED_STORES + 2)
    ]


def _menu(currency: str, *, unavailable_first: bool = False, choice_first: bool = False) -> dict[str, Any]:
    """Return a menu. It may begin with items that can't be ordered, or with one that requires a modifier."""
    main, side, modifier = PRICES[currency]
    unavailable = [
        item("Yesterday's ramen", main, UNAVAILABLE, isAvailable=False),
        item("Sold-out ramen", main, str(SOLD_OUT)),
        item("Ramen broth to go, with a dish only", None, _id("priceless")),
    ]
    required = item("Ramen set", main, SET, modifierGroupIds=[BROTH])
    plain = [item("Miso ramen", main, RAMEN), item("Gyoza with ramen crumbs", side, _id("gyoza"))]
    items = [required, *plain] if choice_first else [*plain, required]
    items = [*unavailable, *items] if unavailable_first else items
    broths = [item("Clear broth", "0", _id("clear")), item("Rich broth", modifier, _id("rich"))]
    broth_ids = [one["itemId"] for one in broths]
    return {
        "currency": currency,
        "sections": [{"name": "Ramen", "itemIds": [one["itemId"] for one in items]}],
        "items": {one["itemId"]: one for one in [*items, *broths]},
        "modifierGroups": {
            BROTH: {"name": "Broth", "itemIds": broth_ids, "minimumAllowed": 1, "maximumAllowed": 1}
        },
    }
