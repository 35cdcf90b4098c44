"""Stores in memory: read once, evicted at every change, in this process at once and in others within a second.

Carts and catalog reads use the cached store. Orders and merchants need every committed change: `in_force`.

Every change of a store, its current set or its sold-out items calls `publish_change` or `invalidate` in its own
transaction. An acknowledged change then applies in every process: an order is stored only for the version that it was
checked against, and a validation reads the version first.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.catalogs.queries import CompiledCatalogs, find_owner_of_set
from mercato.features.events.log import mark_store
from mercato.features.partners.model import Caller
from mercato.features.stores import queries, search
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.platform.cache import Cache
from mercato.platform.db.changes import ChangeFeed, announce
from mercato.platform.db.engine import Database, Write
from mercato_catalog.model import CompiledCatalog
from mercato_contract.feeds import StoreChangeKind

TOPIC: Final = "store"
"""The change feed's topic for a change of a store or of its current set."""

MAX_STORES: Final = 50_000
"""Cached stores, a few kilobytes each; the least recently used is evicted."""


class _Versions:
    """Reads the versions of stores. Requests in one turn of the event loop share a read.

    The read begins after all of these requests, so it sees every change that was committed before them. That makes
    concurrent validations a tenth cheaper; a single one waits for one turn of the loop.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._requested: dict[int, UUID] = {}
        self._reading: asyncio.Task[dict[int, int]] | None = None

    async def find(self, store_id: UUID) -> int | None:
        """Return the store's committed version, or None without such a store."""
        if self._reading is None:
            self._requested = {}
            self._reading = asyncio.create_task(self._read(self._requested))
        self._requested[store_id.int] = store_id
        # A caller that is cancelled doesn't cancel the read for the others.
        return (await asyncio.shield(self._reading)).get(store_id.int)

    async def _read(self, requested: dict[int, UUID]) -> dict[int, int]:
        self._reading = None  # later requests may have seen a later change
        async with self._db.read() as tx:
            return await queries.find_versions(tx, list(requested.values()))


class StoreCache:
    """Current stores by id."""

    def __init__(self, db: Database, feed: ChangeFeed, *, max_stores: int = MAX_STORES) -> None:
        self._db = db
        self._versions = _Versions(db)
        self.rows = Cache[int, StoreRow](capacity=max_stores)
        self.rows.follow(feed, TOPIC, lambda key: UUID(key).int)
        self.lookups = self.rows.lookups

    async def find(self, store_id: UUID) -> StoreRow | None:
        """Return a store of any partner; another process's change may be missing for half a second."""
        return await self.rows.get(store_id.int, self.read, store_id)

    async def find_in_force(self, store_id: UUID) -> StoreRow | None:
        """Return a store of any partner with every change that any process had committed before this call.

        For a cached store that hasn't changed, this costs one read of its version on the primary.
        """
        row = self.rows.find(store_id.int)
        if row is not None and await self._versions.find(store_id) == row.version:
            return row
        return await self.rows.refresh(store_id.int, self.read, store_id)

    async def get_own(self, caller: Caller, store_id: UUID) -> StoreRow:
        """Return the caller's store with every committed change. Raises StoreNotFound, also for another partner's."""
        row = await self.find_in_force(store_id)
        if row is None or row.partner_id != caller.partner_id:
            raise StoreNotFound(store_id)
        return row

    async def read(self, store_id: UUID) -> StoreRow | None:
        """Return the store from the database."""
        async with self._db.read() as tx:
            return await queries.find_store(tx, store_id)


class Menus(Struct, frozen=True):
    """Stores with their current CatalogSets, from memory when cached."""

    db: Database
    cache: StoreCache
    compiled: CompiledCatalogs

    async def get(
        self, store_id: UUID, catalog_set_id: UUID, *, in_force: bool = False
    ) -> tuple[StoreRow, CompiledCatalog]:
        """Return the store and its current set; `catalog_set_id` may be an older one of the store's sets.

        `in_force`: with every change that any process had committed before this call.
        Raises StoreNotFound, and CatalogSetNotFound for a set that was never the store's.
        """
        cache = self.cache
        store = await (
            cache.find_in_force(store_id) if in_force else cache.rows.get(store_id.int, cache.read, store_id)
        )
        if store is None:
            raise StoreNotFound(store_id)
        current = store.catalog_set_id
        if catalog_set_id.int != current.int:
            async with self.db.read() as tx:
                owner_id = await find_owner_of_set(tx, catalog_set_id)
            if owner_id != store.onboarding_id:
                raise CatalogSetNotFound(catalog_set_id)
        return store, await self.compiled.get(current)


# --- changes --------------------------------------------------------------------------------------


async def publish_change(
    tx: Write, store_id: UUID, kinds: Sequence[StoreChangeKind], *, at: datetime
) -> None:
    """Publish the change of a store or of its current set: call this after all writes of the change.

    `kinds` tell storefronts what changed. Its search entry is rewritten in the same transaction. The store may not
    exist yet.
    """
    # This locks the store's row before any other, so that two changes never deadlock.
    if await invalidate(tx, store_id, kinds, at=at):
        await search.refresh(tx, store_id)


async def invalidate(tx: Write, store_id: UUID, kinds: Sequence[StoreChangeKind], *, at: datetime) -> bool:
    """Increment the store's version and evict it from caches: for a change that no search entry depends on.

    Returns whether the store exists.
    """
    exists = await queries.increment_version(tx, store_id)
    await announce(tx, TOPIC, str(store_id))
    if exists and kinds:
        mark_store(tx, store_id, kinds, at=at)
    return exists
