"""Polls: makes jobs due, ends expired leases, deletes old dead jobs. Also lists and counts the queue for operators."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Update,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.db.errors import is_unavailable, is_unique_violation
from mercato.platform.db.statements import prepared
from mercato.platform.db.tables import jobs, jobs_dedup
from mercato.platform.db.types import now_ms
from mercato.platform.jobs.settle import IDLE
from mercato.platform.telemetry.metrics import QueueDepth

_SORTED_BY: Final = {
    "ready": (jobs.c.kind, jobs.c.group_key, jobs.c.ordering_key, jobs.c.id),
    "waiting": (jobs.c.run_at,),
    "running": (jobs.c.kind, jobs.c.group_key),
    "dead": (jobs.c.kind, jobs.c.run_at),
}
"""The states, each with the columns of its index."""

_MAX_ID: Final = 2**63 - 1
_MILLISECOND: Final = timedelta(milliseconds=1)
_READ_SECONDS: Final = 2.0

BATCH: Final = 500
"""Rows that one maintenance statement changes at most: transactions stay short."""

MAX_COUNTED: Final = 2_000
"""Jobs that are counted for an operator, as `list_depths` says: a table of a million isn't counted for a page."""

MAX_MEASURED: Final = 100_000
"""Jobs that are counted for the metrics and the command line."""

_SKEW_MS: Final = 60_000
"""Milliseconds by which the clocks of two processes may differ."""


def _in_state(state: str) -> ColumnElement[bool]:
    """The state is a literal, not a parameter: a planner chooses a partial index by the statement's text."""
    return jobs.c.state == literal_column(f"'{state}'")


_EXPIRED: Final = (_in_state("running"), jobs.c.lease_until < now_ms())

# --- polling ------------------------------------------------------------------------------------------


class Poll(Struct, frozen=True):
    """What there is to do. `ready` holds kinds. `due_in` is when the next waiting row is due; None if none waits."""

    ready: frozenset[str]
    expired: bool
    due_in: timedelta | None


async def poll(tx: Read, kinds: tuple[str, ...]) -> Poll:
    """Look for work of the kinds, in indexes alone."""
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
    """Cached: there are few combinations of kinds that have a free slot."""
    waiting = select(func.min(jobs.c.run_at, type_=Integer)).where(_in_state("waiting")).scalar_subquery()
    return prepared(
        select(waiting - now_ms(), exists().where(*_EXPIRED), *(_first_ready(kind) for kind in kinds))
    )


def _first_ready(kind: str) -> ColumnElement[int]:
    # In the order of the index: else SQLite reads the whole table if it thinks that the kind selects little.
    order = _SORTED_BY["ready"][1:]
    first = select(jobs.c.id).where(_in_state("ready"), jobs.c.kind == kind).order_by(*order).limit(1)
    return first.scalar_subquery()


# --- what changes with time --------------------------------------------------------------------------


def _batch(*which: ColumnElement[bool], order: ColumnElement[Any]) -> Select[int]:
    """Return the next BATCH such rows that aren't locked, in the order of the index that finds them."""
    return select(jobs.c.id).where(*which).order_by(order).limit(BATCH).with_for_update(skip_locked=True)


_LENGTH: Final = bindparam("length", type_=BigInteger)
_AHEAD: Final = now_ms() + _SKEW_MS
_DUE: Final = _batch(_in_state("waiting"), jobs.c.run_at <= now_ms(), order=jobs.c.run_at)
# A job that was enqueued in the future is also due in the future, and run_at has the index.
_STRANDED: Final = _batch(
    _in_state("waiting"), jobs.c.run_at > _AHEAD, jobs.c.enqueued_at > _AHEAD, order=jobs.c.run_at
)
_LONG_LEASES: Final = _batch(
    _in_state("running"),
    jobs.c.lease_until > _AHEAD + _LENGTH,
    order=jobs.c.ordering_key,
)
_VANISHED: Final = _batch(
    *_EXPIRED, jobs.c.id.not_in(bindparam("excluded", expanding=True)), order=jobs.c.ordering_key
)
_RUNNING: Final = _batch(_in_state("running"), order=jobs.c.ordering_key)

_CHANGE: Final = update(jobs).where(jobs.c.id.in_(bindparam("ids", expanding=True)))
_MAKE_READY: Final = _CHANGE.values(state="ready")
_ENQUEUE_NOW: Final = _CHANGE.values(state="ready", enqueued_at=now_ms())
_RENEW: Final = _CHANGE.values(lease_until=now_ms() + _LENGTH)
_RELEASE: Final = _CHANGE.values(**IDLE, state="ready", losses=jobs.c.losses + 1)


async def move_due(tx: Write) -> int:
    """Make waiting jobs of any kind ready that are due. Return how many rows."""
    return await _move(tx, _DUE, _MAKE_READY)


async def move_stranded(tx: Write) -> int:
    """Make waiting jobs ready that were enqueued in the future: the clock was set back since. Return how many rows.

    Otherwise retries would wait for as long as the clock was set back.
    """
    return await _move(tx, _STRANDED, _ENQUEUE_NOW)


async def shorten_leases(tx: Write, lease: timedelta) -> int:
    """Shorten leases that were made before the clock was set back to that of a new one. Return how many rows.

    A worker that lives renews its own. Otherwise the jobs of one that vanished would be running for as long as the
    clock was set back.
    """
    return await _move(tx, _LONG_LEASES, _RENEW, length=lease // _MILLISECOND)


async def move_expired(tx: Write, *, excluded: Collection[int] = ()) -> int:
    """Make jobs ready that a vanished worker left running. Return how many rows."""
    return await _move(tx, _VANISHED, _RELEASE, excluded=excluded)


async def move_orphans(tx: Write) -> int:
    """Make all running jobs ready. Only for a process that owns the database's jobs alone."""
    return await _move(tx, _RUNNING, _RELEASE)


async def _move(tx: Write, batch: Select[int], change: Update, **given: Any) -> int:
    """Change the rows of a batch; `given` are the parameters of both."""
    ids = [row.id for row in await tx.all(batch, given)]
    return (await tx.execute(change, given | {"ids": ids})).rowcount if ids else 0


async def renew(tx: Write, worker: str, ids: Collection[int], lease: timedelta) -> set[tuple[int, int]]:
    """Renew the leases of the jobs. Return (id, attempt) of those that the worker still owns.

    A job that a transaction has fenced just now is skipped until the next heartbeat: waiting for a row while holding
    others invites a deadlock, and a fenced row can't be claimed.
    """
    own = select(jobs.c.id, jobs.c.attempt).where(
        jobs.c.id.in_(ids), jobs.c.worker == worker, _in_state("running")
    )
    free = [row.id for row in await tx.all(own.with_for_update(skip_locked=True))]
    until = now_ms() + lease // _MILLISECOND
    await tx.execute(update(jobs).where(jobs.c.id.in_(free)).values(lease_until=until))
    return {(row.id, row.attempt) for row in await tx.all(own)}


async def prune(database: Database, *, older_than: timedelta) -> int:
    """Delete jobs that have been dead for that long, in small transactions. Return how many rows."""
    old = _in_state("dead"), jobs.c.run_at < now_ms() - older_than // _MILLISECOND
    batch = select(jobs.c.id).where(*old).order_by(jobs.c.run_at).limit(BATCH)
    pruned = 0
    while True:
        async with database.write() as tx:
            # The condition again: a job that was revived meanwhile stays.
            count = (await tx.execute(delete(jobs).where(jobs.c.id.in_(batch), *old))).rowcount
        pruned += count
        if count < BATCH:
            return pruned


# --- for operators ------------------------------------------------------------------------------------


class DeadJob(Struct, frozen=True):
    """A job that isn't run again unless an operator revives it."""

    id: int
    kind: str
    attempt: int
    reason: str
    enqueued_at: datetime
    died_at: datetime


async def list_depths(tx: Read, *, most: int = MAX_COUNTED) -> list[QueueDepth]:
    """Return the queue depth of every kind that has rows, by kind.

    At most so many rows are counted of each kind that is ready, and of each other state.
    """
    kinds: dict[str, dict[str, Any]] = {}
    # Each kind by itself: a backlog of one must not hide the oldest job of another.
    counted = [("ready", jobs.c.kind == kind) for kind in await _ready_kinds(tx)]
    for state, condition in (*counted, *((state, true()) for state in ("waiting", "running", "dead"))):
        # In the order of the index: else PostgreSQL reads the table from its beginning.
        rows = select(jobs.c.kind, jobs.c.run_at).where(_in_state(state), condition)
        some = rows.order_by(*_SORTED_BY[state]).limit(most).subquery()
        age = now_ms() - func.min(some.c.run_at, type_=Integer)
        for kind, count, oldest in await tx.all(select(some.c.kind, func.count(), age).group_by(some.c.kind)):
            depth = kinds.setdefault(kind, {})
            depth[state] = count
            if state == "ready":
                depth["oldest"] = max(oldest / 1000, 0.0)
    return [QueueDepth(kind=kind, **depth) for kind, depth in sorted(kinds.items())]


async def _ready_kinds(tx: Read) -> list[str]:
    """Return the kinds that have ready jobs: one look into the index for each, however many jobs there are."""
    kinds: list[str] = []
    kind = ""
    while True:
        kind = await tx.scalar(select(func.min(jobs.c.kind)).where(_in_state("ready"), jobs.c.kind > kind))
        if kind is None:
            return kinds
        kinds.append(kind)


def is_capped(depths: Sequence[QueueDepth], *, most: int = MAX_COUNTED) -> bool:
    """Return whether there may be more jobs than `list_depths` counted."""
    others = (sum(getattr(depth, state) for depth in depths) for state in _SORTED_BY if state != "ready")
    return most in {*others, *(depth.ready for depth in depths)}


async def find_depths(database: Database) -> Sequence[QueueDepth] | None:
    """Return the queue depth of every kind, or None if the database doesn't answer in time."""
    try:
        async with asyncio.timeout(_READ_SECONDS), database.read() as tx:
            return await list_depths(tx, most=MAX_MEASURED)
    except Exception as error:
        if not isinstance(error, TimeoutError) and not is_unavailable(error):
            raise
        return None


async def list_dead(
    tx: Read, *, kind: str | None = None, before: tuple[datetime, int] | None = None, limit: int = 100
) -> Sequence[DeadJob]:
    """Return the jobs that died last, newest first: all, or one kind's. `before` is the last job's instant and id."""
    c = jobs.c
    newest = (
        select(c.id, c.kind, c.attempt, c.error, c.enqueued_at, c.run_at)
        .where(_in_state("dead"))
        .order_by(c.run_at.desc(), c.id.desc())
        .limit(limit)
    )
    if kind is not None:
        newest = newest.where(c.kind == kind)
    if before is not None:
        at, job_id = before
        newest = newest.where(c.run_at <= at, or_(c.run_at < at, c.id < job_id))
    return [DeadJob(*row) for row in await tx.all(newest)]


class Revival(Enum):
    """The result of reviving a job."""

    DUE = "due"
    NOT_DEAD = "not dead"
    INVALID = "invalid"
    """No job has this number."""
    NOT_NEEDED = "not needed"
    """Another job for the same work is queued."""


async def revive_job(database: Database, job_id: int) -> Revival:
    """Revive a dead job on behalf of this task's actor, for the audit trail."""
    if not 0 < job_id <= _MAX_ID:
        # A database would not take it as a number at all.
        return Revival.INVALID
    try:
        async with database.write() as tx:
            kind = await tx.scalar(select(jobs.c.kind).where(jobs.c.id == job_id))
            if not await revive(tx, job_id):
                return Revival.NOT_DEAD
            await audit(tx, "job", detail={"job": job_id, "kind": kind})
    except IntegrityError as error:
        if not is_unique_violation(error, jobs_dedup):
            raise
        return Revival.NOT_NEEDED
    return Revival.DUE


async def revive(tx: Write, job_id: int) -> bool:
    """Make a dead job due at once, as if it had never failed. Return whether there was one."""
    fresh = {"state": "ready", "run_at": now_ms(), "failures": 0, "losses": 0}
    revived = update(jobs).where(jobs.c.id == job_id, _in_state("dead")).values(fresh)
    return (await tx.execute(revived)).rowcount == 1
