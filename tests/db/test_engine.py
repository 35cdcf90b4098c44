import asyncio
import random
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, exc, insert, select, text, update
from sqlalchemy.dialects import postgresql
from tests.databases import only_postgresql, only_sqlite
from tests.waiting import lengthening

from mercato.platform.db.engine import PER_ROW, Database, Read, Write
from mercato.platform.db.errors import DatabaseUnavailable, is_unavailable
from mercato.platform.db.statements import Compiler, prepared_insert

counters = Table("counters", MetaData(), Column("name", Text, primary_key=True), Column("value", Integer))
put_counter = prepared_insert(counters)
first_counter = select(counters.c.value).where(counters.c.name == "first")


@pytest.fixture(autouse=True)
async def _counters(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(text("CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER)"))
        await tx.execute(insert(counters).values(name="first", value=0))


async def value(db: Database) -> int:
    async with db.read() as tx:
        found: int = await tx.scalar(first_counter)
    return found


async def add_one(db: Database) -> None:
    async with db.write() as tx:
        before = await tx.scalar(first_counter.with_for_update())
        await asyncio.sleep(0)
        await tx.execute(update(counters).values(value=before + 1))


async def test_a_transaction_commits_at_the_end_of_its_block(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(update(counters).values(value=5))
        assert await value(db) == 0
    assert await value(db) == 5


async def test_a_transaction_whose_block_raises_leaves_nothing(db: Database) -> None:
    with pytest.raises(LookupError):  # noqa: PT012  # the whole block is what is tested
        async with db.write() as tx:
            await tx.execute(update(counters).values(value=5))
            raise LookupError
    assert await value(db) == 0


async def test_a_reader_cannot_write(db: Database) -> None:
    async with db.read() as tx:
        with pytest.raises(exc.DBAPIError) as refused:
            await tx.execute(update(counters).values(value=5))
    assert not is_unavailable(refused.value)
    assert await value(db) == 0


async def test_callbacks_run_after_the_commit_in_order(db: Database) -> None:
    calls: list[str] = []
    async with db.write() as tx:
        tx.after_commit(lambda: calls.append("first"))
        tx.after_commit(lambda: calls.append("second"))
        assert calls == []
    assert calls == ["first", "second"]


async def test_callbacks_of_a_transaction_that_rolled_back_never_run(db: Database) -> None:
    calls: list[str] = []
    with pytest.raises(LookupError):  # noqa: PT012  # the whole block is what is tested
        async with db.write() as tx:
            tx.after_commit(lambda: calls.append("wrong"))
            raise LookupError
    assert calls == []


@only_postgresql
async def test_a_transaction_whose_block_hides_an_error_is_not_taken_for_committed(db: Database) -> None:
    seen: list[str] = []
    with pytest.raises(exc.InvalidRequestError, match="went on after an error"):  # noqa: PT012  # as above
        async with db.write() as tx:
            await tx.execute(update(counters).values(value=5))
            tx.after_commit(lambda: seen.append("committed"))
            with suppress(exc.DBAPIError):
                await tx.execute(text("SELECT 1 / 0"))
    assert (await value(db), seen) == (0, [])
    await add_one(db)
    assert await value(db) == 1


async def test_sixty_transactions_that_read_and_then_write_end_at_sixty(db: Database) -> None:
    await asyncio.gather(*(add_one(db) for _ in range(60)))
    assert await value(db) == 60


async def test_two_openings_of_one_database_lose_no_update(db: Database) -> None:
    async with Database.open(db.url) as other:
        await asyncio.gather(*(add_one(which) for which in (db, other) * 20))
    assert await value(db) == 40


async def test_cancelled_transactions_leave_the_database_usable_and_are_atomic(db: Database) -> None:
    rng = random.Random(7)
    done = 0

    async def sometimes() -> None:
        nonlocal done
        await add_one(db)
        done += 1

    for _ in range(40):
        task = asyncio.create_task(sometimes())
        for _ in range(rng.randrange(12)):
            await asyncio.sleep(0)
        await asyncio.sleep(rng.random() * 0.002)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await add_one(db)
    # A task may be cancelled during its commit: the row counts, but the task does not return.
    assert done + 1 <= await value(db) <= 41


async def test_waiting_for_a_connection_times_out(db: Database, database_url: str) -> None:
    for seconds in lengthening(0.05):
        limit = timedelta(seconds=seconds)
        async with (
            Database.open(database_url, pool_size=1, pool_timeout=limit) as small,
            AsyncExitStack() as stack,
        ):
            try:
                held = await stack.enter_async_context(small.write())
                await held.execute(text("SELECT 1"))
            except DatabaseUnavailable:  # connecting took longer
                continue
            with pytest.raises(DatabaseUnavailable) as refused:
                async with small.write() as tx:
                    await tx.execute(text("SELECT 1"))
            break
    assert is_unavailable(refused.value)


@only_postgresql
async def test_blocks_that_lock_one_row_leave_connections_to_others(db: Database, database_url: str) -> None:
    held, released = 0, asyncio.Event()
    row, other = uuid4(), uuid4()
    all_in = asyncio.Event()

    async def hold() -> None:
        nonlocal held
        async with few.write(locks=row) as tx:
            await tx.execute(text("SELECT 1"))
            held += 1
            if held == PER_ROW:
                all_in.set()
            await released.wait()

    async with Database.open(database_url, pool_size=PER_ROW + 1) as few:
        blocks = [asyncio.create_task(hold()) for _ in range(4 * PER_ROW)]
        await all_in.wait()
        for locks in (None, other):
            async with few.write(locks=locks) as tx:
                await tx.execute(text("SELECT 1"))
        assert held == PER_ROW
        # One that waits for its turn may be cancelled.
        blocks[-1].cancel()
        released.set()
        results = await asyncio.gather(*blocks, return_exceptions=True)
        assert [type(result) for result in results] == [type(None)] * (len(blocks) - 1) + [
            asyncio.CancelledError
        ]
        assert held == len(blocks) - 1


def test_a_prepared_statement_is_compiled_once() -> None:
    compiler = Compiler(postgresql.dialect())
    form = compiler.compile(put_counter, {})
    assert compiler.compile(put_counter, {"name": "first", "value": 1}) is form


async def test_many_rows_are_written_by_one_statement(db: Database) -> None:
    rows = [{"name": f"n{number}", "value": number} for number in range(50)]
    async with db.write() as tx:
        await tx.execute(insert(counters), rows)
        changed = await tx.execute(
            update(counters).where(counters.c.value >= bindparam("least")).values(value=0), {"least": 25}
        )
        assert changed.rowcount == 25
        assert len(await tx.all(select(counters))) == 51
        found = await tx.first(select(counters).where(counters.c.name == "n7"))
        assert found is not None
        assert found.value == 7
        assert await tx.first(select(counters).where(counters.c.name == "nobody")) is None


@only_sqlite
async def test_a_block_that_reads_on_sqlite_is_one_snapshot(db: Database) -> None:
    async with db.read() as tx:
        assert await tx.scalar(first_counter) == 0
        await add_one(db)
        assert await tx.scalar(first_counter) == 0
    assert await value(db) == 1


@only_sqlite
async def test_one_read_after_the_other_uses_one_connection_whatever_ran_beside_them(db: Database) -> None:
    """Each connection has a cache of its own: a report that used them in turns would fill the caches of several."""
    async with db.read() as report:
        beside = db.read()
        other = await beside.__aenter__()
    # It ends last, as a long statement does.
    await beside.__aexit__(None, None, None)
    async with db.read() as following:
        assert _connection(following) is _connection(report)
        assert _connection(following) is not _connection(other)


@only_sqlite
async def test_what_connections_that_read_keep_of_the_file_is_small_whatever_they_have_read(
    db: Database,
) -> None:
    """A report reads all of it once, and a block of several connections at a time: their caches add up."""
    async with db.read() as one, db.read() as other, db.write() as writer:
        kib = [-await tx.scalar(text("PRAGMA cache_size")) for tx in (one, other, writer)]
    assert kib[0] == kib[1] <= 2_000
    assert kib[2] == 16_000


def _connection(tx: Read) -> object:
    return getattr(tx.execute, "__self__", None)


async def test_read_replica_returns_the_result_of_its_block_which_cannot_write(db: Database) -> None:
    async def found(tx: Read) -> list[int]:
        return [row.value for row in await tx.all(select(counters))]

    async def writes(tx: Read) -> None:
        await tx.execute(update(counters).values(value=5))

    assert await db.read_replica(found) == [0]
    with pytest.raises(exc.DBAPIError) as refused:
        await db.read_replica(writes)
    assert not is_unavailable(refused.value)
    assert await db.read_replica(found) == [0]


@only_sqlite
async def test_read_replica_waits_for_the_previous_user_of_the_connection(
    database_url: str,
) -> None:
    for _ in range(20):
        async with Database.open(database_url, pool_size=1) as fresh:
            assert await value(fresh) == 0
            assert await fresh.read_replica(lambda tx: tx.scalar(first_counter)) == 0


@only_sqlite
async def test_a_cancelled_read_replica_leaves_the_connection_usable(db: Database, database_url: str) -> None:
    async with Database.open(database_url, pool_size=1) as small:
        for round_ in range(20):
            reader = asyncio.create_task(small.read_replica(lambda tx: tx.scalar(first_counter)))
            for _ in range(round_ % 7):
                await asyncio.sleep(0)
            reader.cancel()
            await asyncio.wait({reader})
            assert await small.read_replica(lambda tx: tx.scalar(first_counter)) == round_
            assert await value(small) == round_
            await add_one(db)


@only_sqlite
async def test_a_full_disk_rolls_back_the_whole_transaction(db: Database) -> None:
    async with db.write() as tx:
        pages = await tx.scalar(text("PRAGMA page_count"))
        await tx.execute(text(f"PRAGMA max_page_count = {pages + 2}"))
    with pytest.raises(exc.OperationalError) as full:  # noqa: PT012  # as above
        async with db.write() as tx:
            await tx.execute(update(counters).values(value=5))
            await fill(tx)
    assert is_unavailable(full.value)
    with pytest.raises(exc.OperationalError, match="rolled back"):  # noqa: PT012  # as above
        async with db.write() as tx:
            with suppress(exc.OperationalError):
                await fill(tx)
            await tx.execute(update(counters).values(value=5))
    assert await value(db) == 0


async def fill(tx: Write) -> None:
    for number in range(100):
        await tx.execute(insert(counters).values(name=f"{number:04000}", value=1))


@only_sqlite
async def test_commits_of_sqlite_survive_a_power_cut_by_its_settings(db: Database) -> None:
    async with db.write() as tx:
        assert await tx.scalar(text("PRAGMA journal_mode")) == "wal"
        assert await tx.scalar(text("PRAGMA synchronous")) == 2
        assert await tx.scalar(text("PRAGMA foreign_keys")) == 1
