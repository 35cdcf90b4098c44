"""Lines as values: count them, find one at any depth, change it, and compare two by their choices."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from uuid import UUID

from msgspec import UNSET
from msgspec.structs import replace

from mercato_catalog.carts.errors import AS_SENT, LineItemNotFound, Origin, Path
from mercato_catalog.model import CompiledCatalog
from mercato_contract.carts import MAX_DEPTH, MAX_LINES, CartModifierGroup, LineItem, PricedLineItem
from mercato_contract.placements import CommerceLine, CommerceModifierGroup
from mercato_contract.refusals import ValidationFailed
from mercato_contract.wire import uuid_text

MakeId = Callable[[], UUID]
"""Return a new id of a line."""


def check_bounds(lines: Sequence[LineItem], origin: Origin = AS_SENT) -> None:
    """Raise ValidationFailed for too many lines or levels.

    Call it before everything else: it stops at the first fault and bounds the work that follows.
    """
    count, level = 0, lines
    for _ in range(MAX_DEPTH + 1):
        count += len(level)
        below: list[LineItem] = []
        for line in level:
            for group in line.modifier_groups:
                below += group.line_items
        if not below and count <= MAX_LINES:
            return
        if count > MAX_LINES:
            break
        level = below
    _refuse_first(lines, origin)


def _refuse_first(lines: Sequence[LineItem], origin: Origin) -> None:
    """Raise for the first line, in the cart's order, beyond the maximum."""
    for count, path in enumerate(_paths(lines), start=1):
        if len(path) > 2 * MAX_DEPTH + 1:
            message = f"Modifiers may be nested at most {MAX_DEPTH} deep."
            raise ValidationFailed.at(origin.pointer(path), message)
        if count > MAX_LINES:
            at = path[:1] if path[0] == origin.item else ()
            message = f"A cart may have at most {MAX_LINES} lines, modifiers included."
            raise ValidationFailed.at(origin.pointer(at), message)


def _paths(lines: Sequence[LineItem], above: Path = ()) -> Iterator[Path]:
    """Yield the path of each line, modifiers included, in the cart's order."""
    for index, line in enumerate(lines):
        path = (*above, index)
        yield path
        for number, group in enumerate(line.modifier_groups):
            yield from _paths(group.line_items, (*path, number))


def get_path(lines: Sequence[LineItem], line_item_id: UUID) -> Path:
    """Return the path of the first line with this id, in the cart's order. Raises LineItemNotFound."""
    path = _find_path(lines, line_item_id)
    if path is None:
        raise LineItemNotFound(f"The cart has no line item {line_item_id}. Read its ids from the cart.")
    return path


def with_quantity(lines: Sequence[LineItem], path: Path, quantity: int) -> list[LineItem]:
    """Return the lines with another quantity at the path; 0 removes the line.

    A group without choices is removed too: it means the same as no group.
    """
    index, below = path[0], path[1:]
    changed = list(lines)
    if not below:
        if quantity == 0:
            del changed[index]
        else:
            changed[index] = replace(lines[index], quantity=quantity)
        return changed
    groups = list(lines[index].modifier_groups)
    group = groups[below[0]]
    left = with_quantity(group.line_items, below[1:], quantity)
    groups[below[0]] = CartModifierGroup(modifier_group_id=group.modifier_group_id, line_items=left)
    if not left:
        del groups[below[0]]
    changed[index] = replace(lines[index], modifier_groups=groups)
    return changed


def find_same(lines: Sequence[LineItem], item: LineItem) -> int | None:
    """Return the index of the line with the same item, the same note and the same modifiers, in any order."""
    wanted: Hashable = None
    for index, line in enumerate(lines):
        if line.item_id.int == item.item_id.int:
            wanted = wanted or choice_of(item)
            if choice_of(line) == wanted:
                return index
    return None


def choice_of(line: LineItem) -> Hashable:
    """Return a value that is equal for lines of the same item and note with the same modifiers in any order.

    Quantities of modifiers count, the line's own doesn't. A choice that is split into parts equals one line.
    """
    note = line.note or None
    if not line.modifier_groups:
        return line.item_id.int, note, frozenset[Hashable]()
    units: dict[tuple[int, Hashable], int] = {}
    for group in line.modifier_groups:
        for below in group.line_items:
            key = group.modifier_group_id.int, choice_of(below)
            units[key] = units.get(key, 0) + below.quantity
    return line.item_id.int, note, frozenset(units.items())


def has_empty_group(line: LineItem) -> bool:
    """Return whether the line has a group without choices, at any depth."""
    return any(
        not group.line_items or any(map(has_empty_group, group.line_items)) for group in line.modifier_groups
    )


def _find_path(lines: Sequence[LineItem], line_item_id: UUID) -> Path | None:
    for index, line in enumerate(lines):
        if line.line_item_id == line_item_id:
            return (index,)
        for number, group in enumerate(line.modifier_groups):
            below = _find_path(group.line_items, line_item_id)
            if below is not None:
                return index, number, *below
    return None


def replace_duplicate_ids(lines: list[PricedLineItem], seen: set[int], new_id: MakeId) -> None:
    """Give a new id to every line that has the id of an earlier one."""
    for index, line in enumerate(lines):
        line_id = line.line_item_id
        while line_id.int in seen:
            line_id = new_id()
        seen.add(line_id.int)
        lines[index] = replace(line, line_item_id=line_id)
        for group in line.modifier_groups:
            replace_duplicate_ids(group.line_items, seen, new_id)


def order_lines(lines: Sequence[PricedLineItem], catalog: CompiledCatalog) -> tuple[CommerceLine, ...]:
    """Return priced lines with the names of their items and the ids of the merchant's document."""
    # Lines are made by position, here and below: names would cost as much as all the rest of a conversion.
    converted = []
    for line in lines:
        groups = []
        for group in line.modifier_groups:
            group_id = group.modifier_group_id
            compiled = catalog.groups.get(group_id.int)
            partner_id = None if compiled is None else compiled.document_id
            groups.append(
                CommerceModifierGroup(
                    group_id,
                    uuid_text(group_id) if partner_id is None else partner_id,
                    order_lines(group.line_items, catalog),
                    UNSET if compiled is None else compiled.name or UNSET,
                )
            )
        item = catalog.items.get(line.item_id.int)
        partner_id = None if item is None else item.document_id
        converted.append(
            CommerceLine(
                line.item_id,
                uuid_text(line.item_id) if partner_id is None else partner_id,
                tuple(groups),
                line.quantity,
                line.line_item_id,
                UNSET if item is None else item.name or UNSET,
                line.amounts,
                line.unavailable,
                line.note,
                line.free_quantity,
            )
        )
    return tuple(converted)
