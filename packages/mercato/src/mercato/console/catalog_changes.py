"""What differs between two catalogs, as a page lists it."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from mercato_contract.catalogs import CatalogDiff, DiffList

MAX_CHANGES: Final = 20
"""Entries shown of each kind of change."""


class Change(Struct, frozen=True):
    """One kind of change, with the first that changed."""

    kind: str
    count: int
    first: Sequence[str]


def changes_of(found: CatalogDiff) -> Iterator[Change]:
    """Yield the kinds of changes that there are."""
    if found.currency is not None:
        yield Change("Currency", 1, [f"{found.currency.before} → {found.currency.after}"])
    items = found.items
    repriced = [
        f"{entry.name or 'no name'}: {entry.before or 'no price'} → {entry.after or 'no price'}"
        for entry in items.repriced.entries[:MAX_CHANGES]
    ]
    if repriced:
        yield Change("Items repriced", items.repriced.count, repriced)
    yield from _listed("Items added", items.added)
    yield from _listed("Items removed", items.removed)
    yield from _listed("Items with other options", items.reoptioned)
    yield from _listed("Items with another name, availability, maximum or partnerItemId", items.changed)
    parts = {
        "Modifier groups": found.modifier_groups,
        "Sections": found.sections,
        "Catalogs": found.catalogs,
    }
    for noun, part in parts.items():
        yield from _listed(f"{noun} added", part.added)
        yield from _listed(f"{noun} removed", part.removed)
        yield from _listed(f"{noun} changed", part.changed)


def _listed(kind: str, found: DiffList) -> Iterator[Change]:
    if found.count:
        yield Change(kind, found.count, [entry.name or "no name" for entry in found.entries[:MAX_CHANGES]])
