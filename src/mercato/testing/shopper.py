"""Customers and what they want, drawn from a seed: the same number of the same seed is always the same customer."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

FIRST: Final = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Ken", "Radia", "Tim", "Frances", "Niklaus")
LAST: Final = ("Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov", "Thompson", "Perlman", "Allen", "Wirth")

MOST_LINES: Final = 3
MOST_EXTRAS: Final = 2
DEEPEST: Final = 6
"""Levels of modifiers that are looked into."""

Line = dict[str, Any]
Catalog = Mapping[str, Any]


def lots(seed: int, number: int, what: str) -> random.Random:
    """Return the lots of one customer for one purpose."""
    return random.Random(f"{seed}/{number}/{what}")  # noqa: S311  # no secret


def customer(seed: int, number: int) -> dict[str, str]:
    """Return who buys; the address is of a domain that nobody has."""
    draw = lots(seed, number, "customer")
    first, last = draw.choice(FIRST), draw.choice(LAST)
    return {
        "firstName": first,
        "lastName": last,
        "email": f"{first}.{last}.{number}@example.com".lower(),
        "phone": f"+1555{draw.randrange(10**7):07}",
        "partnerUserId": f"customer-{number}",
    }


def wanted(catalog: Catalog, seed: int, number: int, *, sold_out: Collection[str] = ()) -> list[Line]:
    """Return the lines that a customer wants of a served CatalogSet; every rule of its modifiers is kept."""
    draw = lots(seed, number, "cart")
    offered = [item for item in _offered(catalog) if _can_be_had(catalog, item, sold_out)]
    count = min(len(offered), draw.randint(1, MOST_LINES))
    chosen = draw.sample(offered, count)
    return [_line(catalog, item, draw.randint(1, 2), draw, sold_out) for item in chosen]


def _offered(catalog: Catalog) -> list[str]:
    """Return the items that stand in sections and have a price, in the order of the document."""
    items = catalog["items"]
    listed = [
        item for section in (catalog.get("sections") or {}).values() for item in section.get("itemIds") or ()
    ]
    return [item for item in dict.fromkeys(listed or items) if items[item].get("basePrice") is not None]


def _can_be_had(catalog: Catalog, item: str, sold_out: Collection[str], depth: int = 0) -> bool:
    if item in sold_out or catalog["items"][item].get("isAvailable") is False:
        return False
    return depth < DEEPEST and all(
        _choices(catalog, group, sold_out, depth) or not _least(group) for group in _groups(catalog, item)
    )


def _groups(catalog: Catalog, item: str) -> Iterator[Mapping[str, Any]]:
    """Yield the modifier groups of an item, each with its id."""
    groups = catalog.get("modifierGroups") or {}
    for id_ in catalog["items"][item].get("modifierGroupIds") or ():
        yield {**groups[id_], "modifierGroupId": id_}


def _choices(
    catalog: Catalog, group: Mapping[str, Any], sold_out: Collection[str], depth: int
) -> Sequence[str]:
    return [one for one in group.get("itemIds") or () if _can_be_had(catalog, one, sold_out, depth + 1)]


def _line(
    catalog: Catalog,
    item: str,
    quantity: int,
    draw: random.Random,
    sold_out: Collection[str],
    depth: int = 0,
) -> Line:
    groups = []
    for group in _groups(catalog, item):
        picked = _picked(group, _choices(catalog, group, sold_out, depth), draw)
        lines = [_line(catalog, one, many, draw, sold_out, depth + 1) for one, many in picked.items()]
        if lines:
            groups.append({"modifierGroupId": group["modifierGroupId"], "lineItems": lines})
    most = catalog["items"][item].get("maximumQuantity")
    return {
        "itemId": item,
        "quantity": min(quantity, most) if most else quantity,
        "modifierGroups": groups,
    }


def _picked(group: Mapping[str, Any], choices: Sequence[str], draw: random.Random) -> dict[str, int]:
    """Return how many of which choices: as few as the group allows, and up to two more."""
    if not choices:
        return {}
    least, most = _least(group), group.get("maximumAllowed")
    units = least + draw.randint(0, MOST_EXTRAS)
    units = units if most is None else min(units, most)
    each = group.get("maximumPerItem") or units
    order = draw.sample(choices, len(choices))
    picked: dict[str, int] = {}
    for one in order * max(1, min(each, units)):
        if sum(picked.values()) < units:
            picked[one] = picked.get(one, 0) + 1
    return picked


def _least(group: Mapping[str, Any]) -> int:
    return int(group.get("minimumAllowed") or 0)
