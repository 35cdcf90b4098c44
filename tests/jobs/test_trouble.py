"""A database that is unavailable for a while, and which process may run the jobs of a shared file."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

from sqlalchemy import text, update
from tests import databases
from tests.databases import only_sqlite
from tests.jobs.support import (
    FAST,
    Log,
    Note,
    handler,
    put,
    states,
    take,
    until,
    until_empty,
    working,
)
from tests.waiting import PATIENCE

from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.db.tables import jobs
from mercato.platform.db.url import sqlite_path
from mercato.platform.jobs import Done, Job, JobOutcome, Worker
from mercato.platform.jobs.run import MAX_POSTPONED
from mercato.platform.jobs.worker import Ownership


@asynccontextmanager
async def unavailable(db: Database) -> AsyncIterator[None]:
    """Make the database unavailable for the length of the block."""
    if db.dialect == "sqlite":
        other = sqlite3.connect(sqlite_path(db.url), isolation_level=None, timeout=0)
        async with asyncio.timeout(PATIENCE):
            # The worker, in this loop, may be writing: a wait in SQLite would keep it from its end.
            while not other.in_transaction:
                with suppress(sqlite3.OperationalError):
                    other.execute("BEGIN EXCLUSIVE")
                await asyncio.sleep(0.01)
        yield
        other.close()
        return
    server = await databases.postgresql_server()
    name = db.url.partition("?")[0].rpartition("/")[2]
    await databases.run(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    everyone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
    await databases.run(server, f"{everyone} '{name}'")
    yield
    await databases.run(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


async def test_a_worker_survives_an_unavailable_database(database_url: str) -> None:
    log, started, finish = Log(), asyncio.Event(), asyncio.Event()

    async def waits(job: Job[Note]) -> JobOutcome:
        started.set()
        await finish.wait()
        return await log(job)

    async with (
        Database.open(database_url, busy_timeout=timedelta(milliseconds=20)) as db,
        working(db, {"note": handler(waits, max_attempts=1)}, lease=timedelta(seconds=10)),
    ):
        await put(db, "running during the outage")
        await started.wait()
        async with unavailable(db):
            finish.set()
            await log.wait_for(1)
            await asyncio.sleep(0.3)
        async with asyncio.timeout(PATIENCE):
            await until_empty(db)
        await put(db, "after the outage")
        assert await log.wait_for(2) == ["running during the outage", "after the outage"]


async def test_an_unavailable_database_is_not_the_jobs_failure(database_url: str) -> None:
    log = Log()
    gone, started = asyncio.Event(), asyncio.Event()
    async with Database.open(database_url, busy_timeout=timedelta(milliseconds=20)) as db:

        async def writes(job: Job[Note]) -> JobOutcome:
            assert job.failures == 0
            started.set()
            if job.attempt == 1:
                await gone.wait()
            async with db.write() as tx:
                await tx.execute(text("UPDATE jobs SET error = NULL WHERE id < 0"))
            return await log(job)

        async with working(db, {"note": handler(writes, max_attempts=1)}, lease=timedelta(seconds=10)):
            await put(db, "x")
            await started.wait()
            async with unavailable(db):
                gone.set()
                await asyncio.sleep(0.3)
            await log.wait_for(1)
            await until_empty(db)


@only_sqlite
async def test_on_sqlite_only_the_holder_of_the_lock_runs_jobs_and_the_next_holder_continues(
    db: Database,
) -> None:
    first, second = Log(), Log()
    async with working(db, {"note": handler(first)}) as worker:
        await put(db, "one")
        await first.wait_for(1)
        async with working(db, {"note": handler(second)}):
            for number in range(10):
                await put(db, str(number))
            await first.wait_for(11)
            assert second.seen == []
            await worker.stop(grace=timedelta(seconds=1))
            await put(db, "taken over")
            assert await second.wait_for(1) == ["taken over"]


@only_sqlite
async def test_on_sqlite_jobs_that_are_running_at_start_are_due_at_once(db: Database) -> None:
    await put(db, "left behind")
    await take(db, worker="gone", lease=timedelta(hours=1))
    log = Log()
    async with working(db, {"note": handler(log)}):
        await log.wait_for(1)


@only_sqlite
async def test_on_sqlite_a_take_over_that_fails_is_retried(database_url: str) -> None:
    log = Log()
    async with Database.open(database_url, busy_timeout=timedelta(milliseconds=20)) as db:
        await put(db, "left behind")
        await take(db, worker="gone", lease=timedelta(hours=1))
        worker = Worker(db, {"note": handler(log)}, **FAST)
        async with unavailable(db):
            running = asyncio.create_task(worker.run())
            await asyncio.sleep(0.1)
        await log.wait_for(1)
        await worker.stop(grace=timedelta(seconds=1))
        await running


@only_sqlite
async def test_the_lock_has_one_holder_at_a_time(db: Database) -> None:
    one, two = Ownership(db), Ownership(db)
    assert one.acquire()
    assert not one.acquire()
    assert one.is_held
    assert not two.acquire()
    assert not two.is_held
    one.release()
    assert not one.is_held
    assert two.acquire()
    two.release()


@only_sqlite
async def test_on_sqlite_a_clock_change_takes_no_job_from_its_own_worker(db: Database) -> None:
    started, finish, runs = asyncio.Event(), asyncio.Event(), Log()

    async def waits(job: Job[Note]) -> JobOutcome:
        await runs.add(str(job.attempt))
        started.set()
        await finish.wait()
        return Done()

    # A clock that is set forward makes every lease end at once.
    options: dict[str, Any] = {**FAST, "lease": timedelta(milliseconds=-1), "heartbeat": timedelta(hours=1)}
    worker = Worker(db, {"note": handler(waits)}, **options)
    running = asyncio.create_task(worker.run())
    await put(db, "x")
    await started.wait()
    for _ in range(5):
        worker._wake.set()
        await asyncio.sleep(0.02)
    finish.set()
    await until_empty(db)
    await worker.stop(grace=timedelta(seconds=1))
    await running
    assert runs.seen == ["1"]
    assert await states(db) == []


async def test_a_job_for_which_the_database_is_always_unavailable_dies_in_the_end(db: Database) -> None:
    runs = 0

    async def asks_too_much(_job: Job[Note]) -> JobOutcome:
        nonlocal runs
        runs += 1
        raise DatabaseUnavailable("canceling statement due to statement timeout")

    async def dead() -> bool:
        return await states(db) == ["dead"]

    await put(db, "a")
    async with db.write() as tx:
        await tx.execute(update(jobs).values(attempt=MAX_POSTPONED - 2))
    asking = handler(asks_too_much, max_attempts=2, backoff=lambda _failures: timedelta(0))
    async with working(db, {"note": asking}):
        await until(dead)
    # One more postponed run, and two failures.
    assert runs == 3
