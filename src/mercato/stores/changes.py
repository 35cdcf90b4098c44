"""A store has changed: caches forget it, and what is kept of it elsewhere is written anew in the same transaction."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from mercato.db.changes import announce
from mercato.db.engine import Write
from mercato.stores.cache import TOPIC

OnChange = Callable[[Write, UUID], Awaitable[None]]
"""Called with a store that is new, was changed, or serves another set; it may not be there yet."""


async def changed(tx: Write, store_id: UUID, on_change: OnChange) -> None:
    """Tell everybody. What was written before is seen by those who listen in this transaction."""
    await on_change(tx, store_id)
    await announce(tx, TOPIC, str(store_id))
