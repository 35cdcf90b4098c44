"""The states of stores, with what they are made of: their hours, and how the calls to them go."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from mercato.console.store_words import StoreState, state_of
from mercato.features.doctor import FAILING_WINDOW
from mercato.features.stores.operators import StoreSummary
from mercato.features.stores.search import find_openings
from mercato.features.webhooks.endpoints import list_failing_stores
from mercato.platform.db.engine import Read


async def find_states(
    tx: Read, rows: Sequence[StoreSummary], now: datetime, *, with_calls: bool = True
) -> dict[UUID, StoreState]:
    """Return the state of each store that still exists, by its id."""
    if not rows:
        return {}
    failing = await find_failing(tx, now) if with_calls else ()
    openings = await find_openings(tx, [row.id for row in rows], now=now)
    return {row.id: state_of(row, openings.get(row.id), failing=row.id in failing, now=now) for row in rows}


async def find_failing(tx: Read, now: datetime) -> Collection[UUID]:
    """Return the stores to which most calls of the last minutes failed, those with the most failures first."""
    return {one.store_id: None for one in await list_failing_stores(tx, since=now - FAILING_WINDOW)}
