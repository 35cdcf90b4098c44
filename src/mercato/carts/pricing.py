"""What a cart costs, and everything that is wrong with it, by one CatalogSet. Integers of minor units only.

A unit of a line costs the item's own price and what its modifiers cost, at every depth alike. A group's free
units are its cheapest by the choices' own prices; modifiers of a free choice cost what they cost.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from mercato import errors
from mercato.carts.known import Reading
from mercato.carts.model import CartModifierGroup, LineItem
from mercato.carts.places import Place, pointer
from mercato.carts.plain import Walk, cheapest
from mercato.catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.catalog.money import LEAST, MOST
from mercato.errors import OrderError

UNAVAILABLE: Final = errors.ItemUnavailable.code
REQUIRED: Final = errors.ModifierRequired.code
EXCEEDED: Final = errors.ModifierLimitExceeded.code
INVALID: Final = errors.ValidationFailed.code

MOST_FAULTS: Final = 100
"""Faults listed in one refusal."""

Chosen = list[tuple[int, CartModifierGroup]]
"""What was chosen from one group, in as many parts as it was sent in, each with its index."""


class Priced(msgspec.Struct, frozen=True):
    """What became of the lines. `units`: what one unit of each costs, None when something in it can't be had.

    `unavailable` holds the identity (`id`) of every line, nested ones too, that has no price. `faults` are what
    the set says against the cart; `overflows` are amounts that can't be written down at all. `as_sent` tells of
    each line whether all below it can be answered as it was sent, ids included; `readings` are of those lines that
    can be answered as they were answered before.
    """

    units: tuple[int | None, ...]
    total: int
    faults: tuple[OrderError, ...]
    overflows: tuple[OrderError, ...]
    unavailable: frozenset[int]
    as_sent: tuple[bool, ...]
    readings: tuple[Reading | None, ...]


def price(
    lines: Sequence[LineItem],
    *,
    places: Iterable[Place],
    whole: Place,
    catalog: CompiledCatalog,
    sold_out: Collection[UUID],
) -> Priced:
    """Return what the lines cost and all that is wrong with them; nothing is raised.

    `places` says where each line stands in the request, `whole` where they stand together. The lines must have
    been found to be within bounds (`check_bounds`).
    """
    found = _plain(lines, catalog, sold_out)
    if found is not None:
        return found
    pricing = _Pricing(catalog, sold_out)
    total = 0
    units: list[int | None] = []
    for line, place in zip(lines, places, strict=True):
        unit = pricing.top(line, place)
        units.append(unit)
        if unit is not None:
            pricing.check_range(unit * line.quantity, place)
            total += unit * line.quantity
    pricing.check_quantities(lines)
    if not pricing.overflows:
        pricing.check_range(total, whole)
    return Priced(
        units=tuple(units),
        total=total,
        faults=tuple(pricing.faults),
        overflows=tuple(pricing.overflows),
        unavailable=frozenset(pricing.unavailable),
        as_sent=(False,) * len(lines),
        readings=(None,) * len(lines),
    )


def _plain(lines: Sequence[LineItem], catalog: CompiledCatalog, sold_out: Collection[UUID]) -> Priced | None:
    walk = Walk(catalog)
    units = walk.units(lines, sold_out)
    if units is None:
        return None
    total = sum([unit * line.quantity for unit, line in zip(units, lines, strict=True)])
    if not LEAST <= total <= MOST:
        return None
    # Ids that are there twice are given anew, and which line keeps its own is for who writes them.
    are_unique = len(set(walk.ids)) == len(walk.ids)
    as_sent = tuple(walk.complete) if are_unique else (False,) * len(lines)
    readings = tuple(walk.readings) if are_unique else (None,) * len(lines)
    return Priced(tuple(units), total, (), (), frozenset(), as_sent, readings)


def refuse(faults: Sequence[OrderError]) -> None:
    """Raise the problem that lists the faults, if there are any: 400 when something can't be had, else 422."""
    if not faults:
        return
    detail = faults[0].message if len(faults) == 1 else f"{len(faults)} faults in the cart: see errors."
    gone = next((fault for fault in faults if fault.code == UNAVAILABLE), None)
    listed = list(faults[:MOST_FAULTS])
    if gone is None:
        raise errors.ValidationFailed(detail, errors=listed)
    # What decides the status is among what is listed.
    raise errors.ItemUnavailable(detail, errors=listed if gone in listed else [*listed[:-1], gone])


class _Pricing:
    """One walk over a cart's lines."""

    def __init__(self, catalog: CompiledCatalog, sold_out: Collection[UUID]) -> None:
        self._items = catalog.items
        self._groups = catalog.groups
        self._sold_out = {item_id.int for item_id in sold_out}
        self._tops: list[tuple[CompiledItem | None, Place]] = []
        self.faults: list[OrderError] = []
        self.overflows: list[OrderError] = []
        self.unavailable: set[int] = set()

    def top(self, line: LineItem, place: Place) -> int | None:
        """Return what one unit of a top-level line costs."""
        item = self._items.get(line.item_id.int)
        self._tops.append((item, place))
        if item is None:
            self._gone(line, f"Item {line.item_id} is not in the store's current CatalogSet.", place)
            return None
        if item.price is None:
            # It is looked at all the same, so that all faults are told at once, but one line is one fault.
            self._unit(line, item, 0, place)
            if not self._is_out(line, item):
                self._gone(line, f"{item.name or line.item_id} is not sold by itself.", place)
            return None
        return self._unit(line, item, item.price, place)

    def check_range(self, amount: int, place: Place) -> None:
        """Note an amount that int64 minor units can't hold."""
        if not LEAST <= amount <= MOST:
            message = "The amount is out of range."
            self.overflows.append(OrderError(code=INVALID, message=message, pointer=pointer(place)))

    def check_quantities(self, lines: Sequence[LineItem]) -> None:
        """Note every item of which the cart has more units, over all top-level lines, than one may buy."""
        units: dict[Key, int] = {}
        for line, (item, place) in zip(lines, self._tops, strict=True):
            if item is not None and item.maximum_quantity is not None:
                key = line.item_id.int
                units[key] = had = units.get(key, 0) + line.quantity
                if had > item.maximum_quantity:
                    message = f"At most {item.maximum_quantity} of {item.name or line.item_id} can be bought."
                    self._fault(INVALID, message, (place, "quantity", None))

    def _unit(self, line: LineItem, item: CompiledItem, own: int, place: Place) -> int | None:
        """Return what one unit costs, given the item's own price where it stands."""
        unit: int | None = own
        if self._is_out(line, item):
            self._gone(line, f"{item.name or line.item_id} is sold out.", place)
            unit = None
        if not line.modifier_groups and not item.groups:
            return unit
        chosen = _by_group(line)
        for key, parts in chosen.items():
            group = self._groups.get(key) if key in item.groups else None
            extra = None if group is None else self._group(group, parts, place)
            if group is None:
                self._lacks_group(item, parts, place)
            unit = None if unit is None or extra is None else unit + extra
        for key in dict.fromkeys(item.groups):
            if key not in chosen:
                self._check_units(self._groups[key], 0, {}, (place, "modifierGroups", None))
        if unit is None:
            self.unavailable.add(id(line))
        return unit

    def _is_out(self, line: LineItem, item: CompiledItem) -> bool:
        return not item.available or line.item_id.int in self._sold_out

    def _group(self, group: CompiledGroup, parts: Chosen, place: Place) -> int | None:
        """Return what the choices cost together; None when one of them can't be had."""
        extra: int | None = 0
        had = 0
        bounded: dict[Key, tuple[int, int]] = {}
        costs: list[tuple[int, int]] = []
        for line, at in _lines(parts, place):
            quantity, key = line.quantity, line.item_id.int
            had += quantity
            item, own = self._items.get(key), group.choices.get(key)
            if own is None or item is None:
                # Its units count all the same: the customer has chosen, and is told once that it is gone.
                message = (
                    f"{group.name or 'The group'} has no choice {line.item_id} in the current CatalogSet."
                )
                self._gone(line, message, at)
                extra = None
            else:
                # Most choices are nothing but themselves: looking once more costs as much as all the rest.
                plain = item.available and not (item.groups or line.modifier_groups or key in self._sold_out)
                unit = own if plain else self._unit(line, item, own, at)
                extra = None if extra is None or unit is None else extra + quantity * unit
                costs.append((own, quantity))
            most = _most_of(item, group)
            if most is not None:
                bounded[key] = most, bounded.get(key, (most, 0))[1] + quantity
        self._check_units(group, had, bounded, (place, "modifierGroups", parts[0][0]))
        if group.free and extra is not None:
            extra -= cheapest(costs, group.free)
        return extra

    def _check_units(
        self, group: CompiledGroup, had: int, bounded: Mapping[Key, tuple[int, int]], where: Place
    ) -> None:
        """Note when a group has too few or too many units, or one choice (most, units) has; one fault a group."""
        name = group.name or "The group"
        if had < group.minimum:
            self._fault(REQUIRED, f"{name}: choose at least {group.minimum}, not {had}.", where)
        elif group.maximum is not None and had > group.maximum:
            self._fault(EXCEEDED, f"{name}: choose at most {group.maximum}, not {had}.", where)
        else:
            for most, units in bounded.values():
                if units > most:
                    message = f"{name}: choose at most {most} of one choice, not {units}."
                    self._fault(EXCEEDED, message, where)
                    return

    def _lacks_group(self, item: CompiledItem, parts: Chosen, place: Place) -> None:
        index, group = parts[0]
        message = (
            f"{item.name or 'The item'} has no modifier group {group.modifier_group_id} "
            "in the current CatalogSet."
        )
        self._fault(UNAVAILABLE, message, (place, "modifierGroups", index))
        stack = [line for _, part in parts for line in part.line_items]
        while stack:
            line = stack.pop()
            self.unavailable.add(id(line))
            stack += [below for group in line.modifier_groups for below in group.line_items]

    def _gone(self, line: LineItem, message: str, place: Place) -> None:
        self.unavailable.add(id(line))
        self._fault(UNAVAILABLE, message, place)

    def _fault(self, code: str, message: str, place: Place) -> None:
        # What can't be had is at most a few per line, and decides the status; broken rules may be any number.
        if code == UNAVAILABLE or len(self.faults) < MOST_FAULTS:
            self.faults.append(OrderError(code=code, message=message, pointer=pointer(place)))


def _by_group(line: LineItem) -> dict[Key, Chosen]:
    """Return what was chosen from each group: a group that is sent in parts is one group all the same."""
    chosen: dict[Key, Chosen] = {}
    for index, group in enumerate(line.modifier_groups):
        chosen.setdefault(group.modifier_group_id.int, []).append((index, group))
    return chosen


def _lines(parts: Chosen, place: Place) -> Iterator[tuple[LineItem, Place]]:
    """Yield the choices, each with its place in the request."""
    for index, part in parts:
        where = place, "modifierGroups", index
        for number, line in enumerate(part.line_items):
            yield line, (where, "lineItems", number)


def _most_of(item: CompiledItem | None, group: CompiledGroup) -> int | None:
    """Return how many units of the item the group may have, by its own maximum or the item's."""
    own = None if item is None else item.maximum_quantity
    if own is None or group.maximum_per_item is None:
        return group.maximum_per_item if own is None else own
    return min(own, group.maximum_per_item)
