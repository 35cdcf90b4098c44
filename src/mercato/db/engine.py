"""One database, SQLite or PostgreSQL: `read()` cannot write, `write()` is a short transaction."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from sqlalchemy import CursorResult, Executable, Row

from mercato.db import postgresql, sqlite
from mercato.db.awaited import Connection, Engine, Parameters
from mercato.db.blocks import Blocks
from mercato.db.clock import Dialect
from mercato.db.direct import Direct
from mercato.db.errors import DatabaseAway, UnusableUrl, connection_errors, is_unavailable
from mercato.db.inline import outcome
from mercato.db.points import PointReader
from mercato.db.replica import Replica
from mercato.db.signals import Signals
from mercato.db.sqlite_driver import Connection as SQLiteConnection

T = TypeVar("T")

_HASTE: Final = timedelta(seconds=3)
"""How long a replica may take for a connection, and for a statement."""

AnyRow = Row[*tuple[Any, ...]]
"""A row with however many columns: its statement knows their types, the checker does not."""


class Executes(Protocol):
    """What a handle needs of a connection."""

    async def execute(self, statement: Executable, parameters: Parameters | None = None) -> Any: ...


class Read:
    """A handle that sees committed rows and cannot write: the database itself refuses."""

    __slots__ = ("_connection", "database")

    def __init__(self, database: "Database", connection: Executes) -> None:
        self.database = database
        self._connection = connection

    @property
    def dialect(self) -> Dialect:
        return self.database.dialect

    async def execute(
        self,
        statement: Executable,
        parameters: Parameters | None = None,
    ) -> CursorResult[*tuple[Any, ...]]:
        """Return the buffered result; `rowcount` on it says how many rows a change touched."""
        result: CursorResult[*tuple[Any, ...]] = await self._connection.execute(statement, parameters)
        return result

    async def first(self, statement: Executable, parameters: Parameters | None = None) -> AnyRow | None:
        """Return the first row, or None if there is none."""
        row: AnyRow | None = (await self._connection.execute(statement, parameters)).first()
        return row

    async def all(self, statement: Executable, parameters: Parameters | None = None) -> Sequence[AnyRow]:
        """Return every row: the statement is the one to bound how many there can be."""
        rows: Sequence[AnyRow] = (await self._connection.execute(statement, parameters)).all()
        return rows

    async def scalar(self, statement: Executable, parameters: Parameters | None = None) -> Any:
        """Return the first column of the first row, or None if there is no row."""
        return (await self._connection.execute(statement, parameters)).scalar()


class Write(Read):
    """A transaction: it commits at the end of its block, or rolls back if the block raises."""

    __slots__ = ("_callbacks",)

    def __init__(self, database: "Database", connection: Executes) -> None:
        super().__init__(database, connection)
        self._callbacks: list[Callable[[], None]] = []

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back once the commit is done, in order; never after a rollback.

        For hints (waking somebody, forgetting a cached value): a crash between the commit and the call
        loses it.
        """
        self._callbacks.append(callback)

    def committed(self) -> None:
        """Call back: the commit is done."""
        for callback in self._callbacks:
            callback()


class Database:
    """Opened lazily: nothing is connected before the first block, so that a database may come up later."""

    def __init__(
        self,
        dialect: Dialect,
        url: str,
        *,
        readers: Engine,
        writer: Engine,
        points: Engine,
        replica: Replica | None = None,
    ) -> None:
        self.dialect: Dialect = dialect
        self.url = url
        self.replica = replica
        self.signals = Signals()
        self._readers = readers
        self._writer = writer
        self._points = PointReader(points, partial(Read, self), inline=dialect == "sqlite")
        self._blocks = Blocks(writer, partial(Write, self)) if dialect == "sqlite" else None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        pool_size: int = 10,
        pool_timeout: timedelta = timedelta(seconds=10),
        busy_timeout: timedelta = timedelta(seconds=5),
        statement_timeout: timedelta = timedelta(seconds=30),
        replica_url: str | None = None,
    ) -> "Database":
        """Return the database at `sqlite:///file`, a plain path, or `postgresql://…`.

        `pool_size` bounds the connections for reading, and on PostgreSQL those for writing as well; one more is kept
        for `read_points`;
        `pool_timeout` is how long a block waits for one before it raises `DatabaseAway`;
        `busy_timeout` is how long a statement waits for another's lock: on SQLite for another process that writes;
        `statement_timeout` is how long PostgreSQL works on one, at most 30 s: the change feed counts on it.
        `replica_url` is a replica of a PostgreSQL database, for `read_recent`.
        """
        if postgresql.is_url(url):
            bounds = postgresql.Bounds(
                pool_size=pool_size,
                pool_timeout=pool_timeout,
                statement_timeout=statement_timeout,
                lock_timeout=busy_timeout,
            )
            readers, writer = postgresql.engines(url, bounds)
            replica = None
            if replica_url is not None:
                # Who waits for a replica waits for the primary after it.
                hasty = replace(bounds, pool_timeout=_HASTE, statement_timeout=_HASTE)
                replica = Replica(postgresql.readers(replica_url, hasty), readers)
            points = postgresql.readers(url, replace(bounds, pool_size=1))
            return cls("postgresql", url, readers=readers, writer=writer, points=points, replica=replica)
        if replica_url is not None:
            raise UnusableUrl(
                "MERCATO_DATABASE_REPLICA_URL needs a PostgreSQL database at MERCATO_DATABASE_URL"
            )
        path = sqlite.path_of(url)
        readers, writer = sqlite.engines(
            path, pool_size=pool_size, pool_timeout=pool_timeout, busy_timeout=busy_timeout
        )
        points = sqlite.readers(path, pool_size=1, pool_timeout=pool_timeout, busy_timeout=busy_timeout)
        return cls("sqlite", f"sqlite:///{path}", readers=readers, writer=writer, points=points)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Read]:
        """Open a block that only reads.

        On SQLite the block is one snapshot; on PostgreSQL each statement sees what is committed when it
        starts, and costs one round trip. What must be one snapshot on both is one statement.
        """
        connection = await _connected(self._readers)
        try:
            yield Read(self, self._executes(connection))
        finally:
            await connection.close()

    async def read_recent(self, block: Callable[[Read], Coroutine[Any, Any, T]]) -> T:
        """Run a block that only reads, and may see what was there up to a second ago: on a replica if there is one.

        The block may be run twice: again on the primary when the replica fails in the middle of it. On SQLite it is
        run in another thread and of one snapshot. So it awaits nothing but its handle, and changes nothing of others.
        """
        if self.replica is not None and self.replica.is_fresh():
            try:
                return await self.replica.read(
                    lambda connection: block(Read(self, self._executes(connection)))
                )
            except Exception as error:
                if not is_unavailable(error):
                    raise
                self.replica.distrust(error)
        if self.dialect == "sqlite":
            return await self._read_whole(block)
        async with self.read() as tx:
            return await block(tx)

    async def read_points(self, block: Callable[[Read], Coroutine[Any, Any, T]]) -> T:
        """Run a block that reads a few rows by their key, on the primary: for what nearly every request reads.

        It sees all that was committed before this call. It awaits nothing but its handle, and may be run twice.
        """
        return await self._points.read(block)

    async def _read_whole(self, block: Callable[[Read], Coroutine[Any, Any, T]]) -> T:
        # Each turn of another thread costs 0.1 ms, and SQLAlchemy as much for a statement.
        connection = await _connected(self._readers)
        try:
            driver: SQLiteConnection = connection.driver
            return await driver.whole(lambda inline: outcome(block(Read(self, inline))))
        finally:
            await connection.close()

    async def find_recent(self, block: Callable[[Read], Coroutine[Any, Any, T | None]]) -> T | None:
        """Run a block as `read_recent` does, and on the primary if that finds nothing: for what never changes."""
        found = await self.read_recent(block)
        if found is None and self.replica is not None:
            async with self.read() as tx:
                found = await block(tx)
        return found

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Write]:
        """Open a transaction: keep it short, and never wait for a network inside.

        On SQLite it holds the only write lock from its first line, so that what it reads cannot change under
        it; on PostgreSQL it is READ COMMITTED: lock what you decide upon, or update conditionally.
        """
        connection = await _connected(self._writer)
        try:
            async with connection.begin():
                transaction = Write(self, self._executes(connection))
                yield transaction
        finally:
            await connection.close()
        transaction.committed()

    async def atomically(self, block: Callable[[Write], Coroutine[Any, Any, T]]) -> T:
        """Run a short block as a transaction, and return what it returned once that is committed.

        As `write()`, but for what is done very often: on SQLite many of them share one commit, and their statements
        run where they are awaited. So a block awaits nothing but its handle, and touches few rows.
        """
        if self._blocks is not None:
            return await self._blocks.run(block)
        async with self.write() as tx:
            return await block(tx)

    def _executes(self, connection: Connection) -> Executes:
        return Direct(connection) if self.dialect == "postgresql" else connection

    def soon(self, block: Callable[[Write], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        """Do as `atomically`; asked for in a block on SQLite, it comes after that block and shares its commit."""
        return self.atomically(block) if self._blocks is None else self._blocks.submit(block)

    async def empty_log(self, *, seconds: float) -> bool:
        """Leave no earlier version of a row in SQLite's log; False if others keep it busy for so long.

        Nothing to do on PostgreSQL, whose log belongs to its server.
        """
        return self.dialect != "sqlite" or await sqlite.empty_log(sqlite.path_of(self.url), seconds=seconds)

    async def close(self) -> None:
        if self._blocks is not None:
            await self._blocks.close()
        if self.replica is not None:
            await self.replica.close()
        await self._points.close()
        await self._readers.dispose()
        await self._writer.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _connected(engine: Engine) -> Connection:
    try:
        return await engine.connect()
    except connection_errors() as error:
        # Whatever keeps us from a connection (no server, no room, no file, a changed password) may pass.
        raise DatabaseAway(f"no connection to the database: {error}") from error
