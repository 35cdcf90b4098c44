"""The cache of compiled catalogs: immutable under their id, bounded in bytes, the least recently used evicted."""

from collections import OrderedDict
from typing import Final
from uuid import UUID

from mercato.features.catalogs import queries
from mercato.features.catalogs.building.packed import unpack
from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.catalogs.model import CompiledCatalog
from mercato.platform.db.engine import Database
from mercato.platform.telemetry import Lookups

MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of compiled catalogs in their stored form; in memory each takes a few times as much."""


class CompiledCatalogs:
    """The catalogs that pricing reads, by CatalogSet id."""

    def __init__(self, db: Database, *, max_bytes: int = MAX_BYTES) -> None:
        self._db = db
        self._max_bytes = max_bytes
        # By the UUID's integer: a UUID hashes and compares in Python, an integer does not.
        self._cache: OrderedDict[int, tuple[int, CompiledCatalog]] = OrderedDict()
        self._bytes = 0
        self.lookups = Lookups()

    def cached(self, set_id: UUID) -> CompiledCatalog | None:
        """Return the catalog if it is in memory."""
        entry = self._cache.get(set_id.int)
        if entry is None:
            return None
        self.lookups.hits += 1
        self._cache.move_to_end(set_id.int)
        return entry[1]

    async def get(self, set_id: UUID) -> CompiledCatalog:
        """Return the catalog. Raises CatalogSetNotFound."""
        catalog = self.cached(set_id)
        if catalog is not None:
            return catalog
        self.lookups.misses += 1
        body = await self._db.find_immutable(lambda tx: queries.find_body(tx, set_id, queries.COMPILED))
        if body is None:
            raise CatalogSetNotFound(set_id)
        return self._store(set_id, body)

    def _store(self, set_id: UUID, body: bytes) -> CompiledCatalog:
        entry = self._cache.get(set_id.int)
        if entry is not None:
            # Read concurrently by another request: all carts of a store miss at once when it switches.
            return entry[1]
        catalog = unpack(body)
        self._cache[set_id.int] = (len(body), catalog)
        self._bytes += len(body)
        while self._bytes > self._max_bytes and len(self._cache) > 1:
            _, (size, _) = self._cache.popitem(last=False)
            self._bytes -= size
        return catalog
