"""A write reaches its own process at once and every other one within a second, whatever happens in between."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from sqlalchemy import Executable, func, select, text, update
from tests.databases import only_postgresql
from tests.waiting import PATIENCE

from mercato.platform.db import changes as module
from mercato.platform.db.changes import BATCH, MAX_POLL_AGE, RETENTION, ChangeFeed, announce
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.tables import changes
from mercato.platform.db.types import now_ms

ALL = None


class Recorder:
    """Records the calls of a subscriber, in order."""

    def __init__(self, feed: ChangeFeed, topic: str = "store") -> None:
        self.keys: list[str | None] = []
        self._any = asyncio.Event()
        feed.subscribe(topic, self)

    def __call__(self, key: str | None) -> None:
        self.keys.append(key)
        self._any.set()

    async def wait_for(self, key: str | None) -> None:
        async with asyncio.timeout(PATIENCE):
            while key not in self.keys:
                self._any.clear()
                await self._any.wait()


@pytest.fixture
async def elsewhere(database_url: str) -> AsyncIterator[Database]:
    """The same database, opened a second time, as by another process."""
    async with Database.open(database_url) as database:
        yield database


@asynccontextmanager
async def running(feed: ChangeFeed) -> AsyncIterator[None]:
    task = asyncio.create_task(feed.run())
    try:
        yield
    finally:
        feed.stop()
        await task


async def change(db: Database, key: str, topic: str = "store") -> None:
    async with db.write() as tx:
        await announce(tx, topic, key)


async def change_and_fail(db: Database, key: str) -> None:
    with suppress(ZeroDivisionError):
        async with db.write() as tx:
            await announce(tx, "store", key)
            raise ZeroDivisionError


async def age_rows(db: Database, seconds: float) -> None:
    async with db.write() as tx:
        await tx.execute(update(changes).values(at=changes.c.at - int(seconds * 1000)))


async def count(db: Database) -> int:
    async with db.read() as tx:
        return int(await tx.scalar(select(func.count()).select_from(changes)))


async def test_a_change_reaches_its_own_process_at_the_commit(db: Database) -> None:
    recorder = Recorder(ChangeFeed(db))
    async with db.write() as tx:
        await announce(tx, "store", "a")
        assert recorder.keys == []
    assert recorder.keys == ["a"]


async def test_a_rolled_back_change_is_never_delivered(db: Database) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await feed.poll()
    await change_and_fail(db, "a")
    await feed.poll()
    assert recorder.keys == [ALL]


async def test_a_change_of_another_process_is_delivered_by_polling(db: Database, elsewhere: Database) -> None:
    feed = ChangeFeed(db, interval=0.01)
    recorder = Recorder(feed)
    async with running(feed):
        await recorder.wait_for(ALL)
        await change(elsewhere, "a")
        await recorder.wait_for("a")
    assert recorder.keys == [ALL, "a"]


async def test_a_change_of_this_process_is_not_delivered_again_by_the_poll(
    db: Database, elsewhere: Database
) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await feed.poll()
    await change(db, "here")
    await change(elsewhere, "there")
    await feed.poll()
    await feed.poll()
    assert recorder.keys == [ALL, "here", "there"]


async def test_only_subscribers_of_the_topic_are_called(db: Database, elsewhere: Database) -> None:
    feed = ChangeFeed(db)
    stores, keys = Recorder(feed), Recorder(feed, "api-key")
    await feed.poll()
    await change(db, "a b c", "api-key")
    await change(elsewhere, "d", "api-key")
    await feed.poll()
    assert (stores.keys, keys.keys) == ([ALL], [ALL, "a b c", "d"])


async def test_a_callback_that_raises_does_not_affect_the_others(db: Database) -> None:
    feed = ChangeFeed(db)

    def broken(key: str | None) -> None:
        raise ZeroDivisionError(key)

    feed.subscribe("store", broken)
    recorder = Recorder(feed)
    await change(db, "a")
    await feed.poll()
    assert recorder.keys == ["a", ALL]


async def test_more_changes_than_one_statement_reads_are_all_delivered(
    db: Database, elsewhere: Database
) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await feed.poll()
    async with elsewhere.write() as tx:
        for number in range(2 * BATCH):
            await announce(tx, "store", str(number))
    await feed.poll()
    assert recorder.keys == [ALL, *map(str, range(2 * BATCH))]


@only_postgresql
async def test_a_change_that_commits_after_a_later_one_is_delivered(
    db: Database, elsewhere: Database
) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await feed.poll()
    async with elsewhere.write() as slow:
        await announce(slow, "store", "early")
        await change(elsewhere, "late")
        await feed.poll()
        assert recorder.keys == [ALL, "late"]
    await feed.poll()
    await feed.poll()
    assert recorder.keys == [ALL, "late", "early"]


@only_postgresql
async def test_a_change_that_is_still_open_when_the_feed_starts_is_delivered(
    db: Database, elsewhere: Database
) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    async with elsewhere.write() as slow:
        await announce(slow, "store", "early")
        await change(elsewhere, "late")
        await feed.poll()
    await feed.poll()
    assert recorder.keys == [ALL, "early"]


@only_postgresql
async def test_a_change_of_this_process_that_commits_late_is_delivered_once(
    db: Database, elsewhere: Database
) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await feed.poll()
    async with db.write() as slow:
        await announce(slow, "store", "early")
        await change(elsewhere, "late")
        await feed.poll()
    await feed.poll()
    assert recorder.keys == [ALL, "late", "early"]


@only_postgresql
async def test_the_feed_does_not_wait_forever_for_the_number_of_a_rolled_back_transaction(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GAP_SECONDS", -1.0)
    feed = ChangeFeed(db)
    await change(db, "a")
    await change_and_fail(db, "b")
    await change(db, "c")
    await feed.poll()
    assert feed._gaps == {}


async def test_missing_numbers_are_bounded_even_after_a_large_gap(db: Database, elsewhere: Database) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await change(db, "a")
    await feed.poll()
    async with elsewhere.write() as tx:
        await tx.execute(changes.insert().values(seq=10**9, topic="store", key="far", at=now_ms()))
    await feed.poll()
    await feed.poll()
    assert recorder.keys == ["a", ALL, "far"]
    assert len(feed._gaps) <= module.MAX_GAPS


async def test_after_an_outage_everything_may_have_changed(db: Database, elsewhere: Database) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await feed.poll()
    await change(elsewhere, "a")
    assert feed._last_success is not None
    steady, wall = feed._last_success
    feed._last_success = steady, wall - MAX_POLL_AGE - 1
    await feed.poll()
    assert recorder.keys == [ALL, ALL]
    assert feed.age() < 1


async def test_the_feed_survives_an_outage_of_the_database(
    db: Database, elsewhere: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ChangeFeed(db, interval=0.01)
    recorder = Recorder(feed)
    tried = asyncio.Event()
    real = Database.read

    @asynccontextmanager
    async def away(database: Database) -> AsyncIterator[None]:
        tried.set()
        raise ConnectionRefusedError
        yield

    async with running(feed):
        await recorder.wait_for(ALL)
        monkeypatch.setattr(Database, "read", away)
        await tried.wait()
        monkeypatch.setattr(Database, "read", real)
        await change(elsewhere, "a")
        await recorder.wait_for("a")


@only_postgresql
async def test_the_feed_survives_the_loss_of_its_connections(db: Database, elsewhere: Database) -> None:
    feed = ChangeFeed(db, interval=0.01)
    recorder = Recorder(feed)
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    async with running(feed):
        await recorder.wait_for(ALL)
        async with elsewhere.write() as tx:
            await tx.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))  # noqa: S608  # a constant
        await change(elsewhere, "a")
        await recorder.wait_for("a")


async def test_every_commit_is_delivered_exactly_once_and_no_rollback(
    db: Database, elsewhere: Database
) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await feed.poll()
    chance = random.Random(7)
    committed: list[str] = []

    async def write(key: str) -> None:
        fails = chance.random() < 0.2
        with suppress(ZeroDivisionError):
            async with elsewhere.write() as tx:
                await announce(tx, "store", key)
                for _ in range(chance.randrange(20)):
                    await asyncio.sleep(0)
                if fails:
                    raise ZeroDivisionError
        if not fails:
            committed.append(key)

    writes = [asyncio.create_task(write(str(number))) for number in range(200)]
    while not all(task.done() for task in writes):
        await feed.poll()
    await asyncio.gather(*writes)
    await feed.poll()
    assert sorted(recorder.keys[1:], key=str) == sorted(committed)


async def test_a_poll_without_changes_is_one_query(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChangeFeed(db)
    await change(db, "a")
    await feed.poll()
    queries: list[object] = []
    real = Read.all

    async def counted(tx: Read, statement: Executable) -> Any:
        queries.append(statement)
        return await real(tx, statement)

    monkeypatch.setattr(Read, "all", counted)
    await feed.poll()
    assert len(queries) == 1


async def test_before_its_first_poll_a_feed_is_infinitely_old(db: Database) -> None:
    feed = ChangeFeed(db)
    assert feed.age() == float("inf")
    await feed.poll()
    assert feed.age() < 1


async def test_old_rows_are_deleted_and_recent_ones_kept(db: Database) -> None:
    feed = ChangeFeed(db)
    async with db.write() as tx:
        for number in range(BATCH + 1):
            await announce(tx, "store", str(number))
    await feed.prune()
    assert await count(db) == BATCH + 1
    await age_rows(db, RETENTION + 1)
    await change(db, "young")
    await feed.prune()
    assert await count(db) == 1


async def test_numbers_are_never_used_twice_even_after_all_rows_are_gone(db: Database) -> None:
    feed = ChangeFeed(db)
    recorder = Recorder(feed)
    await change(db, "a")
    await feed.poll()
    await age_rows(db, RETENTION + 1)
    await feed.prune()
    await change(db, "b")
    await feed.poll()
    assert recorder.keys == ["a", ALL, "b"]
    async with db.read() as tx:
        assert await tx.scalar(select(changes.c.seq)) == 2
