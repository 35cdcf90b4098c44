"""Short transactions on SQLite that are run together: those that wait for the writer share one commit.

A statement of a few rows takes SQLite some 10 µs; to hand it to another thread and to wake up for its result takes
ten times that. So a block's statements run where the block does, in the event loop's own thread: only to take the
write lock and to commit, which both may wait, is left to the connection's thread. Each block is a savepoint, so
that one that fails takes nothing of the others with it; none is told of its end before all are on the disk.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import Executable, create_engine, exc
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy
from sqlalchemy.pool import StaticPool

from mercato.db.awaited import Engine, Parameters
from mercato.db.errors import DatabaseAway, connection_errors
from mercato.db.prepared import Result, Text, find_text
from mercato.db.sqlite_driver import Connection

if TYPE_CHECKING:
    from mercato.db.engine import Write

T = TypeVar("T")

MOST: Final = 32
"""Blocks of one commit: the loop is held up for some milliseconds by as many, and no longer."""

GATHERING: Final = 3
"""Rounds of the event loop before a transaction begins: what has just ended has its next block ready by then, and
a commit that it shares is one less."""

DIALECT: Final = SQLiteDialect_pysqlite()


class Inline:
    """SQLite's own connection under a transaction: what it awaits is there already."""

    __slots__ = ("_plain", "_sync")

    def __init__(self, plain: sqlite3.Connection) -> None:
        self._plain = plain
        self._sync = _over(plain)

    async def execute(self, statement: Executable, parameters: Parameters | None = None) -> Any:
        """Return the result; its rows have been read."""
        text = find_text(statement, DIALECT)
        if text is not None:
            return _run(self._plain, text, parameters)
        result = self._sync.execute(statement, parameters)
        if result.returns_rows:
            cursor: Any = result.cursor
            result.cursor_strategy = FullyBufferedCursorFetchStrategy(
                cursor, initial_buffer=cursor.fetchall()
            )
        return result


def _run(connection: sqlite3.Connection, text: Text, given: Parameters | None) -> Result:
    """Execute a prepared statement, once for each set of parameters. Raises what SQLAlchemy would."""
    try:
        if given is None or isinstance(given, Mapping):
            cursor = connection.execute(text.sql, text.values(given or {}))
        else:
            cursor = connection.executemany(text.sql, [text.values(one) for one in given])
        rows = [] if cursor.description is None else text.rows(cursor.fetchall())
    except sqlite3.Error as error:
        raise exc.DBAPIError.instance(
            text.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=DIALECT
        ) from error
    return Result(rows, cursor.rowcount)


@dataclass(slots=True, eq=False)
class _Asked(Generic[T]):
    block: "Callable[[Write], Coroutine[Any, Any, T]]"
    future: asyncio.Future[T]
    # On whose behalf it runs: the task that runs it is another's.
    context: Context
    transaction: "Write | None" = None
    result: Any = None


class Blocks:
    """The blocks that wait for one file's writer."""

    def __init__(self, writer: Engine, begun: "Callable[[Any], Write]") -> None:
        """`begun` makes the handle that a block gets."""
        self._writer = writer
        self._begun = begun
        self._waiting: deque[_Asked[Any]] = deque()
        self._at_work: asyncio.Task[None] | None = None
        self._inline: WeakKeyDictionary[Connection, Inline] = WeakKeyDictionary()

    async def run(self, block: "Callable[[Write], Coroutine[Any, Any, T]]") -> T:
        """Return what the block returned, once that is committed; or raise what it raised, and nothing is."""
        return await self.submit(block)

    def submit(self, block: "Callable[[Write], Coroutine[Any, Any, T]]") -> asyncio.Future[T]:
        """Put the block in line at once. Asked by a block, it shares that one's commit, if that takes one more."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(block, future, copy_context()))
        if self._at_work is None:
            self._at_work = asyncio.create_task(self._work(), name="blocks")
        return future

    async def close(self) -> None:
        """Return when nothing is at work any more."""
        if self._at_work is not None:
            await asyncio.wait({self._at_work})

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._once()
        finally:
            self._at_work = None

    async def _once(self) -> None:
        """Run who waits as one transaction, and let the writer go: others wait for it in the same line."""
        done: list[_Asked[Any]] = []
        for _ in range(GATHERING):
            await asyncio.sleep(0)
        try:
            try:
                connection = await self._writer.connect()
            except connection_errors() as error:
                raise DatabaseAway(f"no connection to the database: {error}") from error
            try:
                await self._together(connection.driver, done)
            finally:
                await connection.close()
        except BaseException as error:
            # Those that have run are lost with the transaction, and who still waits would meet the same.
            for asked in (*done, *self._waiting):
                if not asked.future.done():
                    asked.future.set_exception(_told(error))
            self._waiting.clear()
            if not isinstance(error, Exception):
                raise
            return
        for asked in done:
            if not asked.future.done() or asked.future.cancelled():
                self._settle(asked)

    async def _together(self, driver: Connection, done: list[_Asked[Any]]) -> None:
        inline = self._inline.get(driver)
        if inline is None:
            inline = self._inline[driver] = Inline(driver.plain)
        await driver.begin_now()
        try:
            while self._waiting and len(done) < MOST:
                asked = self._waiting.popleft()
                if asked.future.done():
                    continue  # nobody waits for it any more
                done.append(asked)
                self._ran(asked, inline, driver.plain)
        except BaseException:
            await driver.rollback()
            raise
        await driver.commit_now()

    def _ran(self, asked: _Asked[Any], inline: Inline, plain: sqlite3.Connection) -> None:
        """Run one block; it is told at once if it failed. Raises what has ended the whole transaction."""
        plain.execute("SAVEPOINT block")
        asked.transaction = self._begun(inline)
        try:
            asked.result = asked.context.run(_outcome, asked.block(asked.transaction))
        except Exception as error:
            if not plain.in_transaction:
                # A full disk rolls back by itself, and everybody's work with it.
                asked.future.set_exception(error)
                raise
            plain.execute("ROLLBACK TO block")
            plain.execute("RELEASE block")
            asked.future.set_exception(error)
            return
        plain.execute("RELEASE block")

    @staticmethod
    def _settle(asked: _Asked[Any]) -> None:
        assert asked.transaction is not None
        try:
            asked.transaction.committed()
        except Exception as error:  # noqa: BLE001  # told to who asked, as it would be without us
            if not asked.future.done():
                asked.future.set_exception(error)
        if not asked.future.done():
            asked.future.set_result(asked.result)


def _outcome(block: Coroutine[Any, Any, T]) -> T:
    """Run a block from its first line to its last: nothing that it awaits has to be waited for."""
    try:
        block.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    with suppress(RuntimeError):
        block.close()
    raise RuntimeError("a transaction's block waits for something else than its database")


def _told(error: BaseException) -> BaseException:
    return error if isinstance(error, Exception) else DatabaseAway("the database is being closed")


def _over(plain: sqlite3.Connection) -> SyncConnection:
    """Return SQLAlchemy's connection over the driver's: once made, it begins and ends nothing by itself."""
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: plain,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",
        query_cache_size=2000,
        hide_parameters=True,
    )
    return engine.connect()
