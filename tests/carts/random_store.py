"""Random catalogs and carts: mostly valid, sometimes against the catalog's rules."""

import random
from typing import Any
from uuid import UUID

Json = dict[str, Any]
SCALES = {"USD": 2, "JPY": 0, "KWD": 3}


class RandomStore:
    """A random document, its sold-out items, and random lines."""

    def __init__(self, seed: int, *, careless: float) -> None:
        self.random = random.Random(seed)
        self.careless = careless
        self.currency = self.random.choice(list(SCALES))
        self.document: Json = {"currency": self.currency, "items": {}, "modifierGroups": {}}
        for _ in range(self.random.randint(2, 10)):
            self._add_item()
            if self.often(0.6):
                self._add_group()
        items = list(self.document["items"])
        self.sold_out = {item for item in items if self.often(0.3 * careless)}

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def price(self) -> str:
        scale = SCALES[self.currency]
        minor = self.random.choice([0, 1, 5, 10, 99, 100, 333, 1250, 10**9, -25])
        text = f"{abs(minor):0{scale + 1}d}"
        return ("-" if minor < 0 else "") + (f"{text[:-scale]}.{text[-scale:]}" if scale else text)

    def _add_item(self) -> None:
        groups = list(self.document["modifierGroups"])
        item: Json = {
            "name": "x",
            "modifierGroupIds": self.random.sample(groups, self.random.randint(0, min(3, len(groups)))),
        }
        if self.often(0.9):
            item["basePrice"] = self.price()
        if self.often(0.1 * self.careless):
            item["isAvailable"] = False
        if self.often(0.2):
            item["maximumQuantity"] = self.random.randint(2, 6)
        self.document["items"][self.id()] = item

    def _add_group(self) -> None:
        items = list(self.document["items"])
        chosen = self.random.sample(items, self.random.randint(1, min(4, len(items))))
        least = self.random.choice([0, 0, 0, 1, 2])
        group: Json = {"name": "g", "itemIds": chosen, "minimumAllowed": least}
        if self.often(0.5):
            group["maximumAllowed"] = least + self.random.randint(0, 4)
        if self.often(0.3):
            group["maximumPerItem"] = self.random.randint(2, 4)
        if self.often(0.5):
            group["freeQuantity"] = self.random.randint(1, 4)
        group["priceOverrides"] = {item: self.price() for item in chosen if self.often(0.4)}
        self.document["modifierGroups"][self.id()] = group

    def lines(self) -> list[Json]:
        """Return the lines of a cart."""
        sold = [key for key, item in self.document["items"].items() if "basePrice" in item]
        pool = list(self.document["items"]) if self.often(self.careless) or not sold else sold
        return [self.line(self.random.choice(pool), 0) for _ in range(self.random.randint(1, 4))]

    def line(self, item_id: str, depth: int, most: int = 2) -> Json:
        if self.often(0.05 * self.careless):
            item_id = self.random.choice([self.id(), *self.document["items"]])
        item = self.document["items"].get(item_id, {})
        groups = [self._chosen(group, depth) for group in item.get("modifierGroupIds", [])]
        if self.often(0.1 * self.careless):
            strange = self.random.choice([self.id(), *self.document["modifierGroups"]])
            groups.append(self._chosen(strange, depth))
        self.random.shuffle(groups)
        return {
            "itemId": item_id,
            "quantity": self.random.randint(1, most),
            "modifierGroups": [group for group in groups if group["lineItems"] or self.often(0.3)],
        }

    def _chosen(self, group_id: str, depth: int) -> Json:
        group = self.document["modifierGroups"].get(group_id, {})
        least = group.get("minimumAllowed", 0)
        most = group.get("maximumAllowed", least + 3)
        if self.often(0.2 * self.careless):
            most += 2
            least = 0
        wanted = self.random.randint(least, most) if depth < 3 else least  # deep enough
        lines = []
        while wanted > 0 and depth < 7:  # one less than is allowed
            choices = group.get("itemIds") or list(self.document["items"])
            line = self.line(self.random.choice(choices), depth + 1, min(2, wanted))
            wanted -= line["quantity"]
            lines.append(line)
        return {"modifierGroupId": group_id, "lineItems": lines}


def count(lines: list[Json]) -> int:
    return sum(1 + sum(count(group["lineItems"]) for group in line["modifierGroups"]) for line in lines)
