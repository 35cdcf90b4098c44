"""Through which catalogs an item can be bought: a section is reached from a catalog, or from a section above it."""

from graphlib import TopologicalSorter
from typing import Final

from mercato.catalog.source import Source

Reaches = tuple[tuple[int, ...] | None, ...]

_ANY_TIME: Final[Reaches] = (None,)


def find_reaches(source: Source) -> tuple[list[int], Reaches]:
    """Return for each item an index into the reaches, and the reaches.

    A reach is the catalogs' indices, or None for any time: without sections any item can be bought, without
    catalogs any item of any section.
    """
    items = source.items.members
    if not source.sections:
        return [0] * len(items), _ANY_TIME
    masks = _section_masks(source)
    listing = {masks[key] for key, _ in source.sections.rows_with("itemIds")}
    if len(listing) == 1 and len(source.sections.listed("itemIds")[1]) == len(items):
        # Every item stands in sections that all have the same catalogs.
        return [0] * len(items), (_reach(listing.pop(), source),)
    of_items = _item_masks(source, masks)
    index = {mask: place for place, mask in enumerate(dict.fromkeys((0, *of_items.values())))}
    return [index[of_items.get(key, 0)] for key in items], tuple(_reach(mask, source) for mask in index)


def _reach(mask: int, source: Source) -> tuple[int, ...] | None:
    if mask and not source.catalogs:
        return None
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _section_masks(source: Source) -> dict[str, int]:
    """Return each section's catalogs as the bits of an integer, handed down from parent to child.

    Without catalogs one bit stands for all times.
    """
    if not source.catalogs:
        return dict.fromkeys(source.sections.members, 1)
    masks = dict.fromkeys(source.sections.members, 0)
    for bit, held in enumerate(source.catalogs.column("sectionIds")):
        for section in held or ():
            masks[section] |= 1 << bit
    children = dict(source.sections.rows_with("sectionIds"))
    order: TopologicalSorter[str] = TopologicalSorter()
    for parent, below in children.items():
        for child in below:
            order.add(child, parent)
    for section in order.static_order():
        for child in children.get(section, ()):
            masks[child] |= masks[section]
    return masks


def _item_masks(source: Source, sections: dict[str, int]) -> dict[str, int]:
    masks: dict[str, int] = {}
    for key, items in source.sections.rows_with("itemIds"):
        for item in items:
            masks[item] = masks.get(item, 0) | sections[key]
    return masks
