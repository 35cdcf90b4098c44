"""Records the result of a run, in a transaction that only the run's own attempt can make.

Every change names the attempt it belongs to, so that a worker that was only slow changes nothing.
"""

import asyncio
from datetime import timedelta
from typing import Any, Final

import structlog
from sqlalchemy import (
    Executable,
    Integer,
    Text,
    Update,
    bindparam,
    delete,
    func,
    literal_column,
    null,
    select,
    update,
)

from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import is_unavailable
from mercato.platform.db.postgresql import channel_of
from mercato.platform.db.statements import prepared
from mercato.platform.db.tables import jobs
from mercato.platform.db.types import now_ms
from mercato.platform.jobs.queue import CHANNEL
from mercato.platform.jobs.run import (
    Done,
    Failed,
    Handler,
    Interrupted,
    Job,
    JobLost,
    Postponed,
    Result,
    Settled,
    Unreadable,
    Unsettled,
)

log = structlog.get_logger("mercato.jobs")

# Delays between tries while the database is unavailable, about a minute in all. After that the lease ends and the job
# is run again.
_DELAYS: Final = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 10.0, 10.0, 20.0)

# When to run a job again whose database was unavailable, and one whose result could not be recorded.
_POSTPONED: Final = timedelta(seconds=1)
_UNSETTLED: Final = timedelta(seconds=60)

IDLE: Final[dict[str, Any]] = {"worker": null(), "lease_until": null()}

# --- in the caller's transaction ------------------------------------------------------------------------

_OWN: Final = (
    jobs.c.id == bindparam("where_id"),
    jobs.c.attempt == bindparam("where_attempt"),
    # A literal, not a parameter: a planner chooses a partial index by the statement's text.
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
    """Make sure that this run owns the job, and that it does so until the transaction ends.

    Every transaction in which a handler changes something starts with `fence`, `finish` or `put_back`. A run that was
    only slow, and whose job another run owns, gets `JobLost` here and changes nothing.
    """
    if await tx.scalar(_FENCE, _own(job)) is None:
        raise _lost(job)


async def finish(tx: Write, job: Job[Any]) -> None:
    """Fence the job and delete it with the transaction. Its handler then returns `Settled`."""
    await _execute(tx, job, _FINISH)


async def put_back(tx: Write, job: Job[Any]) -> None:
    """Fence the job and make it ready again, a part of its work done. Its handler then returns `Settled`."""
    await _execute(tx, job, _PUT_BACK)


async def put_off(tx: Write, job: Job[Any], delay: timedelta) -> None:
    """Fence the job and make it due after the delay, nothing of its work done. Its handler then returns `Settled`."""
    await _execute(tx, job, _retry(delay, None, failures=0, losses=0))


async def _execute(tx: Write, job: Job[Any], change: Executable) -> None:
    if (await tx.execute(change, _own(job))).rowcount != 1:
        raise _lost(job)


def _own(job: Job[Any]) -> dict[str, int]:
    return {"where_id": job.id, "where_attempt": job.attempt}


def _lost(job: Job[Any]) -> JobLost:
    return JobLost(f"job {job.id} ({job.kind}) is no longer attempt {job.attempt}'s")


# --- in transactions of its own -------------------------------------------------------------------------


async def settle(database: Database, job: Job[Any], handler: Handler[Any], result: Result) -> None:
    """Record the result, or let the lease end if that isn't possible. Never raises."""
    if isinstance(result, Settled):
        return
    if result is Interrupted.LOST:
        log.warning("job lost to another worker", job=job.id, kind=job.kind, attempt=job.attempt)
        return
    try:
        await _record_persistently(database, job, handler, result)
    except JobLost:
        log.warning("job lost to another worker", job=job.id, kind=job.kind, attempt=job.attempt)
    except Exception:
        # `on_dead` raised, or there is a bug here: the worker continues, the row stays visible.
        log.exception("job could not be settled", job=job.id, kind=job.kind)
        try:
            async with database.write() as tx:
                reason = "its result could not be recorded; see the log"
                await _execute(tx, job, _retry(_UNSETTLED, reason, failures=jobs.c.failures + 1))
        except Exception:
            log.exception("job left to the end of its lease", job=job.id, kind=job.kind)


async def _record_persistently(
    database: Database, job: Job[Any], handler: Handler[Any], result: Unsettled
) -> None:
    for delay in (*_DELAYS, None):
        try:
            async with database.write() as tx:
                await _record(tx, job, handler, result)
        except Exception as error:
            if delay is None or not is_unavailable(error):
                raise
            await asyncio.sleep(delay)
        else:
            return


async def _record(tx: Write, job: Job[Any], handler: Handler[Any], result: Unsettled) -> None:
    match result:
        case Done():
            await finish(tx, job)
        case Interrupted():
            await _execute(tx, job, _release(state="ready"))
            if tx.dialect == "postgresql":
                await tx.execute(select(func.pg_notify(channel_of(CHANNEL), job.kind)))
        case Postponed(reason):
            await _execute(tx, job, _retry(_POSTPONED, reason))
        case Failed(reason) if job.failures + 1 < handler.max_attempts:
            delay = handler.backoff(job.failures + 1)
            await _execute(tx, job, _retry(delay, reason, failures=jobs.c.failures + 1))
        case _:
            log.error("job is dead", job=job.id, kind=job.kind, reason=result.reason)
            # The run_at of a dead job is when it died.
            await _execute(tx, job, _release(state="dead", run_at=now_ms(), error=result.reason))
            if handler.on_dead is not None and not isinstance(result, Unreadable):
                await handler.on_dead(tx, job, result.reason)


def _retry(delay: timedelta, reason: str | None, **values: Any) -> Update:
    milliseconds = delay // timedelta(milliseconds=1)
    due = now_ms() + bindparam("delay", milliseconds, type_=Integer)
    # Decided here: some databases that speak PostgreSQL's protocol refuse an UPDATE with a clock in a CASE.
    state = literal_column("'waiting'" if milliseconds > 0 else "'ready'", Text)
    # enqueued_at of a waiting row is when it was released: by it `move_stranded` notices a clock that was set back.
    return _release(run_at=due, state=state, enqueued_at=now_ms(), error=reason, **values)


def _release(**values: Any) -> Update:
    return update(jobs).where(*_OWN).values(**IDLE, **values)
