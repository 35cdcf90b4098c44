"""Settling: what came of a run, written in a transaction that only the run's own attempt can make.

A change names the attempt that it belongs to, so that a worker that was only slow changes nothing.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from sqlalchemy import (
    ColumnElement,
    Integer,
    Text,
    Update,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    null,
    select,
    update,
)

from mercato.kernel.db.engine import Database, Write
from mercato.kernel.db.errors import is_unavailable
from mercato.kernel.db.statements import prepared
from mercato.kernel.db.tables import jobs
from mercato.kernel.db.types import Instant, now_ms
from mercato.kernel.jobs.model import Again, Dead, Done, Handler, Job, JobLost, Settled
from mercato.kernel.jobs.queue import CHANNEL
from mercato.kernel.jobs.run import Failed, Interrupted, Postponed, Result, Unreadable

log = structlog.get_logger("mercato.jobs")

# While the database is unavailable: tried for about a minute. After that the lease ends and the job is run again.
_DELAYS: Final = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 10.0, 10.0, 20.0)

# When the database was unavailable to a job, and when its end could not be written.
_POSTPONED: Final = timedelta(seconds=1)
_UNSETTLED: Final = timedelta(seconds=60)

_MILLISECOND: Final = timedelta(milliseconds=1)

MAX_POSTPONED: Final = 50
"""Runs after which an unavailable database is the job's own failure: the database was there to claim it, and to write
this. What the job asks of it may take longer than it lets anything take, and would for ever."""

IDLE: Final[dict[str, Any]] = {"worker": null(), "lease_until": null()}

# --- in a transaction of the caller's -----------------------------------------------------------------

_OWN: Final = (
    jobs.c.id == bindparam("its_id"),
    jobs.c.attempt == bindparam("its_attempt"),
    # Written out and not bound: a database picks a partial index by what it reads in the statement.
    jobs.c.state == literal_column("'running'"),
)
_FENCE: Final = prepared(select(jobs.c.id).where(*_OWN).with_for_update())
_FINISH: Final = prepared(delete(jobs).where(*_OWN))
_PUT_BACK: Final = prepared(
    update(jobs)
    .where(*_OWN)
    .values(**IDLE, state=literal_column("'ready'"), failures=0, losses=0, error=null())
)


async def fence(tx: Write, job: Job[Any]) -> None:
    """Make sure that the job is still this run's, and that it stays so until the transaction ends.

    Every transaction in which a handler changes something starts with it, or with `finish` or `put_back`: a run that
    was only slow, and whose job has been given to another, gets `JobLost` here and changes nothing.
    """
    if await tx.scalar(_FENCE, _own(job)) is None:
        raise _lost(job)


async def finish(tx: Write, job: Job[Any]) -> None:
    """Fence the job and end it with the transaction: its handler then answers `Settled`."""
    await _settle(tx, job, _FINISH)


async def put_back(tx: Write, job: Job[Any]) -> None:
    """Fence the job and make it ready again, a part of its work done: its handler then answers `Settled`."""
    await _settle(tx, job, _PUT_BACK)


async def settle_again(tx: Write, job: Job[Any], at: datetime | timedelta) -> None:
    """Put the job back for later. Its earlier failures are forgotten: it was able to answer."""
    await _settle(tx, job, _back(at).values(failures=0, error=null()))


async def settle_failed(tx: Write, job: Job[Any], reason: str, delay: timedelta) -> None:
    await _settle(tx, job, _back(delay).values(failures=jobs.c.failures + 1, error=reason))


async def settle_postponed(tx: Write, job: Job[Any], reason: str, delay: timedelta) -> None:
    """Put the job back for something that was not its fault."""
    await _settle(tx, job, _back(delay).values(error=reason))


async def settle_dead(tx: Write, job: Job[Any], reason: str) -> None:
    # From now on run_at says since when it is dead.
    await _settle(tx, job, _change(state="dead", run_at=now_ms(), error=reason))


async def settle_released(tx: Write, job: Job[Any]) -> None:
    """Make the job due again at once, and notify the others: this worker stops."""
    await _settle(tx, job, _change(state="ready"))
    if tx.dialect == "postgresql":
        await tx.execute(select(func.pg_notify(CHANNEL, job.kind)))


def _back(at: datetime | timedelta) -> Update:
    due: ColumnElement[Any]
    if isinstance(at, datetime):
        due = bindparam("due", at, type_=Instant)
    else:
        due = now_ms() + bindparam("delay", at // _MILLISECOND, type_=Integer)
    state = case((due > now_ms(), literal_column("'waiting'", Text)), else_=literal_column("'ready'", Text))
    # A waiting row was enqueued when it was put back: by that `move_stranded` finds that the clock was set back since.
    return _change(run_at=due, state=state, enqueued_at=now_ms())


def _change(**values: Any) -> Update:
    return update(jobs).where(*_OWN).values(**IDLE, **values)


async def _settle(tx: Write, job: Job[Any], change: Any) -> None:
    if (await tx.execute(change, _own(job))).rowcount != 1:
        raise _lost(job)


def _own(job: Job[Any]) -> dict[str, int]:
    return {"its_id": job.id, "its_attempt": job.attempt}


def _lost(job: Job[Any]) -> JobLost:
    return JobLost(f"job {job.id} ({job.kind}) is no longer attempt {job.attempt}'s")


# --- in transactions of its own -----------------------------------------------------------------------


async def settle(database: Database, job: Job[Any], handler: Handler[Any], result: Result) -> None:
    """Write the result, or leave the row to the end of its lease if that isn't possible. Never raises."""
    if isinstance(result, Settled):
        return
    if result is Interrupted.LOST:
        log.warning("job lost to another worker", job=job.id, kind=job.kind, attempt=job.attempt)
        return
    try:
        await _try_often(database, job, handler, result)
    except JobLost:
        log.warning("job lost to another worker", job=job.id, kind=job.kind, attempt=job.attempt)
    except Exception:
        # `on_dead` raised, or there is a bug here: the worker goes on, the row stays visible.
        log.exception("job could not be settled", job=job.id, kind=job.kind)
        await _try_once_more(database, job)


async def _try_often(database: Database, job: Job[Any], handler: Handler[Any], result: Result) -> None:
    for delay in (*_DELAYS, None):
        try:
            async with database.write() as tx:
                await _write(tx, job, handler, result)
        except Exception as error:
            if delay is None or not is_unavailable(error):
                raise
            await asyncio.sleep(delay)
        else:
            return


async def _try_once_more(database: Database, job: Job[Any]) -> None:
    try:
        async with database.write() as tx:
            await settle_failed(tx, job, "its end could not be written down; see the log", _UNSETTLED)
    except Exception:
        log.exception("job left to the end of its lease", job=job.id, kind=job.kind)


async def _write(tx: Write, job: Job[Any], handler: Handler[Any], result: Result) -> None:
    match result:
        case Done():
            await finish(tx, job)
        case Again(at):
            await settle_again(tx, job, at)
        case Dead(reason):
            await _bury(tx, job, handler, reason)
        case Failed(reason) if job.failures + 1 >= handler.max_attempts:
            await _bury(tx, job, handler, reason)
        case Failed(reason):
            await settle_failed(tx, job, reason, handler.backoff(job.failures + 1))
        case Postponed(reason) if job.attempt < MAX_POSTPONED:
            await settle_postponed(tx, job, reason, _POSTPONED)
        case Postponed(reason):
            await _write(tx, job, handler, Failed(reason))
        case Unreadable(reason):
            log.error("job is dead", job=job.id, kind=job.kind, reason=reason)
            await settle_dead(tx, job, reason)
        case Interrupted():
            await settle_released(tx, job)


async def _bury(tx: Write, job: Job[Any], handler: Handler[Any], reason: str) -> None:
    log.error("job is dead", job=job.id, kind=job.kind, reason=reason)
    await settle_dead(tx, job, reason)
    if handler.on_dead is not None:
        await handler.on_dead(tx, job, reason)
