"""The SQL of running jobs. A change names the attempt it belongs to: a slow worker changes nothing."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    Select,
    Text,
    Update,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    null,
    select,
    text,
    update,
)

from mercato.db.clock import now_ms
from mercato.db.engine import Read, Write
from mercato.db.statements import prepared
from mercato.db.tables import jobs
from mercato.db.types import Instant
from mercato.jobs.entry import CHANNEL
from mercato.jobs.model import Again, Hold, Job, JobLost

_MILLISECOND = timedelta(milliseconds=1)

LEAVING: Final = "jobs leaving"
"""What is said in the process within a transaction that ends jobs: their kind."""

BATCH: Final = 500
"""Rows that one upkeep statement touches at most, so that no transaction is long."""


def in_state(state: str) -> ColumnElement[bool]:
    """Written out and not bound: a database picks a partial index by what it reads in the statement."""
    return jobs.c.state == literal_column(f"'{state}'")


EXPIRED: Final = (in_state("running"), jobs.c.lease_until < now_ms())
IDLE: Final[dict[str, Any]] = {"worker": null(), "lease_until": null()}

# --- looking -------------------------------------------------------------------------------------------


class Look(Struct, frozen=True):
    """What there is to do. `due_in` is when the next waiting row is due, and None when none waits."""

    ready: frozenset[str]
    expired: bool
    due_in: timedelta | None


async def look(tx: Read, kinds: tuple[str, ...]) -> Look:
    """Return which of the kinds have something ready, from indexes alone."""
    row = await tx.first(_looking(kinds))
    assert row is not None
    due_in, expired, *found = row
    return Look(
        ready=frozenset(kind for kind, is_ready in zip(kinds, found, strict=True) if is_ready is not None),
        expired=bool(expired),
        due_in=None if due_in is None else due_in * _MILLISECOND,
    )


@cache
def _looking(kinds: tuple[str, ...]) -> Select[Any]:
    """Built once for the kinds that have a free place, of which there are few combinations."""
    waiting = select(func.min(jobs.c.run_at, type_=Integer)).where(in_state("waiting")).scalar_subquery()
    return prepared(
        select(waiting - now_ms(), exists().where(*EXPIRED), *(_first_ready(kind) for kind in kinds))
    )


def _first_ready(kind: str) -> ColumnElement[int]:
    # Ordered as the index is: SQLite would read the whole table if it took a kind for a poor choice.
    order = jobs.c.group_key, jobs.c.lane, jobs.c.id
    first = select(jobs.c.id).where(in_state("ready"), jobs.c.kind == kind).order_by(*order).limit(1)
    return first.scalar_subquery()


# --- holding --------------------------------------------------------------------------------------------


def _mine(job: Job[Any]) -> tuple[ColumnElement[bool], ...]:
    its = jobs.c.id == job.id, jobs.c.attempt == job.attempt
    if job.held_by is None:
        return *its, in_state("running")
    held = _holds.c.id == job.held_by.id, _holds.c.attempt == job.held_by.attempt
    return *its, in_state("ready"), exists().where(*held, _RUNS)


_holds: Final = jobs.alias("holds")
_RUNS: Final = _holds.c.state == literal_column("'running'")


async def fence(tx: Write, job: Job[Any]) -> None:
    """Make sure that the job is still this run's, and that it stays so until the transaction ends.

    Every transaction in which a handler changes something starts with it: a run that was only slow, and whose
    job has been given to another, gets `JobLost` here and changes nothing.
    """
    held = select(jobs.c.id).where(*_mine(job)).with_for_update()
    if await tx.scalar(held) is None:
        raise JobLost(f"job {job.id} ({job.kind}) is no longer attempt {job.attempt}'s")


async def finish(tx: Write, job: Job[Any]) -> None:
    """Fence the job, and end it with the transaction: its handler then answers `Finished`.

    It spares the transaction that would do nothing else.
    """
    if not await finish_all(tx, [job]):
        raise JobLost(f"job {job.id} ({job.kind}) is no longer attempt {job.attempt}'s")


async def finish_all(tx: Write, jobs: Sequence[Job[Any]]) -> bool:
    """Do as `finish` for many; False when one of them is no longer its run's: roll back then, and go one by one."""
    # First those whose lane is held by others, which may be among the rest.
    ahead = [(job, job.held_by) for job in jobs if job.held_by is not None]
    if ahead and not await _finish_ahead(tx, ahead):
        return False
    claimed = [job for job in jobs if job.held_by is None]
    if claimed and not await _finish_claimed(tx, claimed):
        return False
    for kind in {job.kind for job in claimed}:
        tx.database.signals.say(LEAVING, kind)
    return True


async def _finish_claimed(tx: Write, jobs: Sequence[Job[Any]]) -> bool:
    parameters: Any
    if tx.dialect == "sqlite":
        parameters = [{"its_id": job.id, "its_attempt": job.attempt} for job in jobs]
        statement: Executable = _FINISH
    else:
        parameters = {"its_ids": [job.id for job in jobs], "its_attempts": [job.attempt for job in jobs]}
        statement = _FINISH_ALL
    return (await tx.execute(statement, parameters)).rowcount == len(jobs)


async def _finish_ahead(tx: Write, ahead: Sequence[tuple[Job[Any], Hold]]) -> bool:
    parameters: Any
    if tx.dialect == "sqlite":
        parameters = [
            {"its_id": job.id, "its_attempt": job.attempt, "holds_id": held.id, "holds_attempt": held.attempt}
            for job, held in ahead
        ]
        statement: Executable = _FINISH_AHEAD
    else:
        parameters = {
            "its_ids": [job.id for job, _ in ahead],
            "its_attempts": [job.attempt for job, _ in ahead],
            "holds_ids": [held.id for _, held in ahead],
            "holds_attempts": [held.attempt for _, held in ahead],
        }
        statement = _FINISH_ALL_AHEAD
    return (await tx.execute(statement, parameters)).rowcount == len(ahead)


async def delete_waiting(tx: Write, kind: str, dedup: str) -> None:
    """Take back a job that has become needless, if it still waits for its time; one that runs finds out itself."""
    tx.defer(_DELETE_WAITING, {"its_kind": kind, "its_dedup": dedup})


_FINISH: Final = prepared(
    delete(jobs).where(
        jobs.c.id == bindparam("its_id"), jobs.c.attempt == bindparam("its_attempt"), in_state("running")
    )
)
_FINISH_AHEAD: Final = prepared(
    delete(jobs).where(
        jobs.c.id == bindparam("its_id"),
        jobs.c.attempt == bindparam("its_attempt"),
        in_state("ready"),
        exists().where(
            _holds.c.id == bindparam("holds_id"), _holds.c.attempt == bindparam("holds_attempt"), _RUNS
        ),
    )
)
# PostgreSQL: in one round trip, and it tells how many rows, which it does not of a statement run many times.
_FINISH_ALL: Final = prepared(
    text(
        """
        DELETE FROM jobs USING unnest(:its_ids, :its_attempts) AS one (id, attempt)
        WHERE jobs.id = one.id AND jobs.attempt = one.attempt AND jobs.state = 'running'
        """
    ).bindparams(
        bindparam("its_ids", type_=ARRAY(BigInteger)), bindparam("its_attempts", type_=ARRAY(Integer))
    )
)
_FINISH_ALL_AHEAD: Final = prepared(
    text(
        """
        DELETE FROM jobs
        USING unnest(:its_ids, :its_attempts, :holds_ids, :holds_attempts)
            AS one (id, attempt, holds_id, holds_attempt), jobs AS holds
        WHERE jobs.id = one.id AND jobs.attempt = one.attempt AND jobs.state = 'ready'
            AND holds.id = one.holds_id AND holds.attempt = one.holds_attempt AND holds.state = 'running'
        """
    ).bindparams(
        bindparam("its_ids", type_=ARRAY(BigInteger)),
        bindparam("its_attempts", type_=ARRAY(Integer)),
        bindparam("holds_ids", type_=ARRAY(BigInteger)),
        bindparam("holds_attempts", type_=ARRAY(Integer)),
    )
)
_DELETE_WAITING: Final = prepared(
    delete(jobs).where(
        jobs.c.kind == bindparam("its_kind"),
        jobs.c.dedup == bindparam("its_dedup"),
        # In the words of the index that finds it.
        text("dedup IS NOT NULL AND state <> 'dead'"),
        in_state("waiting"),
    )
)


async def renew(tx: Write, worker: str, numbers: Collection[int], lease: timedelta) -> set[tuple[int, int]]:
    """Hold the jobs for another lease; return (number, attempt) of those that are still the worker's.

    A job that a transaction has fenced at this instant is left for the next time: who waits for one row while he
    holds others invites a deadlock, and nobody takes a fenced row away.
    """
    held = jobs.c.id.in_(numbers), jobs.c.worker == worker, in_state("running")
    mine = select(jobs.c.id, jobs.c.attempt).where(*held)
    free = [row.id for row in await tx.all(mine.with_for_update(skip_locked=True))]
    until = now_ms() + lease // _MILLISECOND
    await tx.execute(update(jobs).where(jobs.c.id.in_(free)).values(lease_until=until))
    return {(row.id, row.attempt) for row in await tx.all(mine)}


# --- settling -------------------------------------------------------------------------------------------


async def settle_done(tx: Write, job: Job[Any]) -> None:
    await finish(tx, job)


async def settle_again(tx: Write, job: Job[Any], again: Again) -> None:
    """Put the job back for later. What it has failed before is forgotten: it got to say so."""
    await _settle(tx, job, _back(again.at).values(failures=0, error=null()))


async def settle_failed(tx: Write, job: Job[Any], reason: str, delay: timedelta) -> None:
    await _settle(tx, job, _back(delay).values(failures=jobs.c.failures + 1, error=reason))


async def settle_postponed(tx: Write, job: Job[Any], reason: str, delay: timedelta) -> None:
    """Put the job back for something that was not its fault."""
    await _settle(tx, job, _back(delay).values(error=reason))


async def settle_dead(tx: Write, job: Job[Any], reason: str) -> None:
    # From now on run_at says since when it is dead.
    await _settle(tx, job, update(jobs).values(**IDLE, state="dead", run_at=now_ms(), error=reason))


async def settle_released(tx: Write, job: Job[Any]) -> None:
    """Give the job back at once, and tell the others: this worker stops."""
    await _settle(tx, job, update(jobs).values(**IDLE, state="ready"))
    if tx.dialect == "postgresql":
        await tx.execute(select(func.pg_notify(CHANNEL, job.kind)))


def _back(at: datetime | timedelta) -> Update:
    due: ColumnElement[Any]
    if isinstance(at, datetime):
        due = bindparam("due", at, type_=Instant)
    else:
        due = now_ms() + bindparam("delay", at // _MILLISECOND, type_=Integer)
    state = case((due > now_ms(), literal_column("'waiting'", Text)), else_=literal_column("'ready'", Text))
    # What waits was put here when it was put back: `move_stranded` tells by that whether the clock was set back since.
    return update(jobs).values(**IDLE, run_at=due, state=state, enqueued_at=now_ms())


async def _settle(tx: Write, job: Job[Any], change: Any) -> None:
    if (await tx.execute(change.where(*_mine(job)))).rowcount != 1:
        raise JobLost(f"job {job.id} ({job.kind}) is no longer attempt {job.attempt}'s")
