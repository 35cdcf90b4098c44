import asyncio
import time
from datetime import timedelta
from typing import Any, Never

import pytest
from sqlalchemy import text
from tests.databases import only_postgresql
from tests.jobs.support import (
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

from mercato.kernel.db.engine import Database, Write
from mercato.kernel.jobs import Again, Dead, Done, Job, JobLost, Outcome, fence

AT_ONCE = {"backoff": lambda _failures: timedelta(milliseconds=10)}


async def test_a_job_starts_within_milliseconds_of_the_commit(db: Database) -> None:
    log = Log()
    async with working(db, {"note": handler(log)}, poll=timedelta(seconds=30)):
        await put(db, "warm")
        await log.wait_for(1)
        delays = []
        for number in range(20):
            await put(db, str(number))
            committed = time.perf_counter()
            await log.wait_for(number + 2)
            delays.append(time.perf_counter() - committed)
    assert min(delays) < 0.03
    assert sorted(delays)[10] < 0.2


@only_postgresql
async def test_a_job_of_another_process_starts_without_waiting_for_the_poll(
    db: Database, database_url: str
) -> None:
    log = Log()
    async with (
        Database.open(database_url) as other,
        working(db, {"note": handler(log)}, poll=timedelta(seconds=30)),
    ):
        await put(db, "warm")
        await log.wait_for(1)
        await asyncio.sleep(0.1)  # until the worker listens, which nothing tells
        await put(other, "elsewhere")
        begun = time.monotonic()
        await log.wait_for(2)
    assert time.monotonic() - begun < 5


async def test_a_finished_job_leaves_no_row(db: Database) -> None:
    async with working(db, {"note": handler(nothing)}):
        await put(db, *"abc")
        await until_empty(db)


async def test_a_lanes_jobs_run_one_at_a_time_and_in_order(db: Database) -> None:
    running: set[str] = set()
    log = Log()

    async def alone(job: Job[Note]) -> Outcome:
        lane = job.payload.text[0]
        assert lane not in running
        running.add(lane)
        await asyncio.sleep(0.001)
        running.remove(lane)
        return await log(job)

    async with working(db, {"note": handler(alone)}):
        for number in range(10):
            for lane in "abc":
                await put(db, f"{lane}{number}", ordering_key=lane)
        await log.wait_for(30)
    for lane in "abc":
        assert [one for one in log.seen if one[0] == lane] == [f"{lane}{number}" for number in range(10)]


async def test_a_job_that_raises_is_run_again_and_dead_when_it_has_failed_often_enough(db: Database) -> None:
    seen: list[tuple[int, int]] = []

    async def fails(job: Job[Note]) -> Outcome:
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


async def recurses(job: Job[Note]) -> Outcome:
    return await recurses(job)


async def answers_nothing(job: Job[Note]) -> Any:
    return None


async def cancels_itself(job: Job[Note]) -> Never:
    raise asyncio.CancelledError


async def never_ends(job: Job[Note]) -> Outcome:
    await asyncio.Event().wait()
    return Done()


@pytest.mark.parametrize(
    ("poison", "reason"),
    [
        (exits, "SystemExit: 3"),
        (recurses, "RecursionError"),
        (answers_nothing, "the handler answered None"),
        (cancels_itself, "the handler cancelled itself"),
        (never_ends, "took longer than 0.05 s"),
    ],
)
async def test_a_poisonous_job_ends_itself_and_not_the_worker(db: Database, poison: Any, reason: str) -> None:
    log = Log()
    table = {
        "poison": handler(poison, max_attempts=1, timeout=timedelta(milliseconds=50)),
        "note": handler(log),
    }

    async def dead() -> bool:
        return any(row.state == "dead" and row.error.startswith(reason) for row in await rows(db))

    async with working(db, table):
        await put(db, "x", kind="poison")
        await until(dead)
        await put(db, "after")
        await log.wait_for(1)


async def test_a_payload_that_cannot_be_read_is_dead_and_the_worker_goes_on(db: Database) -> None:
    log = Log()
    await put(db, "unreadable")
    async with db.write() as tx:
        await tx.execute(text("UPDATE jobs SET payload = '{\"text\": 5}'"))
    async with working(db, {"note": handler(log)}):
        await put(db, "readable")
        await log.wait_for(1)
    (row,) = await rows(db)
    assert (row.state, row.error[:28]) == ("dead", "the payload cannot be read: ")


async def test_what_a_dead_job_leaves_behind_is_put_right_in_the_same_transaction(db: Database) -> None:
    told: list[tuple[str, str]] = []

    async def on_dead(tx: Write, job: Job[Note], reason: str) -> None:
        told.append((job.payload.text, reason))
        # Nobody else sees the job dead before this has ended well.
        async with db.read() as outside:
            assert await outside.scalar(text("SELECT state FROM jobs")) == "running"

    async def gives_up(job: Job[Note]) -> Outcome:
        return Dead("nobody wants it")

    async def dead() -> bool:
        return await states(db) == ["dead"]

    async with working(db, {"note": handler(gives_up, on_dead=on_dead)}):
        await put(db, "x")
        await until(dead)
    assert told == [("x", "nobody wants it")]


async def test_a_job_whose_end_cannot_be_written_down_is_kept_and_the_worker_goes_on(db: Database) -> None:
    log = Log()

    async def on_dead(tx: Write, job: Job[Note], reason: str) -> None:
        raise LookupError

    async def gives_up(job: Job[Note]) -> Outcome:
        return Dead("nobody wants it")

    async def waits() -> bool:
        return await states(db) == ["waiting"]

    async with working(db, {"bad": handler(gives_up, on_dead=on_dead), "note": handler(log)}):
        await put(db, "x", kind="bad")
        await until(waits)
        await put(db, "after")
        await log.wait_for(1)


async def test_a_handler_may_ask_to_be_run_again(db: Database) -> None:
    seen: list[tuple[int, int]] = []
    log = Log()

    async def twice(job: Job[Note]) -> Outcome:
        seen.append((job.attempt, job.failures))
        if job.attempt == 1:
            raise LookupError
        if job.attempt == 2:
            return Again(timedelta(milliseconds=20))
        return await log(job)

    async with working(db, {"note": handler(twice, **AT_ONCE)}):
        await put(db, "x")
        await log.wait_for(1)
        await until_empty(db)
    assert seen == [(1, 0), (2, 1), (3, 0)]


async def test_no_more_run_at_once_than_the_kind_allows(db: Database) -> None:
    running, most = 0, 0
    log = Log()

    async def counted(job: Job[Note]) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return await log(job)

    async with working(db, {"note": handler(counted, concurrency=3)}):
        await put(db, *(str(number) for number in range(15)))
        await log.wait_for(15)
    assert most == 3


async def test_one_groups_backlog_does_not_delay_another(db: Database) -> None:
    begun = asyncio.Event()
    log = Log()

    async def hangs(job: Job[Note]) -> Outcome:
        if job.payload.text == "big":
            await begun.wait()
        return await log(job)

    async with working(db, {"note": handler(hangs, concurrency=8, per_group=2)}):
        await put(db, *["big"] * 20, group="big")
        await put(db, "small", group="small")
        assert await log.wait_for(1) == ["small"]
        await until(lambda: _are(db, ["ready"] * 18 + ["running"] * 2))
        begun.set()
        await log.wait_for(21)


async def _are(db: Database, expected: list[str]) -> bool:
    return sorted(await states(db)) == expected


async def test_jobs_that_run_when_the_worker_stops_finish_within_the_grace(db: Database) -> None:
    log, started = Log(), asyncio.Event()

    async def takes_a_while(job: Job[Note]) -> Outcome:
        started.set()
        await asyncio.sleep(0.2)
        return await log(job)

    async with working(db, {"note": handler(takes_a_while, concurrency=1)}) as worker:
        await put(db, "running", "not claimed any more", ordering_key="l")
        await started.wait()
        await worker.stop(grace=timedelta(seconds=5))
        assert log.seen == ["running"]
    assert await states(db) == ["ready"]


async def test_the_leases_are_kept_for_the_whole_grace(db: Database) -> None:
    started, second = asyncio.Event(), Log()

    async def takes_longer_than_the_lease(job: Job[Note]) -> Outcome:
        started.set()
        await asyncio.sleep(1.0)
        return Done()

    options = {"lease": timedelta(milliseconds=400), "heartbeat": timedelta(milliseconds=100)}
    async with working(db, {"note": handler(takes_longer_than_the_lease)}, **options) as worker:
        await put(db, "x")
        await started.wait()
        async with working(db, {"note": handler(second)}):
            await worker.stop(grace=timedelta(seconds=5))
            assert second.seen == []
    assert await states(db) == []


async def test_what_does_not_finish_within_the_grace_is_due_again_at_once(db: Database) -> None:
    started = asyncio.Event()

    async def hangs(job: Job[Note]) -> Outcome:
        started.set()
        return await never_ends(job)

    async with working(db, {"note": handler(hangs)}) as worker:
        await put(db, "x")
        await started.wait()
        begun = time.monotonic()
        await worker.stop(grace=timedelta(milliseconds=50))
        assert time.monotonic() - begun < 4
    (row,) = await rows(db)
    assert (row.state, row.failures, row.losses) == ("ready", 0, 0)
    log = Log()
    async with working(db, {"note": handler(log)}):
        await log.wait_for(1)


async def test_a_worker_that_is_cancelled_gives_back_what_it_runs(db: Database) -> None:
    started = asyncio.Event()

    async def hangs(job: Job[Note]) -> Outcome:
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
async def test_a_worker_that_was_only_slow_cannot_write_once_another_has_its_job(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(text("CREATE TABLE effects (attempt integer)"))
    late, lost, log = asyncio.Event(), asyncio.Event(), Log()

    async def effect(job: Job[Note]) -> Outcome:
        async with db.write() as tx:
            await fence(tx, job)
            await tx.execute(text("INSERT INTO effects VALUES (:attempt)"), {"attempt": job.attempt})
        return Done()

    async def slow(job: Job[Note]) -> Outcome:
        await late.wait()
        try:
            return await effect(job)
        except JobLost:
            lost.set()
            raise

    async def quick(job: Job[Note]) -> Outcome:
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
async def test_a_job_whose_lease_was_lost_is_cut_off_at_the_next_heartbeat(db: Database) -> None:
    started, cut = asyncio.Event(), asyncio.Event()

    async def hangs(job: Job[Note]) -> Outcome:
        started.set()
        try:
            return await never_ends(job)
        finally:
            cut.set()

    async with working(db, {"note": handler(hangs)}, heartbeat=timedelta(milliseconds=20)):
        await put(db, "x")
        await started.wait()
        async with db.write() as tx:
            await tx.execute(text("UPDATE jobs SET attempt = attempt + 1, worker = 'another'"))
        async with asyncio.timeout(2):
            await cut.wait()
    (row,) = await rows(db)
    assert (row.state, row.worker) == ("running", "another")


@only_postgresql
async def test_what_a_vanished_worker_ran_is_taken_over_when_its_lease_ends(db: Database) -> None:
    log = Log()
    await put(db, "x")
    await take(db, worker="vanished", lease=timedelta(milliseconds=300))
    async with working(db, {"note": handler(log)}):
        begun = time.monotonic()
        await log.wait_for(1)
        assert 0.2 < time.monotonic() - begun < 5


async def test_a_job_that_has_killed_too_many_workers_is_dead(db: Database) -> None:
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


async def test_two_workers_share_the_work_and_do_none_of_it_twice(db: Database, database_url: str) -> None:
    log = Log()

    async def ten(job: Job[Note]) -> Outcome:
        await asyncio.sleep(0.001)
        return await log(job)

    async with (
        Database.open(database_url) as other,
        working(db, {"note": handler(ten)}),
        working(other, {"note": handler(ten)}),
    ):
        for lane in "abcdef":
            await put(db, *(f"{lane}{number}" for number in range(10)), ordering_key=lane)
        await log.wait_for(60)
        await until_empty(db)
    assert len(log.seen) == len(set(log.seen)) == 60
    for lane in "abcdef":
        assert [one for one in log.seen if one[0] == lane] == [f"{lane}{number}" for number in range(10)]


async def test_a_worker_that_stops_while_jobs_end_leaves_none_marked_as_running(db: Database) -> None:
    begun = asyncio.Event()

    async def quick(job: Job[Note]) -> Outcome:
        begun.set()
        await asyncio.sleep(0)
        return Done()

    await put(db, *(str(number) for number in range(200)))
    async with working(db, {"note": handler(quick, concurrency=8)}, grace=timedelta(seconds=30)):
        await begun.wait()
    assert {row.state for row in await rows(db)} <= {"ready"}
