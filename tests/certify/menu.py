"""A small menu with one thing of each kind that checks look for."""

from typing import Any

TEA, BOWL, EGG, NAPKIN, GONE = (f"0190f5fe-7e3b-7ccc-8000-00000000000{n}" for n in range(1, 6))
EXTRAS = "0190f5fe-7e3b-7ccc-8000-00000000000a"


def menu() -> dict[str, Any]:
    items = {
        TEA: {"name": "Tea", "basePrice": "2.50"},
        BOWL: {"name": "Bowl", "basePrice": "9.90", "modifierGroupIds": [EXTRAS]},
        EGG: {"name": "Egg", "basePrice": "1.10"},
        NAPKIN: {"name": "Napkin", "basePrice": "0"},
        GONE: {"name": "Soup", "basePrice": "5.00", "isAvailable": False},
    }
    return {
        "currency": "USD",
        "sections": [{"name": "All", "itemIds": [TEA, BOWL, GONE]}],
        "items": items,
        "modifierGroups": {EXTRAS: {"name": "Extras", "itemIds": [EGG, NAPKIN], "maximumAllowed": 3}},
    }
