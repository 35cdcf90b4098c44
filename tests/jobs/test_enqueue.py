import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select
from tests.jobs.support import NEVER, Log, Note, handler, put, rows, states, take, texts, working
from tests.waiting import PATIENCE

from mercato.platform.db import postgresql
from mercato.platform.db.engine import Database
from mercato.platform.db.postgresql import channel_of
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import Done, Job, JobOutcome, Worker, enqueue, queue


async def test_a_transaction_that_rolls_back_enqueues_nothing(db: Database) -> None:
    log = Log()
    async with working(db, {"note": handler(log)}):
        with pytest.raises(LookupError):  # noqa: PT012  # the whole block is what is tested
            async with db.write() as tx:
                await enqueue(tx, "note", Note("rolled back"))
                raise LookupError
        await put(db, "committed")
        await log.wait_for(1)
    assert log.seen == ["committed"]
    assert await rows(db) == []


async def test_a_job_is_stored_by_its_transaction_even_if_no_worker_runs(db: Database) -> None:
    (number,) = await put(db, "later", ordering_key="l", group="g", dedup="d")
    (row,) = await rows(db)
    assert (row.id, row.kind, row.ordering_key, row.group_key, row.dedup) == (number, "note", "l", "g", "d")
    assert (row.state, row.attempt) == ("ready", 0)


async def test_the_same_dedup_key_enqueues_nothing_while_a_job_is_unfinished(db: Database) -> None:
    first, second = await put(db, "first", "second", dedup="same")
    assert second is None
    assert await put(db, "other kind", kind="other", dedup="same") != [None]
    (claimed,) = await take(db)
    assert claimed.id == first
    assert await put(db, "while it runs", dedup="same") == [None]


async def test_the_dedup_key_of_a_finished_job_can_be_used_again(db: Database) -> None:
    log = Log()
    async with working(db, {"note": handler(log)}):
        for number in range(3):
            await put(db, str(number), dedup="same")
            await log.wait_for(number + 1)
            while await rows(db):
                pass
    assert log.seen == ["0", "1", "2"]


@pytest.mark.parametrize("form", ["instant", "time from now"])
async def test_a_delayed_job_runs_when_it_is_due_and_not_before(db: Database, form: str) -> None:
    log = Log()
    delay = timedelta(milliseconds=400)
    async with working(db, {"note": handler(log)}, poll=NEVER):
        async with db.write() as tx:
            started_at = time.monotonic()
            at = datetime.now(UTC) + delay if form == "instant" else delay
            await enqueue(tx, "note", Note("delayed"), run_at=at)
            # Before it commits, so that a slow machine reads the state no later than the job is due.
            assert await tx.scalar(select(jobs.c.state)) == "waiting"
        await log.wait_for(1)
    assert time.monotonic() - started_at >= 0.39


async def test_each_delayed_job_runs_when_it_is_due_though_another_is_still_running(db: Database) -> None:
    log, finish = Log(), asyncio.Event()

    async def hangs(job: Job[Note]) -> JobOutcome:
        await log(job)
        await finish.wait()
        return Done()

    async with working(db, {"note": handler(hangs)}, poll=NEVER):
        started_at = time.monotonic()
        await put(db, "first", run_at=timedelta(milliseconds=100))
        await put(db, "second", run_at=timedelta(milliseconds=300))
        await log.wait_for(2)
        assert time.monotonic() - started_at >= 0.29
        finish.set()


async def test_a_job_with_a_past_instant_is_due_at_once(db: Database) -> None:
    await put(db, "late", run_at=datetime(2020, 1, 1, tzinfo=UTC))
    await put(db, "very late", run_at=timedelta(days=-1))
    assert await states(db) == ["ready", "ready"]


async def test_jobs_without_an_ordering_key_run_in_parallel(db: Database) -> None:
    await put(db, *"abcdef")
    assert sorted(texts(await take(db))) == list("abcdef")


async def test_a_kind_without_a_handler_waits_for_a_worker_that_has_one(db: Database) -> None:
    log = Log()
    await put(db, "new", kind="of a newer version")
    async with working(db, {"note": handler(log)}):
        await put(db, "known")
        await log.wait_for(1)
    assert await states(db) == ["ready"]


async def test_a_worker_that_was_stopped_before_it_ran_ends(db: Database) -> None:
    worker = Worker(db, {})
    await worker.stop(grace=timedelta(0))
    await worker.run()


@pytest.mark.parametrize(
    ("wait", "signals"),
    [(None, ["note"]), (timedelta(seconds=1), ["note"]), (timedelta(minutes=1), [])],
    ids=["now", "soon", "later"],
)
async def test_a_job_that_is_due_later_sends_no_signal(
    db: Database, wait: timedelta | None, signals: list[str]
) -> None:
    received: list[str] = []
    notified: list[str] = []
    db.signals.listen(queue.TOPIC, received.append)
    listening = asyncio.Event()

    def notify(word: str) -> None:
        if word:
            notified.append(word)
        listening.set()

    listener = None
    if db.dialect == "postgresql":
        listener = asyncio.create_task(postgresql.listen(db.url, queue.CHANNEL, notify))
        await listening.wait()
    async with db.write() as tx:
        await enqueue(tx, "note", Note("x"), run_at=wait)
    if listener is not None:
        # Notifications arrive in order: after this one no earlier one can follow.
        async with db.write() as tx:
            await tx.execute(select(func.pg_notify(channel_of(queue.CHANNEL), "end")))
        async with asyncio.timeout(PATIENCE):
            while "end" not in notified:
                await asyncio.sleep(0.01)
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
        assert notified == [*signals, "end"]
    assert received == signals
