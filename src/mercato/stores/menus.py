"""What a store sells now, for whoever names the store and the CatalogSet that a cart was made from."""

from uuid import UUID

from msgspec import Struct

from mercato import errors
from mercato.catalog import queries
from mercato.catalog.compiled import CompiledCatalogs
from mercato.catalog.model import CompiledCatalog
from mercato.db.engine import Database
from mercato.stores.cache import StoreCache
from mercato.stores.model import StoreRow


class Menus(Struct, frozen=True):
    """Stores with their current CatalogSets, from memory when warm."""

    db: Database
    cache: StoreCache
    compiled: CompiledCatalogs

    def cached(self, store_id: UUID, catalog_set_id: UUID) -> tuple[StoreRow, CompiledCatalog] | None:
        """Return the store and its current set if both are in memory, and it is the set that was named."""
        store = self.cache.cached(store_id)
        if store is None or store.catalog_set_id.int != catalog_set_id.int:
            return None
        catalog = self.compiled.cached(store.catalog_set_id)
        return None if catalog is None else (store, catalog)

    async def get(self, store_id: UUID, catalog_set_id: UUID) -> tuple[StoreRow, CompiledCatalog]:
        """Return the store and its current set, whichever of the store's sets was named.

        Raises StoreNotFound, and CatalogSetNotFound for a set that never was the store's.
        """
        return await self._with_set(await self.cache.find(store_id), store_id, catalog_set_id)

    async def get_in_force(self, store_id: UUID, catalog_set_id: UUID) -> tuple[StoreRow, CompiledCatalog]:
        """Return and raise as `get`, with every change that any process had committed before this call."""
        return await self._with_set(await self.cache.find_in_force(store_id), store_id, catalog_set_id)

    async def _with_set(
        self, store: StoreRow | None, store_id: UUID, catalog_set_id: UUID
    ) -> tuple[StoreRow, CompiledCatalog]:
        if store is None:
            raise errors.StoreNotFound(store_id)
        current = store.catalog_set_id
        if catalog_set_id != current:
            async with self.db.read() as tx:
                owner_id = await queries.find_owner_of_set(tx, catalog_set_id)
            if owner_id != store.onboarding_id:
                raise errors.CatalogSetNotFound(catalog_set_id)
        return store, self.compiled.cached(current) or await self.compiled.get(current)
