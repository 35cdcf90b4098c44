"""Three invented shops: their CatalogSet documents (`catalogs/`), each as such shops write them, and their stores.

A pizzeria (EUR, sizes and toppings, lists where the format allows them), a Japanese restaurant (JPY, lunch and
dinner cards with hours), a grocery (USD, sections within sections, and its own article numbers for ids).
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final
from uuid import UUID, uuid5

from mercato_client.testing.opening import Shop

Document = dict[str, Any]

_NAMESPACE: Final = UUID("5f1c2a52-6d0e-4d8a-9a3c-7b5a2f2c9e10")
"""Of the ids in the documents of the pizzeria and the restaurant."""

PIZZERIA: Final = "Forno Lucia"
MARGHERITA: Final = "Margherita"
RAMEN_HOUSE: Final = "麺処 あおば坂"
GROCERY: Final = "Prairie Street Market"
MISSING_ARTICLE: Final = "MLK-900"
SOLD_OUT_ARTICLE: Final = "FRT-101"


def item_id(shop: str, name: str) -> str:
    """Return the id of an item or modifier group of the pizzeria or the restaurant."""
    return str(uuid5(_NAMESPACE, f"{shop}/{name}"))


def pizzeria(*, margherita: str = "9.50") -> Document:
    """Return the pizzeria's document, with that price of a margherita."""
    document = _read("pizzeria.json")
    document["items"][item_id(PIZZERIA, MARGHERITA)]["basePrice"] = margherita
    return document


def ramen_house() -> Document:
    """Return the Japanese restaurant's document: whole yen, a lunch card and an evening card."""
    return _read("ramen.json")


def grocery(*, broken: bool = False) -> Document:
    """Return the grocery's document; the broken one lists an article that isn't in `items`."""
    document = _read("grocery.json")
    if broken:
        document["sections"]["milk"]["itemIds"].append(MISSING_ARTICLE)
    return document


def _read(name: str) -> Document:
    document: Document = json.loads(
        files("mercato_client.testing").joinpath("catalogs", name).read_text("utf-8")
    )
    return document


# --- stores -------------------------------------------------------------------------------------------

PLACES: Final = {"pizzeria": (47.3221, 5.0412), "ramen": (38.2566, 140.8542), "grocery": (43.0731, -89.4012)}
"""The shops' locations in degrees."""


def _shop(key: str, name: str, zone: str, document: Any, **address: Any) -> Shop:
    coordinates = dict(zip(("lat", "lng"), PLACES[key], strict=True))
    return Shop(
        partner_store_id=f"{key}-1",
        name=name,
        document=document,
        address=address | {"coordinates": coordinates},
        timezone=zone,
    )


SHOPS: Final[Mapping[str, Shop]] = {
    "pizzeria": _shop(
        "pizzeria", PIZZERIA, "Europe/Paris", pizzeria(),
        street="12 Rue des Forges", city="Dijon", country="FR",
    ),
    "ramen": _shop(
        "ramen", RAMEN_HOUSE, "Asia/Tokyo", ramen_house(),
        street="青葉坂 3-8", city="仙台市", country="JP",
    ),
    "grocery": _shop(
        "grocery", GROCERY, "America/Chicago", grocery(),
        street="801 Prairie Street", city="Madison", state="WI", country="US",
    ),
}  # fmt: skip
"""By their short names. The first is always open, the second at lunch and in the evening, the third always."""
