"""A task that is cancelled within its transaction leaves a usable connection, or none."""

import asyncio
import sqlite3
import threading
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import Column, Executable, Integer, MetaData, Table, bindparam, exc, insert, select, text
from tests.databases import only_postgresql, only_sqlite
from tests.waiting import PATIENCE

from mercato.platform.db import sqlite
from mercato.platform.db.engine import Database
from mercato.platform.db.statements import prepared
from mercato.platform.db.url import sqlite_path

numbers = Table("numbers", MetaData(), Column("number", Integer, primary_key=True))
put = prepared(insert(numbers).values(number=bindparam("where_number")))
get = prepared(select(numbers.c.number).where(numbers.c.number == bindparam("where_number")))
TURNS = 1_000


@pytest.fixture(autouse=True)
async def _numbers(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(text("CREATE TABLE numbers (number INTEGER PRIMARY KEY)"))


async def written(db: Database) -> set[int]:
    async with db.read() as tx:
        return {row.number for row in await tx.all(select(numbers.c.number))}


async def find(db: Database, number: int) -> int | None:
    async with db.read() as tx:
        found: int | None = await tx.scalar(get, {"where_number": number})
    return found


async def write(db: Database, number: int, statement: Executable = put) -> None:
    async with db.write() as tx:
        await tx.execute(statement, {"where_number": number})


async def cancel_after(work: Coroutine[Any, Any, object], *, after: int) -> bool:
    """Cancel the work after so many iterations of the event loop; return whether it had ended by then."""
    task = asyncio.create_task(work)
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return not task.cancelled()


@pytest.mark.parametrize("statement", [put, insert(numbers).values(number=bindparam("where_number"))])
async def test_a_write_after_a_cancelled_transaction_is_committed(
    db: Database, statement: Executable
) -> None:
    for turns in range(TURNS):
        await cancel_after(write(db, -1, statement), after=turns)
        async with asyncio.timeout(PATIENCE):
            await write(db, turns)
        found = await written(db)
        assert turns in found
        if -1 in found:
            break
    else:
        pytest.fail("it never ran to its end")


async def test_a_write_after_a_cancelled_read_is_committed(db: Database) -> None:
    for turns in range(TURNS):
        has_ended = await cancel_after(find(db, -1), after=turns)
        async with asyncio.timeout(PATIENCE):
            await write(db, turns)
            assert await find(db, turns) == turns
        if has_ended:
            break
    else:
        pytest.fail("it never ran to its end")


@pytest.mark.parametrize("waits", [False, True])
async def test_a_write_after_a_cancelled_shared_transaction_is_committed(
    db: Database, *, waits: bool
) -> None:
    if waits and db.dialect != "sqlite":
        pytest.skip("only SQLite has one lock that every transaction waits for")
    before = asyncio.all_tasks()
    for turns in range(15):
        with another_writer(db) if waits else nullcontext():
            asyncio.create_task(write(db, -1 - turns)).add_done_callback(retrieve_error)
            for _ in range(turns):
                await asyncio.sleep(0)
            # As at the end of a process: the callers are cancelled, and so is the one that commits for them.
            others = asyncio.all_tasks() - before
            for task in others:
                task.cancel()
            await asyncio.sleep(0.02)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*others, return_exceptions=True)
            await write(db, turns)
            await write(db, 1000 + turns)
        assert {turns, 1000 + turns} <= await written(db)


@only_sqlite
async def test_a_commit_that_fails_ends_every_transaction_that_shares_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(db, 0)
    submit = sqlite.submit
    failing, allowed = Event(), Event()

    def fail() -> None:
        failing.set()
        allowed.wait(10)
        raise sqlite3.OperationalError("disk I/O error")

    def submit_failing(thread: Any, function: Any, *arguments: Any) -> Any:
        return submit(thread, fail) if arguments == ("COMMIT",) else submit(thread, function, *arguments)

    monkeypatch.setattr(sqlite, "submit", submit_failing)
    for is_cancelled in (False, True):
        failing.clear()
        allowed.clear()
        before = asyncio.all_tasks()
        writes = [asyncio.create_task(write(db, number)) for number in (1, 2)]
        await asyncio.to_thread(failing.wait, 10)
        for task in asyncio.all_tasks() - before - set(writes):
            if is_cancelled:
                task.cancel()  # the one that commits for both
        allowed.set()
        async with asyncio.timeout(PATIENCE):
            for error in await asyncio.gather(*writes, return_exceptions=True):
                assert isinstance(error, exc.OperationalError), error
    monkeypatch.undo()
    await write(db, 3)
    assert await written(db) == {0, 3}


def retrieve_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


@contextmanager
def another_writer(db: Database) -> Iterator[None]:
    """Hold the write lock of a file, as another process would."""
    with closing(sqlite3.connect(sqlite_path(db.url), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_opening_a_connection_that_was_cancelled_blocks_no_other_task(
    database_url: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, connect = Event(), sqlite.connect

    def connect_slowly(path: Path, *pragmas: str, lock_timeout: timedelta) -> sqlite3.Connection:
        allowed.wait(10)
        return connect(path, *pragmas, lock_timeout=lock_timeout)

    monkeypatch.setattr(sqlite, "connect", connect_slowly)
    async with Database.open(database_url, pool_size=1) as fresh:
        cut = asyncio.create_task(write(fresh, 1))
        for _ in range(turns):
            await asyncio.sleep(0)
        waits = asyncio.create_task(write(fresh, 2))
        await asyncio.sleep(0)
        cut.cancel()
        allowed.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([cut, waits])
            assert await written(fresh) == {2}


@only_sqlite
async def test_a_process_that_stops_leaves_no_thread_of_a_connection_that_was_being_opened(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, allowed, connect = Event(), Event(), sqlite.connect
    made: list[sqlite3.Connection] = []

    def connect_slowly(path: Path, *pragmas: str, lock_timeout: timedelta) -> sqlite3.Connection:
        opening.set()
        allowed.wait(10)
        made.append(connect(path, *pragmas, lock_timeout=lock_timeout))
        return made[-1]

    monkeypatch.setattr(sqlite, "connect", connect_slowly)
    before = set(threading.enumerate())
    fresh = Database.open(database_url)
    task = asyncio.create_task(find(fresh, 1))
    await asyncio.to_thread(opening.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    allowed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")
    await fresh.close()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("sqlite"):
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()


@only_postgresql
async def test_a_connection_whose_begin_failed_is_not_used_again(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncpg

    execute = asyncpg.Connection.execute

    async def refused(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        if query.startswith("BEGIN"):
            raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")
        return await execute(self, query, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(asyncpg.Connection, "execute", refused)
        with pytest.raises(exc.DBAPIError):
            await write(db, 1)
    await write(db, 2)
    assert await written(db) == {2}


@only_postgresql
async def test_a_cancelled_transaction_is_not_left_open_until_its_connection_is_used_again(
    db: Database, database_url: str
) -> None:
    open_ones = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    )
    await write(db, 0)
    async with Database.open(database_url) as other:
        for turns in range(1, 8):
            await cancel_after(write(db, -1), after=turns)
            async with asyncio.timeout(PATIENCE), other.read() as tx:
                while await tx.scalar(open_ones):
                    await asyncio.sleep(0.01)
