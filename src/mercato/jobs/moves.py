"""What time alone changes: what has waited is ready, and what a vanished worker ran is ready again."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, select, update

from mercato.db.clock import now_ms
from mercato.db.engine import Write
from mercato.db.tables import jobs
from mercato.jobs.queries import BATCH, EXPIRED, IDLE, in_state

_SKEW_MS: Final = 60_000
"""By how much the clocks of two processes may differ, in milliseconds."""


async def move_due(tx: Write) -> int:
    """Make ready what has waited long enough, of whatever kind; return how many rows."""
    due = in_state("waiting"), jobs.c.run_at <= now_ms()
    return await _move(tx, *due, order=jobs.c.run_at, values={"state": "ready"})


async def move_stranded(tx: Write) -> int:
    """Make ready what waits and was enqueued in the future: the clock was set back since. Return how many rows.

    Waiting for the clock to catch up would hold resends and retries for as long as it was set back.
    """
    ahead = now_ms() + _SKEW_MS
    # What was enqueued in the future is due in the future: the index holds that.
    stranded = in_state("waiting"), jobs.c.run_at > ahead, jobs.c.enqueued_at > ahead
    return await _move(tx, *stranded, order=jobs.c.run_at, values={"state": "ready", "enqueued_at": now_ms()})


async def move_expired(tx: Write, *, but: Collection[int] = ()) -> int:
    """Make ready what a vanished worker left running; return how many rows."""
    return await _move(tx, *EXPIRED, jobs.c.id.not_in(but), order=jobs.c.lane, values=_BACK)


async def move_orphans(tx: Write) -> int:
    """Make ready all that is marked running. Only who knows that nobody else is at work may call this."""
    return await _move(tx, in_state("running"), order=jobs.c.lane, values=_BACK)


_BACK: Final[dict[str, Any]] = {**IDLE, "state": "ready", "losses": jobs.c.losses + 1}


async def _move(
    tx: Write, *which: ColumnElement[bool], order: ColumnElement[Any], values: dict[str, Any]
) -> int:
    """Change the next few such rows that nobody else is changing, in the order of the index that finds them."""
    some = select(jobs.c.id).where(*which).order_by(order).limit(BATCH).with_for_update(skip_locked=True)
    numbers = [row.id for row in await tx.all(some)]
    if not numbers:
        return 0
    return (await tx.execute(update(jobs).where(jobs.c.id.in_(numbers)).values(values))).rowcount
