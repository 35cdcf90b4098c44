"""Two networks in two schemas of one PostgreSQL: each has its own rows, locks and notifications."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text
from tests import databases
from tests.api.trade import ORDERS, Trade, trade
from tests.db.test_migrate import an_empty_one, schema
from tests.jobs.support import NEVER, Log, handler, nothing, put, working
from tests.service import merchant, service
from tests.waiting import PATIENCE

from mercato.features.doctor import State, _workers
from mercato.features.schema import SCHEMA
from mercato.platform.db import migrate as module
from mercato.platform.db import postgresql
from mercato.platform.db.changes import ChangeFeed, announce
from mercato.platform.db.copy import CopyError, copy
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import UnusableUrl
from mercato.platform.db.migrate import find_revision, migrate
from mercato.platform.db.url import sqlalchemy_url
from mercato.platform.jobs import queue
from mercato.platform.jobs.claim import Rotation, claim


class Two(NamedTuple):
    """The URLs of two networks in one database, and the database's own."""

    berlin: str
    vienna: str
    database: str


def in_schema(url: str, path: str) -> str:
    return (
        sqlalchemy_url(url)
        .update_query_dict({"options": f"-csearch_path={path}"})
        .render_as_string(hide_password=False)
    )


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Two]:
    """Two schemas without tables; the name of one must be quoted."""
    async with an_empty_one("postgresql", tmp_path) as url:
        await databases.run(url, 'CREATE SCHEMA berlin; CREATE SCHEMA "Wien"')
        yield Two(in_schema(url, "berlin"), in_schema(url, '"Wien"'), url)


@pytest.fixture
async def two(empty: Two) -> Two:
    await migrate(empty.berlin, SCHEMA)
    await migrate(empty.vienna, SCHEMA)
    return empty


async def test_each_schema_has_all_tables_and_the_database_has_no_others(two: Two):
    berlin, vienna = await schema(two.berlin), await schema(two.vienna)
    assert berlin.keys() == vienna.keys()
    async with Database.open(two.database) as db, db.read() as tx:
        made = text("SELECT DISTINCT schemaname FROM pg_tables WHERE schemaname !~ '^(pg_|information_)'")
        assert sorted(row[0] for row in await tx.all(made)) == ["Wien", "berlin"]


async def test_networks_side_by_side_know_nothing_of_each_other(two: Two, tmp_path: Path):
    async with AsyncExitStack() as stack:
        theres: list[Trade] = []
        for number, url in enumerate(two[:2]):
            shop = await stack.enter_async_context(merchant())
            mercato = await stack.enter_async_context(service(url, tmp_path / str(number)))
            theres.append(await trade(mercato, shop))
        berlin, vienna = theres
        order = (await berlin.placed())["orderId"]
        # Nobody handles this kind: the job stays.
        await put(berlin.mercato.app.db, "x", kind="unhandled")
        for own, other in ((berlin, vienna), (vienna, berlin)):
            found = (await own.front.post("/v1/marketfront/stores/discover", {})).json()["stores"]
            assert [store["storeId"] for store in found] == [own.store["storeId"]]
            assert (await replace(own.front, base=other.front.base).get(f"{ORDERS}/{order}")).status == 401
        for there, status, count in ((berlin, 200, 1), (vienna, 404, 0)):
            assert (await there.front.get(f"{ORDERS}/{order}")).status == status
            async with there.mercato.app.db.read() as tx:
                assert await tx.scalar(text("SELECT count(*) FROM orders")) == count
            figures = (await there.mercato.anonymous().get("/metrics")).body.decode()
            assert ('kind="unhandled"' in figures) == bool(count)
            assert figures.count("\nmercato_orders_placed_total 1") == count


async def test_a_job_wakes_the_workers_of_its_own_network_alone(two: Two):
    heard: list[tuple[str, str]] = []
    async with AsyncExitStack() as stack:
        berlin, vienna = [await stack.enter_async_context(Database.open(url)) for url in two[:2]]
        listening = asyncio.Semaphore(0)

        def listener(name: str) -> asyncio.Task[None]:
            def hear(kind: str) -> None:
                if kind:
                    heard.append((name, kind))
                listening.release()

            url = two.berlin if name == "berlin" else two.vienna
            return asyncio.create_task(postgresql.listen(url, queue.CHANNEL, hear))

        tasks = [listener("berlin"), listener("vienna")]
        async with asyncio.timeout(PATIENCE):
            for _ in tasks:
                await listening.acquire()
            await put(berlin, "x")
            # A database's notifications arrive in the order of their commits.
            await put(vienna, "y", kind="other")
            for _ in range(2):
                await listening.acquire()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert heard == [("berlin", "note"), ("vienna", "other")]


async def test_a_worker_hears_of_a_job_that_another_process_of_its_network_enqueues(two: Two):
    log = Log()
    async with (
        Database.open(two.vienna) as db,
        Database.open(two.vienna) as other,
        working(db, {"note": handler(log)}, poll=NEVER),
    ):
        async with asyncio.timeout(PATIENCE), other.read() as tx:
            while (await _workers(tx)).state is not State.OK:
                await asyncio.sleep(0.01)
        await put(other, "heard")
        await log.wait_for(1)


async def test_the_doctor_counts_the_workers_of_its_own_network_even_after_they_have_checked_their_connection(
    two: Two, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgresql, "CHECK_SECONDS", 0.01)
    checked = text("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT 1'")
    async with (
        Database.open(two.berlin) as berlin,
        Database.open(two.vienna) as vienna,
        working(berlin, {"note": handler(nothing)}),
        berlin.read() as own,
        vienna.read() as others,
    ):
        async with asyncio.timeout(PATIENCE):
            while not await own.scalar(checked):
                await asyncio.sleep(0.01)
        assert (await _workers(own)).message == "1 do background work"
        assert (await _workers(others)).state is State.WRONG


async def test_a_migration_does_not_wait_for_that_of_another_network(empty: Two):
    async with Database.open(empty.berlin) as berlin, berlin.write() as tx:
        await tx.execute(text(f"SELECT pg_advisory_xact_lock({module.LOCK})"))
        async with asyncio.timeout(PATIENCE):
            await migrate(empty.vienna, SCHEMA)


async def test_a_limit_on_running_jobs_counts_and_locks_in_its_own_network(two: Two):
    limited = handler(nothing, total_concurrency=1)
    async with Database.open(two.berlin) as berlin, Database.open(two.vienna) as vienna:
        await put(berlin, "x")
        await put(vienna, "x")
        options: Any = {"worker": "w", "lease": NEVER, "free": 1}
        # Neither transaction ends before the other has claimed.
        async with asyncio.timeout(PATIENCE), berlin.write() as first, vienna.write() as second:
            for tx in (first, second):
                assert len(await claim(tx, "note", limited, rotation=Rotation(), **options)) == 1


async def test_the_change_feed_calls_back_for_its_own_network(two: Two):
    async with Database.open(two.berlin) as berlin, Database.open(two.vienna) as vienna:
        seen: list[str | None] = []
        async with Database.open(two.berlin) as other:
            feed = ChangeFeed(other)
            feed.subscribe("topic", seen.append)
            await feed.poll()
            async with vienna.write() as tx:
                await announce(tx, "topic", "vienna")
            async with berlin.write() as tx:
                await announce(tx, "topic", "berlin")
            await feed.poll()
    assert seen == [None, "berlin"]


async def test_one_network_is_copied_while_another_is_in_use(two: Two, tmp_path: Path):
    async def finish() -> None:
        return

    target = f"sqlite:///{tmp_path / 'copy.db'}"
    async with Database.open(two.vienna) as vienna:
        async with vienna.read() as tx:
            assert await find_revision(tx) == SCHEMA.head
        await copy(two.berlin, target, SCHEMA, finish=finish)
        with pytest.raises(CopyError, match=r"Wien is in use\. Stop its servers"):
            await copy(two.vienna, f"{target}.other", SCHEMA, finish=finish)


async def test_another_schema_of_the_same_database_is_not_a_replica(two: Two):
    async with Database.open(two.berlin, replica_url=two.vienna) as db:
        assert db.replica is not None
        assert not await db.replica.check()
        assert not db.replica.is_fresh()
    async with Database.open(two.berlin, replica_url=two.berlin) as db:
        assert db.replica is not None
        assert await db.replica.check()


async def test_a_schema_that_does_not_exist_is_refused_with_what_to_do(two: Two):
    with pytest.raises(UnusableUrl, match=r"no schema rome\. Create it with CREATE SCHEMA"):
        await migrate(in_schema(two.database, "rome"), SCHEMA)


async def test_a_path_by_which_two_networks_would_share_tables_is_refused(two: Two):
    await databases.run(two.database, "CREATE SCHEMA rome")
    with pytest.raises(UnusableUrl, match="tables in the schema berlin, but new ones would be made in rome"):
        await migrate(in_schema(two.database, "rome,berlin"), SCHEMA)
    async with Database.open(in_schema(two.database, "rome,berlin")) as db, db.read() as tx:
        assert await find_revision(tx) is None
