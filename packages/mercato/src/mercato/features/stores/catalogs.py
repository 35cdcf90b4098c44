"""What is served of CatalogSets: their bytes, the mapping of ids, and the places of a menu. Sets never change."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato.features.catalogs import queries as catalogs
from mercato.features.catalogs.codings import CODINGS, decompress
from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.catalogs.queries import CompiledCatalogs
from mercato.features.partners.credentials import TOPIC
from mercato.features.partners.model import Caller
from mercato.features.stores import queries
from mercato.platform.cache import Cache
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato.settings import MiB
from mercato_catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key, Menu, Node, hours
from mercato_contract.wire import as_json

MAX_BYTES: Final = 64 * MiB
"""Bytes of cached bodies; the least recently used is evicted."""

MAX_MAPPING_BYTES: Final = 8 * MiB
"""Bytes of cached mappings; the least recently used is evicted, but one is always kept."""

TTL_SECONDS: Final = 600.0
"""Seconds for which a body is cached; then the set is looked up again, because it may have been pruned."""

IDENTITY: Final = "identity"


class Body(Struct, frozen=True):
    """A set's bytes in one coding. `tag` is the strong ETag of exactly these bytes.

    `partner_id` is the merchant's. A set never changes, so `modified_at` is when it was made, in whole seconds.
    """

    partner_id: UUID
    coding: str
    content: bytes
    tag: str
    tags: frozenset[str]
    modified_at: datetime


class CatalogBodies:
    """Bodies by CatalogSet and coding. Those of a partner that is suspended are hidden with its stores."""

    def __init__(self, db: Database, feed: ChangeFeed, *, max_bytes: int = MAX_BYTES) -> None:
        self._db = db
        self._cache = Cache[tuple[int, str], Body](
            capacity=max_bytes, weigh=lambda body: len(body.content), seconds=TTL_SECONDS
        )
        self.lookups = self._cache.lookups
        feed.subscribe(TOPIC, self._forget)

    def _forget(self, partner_id: str | None) -> None:
        if partner_id is None:
            self._cache.forget_all()
        else:
            changed = UUID(partner_id)
            self._cache.forget_if(lambda body: body.partner_id == changed)

    async def get(self, set_id: UUID, coding: str) -> Body:
        """Return the set's bytes in a coding of CODINGS or IDENTITY. Raises CatalogSetNotFound.

        Only sets of live stores are found: a set of an onboarding isn't public yet.
        """
        body = await self._cache.get((set_id.int, coding), self._read, set_id, coding)
        if body is None:
            raise CatalogSetNotFound(set_id)
        return body

    async def get_own(self, caller: Caller, set_id: UUID, coding: str) -> Body:
        """Return the bytes of a set of the caller. Raises CatalogSetNotFound, also for another partner's."""
        body = await self.get(set_id, coding)
        if body.partner_id != caller.partner_id:
            raise CatalogSetNotFound(set_id)
        return body

    async def _read(self, set_id: UUID, coding: str) -> Body | None:
        stored = coding if coding != IDENTITY else CODINGS[0]
        # Whether it may be seen changes: a replica may not know yet.
        async with self._db.read() as tx:
            live = await queries.find_live_set(tx, set_id)
        if live is None:
            return None
        content = await self._db.find_immutable(lambda tx: catalogs.find_body(tx, set_id, stored))
        if content is None:
            return None
        if coding == IDENTITY:
            # A document of a hundred megabytes takes a quarter of a second.
            content = await asyncio.to_thread(decompress, content, stored)
        tags = {name: _tag(live.content_hash, name) for name in (IDENTITY, *CODINGS)}
        return Body(
            live.partner_id,
            coding,
            content,
            tags[coding],
            frozenset(tags.values()),
            live.created_at.replace(microsecond=0),
        )


def _tag(content_hash: str, coding: str) -> str:
    return f'"{content_hash}"' if coding == IDENTITY else f'"{content_hash}-{coding}"'


# --- ids ------------------------------------------------------------------------------------------


class IdMappings:
    """The mappings of CatalogSets as JSON. A set never changes, so each is encoded once."""

    def __init__(self, compiled: CompiledCatalogs, *, max_bytes: int = MAX_MAPPING_BYTES) -> None:
        self._compiled = compiled
        self._cache = Cache[int, bytes](capacity=max_bytes, weigh=len)

    async def get(self, set_id: UUID) -> bytes:
        """Return the mapping of a set. Raises CatalogSetNotFound."""
        found = await self._cache.get(set_id.int, self._encode, set_id)
        assert found is not None
        return found

    async def _encode(self, set_id: UUID) -> bytes:
        # A menu of a hundred thousand items takes a tenth of a second.
        return await asyncio.to_thread(write_ids, await self._compiled.get(set_id))


def write_ids(catalog: CompiledCatalog) -> bytes:
    """Return the StoreIds of a catalog as JSON, in document order."""
    return as_json(
        {"items": _by_document_id(catalog.items), "modifierGroups": _by_document_id(catalog.groups)}
    )


def _by_document_id(served: Mapping[Key, CompiledItem] | Mapping[Key, CompiledGroup]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, entity in served.items():
        # As `str(UUID(int=key))`, in a fraction of its time.
        digits = f"{key:032x}"
        text = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        found[text if entity.document_id is None else entity.document_id] = text
    return found


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
    times = {entry.catalog_id: entry for entry in catalog.catalogs}
    # Depth first, with an explicit stack: sections may be nested deeply.
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
