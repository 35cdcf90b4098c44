"""The served ids of the items and modifier groups in a merchant's document."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from mercato.domain.catalog.compiled import CompiledCatalogs
from mercato.domain.catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.kernel.settings import MiB
from mercato.kernel.wire import as_json

MAX_BYTES: Final = 8 * MiB
"""Bytes of cached mappings; the least recently used is evicted, but one is always kept."""


class IdMappings:
    """The mappings of CatalogSets as JSON. A set never changes, so each is encoded once."""

    def __init__(self, compiled: CompiledCatalogs, *, max_bytes: int = MAX_BYTES) -> None:
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
