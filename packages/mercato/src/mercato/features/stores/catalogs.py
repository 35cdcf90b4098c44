"""Served catalogs, and the mappings of a merchant's ids to served ids: bytes that are immutable under a set's id."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.catalogs import queries as catalogs
from mercato.features.catalogs.building.compress import CODINGS, decompress
from mercato.features.catalogs.compiled import CompiledCatalogs
from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.catalogs.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.features.partners.model import Caller
from mercato.features.stores import queries
from mercato.platform.db.engine import Database, Read
from mercato.platform.telemetry import Lookups
from mercato.settings import MiB
from mercato_contract.wire import as_json

MAX_BYTES: Final = 64 * MiB
"""Bytes of cached bodies; the least recently used is evicted."""

MAX_MAPPING_BYTES: Final = 8 * MiB
"""Bytes of cached mappings; the least recently used is evicted, but one is always kept."""

TTL_SECONDS: Final = 600.0
"""Seconds for which a body is cached; then the set is looked up again, because it may have been pruned."""

IDENTITY: Final = "identity"


class Body(Struct, frozen=True):
    """A set's bytes in one coding. `tag` is the strong ETag of exactly these bytes; `expires_at` in monotonic seconds.

    `partner_id` is the merchant's. A set never changes, so `modified_at` is when it was made, in whole seconds.
    """

    partner_id: UUID
    coding: str
    content: bytes
    tag: str
    tags: frozenset[str]
    modified_at: datetime
    expires_at: float


class CatalogBodies:
    """Bodies by CatalogSet and coding."""

    def __init__(self, db: Database, *, max_bytes: int = MAX_BYTES) -> None:
        self._db = db
        self._max_bytes = max_bytes
        # By the UUID's integer: a UUID hashes and compares in Python, an integer in C.
        self._bodies: OrderedDict[tuple[int, str], Body] = OrderedDict()
        self._bytes = 0
        self.lookups = Lookups()

    def cached(self, set_id: UUID, coding: str) -> Body | None:
        """Return the set's bytes if they are cached and haven't expired."""
        key = set_id.int, coding
        body = self._bodies.get(key)
        if body is None or body.expires_at <= monotonic():
            return None
        self.lookups.hits += 1
        self._bodies.move_to_end(key)
        return body

    async def get(self, set_id: UUID, coding: str) -> Body:
        """Return the set's bytes in a coding of CODINGS or IDENTITY. Raises CatalogSetNotFound.

        Only sets of live stores are found: a set of an onboarding isn't public yet.
        """
        body = self.cached(set_id, coding)
        if body is not None:
            return body
        self.lookups.misses += 1
        stored = coding if coding != IDENTITY else CODINGS[0]
        found = await self._db.find_immutable(lambda tx: _find(tx, set_id, stored))
        if found is None:
            self._forget((set_id.int, coding))
            raise CatalogSetNotFound(set_id)
        live, content = found
        if coding == IDENTITY:
            content = decompress(content, stored)
        return self._store(set_id, coding, content, live)

    async def get_own(self, caller: Caller, set_id: UUID, coding: str) -> Body:
        """Return the bytes of a set of the caller. Raises CatalogSetNotFound, also for another partner's."""
        body = await self.get(set_id, coding)
        if body.partner_id != caller.partner_id:
            raise CatalogSetNotFound(set_id)
        return body

    def _store(self, set_id: UUID, coding: str, content: bytes, live: queries.LiveSet) -> Body:
        tags = {name: _tag(live.content_hash, name) for name in (IDENTITY, *CODINGS)}
        body = Body(
            live.partner_id,
            coding,
            content,
            tags[coding],
            frozenset(tags.values()),
            live.created_at.replace(microsecond=0),
            monotonic() + TTL_SECONDS,
        )
        key = set_id.int, coding
        self._forget(key)
        self._bodies[key] = body
        self._bytes += len(content)
        while self._bytes > self._max_bytes and len(self._bodies) > 1:
            self._forget(next(iter(self._bodies)))
        return body

    def _forget(self, key: tuple[int, str]) -> None:
        evicted = self._bodies.pop(key, None)
        if evicted is not None:
            self._bytes -= len(evicted.content)


async def _find(tx: Read, set_id: UUID, coding: str) -> tuple[queries.LiveSet, bytes] | None:
    """Return a live store's set and its bytes."""
    live = await queries.find_live_set(tx, set_id)
    content = await catalogs.find_body(tx, set_id, coding) if live is not None else None
    return None if content is None or live is None else (live, content)


def _tag(content_hash: str, coding: str) -> str:
    return f'"{content_hash}"' if coding == IDENTITY else f'"{content_hash}-{coding}"'


# --- ids ------------------------------------------------------------------------------------------


class IdMappings:
    """The mappings of CatalogSets as JSON. A set never changes, so each is encoded once."""

    def __init__(self, compiled: CompiledCatalogs, *, max_bytes: int = MAX_MAPPING_BYTES) -> None:
        self._compiled = compiled
        self._max_bytes = max_bytes
        self._mappings: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = asyncio.Lock()

    async def get(self, set_id: UUID) -> bytes:
        """Return the mapping of a set. Raises CatalogSetNotFound."""
        async with self._lock:
            if set_id.int not in self._mappings:
                catalog = await self._compiled.get(set_id)
                # A menu of a hundred thousand items takes a tenth of a second.
                self._store(set_id.int, await asyncio.to_thread(write_ids, catalog))
            self._mappings.move_to_end(set_id.int)
            return self._mappings[set_id.int]

    def _store(self, key: int, text: bytes) -> None:
        self._mappings[key] = text
        self._bytes += len(text)
        while self._bytes > self._max_bytes and len(self._mappings) > 1:
            _, oldest = self._mappings.popitem(last=False)
            self._bytes -= len(oldest)


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
