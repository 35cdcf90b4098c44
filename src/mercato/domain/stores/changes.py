"""Publish a change of a store: increment its version, invalidate caches, update its search entry.

Every change of a store, its current set or its sold-out items calls one of these in its own transaction. An
acknowledged change then applies in every process: an order is stored only for the version that it was checked
against, and a validation reads the version first.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from mercato.domain.stores import queries
from mercato.domain.stores.cache import TOPIC
from mercato.kernel.db.changes import announce
from mercato.kernel.db.engine import Write

OnChange = Callable[[Write, UUID], Awaitable[None]]
"""Called for a store that was created or changed or has a new current set; it may not exist yet."""


async def publish_change(tx: Write, store_id: UUID, on_change: OnChange) -> None:
    """Call this after all writes of the change: `on_change` reads them in the same transaction."""
    # Every change locks the store's row first, so that two changes never deadlock.
    await invalidate(tx, store_id)
    await on_change(tx, store_id)


async def invalidate(tx: Write, store_id: UUID) -> None:
    """Increment the store's version and evict it from caches: for a change that no search entry depends on."""
    await queries.increment_version(tx, store_id)
    await announce(tx, TOPIC, str(store_id))
