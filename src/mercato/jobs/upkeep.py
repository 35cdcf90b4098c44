"""What operators see of the jobs, and what they may do about the dead ones."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import Integer, delete, func, select, update

from mercato.db.clock import now_ms
from mercato.db.engine import Database, Read, Write
from mercato.db.errors import is_unavailable
from mercato.db.tables import jobs
from mercato.jobs.queries import BATCH, in_state
from mercato.telemetry.metrics import Depth

_MILLISECOND: Final = timedelta(milliseconds=1)
_READ_SECONDS: Final = 2.0


class Gauge(Struct, frozen=True, kw_only=True):
    """One kind's backlog. `oldest` is how long the oldest ready job has been due; `attempts` the most any has had."""

    kind: str
    ready: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    oldest: timedelta = timedelta(0)
    attempts: int = 0


class DeadJob(Struct, frozen=True, kw_only=True):
    """A job that will not be run again unless somebody revives it."""

    id: int
    kind: str
    lane: str
    payload: str
    attempt: int
    died_at: datetime
    reason: str
    enqueued_at: datetime


async def list_gauges(tx: Read) -> list[Gauge]:
    """Return every kind that has rows."""
    counted = select(
        jobs.c.kind,
        jobs.c.state,
        func.count().label("rows"),
        (now_ms() - func.min(jobs.c.run_at, type_=Integer)).label("age"),
        func.max(jobs.c.attempt).label("attempts"),
    ).group_by(jobs.c.kind, jobs.c.state)
    kinds: dict[str, dict[str, Any]] = {}
    for row in await tx.all(counted):
        gauge = kinds.setdefault(row.kind, {"attempts": 0})
        gauge[row.state] = row.rows
        gauge["attempts"] = max(gauge["attempts"], row.attempts)
        if row.state == "ready":
            gauge["oldest"] = max(row.age * _MILLISECOND, timedelta(0))
    return [Gauge(kind=kind, **gauge) for kind, gauge in sorted(kinds.items())]


async def read_queue(database: Database) -> Sequence[Depth] | None:
    """Return every kind's backlog as figures, or None of a database that does not answer."""
    try:
        async with asyncio.timeout(_READ_SECONDS), database.read() as tx:
            gauges = await list_gauges(tx)
    except Exception as error:
        if not isinstance(error, TimeoutError) and not is_unavailable(error):
            raise
        return None
    return [
        Depth(
            kind=one.kind,
            ready=one.ready,
            waiting=one.waiting,
            running=one.running,
            dead=one.dead,
            oldest=one.oldest.total_seconds(),
        )
        for one in gauges
    ]


async def list_dead(tx: Read, *, kind: str | None = None, limit: int = 100) -> Sequence[DeadJob]:
    """Return the jobs that died last, the newest first: all, or one kind's."""
    newest = (
        select(jobs).where(in_state("dead")).order_by(jobs.c.run_at.desc(), jobs.c.id.desc()).limit(limit)
    )
    if kind is not None:
        newest = newest.where(jobs.c.kind == kind)
    return [
        DeadJob(
            id=row.id,
            kind=row.kind,
            lane=row.lane,
            payload=row.payload,
            attempt=row.attempt,
            died_at=row.run_at,
            reason=row.error,
            enqueued_at=row.enqueued_at,
        )
        for row in await tx.all(newest)
    ]


async def revive(tx: Write, number: int) -> bool:
    """Make a dead job due at once, as if it had never failed; return whether there was one."""
    fresh = {"state": "ready", "run_at": now_ms(), "failures": 0, "losses": 0}
    alive = update(jobs).where(jobs.c.id == number, in_state("dead")).values(fresh)
    return (await tx.execute(alive)).rowcount == 1


async def prune(database: Database, *, older_than: timedelta) -> int:
    """Delete what has been dead for so long, in small transactions; return how many rows."""
    old = in_state("dead"), jobs.c.run_at < now_ms() - older_than // _MILLISECOND
    some = select(jobs.c.id).where(*old).order_by(jobs.c.run_at).limit(BATCH)
    pruned = 0
    while True:
        async with database.write() as tx:
            # Said of the rows, too: one that is revived meanwhile stays.
            count = (await tx.execute(delete(jobs).where(jobs.c.id.in_(some), *old))).rowcount
        pruned += count
        if count < BATCH:
            return pruned
