"""The compiled catalogs in memory: immutable under their id."""

from typing import Final
from uuid import UUID

from mercato.features.catalogs import queries
from mercato.features.catalogs.building.packed import unpack
from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.catalogs.model import CompiledCatalog
from mercato.platform.cache import Cache
from mercato.platform.db.engine import Database

MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of compiled catalogs in their stored form; in memory each takes a few times as much."""


class CompiledCatalogs:
    """The catalogs that pricing reads, by CatalogSet id."""

    def __init__(self, db: Database, *, max_bytes: int = MAX_BYTES) -> None:
        self._db = db
        self._cache = Cache[int, tuple[CompiledCatalog, int]](
            capacity=max_bytes, weigh=lambda entry: entry[1]
        )
        self.lookups = self._cache.lookups

    async def get(self, set_id: UUID) -> CompiledCatalog:
        """Return the catalog. Raises CatalogSetNotFound."""
        found = await self._cache.get(set_id.int, self._read, set_id)
        if found is None:
            raise CatalogSetNotFound(set_id)
        return found[0]

    async def _read(self, set_id: UUID) -> tuple[CompiledCatalog, int] | None:
        body = await self._db.find_immutable(lambda tx: queries.find_body(tx, set_id, queries.COMPILED))
        return None if body is None else (unpack(body), len(body))
