"""Writing down what came of a run, in a transaction that only the run's own attempt can make."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import structlog

from mercato.db.engine import Database, Write
from mercato.db.errors import is_unavailable
from mercato.jobs import queries
from mercato.jobs.model import Again, Dead, Done, Finished, Handler, Job, JobLost
from mercato.jobs.run import Failed, Interrupted, Postponed, Unreadable, Verdict

log = structlog.get_logger("mercato.jobs")

# While the database is away: tried for about a minute. After that the lease ends and the job is run again.
_DELAYS: Final = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 10.0, 10.0, 20.0)

# When the database was away for a job, and when its end could not be written down.
_POSTPONED: Final = timedelta(seconds=1)
_UNSETTLED: Final = timedelta(seconds=60)


MOST_POSTPONED: Final = 50
"""Runs of a job after which it is its own fault that the database was away: to be claimed, and for this to be written
down, it was there. What a job asks of it may take longer than it lets anything take, and would for ever."""


async def settle(database: Database, job: Job[Any], handler: Handler[Any], verdict: Verdict) -> None:
    """Write the verdict down, or leave the row to the end of its lease if that cannot be done. Never raises."""
    if isinstance(verdict, Finished):
        return
    if verdict is Interrupted.LOST:
        log.warning("job lost to another worker", job=job.id, kind=job.kind, attempt=job.attempt)
        return
    try:
        await _try_often(database, job, handler, verdict)
    except JobLost:
        log.warning("job lost to another worker", job=job.id, kind=job.kind, attempt=job.attempt)
    except Exception:
        # `on_dead` raised, or there is a bug here: the worker goes on, the row stays visible.
        log.exception("job could not be settled", job=job.id, kind=job.kind)
        await _try_once_more(database, job)


async def _try_often(database: Database, job: Job[Any], handler: Handler[Any], verdict: Verdict) -> None:
    for delay in (*_DELAYS, None):
        try:
            async with database.write() as tx:
                await _write(tx, job, handler, verdict)
        except Exception as error:
            if delay is None or not is_unavailable(error):
                raise
            await asyncio.sleep(delay)
        else:
            return


async def _try_once_more(database: Database, job: Job[Any]) -> None:
    try:
        async with database.write() as tx:
            await queries.settle_failed(tx, job, "its end could not be written down; see the log", _UNSETTLED)
    except Exception:
        log.exception("job left to the end of its lease", job=job.id, kind=job.kind)


async def _write(tx: Write, job: Job[Any], handler: Handler[Any], verdict: Verdict) -> None:
    match verdict:
        case Done():
            await queries.settle_done(tx, job)
        case Again():
            await queries.settle_again(tx, job, verdict)
        case Dead(reason):
            await _bury(tx, job, handler, reason)
        case Failed(reason) if job.failures + 1 >= handler.max_attempts:
            await _bury(tx, job, handler, reason)
        case Failed(reason):
            await queries.settle_failed(tx, job, reason, handler.backoff(job.failures + 1))
        case Postponed(reason) if job.attempt < MOST_POSTPONED:
            await queries.settle_postponed(tx, job, reason, _POSTPONED)
        case Postponed(reason):
            await _write(tx, job, handler, Failed(reason))
        case Unreadable(reason):
            log.error("job is dead", job=job.id, kind=job.kind, reason=reason)
            await queries.settle_dead(tx, job, reason)
        case Interrupted():
            await queries.settle_released(tx, job)


async def _bury(tx: Write, job: Job[Any], handler: Handler[Any], reason: str) -> None:
    log.error("job is dead", job=job.id, kind=job.kind, reason=reason)
    await queries.settle_dead(tx, job, reason)
    if handler.on_dead is not None:
        await handler.on_dead(tx, job, reason)
