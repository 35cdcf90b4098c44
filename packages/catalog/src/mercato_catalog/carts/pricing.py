"""Price a cart by one CatalogSet, and find all its faults. Amounts are integers of minor units.

The price of a unit is the item's own price and the prices of its modifiers, at every depth. A group's free units are
its cheapest by the choices' own prices; modifiers of a free choice aren't free.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from mercato_catalog.carts.errors import (
    CartFault,
    ItemUnavailable,
    ModifierLimitExceeded,
    ModifierRequired,
    Path,
)
from mercato_catalog.carts.lines import MakeId, replace_duplicate_ids
from mercato_catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato_contract.carts import (
    CartAmounts,
    CartModifierGroup,
    LineItem,
    LineItemAmounts,
    PricedLineItem,
    PricedModifierGroup,
)
from mercato_contract.money import MAX_MINOR, MIN_MINOR, minor_to_decimal
from mercato_contract.refusals import ValidationFailed

UNAVAILABLE: Final = ItemUnavailable.code
REQUIRED: Final = ModifierRequired.code
EXCEEDED: Final = ModifierLimitExceeded.code
INVALID: Final = ValidationFailed.code

MAX_FAULTS: Final = 100
"""Faults listed in one response."""

_OWN_PRICE: Final = itemgetter(0)

_Part = tuple[int, CartModifierGroup, PricedModifierGroup]
"""One of a line's entries for the same group: its index, the request's, and the priced one."""


_Choice = tuple[int, int, int, list[PricedLineItem], int]
"""A priced choice: its own price, its units, the price of a unit with its modifiers, its list and its index there."""


class _Place(Struct, frozen=True):
    """A modifier group of a line: where it is, and the ids of the line's item and of the group."""

    path: Path
    item_id: UUID
    group_id: UUID
    member: str = ""

    def fault(
        self, code: str, message: str, *, minimum: int | UnsetType = UNSET, maximum: int | UnsetType = UNSET
    ) -> CartFault:
        return CartFault(
            code,
            message,
            self.path,
            self.member,
            self.item_id,
            self.group_id,
            minimum=minimum,
            maximum=maximum,
        )


class Priced(Struct, frozen=True):
    """Lines with prices and ids. `total` is None if one of them has no price.

    `faults` prevent an order by the CatalogSet's rules; `overflows` are amounts that int64 can't hold.
    """

    lines: list[PricedLineItem]
    total: int | None
    amounts: CartAmounts | UnsetType
    faults: tuple[CartFault, ...]
    overflows: tuple[CartFault, ...]


def price(
    lines: Sequence[LineItem],
    *,
    catalog: CompiledCatalog,
    sold_out: Collection[UUID],
    new_id: MakeId,
    itemized: bool = False,
    has_modifiers: bool = True,
    max_faults: int = MAX_FAULTS,
) -> Priced:
    """Price the lines and find their faults, without raising.

    The lines must be within bounds (`check_bounds`). Each keeps its id unless an earlier line has the same. With
    `itemized`, modifiers have amounts too: for one unit of the line above, without the units that are free. Without
    `has_modifiers` only the amounts of the priced lines are complete: nobody reads their modifiers.
    """
    pricing = _Pricing(
        catalog, sold_out, new_id, itemized=itemized, has_modifiers=has_modifiers, max_faults=max_faults
    )
    priced: list[PricedLineItem] = []
    limited: list[tuple[int, LineItem, CompiledItem]] = []
    total, is_complete = 0, True
    for index, line in enumerate(lines):
        item = catalog.items.get(line.item_id.int)
        if item is None:
            priced.append(pricing.mark_unknown(line, (index,)))
            is_complete = False
            continue
        if item.maximum_quantity is not None:
            limited.append((index, line, item))
        answered, unit = pricing.price_line(line, item, item.price, (index,))
        priced.append(answered)
        if unit is None:
            is_complete = False
            continue
        cost = unit * line.quantity
        total += cost
        if not MIN_MINOR <= cost <= MAX_MINOR:
            pricing.note_overflow((index,))
    if limited:
        pricing.check_quantities(limited)
    if not MIN_MINOR <= total <= MAX_MINOR and not pricing.overflows:
        pricing.note_overflow(())
    if len(set(pricing.ids)) != len(pricing.ids):
        replace_duplicate_ids(priced, set(), new_id)
    amounts: CartAmounts | UnsetType = UNSET
    if is_complete:
        text = minor_to_decimal(total, catalog.scale)
        amounts = CartAmounts(currency=catalog.currency, sub_total=text, total=text)
    return Priced(
        lines=priced,
        total=total if is_complete else None,
        amounts=amounts,
        faults=tuple(pricing.faults),
        overflows=tuple(pricing.overflows),
    )


class _Pricing:
    """One pass over a cart. `ids` are those of all its lines, as integers: a UUID's hash is Python code."""

    __slots__ = (
        "_groups",
        "_has_modifiers",
        "_itemized",
        "_items",
        "_max_faults",
        "_new_id",
        "_scale",
        "_sold_out",
        "faults",
        "ids",
        "overflows",
    )

    def __init__(
        self,
        catalog: CompiledCatalog,
        sold_out: Collection[UUID],
        new_id: MakeId,
        *,
        itemized: bool,
        has_modifiers: bool,
        max_faults: int,
    ) -> None:
        self._itemized = itemized
        self._has_modifiers = has_modifiers
        self._max_faults = max_faults
        self._items = catalog.items
        self._groups = catalog.groups
        self._scale = catalog.scale
        self._sold_out = {item_id.int for item_id in sold_out} if sold_out else set()
        self._new_id = new_id
        self.ids: list[int] = []
        self.faults: list[CartFault] = []
        self.overflows: list[CartFault] = []

    def price_line(
        self, line: LineItem, item: CompiledItem, own: int | None, path: Path
    ) -> tuple[PricedLineItem, int | None]:
        """Return the priced line and the price of a unit; None if something in it is unavailable.

        `own` is the item's own price in this place, None if it isn't sold by itself.
        """
        line_id = line.line_item_id or self._new_id()
        self.ids.append(line_id.int)
        unit = own
        is_out = not item.available or line.item_id.int in self._sold_out
        if is_out:
            message = f"{item.name or line.item_id} is sold out."
            self._note_fault(CartFault(UNAVAILABLE, message, path, item_id=line.item_id))
            unit = None
        groups: list[PricedModifierGroup] = []
        if line.modifier_groups or item.groups:
            extra = self._price_modifiers(line, item, groups, path)
            unit = None if unit is None or extra is None else unit + extra
        if own is None and not is_out:
            message = f"{item.name or line.item_id} is not sold by itself."
            self._note_fault(CartFault(UNAVAILABLE, message, path, item_id=line.item_id))
        amounts: LineItemAmounts | UnsetType = UNSET
        if unit is not None and len(path) == 1:
            scale = self._scale
            amounts = LineItemAmounts(
                unit_price=minor_to_decimal(unit, scale), total=minor_to_decimal(unit * line.quantity, scale)
            )
        is_unavailable = True if unit is None else UNSET
        # By position: names would double the cost of making a line.
        priced = PricedLineItem(
            line.item_id, groups, line.quantity, line_id, amounts, is_unavailable, line.note or None
        )
        return priced, unit

    def mark_unknown(self, line: LineItem, path: Path) -> PricedLineItem:
        """Return a line of the cart whose item isn't in the CatalogSet."""
        message = f"Item {line.item_id} is not in the store's current CatalogSet."
        self._note_fault(CartFault(UNAVAILABLE, message, path, item_id=line.item_id))
        return self._copy_unpriced(line)

    def check_quantities(self, lines: Sequence[tuple[int, LineItem, CompiledItem]]) -> None:
        """Note every item with more units in all top-level lines than its maximum."""
        units: dict[Key, int] = {}
        for index, line, item in lines:
            key = line.item_id.int
            units[key] = count = units.get(key, 0) + line.quantity
            if item.maximum_quantity is not None and count > item.maximum_quantity:
                maximum = item.maximum_quantity
                message = f"At most {maximum} of {item.name or line.item_id} can be bought."
                self._note_fault(
                    CartFault(INVALID, message, (index,), "/quantity", item_id=line.item_id, maximum=maximum)
                )

    def note_overflow(self, path: Path) -> None:
        """Note an amount that int64 minor units can't hold."""
        self.overflows.append(CartFault(INVALID, "The amount is out of range.", path))

    def _price_modifiers(
        self, line: LineItem, item: CompiledItem, answered: list[PricedModifierGroup], path: Path
    ) -> int | None:
        """Return the price of one unit's modifiers. The priced groups are appended to `answered`.

        Several entries for the same group count as one.
        """
        chosen: dict[Key, list[_Part]] = {}
        for number, part in enumerate(line.modifier_groups):
            group = PricedModifierGroup(part.modifier_group_id, [])
            answered.append(group)
            chosen.setdefault(part.modifier_group_id.int, []).append((number, part, group))
        total: int | None = 0
        for key, parts in chosen.items():
            extra = None
            if key in item.groups:
                extra = self._price_group(self._groups[key], parts, path, line.item_id)
            else:
                self._mark_unknown_group(item, parts, path, line.item_id)
            total = None if total is None or extra is None else total + extra
        for key in dict.fromkeys(item.groups):
            if key not in chosen and self._groups[key].minimum > 0:
                place = _Place(path, line.item_id, UUID(int=key), "/modifierGroups")
                self._check_rules(self._groups[key], 0, {}, place)
        return total

    def _price_group(
        self, group: CompiledGroup, parts: Sequence[_Part], path: Path, item_id: UUID
    ) -> int | None:
        """Return the price of a group's choices; `item_id` is the item that they modify."""
        total: int | None = 0
        units = 0
        limited: dict[Key, int] = {}
        choices: list[_Choice] = []
        own_prices, items, sold_out, most = group.choices, self._items, self._sold_out, group.maximum_per_item
        is_waived, has_modifiers = group.free or self._itemized, self._has_modifiers
        for number, part, answered in parts:
            priced_lines = answered.line_items
            for index, choice in enumerate(part.line_items):
                key, quantity = choice.item_id.int, choice.quantity
                units += quantity
                own, item, unit = own_prices.get(key), items.get(key), None
                if own is None or item is None:
                    # Its units count: the choice is reported once, as unavailable.
                    name = group.name or "The group"
                    message = f"{name} has no choice {choice.item_id} in the current CatalogSet."
                    at, group_id = (*path, number, index), part.modifier_group_id
                    self._note_fault(
                        CartFault(UNAVAILABLE, message, at, item_id=choice.item_id, group_id=group_id)
                    )
                    priced = self._copy_unpriced(choice)
                elif item.groups or choice.modifier_groups or not item.available or key in sold_out:
                    priced, unit = self.price_line(choice, item, own, (*path, number, index))
                else:
                    # Most choices have no modifiers: a call for each would double the cost of the pass.
                    unit, priced = own, None
                    if has_modifiers:
                        line_id = choice.line_item_id or self._new_id()
                        self.ids.append(line_id.int)
                        note = choice.note or None
                        priced = PricedLineItem(choice.item_id, [], quantity, line_id, UNSET, UNSET, note)
                if priced is not None:
                    priced_lines.append(priced)
                total = None if total is None or unit is None else total + quantity * unit
                if is_waived and own is not None and unit is not None:
                    choices.append((own, quantity, unit, priced_lines, index))
                if most is not None or (item is not None and item.maximum_quantity is not None):
                    limited[key] = limited.get(key, 0) + quantity
        if limited or units < group.minimum or (group.maximum is not None and units > group.maximum):
            number, first, _ = parts[0]
            place = _Place((*path, number), item_id, first.modifier_group_id)
            self._check_rules(group, units, limited, place)
        if total is None or not is_waived:
            return total
        return total - self._waive(choices, group.free)

    def _waive(self, choices: Sequence[_Choice], free: int) -> int:
        """Return what the free units of a group are worth, and give its choices their amounts if these are wanted.

        All have a price. Free are the cheapest by their own prices, of equal ones the earlier.
        """
        scale, waived = self._scale, 0
        for own, quantity, unit, lines, index in sorted(choices, key=_OWN_PRICE) if free else choices:
            count = min(free, quantity)
            free -= count
            waived += own * count
            if self._itemized:
                text = minor_to_decimal(unit, scale)
                total = unit * quantity - own * count
                amounts = LineItemAmounts(text, text if total == unit else minor_to_decimal(total, scale))
                lines[index] = replace(lines[index], amounts=amounts, free_quantity=count or UNSET)
        return waived

    def _check_rules(
        self, group: CompiledGroup, units: int, limited: Mapping[Key, int], place: _Place
    ) -> None:
        """Note at most one fault of a group: too few or too many units, of the group or of a `limited` choice."""
        name = group.name or "The group"
        if units < group.minimum:
            message = f"{name}: choose at least {group.minimum}, not {units}."
            self._note_fault(place.fault(REQUIRED, message, minimum=group.minimum))
        elif group.maximum is not None and units > group.maximum:
            message = f"{name}: choose at most {group.maximum}, not {units}."
            self._note_fault(place.fault(EXCEEDED, message, maximum=group.maximum))
        else:
            for key, count in limited.items():
                item = self._items.get(key)
                limits = (group.maximum_per_item, None if item is None else item.maximum_quantity)
                maximum = min(limit for limit in limits if limit is not None)
                if count > maximum:
                    message = f"{name}: choose at most {maximum} of one choice, not {count}."
                    choice = replace(place, item_id=UUID(int=key))
                    self._note_fault(choice.fault(EXCEEDED, message, maximum=maximum))
                    return

    def _mark_unknown_group(
        self, item: CompiledItem, parts: Sequence[_Part], path: Path, item_id: UUID
    ) -> None:
        number, group, _ = parts[0]
        name, place = item.name or "The item", _Place((*path, number), item_id, group.modifier_group_id)
        message = f"{name} has no modifier group {group.modifier_group_id} in the current CatalogSet."
        self._note_fault(place.fault(UNAVAILABLE, message))
        for _, part, answered in parts:
            for line in part.line_items:
                answered.line_items.append(self._copy_unpriced(line, below=True))

    def _copy_unpriced(
        self, line: LineItem, *, unavailable: bool = True, below: bool = False
    ) -> PricedLineItem:
        """Return a line without a price; `below`: its modifiers are unavailable too."""
        line_id = line.line_item_id or self._new_id()
        self.ids.append(line_id.int)
        return PricedLineItem(
            item_id=line.item_id,
            line_item_id=line_id,
            quantity=line.quantity,
            modifier_groups=[
                PricedModifierGroup(
                    modifier_group_id=group.modifier_group_id,
                    line_items=[
                        self._copy_unpriced(choice, unavailable=below, below=below)
                        for choice in group.line_items
                    ],
                )
                for group in line.modifier_groups
            ],
            unavailable=unavailable or UNSET,
            note=line.note or None,
        )

    def _note_fault(self, fault: CartFault) -> None:
        if len(self.faults) < self._max_faults:
            self.faults.append(fault)
        elif fault.code == UNAVAILABLE != self.faults[-1].code:
            # What is unavailable determines the status, so that some of it is among the faults that are reported.
            self.faults[-1] = fault
