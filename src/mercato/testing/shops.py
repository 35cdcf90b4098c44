"""The invented shops as stores: where they stand, what they are called, and what they sell."""

from collections.abc import Mapping
from typing import Any, Final

from mercato.testing import menus
from mercato.testing.opening import Shop

PLACES: Final = {"pizzeria": (47.3221, 5.0412), "ramen": (38.2566, 140.8542), "grocery": (43.0731, -89.4012)}
"""Where the shops are, in degrees."""


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
        "pizzeria", menus.PIZZERIA, "Europe/Paris", menus.pizzeria(),
        street="12 Rue des Forges", city="Dijon", country="FR",
    ),
    "ramen": _shop(
        "ramen", menus.RAMEN_HOUSE, "Asia/Tokyo", menus.ramen_house(),
        street="青葉坂 3-8", city="仙台市", country="JP",
    ),
    "grocery": _shop(
        "grocery", menus.GROCERY, "America/Chicago", menus.grocery(),
        street="801 Prairie Street", city="Madison", state="WI", country="US",
    ),
}  # fmt: skip
"""By their short names. The first is always open, the second at lunch and in the evening, the third always."""
