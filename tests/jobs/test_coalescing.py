"""Jobs that only say that their ordering key has work: one run replaces all that are ready, and misses none."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import text, update
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
    until_empty,
    working,
)

from mercato.platform.db.engine import Database
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import Done, Job, JobLost, JobOutcome, Settled, enqueue, finish, put_back
from mercato.platform.jobs.maintenance import move_orphans

COALESCING = handler(nothing, coalesces=True)


async def test_a_claim_deletes_the_ready_jobs_of_its_key_and_no_others(db: Database) -> None:
    await put(db, "a", "b", "c", ordering_key="one")
    await put(db, "later", ordering_key="one", run_at=timedelta(hours=1))
    await put(db, "x", ordering_key="two")
    await put(db, "other", ordering_key="one", kind="other")
    one, two = await take(db, COALESCING)
    assert (one.ordering_key, two.ordering_key) == ("one", "two")
    assert sorted(await states(db)) == ["ready", "running", "running", "waiting"]


async def test_a_run_is_due_when_the_last_job_that_it_replaces_was_even_after_a_crash(db: Database) -> None:
    await put(db, "a", ordering_key="one", run_at=timedelta(seconds=-5))
    async with db.write() as tx:
        last = await enqueue(tx, "note", Note("b"), ordering_key="one")
    assert last is not None
    (run,) = await take(db, COALESCING)
    assert run.run_at == last.run_at
    async with db.write() as tx:
        await move_orphans(tx)
    (again,) = await take(db, COALESCING)
    assert (again.id, again.run_at) == (run.id, last.run_at)


async def test_a_job_that_is_enqueued_while_its_key_runs_follows_that_run(db: Database) -> None:
    await put(db, "a", ordering_key="one")
    (run,) = await take(db, COALESCING)
    await put(db, "b", ordering_key="one")
    assert await take(db, COALESCING) == []
    async with db.write() as tx:
        await finish(tx, run)
    assert len(await take(db, COALESCING)) == 1


@only_postgresql
async def test_a_job_that_commits_after_its_key_was_claimed_and_finished_is_run(
    db: Database,
) -> None:
    await put(db, "a", ordering_key="one")
    async with db.write() as open_:
        await enqueue(open_, "note", Note("b"), ordering_key="one")
        (run,) = await take(db, COALESCING)
        async with db.write() as tx:
            await finish(tx, run)
        assert await take(db, COALESCING) == []
    assert len(await take(db, COALESCING)) == 1


async def test_a_job_that_is_put_back_is_run_again_without_its_losses(
    db: Database,
) -> None:
    log = Log()

    async def in_parts(job: Job[Note]) -> JobOutcome:
        await log.add(job.payload.text)
        if len(log.seen) < 3:
            assert job.losses == (1 if len(log.seen) == 1 else 0)
            async with db.write() as tx:
                await put_back(tx, job)
            return Settled()
        return Done()

    await put(db, "a", ordering_key="one")
    async with db.write() as tx:
        await tx.execute(update(jobs).values(losses=1))
    async with working(db, {"note": handler(in_parts, coalesces=True)}):
        await log.wait_for(3)
        await until_empty(db)


async def test_a_worker_that_lost_a_job_cannot_put_it_back(db: Database) -> None:
    await put(db, "a", ordering_key="one")
    (run,) = await take(db, COALESCING)
    async with db.write() as tx:
        await move_orphans(tx)
    with suppress(JobLost):
        async with db.write() as tx:
            await put_back(tx, run)
        raise AssertionError("it was put back")
    assert [row.losses for row in await rows(db)] == [1]


async def test_no_work_is_missed_that_is_added_while_runs_start_and_end(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(text("CREATE TABLE work (name TEXT, due BIGINT, is_done INTEGER)"))

    async def do_all(job: Job[Note]) -> JobOutcome:
        due = int(job.run_at.timestamp() * 1000 + 0.5)
        async with db.read() as reader:
            found = await reader.all(
                text("SELECT name FROM work WHERE is_done = 0 AND due <= :due"), {"due": due}
            )
        await asyncio.sleep(0)
        async with db.write() as tx:
            for row in found:
                await tx.execute(text("UPDATE work SET is_done = 1 WHERE name = :name"), {"name": row.name})
            await finish(tx, job)
        return Settled()

    async def add(writer: int) -> None:
        for number in range(40):
            async with db.write() as tx:
                enqueued = await enqueue(tx, "note", Note(), ordering_key=f"key{number % 2}")
                assert enqueued is not None
                row = {"name": f"{writer}:{number}", "due": int(enqueued.run_at.timestamp() * 1000 + 0.5)}
                await tx.execute(text("INSERT INTO work VALUES (:name, :due, 0)"), row)
                await asyncio.sleep(0)

    async with working(db, {"note": handler(do_all, coalesces=True)}):
        await asyncio.gather(*(add(writer) for writer in range(6)))
        await until_empty(db)
    async with db.read() as reader:
        left = await reader.all(text("SELECT name FROM work WHERE is_done = 0"))
        total = await reader.scalar(text("SELECT count(*) FROM work"))
    assert (left, total) == ([], 240)
