"""Changes of JSON documents: members of a later version, another order of members, other items, other prices."""

from collections.abc import Callable
from typing import Any, Final

from mercato_contract.money import get_scale, minor_to_decimal, to_minor

MAPS: Final = frozenset({"items", "sections", "catalogs", "modifierGroups", "priceOverrides"})
"""Members that map ids to entities: a new name there would be an entity."""

UNKNOWN_ITEM: Final = "0190f5fe-0000-7000-8000-00000000dead"
"""An item that no catalog has."""


def with_unknown_members(value: Any, *, parent: str = "") -> Any:
    """Return a JSON value of a later version: every object has members that nobody knows yet."""
    if isinstance(value, list):
        return [with_unknown_members(one) for one in value]
    if isinstance(value, dict):
        known = {name: with_unknown_members(one, parent=name) for name, one in value.items()}
        new = {"x-new": {"since": 2030, "list": [None, True, "?"]}, "addedLater": None}
        return known if parent in MAPS else known | new
    return value


def reverse_members(value: Any) -> Any:
    """Return a JSON value with the members of every object in the opposite order."""
    if isinstance(value, list):
        return [reverse_members(one) for one in value]
    if isinstance(value, dict):
        return {name: reverse_members(one) for name, one in reversed(value.items())}
    return value


def replace_items(item_id: str = UNKNOWN_ITEM) -> Callable[[Any], Any]:
    """Return a change of an order's webhook: every line is for that item, at the price it has."""

    def change(document: Any) -> Any:
        item = {"itemId": item_id, "partnerItemId": item_id, "modifierGroups": [], "name": "Not on the menu"}
        for line in document["data"]["order"]["cart"]["lineItems"]:
            line.update(item)
        return document

    return change


def halve_prices(document: Any) -> Any:
    """Return an order's webhook at half the prices of its lines; the sums are correct."""
    order = document["data"]["order"]
    currency, lines = order["amounts"]["currency"], order["cart"]["lineItems"]
    scale = get_scale(currency)
    totals = []
    for line in lines:
        unit = to_minor(line["amounts"]["unitPrice"], currency) // 2
        totals.append(unit * line["quantity"])
        line["amounts"] = {
            "unitPrice": minor_to_decimal(unit, scale),
            "total": minor_to_decimal(totals[-1], scale),
        }
    for amounts in (order["cart"]["amounts"], order["amounts"]):
        less = to_minor(amounts["subTotal"], currency) - sum(totals)
        for name in ("subTotal", "total"):
            amounts[name] = minor_to_decimal(to_minor(amounts[name], currency) - less, scale)
    return document
