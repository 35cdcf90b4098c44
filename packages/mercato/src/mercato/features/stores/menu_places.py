"""What people see of menus: the catalogs and sections of a store's CatalogSet, with their items."""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato.features.catalogs.compiled import CompiledCatalogs
from mercato.features.catalogs.menu import Menu, Node, hours
from mercato.features.catalogs.model import CompiledCatalog, Key
from mercato.features.stores.catalogs import IDENTITY, CatalogBodies
from mercato.platform.cache import Cache

MAX_KEPT: Final = 500_000
"""Items and places that are kept of all sets together, some hundred bytes each. One set is always kept."""


MAX_PATH: Final = 6
"""Names of a section and of those that it is in, the innermost: sections may be nested deeply."""


class Place(Struct, frozen=True):
    """A catalog, a section at the end of its path, or the items that are in no section."""

    path: tuple[str, ...]
    note: str | None
    items: Sequence[Key]


class MenuPlaces:
    """The places of the menus that were looked at last. A set never changes, so each is read once."""

    def __init__(
        self, bodies: CatalogBodies, compiled: CompiledCatalogs, *, max_kept: int = MAX_KEPT
    ) -> None:
        self._bodies = bodies
        self._compiled = compiled
        self._cache = Cache[int, Sequence[Place]](capacity=max_kept, weigh=_size)

    async def get(self, set_id: UUID) -> Sequence[Place]:
        """Return the places of a live store's set. Raises CatalogSetNotFound."""
        found = await self._cache.get(set_id.int, self._read, set_id)
        assert found is not None
        return found

    async def _read(self, set_id: UUID) -> Sequence[Place]:
        catalog = await self._compiled.get(set_id)
        body = await self._bodies.get(set_id, IDENTITY)
        # A menu of several megabytes takes longer than a request may hold up others.
        return await asyncio.to_thread(_parse, body.content, catalog)


def _size(places: Sequence[Place]) -> int:
    return sum(1 + len(place.items) for place in places)


def _parse(body: bytes, catalog: CompiledCatalog) -> Sequence[Place]:
    return places_of(msgspec.json.decode(body, type=Menu), catalog)


def places_of(menu: Menu, catalog: CompiledCatalog) -> list[Place]:
    """Return every catalog and section in the document's order; a shared section once, where it first occurs."""
    found: list[Place] = []
    listed: set[Key] = set()
    seen: set[str] = set()
    sections = menu.sections or {}
    times = {one.catalog_id: one for one in catalog.catalogs}
    # Depth first, with a stack of its own: sections may be nested deeply.
    rest: list[tuple[tuple[str, ...], str | None, Node]] = [
        (
            ((times[key].name if key in times else "") or "Menu",),
            hours(times[key].windows) if key in times else "always",
            node,
        )
        for key, node in reversed(menu.catalogs.items())
    ]
    while rest:
        path, note, node = rest.pop()
        items = [item.int for item in node.item_ids or ()]
        listed.update(items)
        found.append(Place(path, note, items))
        for key in reversed(node.section_ids or ()):
            if key not in seen:
                seen.add(key)
                rest.append(
                    ((*path[1 - MAX_PATH :], catalog.sections[key].name or "no name"), None, sections[key])
                )
    for group in catalog.groups.values():
        listed.update(group.choices)
    others = [key for key in catalog.items if key not in listed]
    return [*found, Place(("In no section",), None, others)] if others else found
