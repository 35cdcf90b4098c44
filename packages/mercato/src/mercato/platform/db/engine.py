"""One database, SQLite or PostgreSQL: `read()` cannot write, `write()` is a short transaction."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from msgspec.structs import replace
from sqlalchemy import Executable, Row

from mercato.platform.db import postgresql, sqlite
from mercato.platform.db.errors import UnusableUrl, acquire, is_unavailable
from mercato.platform.db.replica import Replica
from mercato.platform.db.servers import ANY, Servers
from mercato.platform.db.statements import Backend, Connection, Parameters, WritingConnection
from mercato.platform.db.types import Dialect
from mercato.platform.db.url import DatabaseSettings, database_url, is_postgresql, sqlite_path

T = TypeVar("T")

POOL_TIMEOUT: Final = timedelta(seconds=10)
"""How long a block waits by default for a connection, or for its turn with a row."""

PER_ROW: Final = 3
"""Blocks that lock the same row and have a connection: one that holds it, and those that come next, up to there."""

REPLICA_TIMEOUT: Final = timedelta(seconds=3)
"""How long a replica may take for a connection, and for a statement; after that the primary is read."""

AnyRow = Row[*tuple[Any, ...]]
"""A row of any columns: mypy does not know their types."""


class Read:
    """A handle that sees committed rows. The database refuses writes through it."""

    __slots__ = ("database", "dialect", "execute")

    def __init__(self, database: "Database", connection: Connection) -> None:
        self.database = database
        self.dialect = database.dialect
        self.execute = connection.execute

    async def first(self, statement: Executable, parameters: Parameters | None = None) -> AnyRow | None:
        """Return the first row, or None if there is none."""
        row: AnyRow | None = (await self.execute(statement, parameters)).first()
        return row

    async def all(self, statement: Executable, parameters: Parameters | None = None) -> Sequence[AnyRow]:
        """Return every row; the statement bounds how many there can be."""
        rows: Sequence[AnyRow] = (await self.execute(statement, parameters)).rows
        return rows

    async def scalar(self, statement: Executable, parameters: Parameters | None = None) -> Any:
        """Return the first column of the first row, or None if there is no row."""
        return (await self.execute(statement, parameters)).scalar()


class Write(Read):
    """A transaction: it commits at the end of its block, or rolls back if the block raises."""

    __slots__ = ("_callbacks", "defer", "require")

    def __init__(self, database: "Database", connection: WritingConnection) -> None:
        super().__init__(database, connection)
        self.defer = connection.defer
        self.require = connection.require
        self._callbacks: list[Callable[[], None]] = []

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back after the commit, in order; never after a rollback.

        For hints (waking a worker, dropping a cache entry): a crash between the commit and the call loses it.
        """
        self._callbacks.append(callback)

    def committed(self) -> None:
        """Run the callbacks: the commit is done."""
        for callback in self._callbacks:
            callback()


class Signals:
    """Publishes values to listeners in this process, as a hint: other processes don't get it, and a crash loses it."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[str], None]]] = defaultdict(list)

    def listen(self, topic: str, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with every value published on the topic; return the function that stops that."""
        self._listeners[topic].append(listener)
        return lambda: self._listeners[topic].remove(listener)

    def publish(self, topic: str, value: str) -> None:
        for listener in tuple(self._listeners.get(topic, ())):
            listener(value)


class Database:
    """Opened lazily: nothing is connected before the first block, so the database may start later than we do."""

    def __init__(
        self,
        url: str,
        backend: Backend,
        *,
        replica: Replica | None = None,
        pool_timeout: timedelta = POOL_TIMEOUT,
    ) -> None:
        self.url = url
        self.dialect: Dialect = backend.dialect
        self.replica = replica
        self.signals = Signals()
        self._backend = backend
        self._begin_read = partial(Read, self)
        self._begin_write = partial(Write, self)
        self._turn_seconds = pool_timeout.total_seconds()
        # By the integer of the row's id, while a block holds or awaits its turn.
        self._turns: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        pool_size: int = 10,
        pool_timeout: timedelta = POOL_TIMEOUT,
        busy_timeout: timedelta = timedelta(seconds=5),
        statement_timeout: timedelta = timedelta(seconds=30),
        replica_url: str | None = None,
    ) -> "Database":
        """Return the database at `sqlite:///file`, a plain path, or `postgresql://…`.

        `pool_size` bounds the connections for reading, and on PostgreSQL those for writing as well;
        `pool_timeout` is how long a block waits for one before it raises `DatabaseUnavailable`;
        `busy_timeout` is how long a statement waits for a lock: on SQLite, for another process that writes;
        `statement_timeout` is how long PostgreSQL works on one, at most 30 s: the change feed relies on it.
        `replica_url` is a replica of a PostgreSQL database, for `read_replica`.
        """
        if is_postgresql(url):
            bounds = postgresql.Bounds(
                pool_size=pool_size,
                pool_timeout=pool_timeout,
                statement_timeout=statement_timeout,
                lock_timeout=busy_timeout,
            )
            backend = postgresql.Backend(url, bounds)
            replica = None
            if replica_url is not None:
                # A block that gets no connection to the replica then waits for the primary.
                short = replace(bounds, pool_timeout=REPLICA_TIMEOUT, statement_timeout=REPLICA_TIMEOUT)
                replicas = Servers(replica_url, target=ANY)
                sessions = postgresql.Sessions(replicas, short, read_only=True)
                replica = Replica(sessions, backend.readers.connection)
            return cls(url, backend, replica=replica, pool_timeout=pool_timeout)
        if replica_url is not None:
            raise UnusableUrl(
                "MERCATO_DATABASE_REPLICA_URL needs a PostgreSQL database at MERCATO_DATABASE_URL"
            )
        path = sqlite_path(url)
        file = sqlite.Backend(path, pool_size=pool_size, pool_timeout=pool_timeout, lock_timeout=busy_timeout)
        return cls(f"sqlite:///{path}", file)

    def read(self) -> AbstractAsyncContextManager[Read]:
        """Open a block that only reads. Raises DatabaseUnavailable.

        On SQLite the block is one snapshot; on PostgreSQL each statement sees what is committed when it starts, and
        costs one round trip. For one snapshot on both use one statement.
        """
        return self._backend.reading(self._begin_read)

    async def read_replica(self, block: Callable[[Read], Coroutine[Any, Any, T]]) -> T:
        """Run a block that only reads, on a replica if there is one: its rows may be up to a second old.

        The block runs again on the primary when the replica fails within it, so it must have no side effect.
        """
        if self.replica is not None and self.replica.is_fresh():
            try:
                async with self.replica.reading(self._begin_read) as tx:
                    return await block(tx)
            except Exception as error:
                if not is_unavailable(error):
                    raise
                self.replica.distrust(error)
        async with self.read() as tx:
            return await block(tx)

    async def find_immutable(self, block: Callable[[Read], Coroutine[Any, Any, T | None]]) -> T | None:
        """Run a block as `read_replica` does, and on the primary if that finds nothing: for rows that never change."""
        found = await self.read_replica(block)
        if found is None and self.replica is not None:
            async with self.read() as tx:
                found = await block(tx)
        return found

    def write(self, *, locks: UUID | None = None) -> AbstractAsyncContextManager[Write]:
        """Open a transaction: keep it short, and never wait for a network inside. Raises DatabaseUnavailable.

        On SQLite it holds the only write lock from its beginning, so what it reads cannot change meanwhile; on
        PostgreSQL it is READ COMMITTED: lock the rows that a decision depends on, or update conditionally.
        `locks` is the id of a row that the block locks. This process then has only `PER_ROW` blocks of that row on
        connections: if all waited there for the row, many for one would keep others from connections.
        """
        if locks is None or self.dialect == "sqlite":
            return self._backend.writing(self._begin_write)
        return self._write_in_turn(locks.int)

    @asynccontextmanager
    async def _write_in_turn(self, row: int) -> AsyncIterator[Write]:
        turn = self._turns.get(row)
        if turn is None:
            turn = self._turns[row] = asyncio.Semaphore(PER_ROW)
        await acquire(turn, self._turn_seconds)
        try:
            async with self._backend.writing(self._begin_write) as tx:
                yield tx
        finally:
            turn.release()

    async def empty_log(self, *, seconds: float) -> bool:
        """Leave no earlier version of a row in SQLite's log; False if readers or writers prevent that for so long.

        On PostgreSQL, whose log belongs to its server, there is nothing to do.
        """
        return self.dialect != "sqlite" or await sqlite.empty_log(sqlite_path(self.url), seconds=seconds)

    async def close(self) -> None:
        if self.replica is not None:
            await self.replica.close()
        await self._backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def open_database(settings: DatabaseSettings) -> Database:
    """Return the database with the pools and the timeouts of the settings."""
    return Database.open(
        database_url(settings),
        pool_size=settings.database_pool,
        pool_timeout=timedelta(seconds=settings.database_pool_seconds),
        busy_timeout=timedelta(seconds=settings.database_lock_seconds),
        statement_timeout=timedelta(seconds=settings.database_statement_seconds),
        replica_url=None if settings.database_replica_url is None else settings.database_replica_url.reveal(),
    )
