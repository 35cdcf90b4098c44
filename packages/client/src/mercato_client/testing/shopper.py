"""Random customers and carts: the same seed and number always give the same customer."""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

FIRST: Final = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Ken", "Radia", "Tim", "Frances", "Niklaus")
LAST: Final = ("Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov", "Thompson", "Perlman", "Allen", "Wirth")

MAX_LINES: Final = 3
MAX_EXTRAS: Final = 2
MAX_UNITS: Final = 200
"""Units of a group: no order may have more lines, whatever a group requires."""

MAX_DEPTH: Final = 6
"""Levels of modifiers that are followed."""

Line = dict[str, Any]
Catalog = Mapping[str, Any]


def lots(seed: int, number: int, what: str) -> random.Random:
    """Return a random generator for one customer and one purpose."""
    return random.Random(f"{seed}/{number}/{what}")  # noqa: S311  # no secret


def customer(seed: int, number: int) -> dict[str, str]:
    """Return a customer; the e-mail address is in a reserved domain."""
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
    """Return the lines that a customer wants of a served CatalogSet; they satisfy all its modifier rules."""
    return _Shopper(catalog, sold_out, lots(seed, number, "cart")).lines()


@dataclass(frozen=True, slots=True)
class _Shopper:
    """Chooses lines from a catalog at random."""

    catalog: Catalog
    sold_out: Collection[str]
    draw: random.Random

    def lines(self) -> list[Line]:
        offered = [item for item in self.offered() if self.is_available(item)]
        chosen = self.draw.sample(offered, min(len(offered), self.draw.randint(1, MAX_LINES)))
        return [self.line(item, self.draw.randint(1, 2)) for item in chosen]

    def offered(self) -> list[str]:
        """Return the items in sections that have a price, in the document's order."""
        items, sections = self.catalog["items"], self.catalog.get("sections") or {}
        listed = [item for section in sections.values() for item in section.get("itemIds") or ()]
        return [item for item in dict.fromkeys(listed or items) if items[item].get("basePrice") is not None]

    def is_available(self, item: str, depth: int = 0) -> bool:
        if item in self.sold_out or self.catalog["items"][item].get("isAvailable") is False:
            return False
        return depth < MAX_DEPTH and all(
            self.choices(group, depth) or not _minimum(group) for _, group in self.groups(item)
        )

    def groups(self, item: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the modifier groups of an item by id."""
        groups = self.catalog.get("modifierGroups") or {}
        return [(id_, groups[id_]) for id_ in self.catalog["items"][item].get("modifierGroupIds") or ()]

    def choices(self, group: Mapping[str, Any], depth: int) -> Sequence[str]:
        return [item for item in group.get("itemIds") or () if self.is_available(item, depth + 1)]

    def line(self, item: str, quantity: int, depth: int = 0) -> Line:
        groups = []
        for id_, group in self.groups(item):
            picked = self.picked(group, self.choices(group, depth))
            lines = [self.line(one, many, depth + 1) for one, many in picked.items()]
            if lines:
                groups.append({"modifierGroupId": id_, "lineItems": lines})
        maximum = self.catalog["items"][item].get("maximumQuantity")
        quantity = min(quantity, maximum) if maximum else quantity
        return {"itemId": item, "quantity": quantity, "modifierGroups": groups}

    def picked(self, group: Mapping[str, Any], choices: Sequence[str]) -> Counter[str]:
        """Return quantities of choices: the group's minimum, and up to two more."""
        picked: Counter[str] = Counter()
        if not choices:
            return picked
        units, maximum = _minimum(group) + self.draw.randint(0, MAX_EXTRAS), group.get("maximumAllowed")
        units = min(units, MAX_UNITS if maximum is None else min(maximum, MAX_UNITS))
        each = group.get("maximumPerItem") or units
        order = self.draw.sample(choices, len(choices)) * max(1, min(each, units))
        picked.update(order[:units])
        return picked


def _minimum(group: Mapping[str, Any]) -> int:
    return int(group.get("minimumAllowed") or 0)
