"""Through which catalogs an item can be bought: a section is reached from a catalog, or from a section above it."""

from collections.abc import Iterable
from graphlib import TopologicalSorter

from mercato.catalog.source import Source

Reaches = tuple[bytes | None, ...]
"""Catalogs as the bits of a little-endian integer, the set's first catalog being the lowest; None for any time.

As bytes, because a document can hold as many different ones as items, chosen so that their integers hash alike.
"""


def find_reaches(source: Source) -> tuple[list[int], Reaches]:
    """Return for each item an index into the reaches, and the reaches.

    Without sections any item can be bought at any time, without catalogs any item of any section.
    """
    items = source.items.members
    if not source.sections:
        return [0] * len(items), (None,)
    width = len(source.catalogs) // 8 + 1
    sections = _section_masks(source)
    listing = {sections[key].to_bytes(width, "little") for key, _ in source.sections.rows_with("itemIds")}
    if len(listing) == 1 and source.sections.distinct("itemIds") == len(items):
        # Every item stands in sections that all have the same catalogs.
        return [0] * len(items), _reaches(listing, source)
    masks = _item_masks(source, sections)
    of_items = [masks.get(key, 0).to_bytes(width, "little") for key in items]
    index = {mask: place for place, mask in enumerate(dict.fromkeys(of_items))}
    return [index[mask] for mask in of_items], _reaches(index, source)


def _reaches(masks: Iterable[bytes], source: Source) -> Reaches:
    return tuple(mask if source.catalogs or not any(mask) else None for mask in masks)


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
