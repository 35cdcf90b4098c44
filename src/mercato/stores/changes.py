"""A store has changed: it gets a new version, caches forget it, and what is kept of it elsewhere is written anew.

All of that in the transaction of the change, and nowhere else: whoever changes a store, its current set or its
sold-out items calls one of these. What was acknowledged is then in force in every process: an order is stored only
for the version that it was checked against, and a validation reads the version first.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from mercato.db.changes import announce
from mercato.db.engine import Write
from mercato.stores import queries
from mercato.stores.cache import TOPIC

OnChange = Callable[[Write, UUID], Awaitable[None]]
"""Called with a store that is new, was changed, or serves another set; it may not be there yet."""


async def publish_change(tx: Write, store_id: UUID, on_change: OnChange) -> None:
    """Tell everybody. What was written before is seen by those who listen in this transaction."""
    # The store's row is locked first by whoever changes it, so that two of them never wait for each other.
    await invalidate(tx, store_id)
    await on_change(tx, store_id)


async def invalidate(tx: Write, store_id: UUID) -> None:
    """Give the store its next version, and make caches forget it: for a change that nothing else depends on."""
    await queries.increment_version(tx, store_id)
    await announce(tx, TOPIC, str(store_id))
