"""The catalogs that stores host: every version has its own prices, so that a served catalog identifies its version."""

from decimal import Decimal
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

DISHES: Final = ("Soup", "Noodles", "Dumplings", "Tea")
EXTRA: Final = "Egg"
GROUP: Final = "With"

CURRENCIES: Final = {"a-2": "KWD"}
"""The shops that don't sell in US dollars; this one has three decimals."""

_CENT: Final = Decimal("0.01")
_BASE: Final = Decimal(5)


def item_id(shop: str, name: str) -> str:
    """Return the id of a shop's item."""
    return str(uuid5(NAMESPACE_URL, f"https://prove.example/{shop}/{name}"))


def document(shop: str, version: int, *, broken: bool = False) -> dict[str, Any]:
    """Return a shop's catalog; a broken one refers to a missing item."""
    items = {item_id(shop, name): _item(shop, name, version) for name in (*DISHES, EXTRA)}
    group = item_id(shop, "group")
    for name in DISHES[:2]:
        items[item_id(shop, name)]["modifierGroupIds"] = [group]
    listed = [item_id(shop, name) for name in DISHES]
    if broken:
        listed.append(item_id(shop, "nothing"))
    return {
        "currency": CURRENCIES.get(shop, "USD"),
        "sections": {"all": {"sectionId": "all", "name": "All", "itemIds": listed}},
        "items": items,
        "modifierGroups": {
            group: {
                "modifierGroupId": group,
                "name": GROUP,
                "maximumAllowed": 3,
                "itemIds": [item_id(shop, EXTRA)],
            }
        },
    }


def name_of(shop: str, id_: str) -> str:
    """Return the name on the menu that has this id."""
    names = {item_id(shop, name): name for name in (*DISHES, EXTRA)} | {item_id(shop, "group"): GROUP}
    return names[id_]


def version_of(shop: str, served: Any) -> int:
    """Return the version that a served CatalogSet was made of."""
    price = Decimal(served["items"][item_id(shop, DISHES[0])]["basePrice"])
    return int((price - _BASE) / _CENT)


def _item(shop: str, name: str, version: int) -> dict[str, Any]:
    price = _BASE + version * _CENT if name != EXTRA else Decimal("0.50")
    return {"itemId": item_id(shop, name), "name": name, "basePrice": str(price)}
