"""What a cart costs by one CatalogSet, and everything that is wrong with it. Integers of minor units only.

A unit of a line costs the item's own price and what its modifiers cost, at every depth alike. A group's free
units are its cheapest by the choices' own prices; modifiers of a free choice cost what they cost.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from mercato.domain.carts.faults import Fault, Path
from mercato.domain.carts.model import (
    CartAmounts,
    CartModifierGroup,
    LineItem,
    LineItemAmounts,
    PricedLineItem,
    PricedModifierGroup,
)
from mercato.domain.catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.domain.catalog.money import MAX_MINOR, MIN_MINOR, minor_to_decimal
from mercato.kernel import errors
from mercato.kernel.clock import MakeId

UNAVAILABLE: Final = errors.ItemUnavailable.code
REQUIRED: Final = errors.ModifierRequired.code
EXCEEDED: Final = errors.ModifierLimitExceeded.code
INVALID: Final = errors.ValidationFailed.code

MAX_FAULTS: Final = 100
"""Faults listed in one refusal."""

_Part = tuple[int, CartModifierGroup, PricedModifierGroup]
"""One of the parts in which a line sends a group: its index, as it was sent, and as it is answered."""


class Priced(Struct, frozen=True):
    """Lines with prices and ids, and what they cost together: `total` is None when one of them has no price.

    `faults` are what the CatalogSet allows no order for; `overflows` are amounts that 64 bits can't hold.
    """

    lines: list[PricedLineItem]
    total: int | None
    amounts: CartAmounts | UnsetType
    faults: tuple[Fault, ...]
    overflows: tuple[Fault, ...]


def price(
    lines: Sequence[LineItem], *, catalog: CompiledCatalog, sold_out: Collection[UUID], new_id: MakeId
) -> Priced:
    """Price the lines and find all that is wrong with them; nothing is raised.

    The lines must be within bounds (`check_bounds`). Each keeps its id, except one that a line before it has already.
    """
    pricing = _Pricing(catalog, sold_out, new_id)
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
        _replace_duplicate_ids(priced, set(), new_id)
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
    """One pass over a cart. `ids` are those of all its lines, as numbers: a UUID's own hash is Python code."""

    __slots__ = ("_groups", "_items", "_new_id", "_scale", "_sold_out", "faults", "ids", "overflows")

    def __init__(self, catalog: CompiledCatalog, sold_out: Collection[UUID], new_id: MakeId) -> None:
        self._items = catalog.items
        self._groups = catalog.groups
        self._scale = catalog.scale
        self._sold_out = {item_id.int for item_id in sold_out} if sold_out else set()
        self._new_id = new_id
        self.ids: list[int] = []
        self.faults: list[Fault] = []
        self.overflows: list[Fault] = []

    def price_line(
        self, line: LineItem, item: CompiledItem, own: int | None, path: Path
    ) -> tuple[PricedLineItem, int | None]:
        """Return the line priced, and what a unit of it costs; None when something in it is unavailable.

        `own` is the item's own price where the line stands, None when it isn't sold by itself.
        """
        line_id = line.line_item_id or self._new_id()
        self.ids.append(line_id.int)
        unit = own
        is_out = not item.available or line.item_id.int in self._sold_out
        if is_out:
            self._note_fault(UNAVAILABLE, f"{item.name or line.item_id} is sold out.", path)
            unit = None
        groups: list[PricedModifierGroup] = []
        if line.modifier_groups or item.groups:
            extra = self._price_modifiers(line, item, groups, path)
            unit = None if unit is None or extra is None else unit + extra
        if own is None and not is_out:
            self._note_fault(UNAVAILABLE, f"{item.name or line.item_id} is not sold by itself.", path)
        amounts: LineItemAmounts | UnsetType = UNSET
        if unit is not None and len(path) == 1:
            scale = self._scale
            amounts = LineItemAmounts(
                unit_price=minor_to_decimal(unit, scale), total=minor_to_decimal(unit * line.quantity, scale)
            )
        priced = PricedLineItem(
            item_id=line.item_id,
            modifier_groups=groups,
            quantity=line.quantity,
            line_item_id=line_id,
            amounts=amounts,
            unavailable=True if unit is None else UNSET,
        )
        return priced, unit

    def mark_unknown(self, line: LineItem, path: Path) -> PricedLineItem:
        """Return a line of the cart whose item the CatalogSet lacks."""
        self._note_fault(UNAVAILABLE, f"Item {line.item_id} is not in the store's current CatalogSet.", path)
        return self._copy_unpriced(line)

    def check_quantities(self, lines: Sequence[tuple[int, LineItem, CompiledItem]]) -> None:
        """Note every item of which the cart has more units, over all top-level lines, than one may buy."""
        units: dict[Key, int] = {}
        for index, line, item in lines:
            key = line.item_id.int
            units[key] = count = units.get(key, 0) + line.quantity
            if item.maximum_quantity is not None and count > item.maximum_quantity:
                message = f"At most {item.maximum_quantity} of {item.name or line.item_id} can be bought."
                self._note_fault(INVALID, message, (index,), "/quantity")

    def note_overflow(self, path: Path) -> None:
        """Note an amount that int64 minor units can't hold."""
        self.overflows.append(Fault(INVALID, "The amount is out of range.", path))

    def _price_modifiers(
        self, line: LineItem, item: CompiledItem, answered: list[PricedModifierGroup], path: Path
    ) -> int | None:
        """Return what the modifiers of one unit cost. The groups are added to `answered` as they were sent.

        A group that is sent in parts is one group all the same.
        """
        chosen: dict[Key, list[_Part]] = {}
        for number, part in enumerate(line.modifier_groups):
            group = PricedModifierGroup(modifier_group_id=part.modifier_group_id, line_items=[])
            answered.append(group)
            chosen.setdefault(part.modifier_group_id.int, []).append((number, part, group))
        total: int | None = 0
        for key, parts in chosen.items():
            extra = None
            if key in item.groups:
                extra = self._price_group(self._groups[key], parts, path)
            else:
                self._mark_unknown_group(item, parts, path)
            total = None if total is None or extra is None else total + extra
        for key in dict.fromkeys(item.groups):
            if key not in chosen and self._groups[key].minimum > 0:
                self._check_rules(self._groups[key], 0, {}, path, "/modifierGroups")
        return total

    def _price_group(self, group: CompiledGroup, parts: Sequence[_Part], path: Path) -> int | None:
        """Return what the choices of a group cost together."""
        total: int | None = 0
        units = 0
        limited: dict[Key, int] = {}
        costs: list[tuple[int, int]] = []
        for number, part, answered in parts:
            for index, choice in enumerate(part.line_items):
                key, quantity = choice.item_id.int, choice.quantity
                units += quantity
                own, item, unit = group.choices.get(key), self._items.get(key), None
                if own is None or item is None:
                    # Its units count all the same: the customer chose it, and hears once that it is unavailable.
                    name = group.name or "The group"
                    message = f"{name} has no choice {choice.item_id} in the current CatalogSet."
                    self._note_fault(UNAVAILABLE, message, (*path, number, index))
                    priced = self._copy_unpriced(choice)
                elif item.groups or choice.modifier_groups or not item.available or key in self._sold_out:
                    priced, unit = self.price_line(choice, item, own, (*path, number, index))
                else:
                    # Most choices have nothing below them: a call for each costs as much as all the rest.
                    unit = own
                    line_id = choice.line_item_id or self._new_id()
                    self.ids.append(line_id.int)
                    priced = PricedLineItem(
                        item_id=choice.item_id, modifier_groups=[], quantity=quantity, line_item_id=line_id
                    )
                answered.line_items.append(priced)
                total = None if total is None or unit is None else total + quantity * unit
                if own is not None:
                    costs.append((own, quantity))
                if group.maximum_per_item is not None or (
                    item is not None and item.maximum_quantity is not None
                ):
                    limited[key] = limited.get(key, 0) + quantity
        if limited or units < group.minimum or (group.maximum is not None and units > group.maximum):
            self._check_rules(group, units, limited, (*path, parts[0][0]))
        if group.free and total is not None:
            total -= _cheapest(costs, group.free)
        return total

    def _check_rules(
        self, group: CompiledGroup, units: int, limited: Mapping[Key, int], path: Path, member: str = ""
    ) -> None:
        """Note when a group has too few or too many units, or one of its `limited` choices has; one fault a group."""
        name = group.name or "The group"
        if units < group.minimum:
            self._note_fault(REQUIRED, f"{name}: choose at least {group.minimum}, not {units}.", path, member)
        elif group.maximum is not None and units > group.maximum:
            self._note_fault(EXCEEDED, f"{name}: choose at most {group.maximum}, not {units}.", path, member)
        else:
            for key, count in limited.items():
                item = self._items.get(key)
                limits = (group.maximum_per_item, None if item is None else item.maximum_quantity)
                most = min(limit for limit in limits if limit is not None)
                if count > most:
                    message = f"{name}: choose at most {most} of one choice, not {count}."
                    self._note_fault(EXCEEDED, message, path, member)
                    return

    def _mark_unknown_group(self, item: CompiledItem, parts: Sequence[_Part], path: Path) -> None:
        number, group, _ = parts[0]
        name = item.name or "The item"
        message = f"{name} has no modifier group {group.modifier_group_id} in the current CatalogSet."
        self._note_fault(UNAVAILABLE, message, (*path, number))
        for _, part, answered in parts:
            for line in part.line_items:
                answered.line_items.append(self._copy_unpriced(line, below=True))

    def _copy_unpriced(
        self, line: LineItem, *, unavailable: bool = True, below: bool = False
    ) -> PricedLineItem:
        """Return a line that can't be priced; `below`: nor can its modifiers."""
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
        )

    def _note_fault(self, code: str, message: str, path: Path, member: str = "") -> None:
        # What is unavailable is at most a few per line, and decides the status; broken rules may be any number.
        if code == UNAVAILABLE or len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(code, message, path, member))


def _cheapest(costs: list[tuple[int, int]], free: int) -> int:
    """Return what the cheapest units cost, given (price of a unit, units)."""
    waived = 0
    for own, quantity in sorted(costs):
        units = min(free, quantity)
        waived += units * own
        free -= units
    return waived


def _replace_duplicate_ids(lines: list[PricedLineItem], seen: set[int], new_id: MakeId) -> None:
    """Give a new id to every line that has the id of one before it."""
    for index, line in enumerate(lines):
        line_id = line.line_item_id
        while line_id.int in seen:
            line_id = new_id()
        seen.add(line_id.int)
        lines[index] = replace(line, line_item_id=line_id)
        for group in line.modifier_groups:
            _replace_duplicate_ids(group.line_items, seen, new_id)
