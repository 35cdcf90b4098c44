import asyncio
import time
from datetime import timedelta
from statistics import median
from typing import Any, Never

import pytest
from sqlalchemy import text
from tests.databases import only_postgresql
from tests.jobs.support import (
    NEVER,
    Log,
    Note,
    handler,
    nothing,
    put,
    rows,
    states,
    take,
    until,
    until_empty,
    working,
)
from tests.waiting import PATIENCE, loop_timeout

from mercato.platform.db.engine import Database, Write
from mercato.platform.jobs import Done, Job, JobLost, JobOutcome, fence

AT_ONCE = {"backoff": lambda _failures: timedelta(milliseconds=10)}


async def test_a_job_starts_within_a_few_commits_of_its_own(db: Database) -> None:
    log = Log()
    async with working(db, {"note": handler(log)}, poll=NEVER):
        await put(db, "warm")
        await log.wait_for(1)
        commits, delays = [], []
        for number in range(20):
            began = time.perf_counter()
            await put(db, str(number))
            committed = time.perf_counter()
            await log.wait_for(number + 2)
            commits.append(committed - began)
            delays.append(time.perf_counter() - committed)
    assert median(delays) < 20 * median(commits)


@only_postgresql
async def test_a_job_of_another_process_starts_without_waiting_for_the_poll(
    db: Database, database_url: str
) -> None:
    log = Log()
    async with (
        Database.open(database_url) as other,
        working(db, {"note": handler(log)}, poll=NEVER),
    ):
        await put(db, "warm")
        await log.wait_for(1)
        await asyncio.sleep(0.1)  # until the worker listens, for which there is no event
        await put(other, "elsewhere")
        await log.wait_for(2)


async def test_a_finished_job_leaves_no_row(db: Database) -> None:
    async with working(db, {"note": handler(nothing)}):
        await put(db, *"abc")
        await until_empty(db)


async def test_jobs_of_one_ordering_key_run_one_at_a_time_and_in_order(db: Database) -> None:
    running: set[str] = set()
    log = Log()

    async def alone(job: Job[Note]) -> JobOutcome:
        key = job.payload.text[0]
        assert key not in running
        running.add(key)
        await asyncio.sleep(0.001)
        running.remove(key)
        return await log(job)

    async with working(db, {"note": handler(alone)}):
        for number in range(10):
            for key in "abc":
                await put(db, f"{key}{number}", ordering_key=key)
        await log.wait_for(30)
    for key in "abc":
        assert [text for text in log.seen if text[0] == key] == [f"{key}{number}" for number in range(10)]


async def test_a_job_that_raises_is_retried_and_dead_after_max_attempts(db: Database) -> None:
    seen: list[tuple[int, int]] = []

    async def fails(job: Job[Note]) -> JobOutcome:
        seen.append((job.attempt, job.failures))
        raise LookupError("no such thing")

    async def dead(db: Database) -> bool:
        return await states(db) == ["dead"]

    async with working(db, {"note": handler(fails, max_attempts=3, **AT_ONCE)}):
        await put(db, "x")
        await until(lambda: dead(db))
    assert seen == [(1, 0), (2, 1), (3, 2)]
    (row,) = await rows(db)
    assert row.error == "LookupError: no such thing"


async def exits(job: Job[Note]) -> Never:
    raise SystemExit(3)


async def recurses(job: Job[Note]) -> JobOutcome:
    return await recurses(job)


async def returns_nothing(job: Job[Note]) -> Any:
    return None


async def cancels_itself(job: Job[Note]) -> Never:
    raise asyncio.CancelledError


async def never_ends(job: Job[Note]) -> JobOutcome:
    await asyncio.Event().wait()
    return Done()


@pytest.mark.parametrize(
    ("misbehaves", "reason"),
    [
        (exits, "SystemExit: 3"),
        (recurses, "RecursionError"),
        (returns_nothing, "the handler returned None"),
        (cancels_itself, "the handler cancelled itself"),
        (never_ends, "took longer than 0.05 s"),
    ],
)
async def test_a_job_that_misbehaves_ends_itself_and_not_the_worker(
    db: Database, misbehaves: Any, reason: str
) -> None:
    log = Log()
    table = {
        "bad": handler(misbehaves, max_attempts=1, timeout=timedelta(milliseconds=50)),
        "note": handler(log),
    }

    async def dead() -> bool:
        return any(row.state == "dead" and row.error.startswith(reason) for row in await rows(db))

    async with working(db, table):
        await put(db, "x", kind="bad")
        await until(dead)
        await put(db, "after")
        await log.wait_for(1)


async def test_a_job_with_an_unreadable_payload_is_dead_and_the_worker_continues(db: Database) -> None:
    log = Log()
    await put(db, "unreadable")
    async with db.write() as tx:
        await tx.execute(text("UPDATE jobs SET payload = '{\"text\": 5}'"))
    async with working(db, {"note": handler(log)}):
        await put(db, "readable")
        await log.wait_for(1)
    (row,) = await rows(db)
    assert (row.state, row.error[:28]) == ("dead", "the payload cannot be read: ")


async def test_on_dead_runs_in_the_transaction_that_makes_the_job_dead(db: Database) -> None:
    calls: list[tuple[str, str]] = []

    async def on_dead(tx: Write, job: Job[Note], reason: str) -> None:
        calls.append((job.payload.text, reason))
        # Other transactions see the job dead only after this one commits.
        async with db.read() as outside:
            assert await outside.scalar(text("SELECT state FROM jobs")) == "running"

    async def gives_up(job: Job[Note]) -> JobOutcome:
        raise LookupError("no such thing")

    async def dead() -> bool:
        return await states(db) == ["dead"]

    async with working(db, {"note": handler(gives_up, max_attempts=1, on_dead=on_dead)}):
        await put(db, "x")
        await until(dead)
    assert calls == [("x", "LookupError: no such thing")]


async def test_a_job_whose_result_cannot_be_recorded_is_kept_and_the_worker_continues(db: Database) -> None:
    log = Log()

    async def on_dead(tx: Write, job: Job[Note], reason: str) -> None:
        raise LookupError

    async def gives_up(job: Job[Note]) -> JobOutcome:
        raise LookupError("no such thing")

    async def waits() -> bool:
        return await states(db) == ["waiting"]

    async with working(db, {"bad": handler(gives_up, max_attempts=1, on_dead=on_dead), "note": handler(log)}):
        await put(db, "x", kind="bad")
        await until(waits)
        await put(db, "after")
        await log.wait_for(1)


async def test_no_more_jobs_of_a_kind_run_at_once_than_its_concurrency(db: Database) -> None:
    running, maximum = 0, 0
    log = Log()

    async def counted(job: Job[Note]) -> JobOutcome:
        nonlocal running, maximum
        running += 1
        maximum = max(maximum, running)
        await asyncio.sleep(0.005)
        running -= 1
        return await log(job)

    async with working(db, {"note": handler(counted, concurrency=3)}):
        await put(db, *(str(number) for number in range(15)))
        await log.wait_for(15)
    assert maximum == 3


async def test_one_groups_backlog_does_not_delay_another(db: Database) -> None:
    started = asyncio.Event()
    log = Log()

    async def hangs(job: Job[Note]) -> JobOutcome:
        if job.payload.text == "big":
            await started.wait()
        return await log(job)

    async with working(db, {"note": handler(hangs, concurrency=8, group_concurrency=2)}):
        await put(db, *["big"] * 20, group="big")
        await put(db, "small", group="small")
        assert await log.wait_for(1) == ["small"]
        await until(lambda: _are(db, ["ready"] * 18 + ["running"] * 2))
        started.set()
        await log.wait_for(21)


async def _are(db: Database, expected: list[str]) -> bool:
    return sorted(await states(db)) == expected


async def test_running_jobs_may_finish_within_the_grace_period(db: Database) -> None:
    log, started = Log(), asyncio.Event()

    async def takes_a_while(job: Job[Note]) -> JobOutcome:
        started.set()
        await asyncio.sleep(0.2)
        return await log(job)

    async with working(db, {"note": handler(takes_a_while, concurrency=1)}) as worker:
        await put(db, "running", "not claimed any more", ordering_key="l")
        await started.wait()
        await worker.stop(grace=timedelta(seconds=5))
        assert log.seen == ["running"]
    assert await states(db) == ["ready"]


async def test_leases_are_renewed_during_the_grace_period(db: Database) -> None:
    started, second = asyncio.Event(), Log()

    async def takes_longer_than_the_lease(job: Job[Note]) -> JobOutcome:
        started.set()
        await asyncio.sleep(2.5)
        return Done()

    # A busy machine may well miss several heartbeats.
    options = {"lease": timedelta(seconds=2), "heartbeat": timedelta(milliseconds=100)}
    async with working(db, {"note": handler(takes_longer_than_the_lease)}, **options) as worker:
        await put(db, "x")
        await started.wait()
        async with working(db, {"note": handler(second)}):
            await worker.stop(grace=timedelta(seconds=5))
            assert second.seen == []
    assert await states(db) == []


async def test_jobs_that_do_not_finish_within_the_grace_period_are_due_at_once(db: Database) -> None:
    started = asyncio.Event()

    async def hangs(job: Job[Note]) -> JobOutcome:
        started.set()
        return await never_ends(job)

    async with working(db, {"note": handler(hangs)}) as worker:
        await put(db, "x")
        await started.wait()
        async with loop_timeout(4):
            await worker.stop(grace=timedelta(milliseconds=50))
    (row,) = await rows(db)
    assert (row.state, row.failures, row.losses) == ("ready", 0, 0)
    log = Log()
    async with working(db, {"note": handler(log)}):
        await log.wait_for(1)


async def test_a_cancelled_worker_releases_its_jobs(db: Database) -> None:
    started = asyncio.Event()

    async def hangs(job: Job[Note]) -> JobOutcome:
        started.set()
        return await never_ends(job)

    async with working(db, {"note": handler(hangs)}) as worker:
        pass
    worker = type(worker)(db, {"note": handler(hangs)})
    running = asyncio.create_task(worker.run())
    await put(db, "x")
    await started.wait()
    running.cancel()
    await asyncio.wait([running])
    assert await states(db) == ["ready"]


@only_postgresql
async def test_a_slow_worker_cannot_write_once_another_owns_its_job(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(text("CREATE TABLE effects (attempt integer)"))
    late, lost, log = asyncio.Event(), asyncio.Event(), Log()

    async def effect(job: Job[Note]) -> JobOutcome:
        async with db.write() as tx:
            await fence(tx, job)
            await tx.execute(text("INSERT INTO effects VALUES (:attempt)"), {"attempt": job.attempt})
        return Done()

    async def slow(job: Job[Note]) -> JobOutcome:
        await late.wait()
        try:
            return await effect(job)
        except JobLost:
            lost.set()
            raise

    async def quick(job: Job[Note]) -> JobOutcome:
        await effect(job)
        return await log(job)

    asleep = {"lease": timedelta(milliseconds=50), "heartbeat": timedelta(hours=1)}
    async with working(db, {"note": handler(slow)}, **asleep) as first:
        await put(db, "x")
        await until(lambda: _running(db))
        first._stopping.set()
        async with working(db, {"note": handler(quick)}):
            await log.wait_for(1)
            late.set()
            await lost.wait()
    async with db.read() as reader:
        assert [row.attempt for row in await reader.all(text("SELECT attempt FROM effects"))] == [2]
    assert await states(db) == []


async def _running(db: Database) -> bool:
    return await states(db) == ["running"]


@only_postgresql
async def test_a_run_whose_lease_was_lost_is_cancelled_at_the_next_heartbeat(db: Database) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hangs(job: Job[Note]) -> JobOutcome:
        started.set()
        try:
            return await never_ends(job)
        finally:
            cancelled.set()

    async with working(db, {"note": handler(hangs)}, heartbeat=timedelta(milliseconds=20)):
        await put(db, "x")
        await started.wait()
        async with db.write() as tx:
            await tx.execute(text("UPDATE jobs SET attempt = attempt + 1, worker = 'another'"))
        async with asyncio.timeout(PATIENCE):
            await cancelled.wait()
    (row,) = await rows(db)
    assert (row.state, row.worker) == ("running", "another")


@only_postgresql
async def test_jobs_of_a_vanished_worker_are_claimed_when_its_leases_end(db: Database) -> None:
    log = Log()
    await put(db, "x")
    began = time.monotonic()
    await take(db, worker="vanished", lease=timedelta(milliseconds=300))
    async with working(db, {"note": handler(log)}):
        await log.wait_for(1)
        assert time.monotonic() - began > 0.29


@only_postgresql
async def test_the_jobs_of_a_vanished_worker_wait_no_longer_for_a_clock_that_was_set_back(
    db: Database,
) -> None:
    log = Log()
    await put(db, "a")
    # As if the clock had been an hour ahead until now.
    await take(db, worker="vanished", lease=timedelta(hours=1))
    async with working(db, {"note": handler(log)}):
        assert await log.wait_for(1) == ["a"]


async def test_a_job_over_which_too_many_workers_vanished_is_dead(db: Database) -> None:
    log = Log()
    await put(db, "killer")
    async with db.write() as tx:
        await tx.execute(text("UPDATE jobs SET losses = 21"))
    async with working(db, {"note": handler(log)}):
        await put(db, "after")
        await log.wait_for(1)
        await until(lambda: _dead(db))
    assert log.seen == ["after"]


async def _dead(db: Database) -> bool:
    return await states(db) == ["dead"]


async def test_two_workers_share_jobs_and_run_none_twice(db: Database, database_url: str) -> None:
    log = Log()

    async def briefly(job: Job[Note]) -> JobOutcome:
        await asyncio.sleep(0.001)
        return await log(job)

    # A loop that a busy machine stops for a second renews no lease.
    lease = timedelta(seconds=PATIENCE)
    async with (
        Database.open(database_url) as other,
        working(db, {"note": handler(briefly)}, lease=lease),
        working(other, {"note": handler(briefly)}, lease=lease),
    ):
        for key in "abcdef":
            await put(db, *(f"{key}{number}" for number in range(10)), ordering_key=key)
        await log.wait_for(60)
        await until_empty(db)
    assert len(log.seen) == len(set(log.seen)) == 60
    for key in "abcdef":
        assert [text for text in log.seen if text[0] == key] == [f"{key}{number}" for number in range(10)]


async def test_a_worker_that_stops_while_jobs_end_leaves_no_running_row(db: Database) -> None:
    started = asyncio.Event()

    async def quick(job: Job[Note]) -> JobOutcome:
        started.set()
        await asyncio.sleep(0)
        return Done()

    await put(db, *(str(number) for number in range(200)))
    async with working(db, {"note": handler(quick, concurrency=8)}, grace=timedelta(seconds=30)):
        await started.wait()
    assert {row.state for row in await rows(db)} <= {"ready"}
