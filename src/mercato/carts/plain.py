"""What a cart costs that nothing is to be said against, which nearly every cart is: one walk without any bookkeeping.

It knows no faults. Whatever it is not sure of it leaves to `carts.pricing`, which looks at everything and says where
it is wrong; what both price they price alike.
"""

from collections.abc import Collection, Sequence
from uuid import UUID
from weakref import ref

from mercato.carts.known import LINES, Reading
from mercato.carts.model import MOST_LINES, MOST_QUANTITY, CartModifierGroup, LineItem
from mercato.catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.catalog.money import LEAST, MOST


class Walk:
    """One walk over a cart. `ids` are those of its lines, modifiers included, as numbers."""

    __slots__ = ("_catalog", "_groups", "_items", "_keys", "complete", "ids", "readings")

    def __init__(self, catalog: CompiledCatalog) -> None:
        self._catalog = catalog
        self._items = catalog.items
        self._groups = catalog.groups
        self._keys: list[Key] = []
        self.ids: list[int] = []
        self.complete: list[bool] = []
        self.readings: list[Reading | None] = []

    def units(self, lines: Sequence[LineItem], sold_out: Collection[UUID]) -> list[int] | None:
        """Return what one unit of each line costs, or None if the cart is to be looked at.

        Below each line that is `complete` everything has an id.
        """
        units: list[int] = []
        bounded: dict[Key, int] = {}
        catalog, items, keys, ids = self._catalog, self._items, self._keys, self.ids
        for line in lines:
            known = LINES.find(line)
            reading = None if known is None else known.reading
            if reading is not None and reading.catalog() is catalog:
                keys += reading.items
                ids += reading.ids
                units.append(reading.unit)
                self.complete.append(True)
                self.readings.append(reading)
                continue
            key, quantity = line.item_id.int, line.quantity
            item = items.get(key)
            if item is None or item.price is None or not item.available:
                return None
            if item.maximum_quantity is not None:
                bounded[key] = had = bounded.get(key, 0) + quantity
                if had > item.maximum_quantity:
                    return None
            first, first_id = len(keys), len(ids)
            keys.append(key)
            before = len(keys) - len(ids)
            extra = self._extra(line.modifier_groups, item) if line.modifier_groups or item.groups else 0
            if extra is None or not LEAST <= (item.price + extra) * quantity <= MOST:
                return None
            self.complete.append(len(keys) - len(ids) == before)
            if line.line_item_id is not None:
                ids.append(line.line_item_id.int)
            units.append(item.price + extra)
            reading = None
            if (
                known is not None
                and item.maximum_quantity is None
                and len(ids) - len(keys) == first_id - first
            ):
                reading = known.reading = Reading(
                    ref(catalog), item.price + extra, tuple(keys[first:]), tuple(ids[first_id:])
                )
            self.readings.append(reading)
        if len(keys) > MOST_LINES or (sold_out and not {item.int for item in sold_out}.isdisjoint(keys)):
            return None
        return units

    def _extra(self, sent: Sequence[CartModifierGroup], item: CompiledItem) -> int | None:
        """Return what the modifiers of one unit cost."""
        extra = 0
        seen = set()
        for part in sent:
            key = part.modifier_group_id.int
            if key not in item.groups:
                return None
            seen.add(key)
            group = self._groups.get(key)
            cost = None if group is None else self._cost(part.line_items, group)
            if cost is None:
                return None
            extra += cost
        if len(seen) != len(sent):
            return None
        for key in item.groups if len(seen) != len(item.groups) else ():
            if key not in seen and self._groups[key].minimum > 0:
                return None
        return extra

    def _cost(self, choices: Sequence[LineItem], group: CompiledGroup) -> int | None:
        """Return what the choices of a group cost."""
        items, prices, keys, ids = self._items, group.choices, self._keys, self.ids
        extra = had = 0
        most = MOST_QUANTITY if group.maximum_per_item is None else group.maximum_per_item
        for choice in choices:
            key = choice.item_id.int
            own, item = prices.get(key), items.get(key)
            if (
                own is None
                or item is None
                or item.groups
                or choice.modifier_groups
                or not item.available
                or item.maximum_quantity is not None
            ):
                return None
            quantity = choice.quantity
            if quantity > most:
                return None
            had += quantity
            extra += own * quantity
            keys.append(key)
            if choice.line_item_id is not None:
                ids.append(choice.line_item_id.int)
        if had < group.minimum or (group.maximum is not None and had > group.maximum):
            return None
        if most != MOST_QUANTITY and len({choice.item_id.int for choice in choices}) != len(choices):
            return None  # a choice in parts: they count together
        if group.free:
            extra -= cheapest(
                [(prices[choice.item_id.int], choice.quantity) for choice in choices], group.free
            )
        return extra


def cheapest(costs: list[tuple[int, int]], free: int) -> int:
    """Return what the cheapest units cost, given (price of a unit, units)."""
    waived = 0
    for own, quantity in sorted(costs):
        units = min(free, quantity)
        waived += units * own
        free -= units
    return waived
