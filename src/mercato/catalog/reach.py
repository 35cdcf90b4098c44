"""Through which catalogs an item can be bought: a section is reached from a catalog, or from a section above it."""

from graphlib import TopologicalSorter
from typing import Final

from mercato.catalog.source import Source

Reaches = tuple[tuple[int, ...] | None, ...]

_ANY_TIME: Final[Reaches] = (None,)
_NEVER: Final[Reaches] = ((),)


def find_reaches(source: Source) -> tuple[dict[str, int], Reaches]:
    """Return item → index into the reaches, and the reaches; an item that is not listed has index 0.

    A reach is the catalogs' indices, or None for any time: without sections any item can be bought, without
    catalogs any item of any section.
    """
    if not source.sections.entities:
        return {}, _ANY_TIME
    if not source.catalogs.entities:
        return dict.fromkeys(_listed(source), 1), _NEVER + _ANY_TIME
    masks = _item_masks(source, _section_masks(source))
    index = {mask: place for place, mask in enumerate(dict.fromkeys(masks.values()), start=1)}
    return {item: index[mask] for item, mask in masks.items()}, _NEVER + tuple(_bits(mask) for mask in index)


def _listed(source: Source) -> list[str]:
    return [item for section in source.sections.entities.values() for item in section.item_ids or ()]


def _section_masks(source: Source) -> dict[str, int]:
    """Return each section's catalogs as the bits of an integer, handed down from parent to child."""
    sections = source.sections.entities
    masks = dict.fromkeys(sections, 0)
    for bit, catalog in enumerate(source.catalogs.entities.values()):
        for held in catalog.section_ids or ():
            masks[held] |= 1 << bit
    order: TopologicalSorter[str] = TopologicalSorter()
    for key, section in sections.items():
        for child in section.section_ids or ():
            order.add(child, key)
    for parent in order.static_order():
        for child in sections[parent].section_ids or ():
            masks[child] |= masks[parent]
    return masks


def _item_masks(source: Source, sections: dict[str, int]) -> dict[str, int]:
    masks: dict[str, int] = {}
    for key, mask in sections.items():
        items = source.sections.entities[key].item_ids
        if not mask or not items:
            continue
        if masks.keys().isdisjoint(items):
            masks.update(dict.fromkeys(items, mask))
        else:
            for item in items:
                masks[item] = masks.get(item, 0) | mask
    return masks


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
