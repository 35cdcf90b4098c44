"""What a worker looks after besides its runs: what is due, whose lease has ended, what is old. What operators see."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import ColumnElement, Integer, Select, delete, exists, func, literal_column, select, update

from mercato.kernel.db.engine import Database, Read, Write
from mercato.kernel.db.errors import is_unavailable
from mercato.kernel.db.statements import prepared
from mercato.kernel.db.tables import jobs
from mercato.kernel.db.types import now_ms
from mercato.kernel.jobs.settle import IDLE
from mercato.kernel.telemetry.metrics import Depth

_MILLISECOND: Final = timedelta(milliseconds=1)
_READ_SECONDS: Final = 2.0

BATCH: Final = 500
"""Rows that one maintenance statement touches at most, so that no transaction is long."""

_SKEW_MS: Final = 60_000
"""By how much the clocks of two processes may differ, in milliseconds."""


def _in_state(state: str) -> ColumnElement[bool]:
    """Written out and not bound: a database picks a partial index by what it reads in the statement."""
    return jobs.c.state == literal_column(f"'{state}'")


_EXPIRED: Final = (_in_state("running"), jobs.c.lease_until < now_ms())

# --- polling ------------------------------------------------------------------------------------------


class Poll(Struct, frozen=True):
    """What there is to do. `due_in` is when the next waiting row is due, and None when none waits."""

    ready: frozenset[str]
    expired: bool
    due_in: timedelta | None


async def poll(tx: Read, kinds: tuple[str, ...]) -> Poll:
    """Return which of the kinds have something ready, from indexes alone."""
    row = await tx.first(_poll_of(kinds))
    assert row is not None
    due_in, expired, *found = row
    return Poll(
        ready=frozenset(kind for kind, is_ready in zip(kinds, found, strict=True) if is_ready is not None),
        expired=bool(expired),
        due_in=None if due_in is None else due_in * _MILLISECOND,
    )


@cache
def _poll_of(kinds: tuple[str, ...]) -> Select[Any]:
    """Built once for the kinds that have a free place, of which there are few combinations."""
    waiting = select(func.min(jobs.c.run_at, type_=Integer)).where(_in_state("waiting")).scalar_subquery()
    return prepared(
        select(waiting - now_ms(), exists().where(*_EXPIRED), *(_first_ready(kind) for kind in kinds))
    )


def _first_ready(kind: str) -> ColumnElement[int]:
    # Ordered as the index is: SQLite would read the whole table if it took a kind for a poor choice.
    order = jobs.c.group_key, jobs.c.ordering_key, jobs.c.id
    first = select(jobs.c.id).where(_in_state("ready"), jobs.c.kind == kind).order_by(*order).limit(1)
    return first.scalar_subquery()


# --- what time alone changes --------------------------------------------------------------------------


async def move_due(tx: Write) -> int:
    """Make ready what has waited long enough, of whatever kind; return how many rows."""
    due = _in_state("waiting"), jobs.c.run_at <= now_ms()
    return await _move(tx, *due, order=jobs.c.run_at, values={"state": "ready"})


async def move_stranded(tx: Write) -> int:
    """Make ready what waits and was enqueued in the future: the clock was set back since. Return how many rows.

    Waiting for the clock to catch up would hold resends and retries for as long as it was set back.
    """
    ahead = now_ms() + _SKEW_MS
    # What was enqueued in the future is due in the future: the index holds that.
    stranded = _in_state("waiting"), jobs.c.run_at > ahead, jobs.c.enqueued_at > ahead
    return await _move(tx, *stranded, order=jobs.c.run_at, values={"state": "ready", "enqueued_at": now_ms()})


async def move_expired(tx: Write, *, but: Collection[int] = ()) -> int:
    """Make ready what a vanished worker left running; return how many rows."""
    return await _move(tx, *_EXPIRED, jobs.c.id.not_in(but), order=jobs.c.ordering_key, values=_LOST)


async def move_orphans(tx: Write) -> int:
    """Make ready all that is marked running. Only who knows that nobody else is at work may call this."""
    return await _move(tx, _in_state("running"), order=jobs.c.ordering_key, values=_LOST)


_LOST: Final[dict[str, Any]] = {**IDLE, "state": "ready", "losses": jobs.c.losses + 1}


async def _move(
    tx: Write, *which: ColumnElement[bool], order: ColumnElement[Any], values: dict[str, Any]
) -> int:
    """Change the next few such rows that nobody else is changing, in the order of the index that finds them."""
    some = select(jobs.c.id).where(*which).order_by(order).limit(BATCH).with_for_update(skip_locked=True)
    numbers = [row.id for row in await tx.all(some)]
    if not numbers:
        return 0
    return (await tx.execute(update(jobs).where(jobs.c.id.in_(numbers)).values(values))).rowcount


async def renew(tx: Write, worker: str, numbers: Collection[int], lease: timedelta) -> set[tuple[int, int]]:
    """Hold the jobs for another lease; return (number, attempt) of those that are still the worker's.

    A job that a transaction has fenced at this instant is left for the next time: who waits for one row while he
    holds others invites a deadlock, and nobody takes a fenced row away.
    """
    held = jobs.c.id.in_(numbers), jobs.c.worker == worker, _in_state("running")
    mine = select(jobs.c.id, jobs.c.attempt).where(*held)
    free = [row.id for row in await tx.all(mine.with_for_update(skip_locked=True))]
    until = now_ms() + lease // _MILLISECOND
    await tx.execute(update(jobs).where(jobs.c.id.in_(free)).values(lease_until=until))
    return {(row.id, row.attempt) for row in await tx.all(mine)}


async def prune(database: Database, *, older_than: timedelta) -> int:
    """Delete what has been dead for so long, in small transactions; return how many rows."""
    old = _in_state("dead"), jobs.c.run_at < now_ms() - older_than // _MILLISECOND
    some = select(jobs.c.id).where(*old).order_by(jobs.c.run_at).limit(BATCH)
    pruned = 0
    while True:
        async with database.write() as tx:
            # Said of the rows, too: one that is revived meanwhile stays.
            count = (await tx.execute(delete(jobs).where(jobs.c.id.in_(some), *old))).rowcount
        pruned += count
        if count < BATCH:
            return pruned


# --- for operators ------------------------------------------------------------------------------------


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
    ordering_key: str
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
        select(jobs).where(_in_state("dead")).order_by(jobs.c.run_at.desc(), jobs.c.id.desc()).limit(limit)
    )
    if kind is not None:
        newest = newest.where(jobs.c.kind == kind)
    return [
        DeadJob(
            id=row.id,
            kind=row.kind,
            ordering_key=row.ordering_key,
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
    alive = update(jobs).where(jobs.c.id == number, _in_state("dead")).values(fresh)
    return (await tx.execute(alive)).rowcount == 1
