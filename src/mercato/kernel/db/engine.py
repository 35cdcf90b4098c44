"""One database, SQLite or PostgreSQL: `read()` cannot write, `write()` is a short transaction."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from sqlalchemy import Executable, Row

from mercato.kernel.db import postgresql, sqlite, sqlite_backend
from mercato.kernel.db.clock import Dialect
from mercato.kernel.db.errors import UnusableUrl, is_unavailable
from mercato.kernel.db.replica import Replica
from mercato.kernel.db.signals import Signals
from mercato.kernel.db.sqlite_log import empty_log
from mercato.kernel.db.statements import Parameters, Result

T = TypeVar("T")

REPLICA_TIMEOUT: Final = timedelta(seconds=3)
"""How long a replica may take for a connection, and for a statement: then the primary is asked."""

AnyRow = Row[*tuple[Any, ...]]
"""A row with however many columns: its statement knows their types, the checker does not."""


class Connection(Protocol):
    """What a handle needs of a backend's connection."""

    async def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Return the buffered result; `rowcount` on it says how many rows a change touched."""


class WritingConnection(Connection, Protocol):
    """What a transaction needs of a backend's connection."""

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Run a prepared statement whose result nobody needs, before the next statement or the commit.

        On PostgreSQL those that wait together are one round trip. They see the rows as they were before all of them,
        so no two of them may change the same row.
        """


class Backend(Protocol):
    """A kind of database. `reading` gives a connection that can't write, `writing` one in a transaction."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def reading(self) -> Callable[[], AbstractAsyncContextManager[Connection]]: ...

    @property
    def writing(self) -> "Callable[[BeginWrite], AbstractAsyncContextManager[Write]]": ...

    async def close(self) -> None: ...


BeginWrite = Callable[[WritingConnection], "Write"]
"""Makes the handle of a transaction on a connection, whose backend calls `committed` on it after the commit."""


class Read:
    """A handle that sees committed rows and cannot write: the database itself refuses."""

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
        """Return every row: the statement is the one to bound how many there can be."""
        rows: Sequence[AnyRow] = (await self.execute(statement, parameters)).rows
        return rows

    async def scalar(self, statement: Executable, parameters: Parameters | None = None) -> Any:
        """Return the first column of the first row, or None if there is no row."""
        return (await self.execute(statement, parameters)).scalar()


class Write(Read):
    """A transaction: it commits at the end of its block, or rolls back if the block raises."""

    __slots__ = ("_callbacks", "defer")

    def __init__(self, database: "Database", connection: WritingConnection) -> None:
        super().__init__(database, connection)
        self.defer = connection.defer
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

    def __init__(self, url: str, backend: Backend, *, replica: Replica | None = None) -> None:
        self.url = url
        self.dialect: Dialect = backend.dialect
        self.replica = replica
        self.signals = Signals()
        self._backend = backend
        self._begin_write = partial(Write, self)

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

        `pool_size` bounds the connections for reading, and on PostgreSQL those for writing as well;
        `pool_timeout` is how long a block waits for one before it raises `DatabaseAway`;
        `busy_timeout` is how long a statement waits for another's lock: on SQLite for another process that writes;
        `statement_timeout` is how long PostgreSQL works on one, at most 30 s: the change feed counts on it.
        `replica_url` is a replica of a PostgreSQL database, for `read_replica`.
        """
        if postgresql.is_url(url):
            bounds = postgresql.Bounds(
                pool_size=pool_size,
                pool_timeout=pool_timeout,
                statement_timeout=statement_timeout,
                lock_timeout=busy_timeout,
            )
            backend = postgresql.Backend(url, bounds)
            replica = None
            if replica_url is not None:
                # Who waits for a replica waits for the primary after it.
                replica = Replica(
                    postgresql.replica_sessions(replica_url, bounds, REPLICA_TIMEOUT), backend.reading
                )
            return cls(url, backend, replica=replica)
        if replica_url is not None:
            raise UnusableUrl(
                "MERCATO_DATABASE_REPLICA_URL needs a PostgreSQL database at MERCATO_DATABASE_URL"
            )
        path = sqlite.path_of(url)
        file = sqlite_backend.Backend(
            path, pool_size=pool_size, pool_timeout=pool_timeout, lock_timeout=busy_timeout
        )
        return cls(f"sqlite:///{path}", file)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Read]:
        """Open a block that only reads. Raises DatabaseAway.

        On SQLite the block is one snapshot; on PostgreSQL each statement sees what is committed when it
        starts, and costs one round trip. What must be one snapshot on both is one statement.
        """
        async with self._backend.reading() as connection:
            yield Read(self, connection)

    async def read_replica(self, block: Callable[[Read], Coroutine[Any, Any, T]]) -> T:
        """Run a block that only reads, on a replica if there is one: it may see rows as of up to a second ago.

        The block runs again on the primary when the replica fails in the middle of it, so it changes nothing.
        """
        if self.replica is not None and self.replica.is_fresh():
            try:
                async with self.replica.connection() as connection:
                    return await block(Read(self, connection))
            except Exception as error:
                if not is_unavailable(error):
                    raise
                self.replica.distrust(error)
        async with self.read() as tx:
            return await block(tx)

    async def find_immutable(self, block: Callable[[Read], Coroutine[Any, Any, T | None]]) -> T | None:
        """Run a block as `read_replica` does, and on the primary if that finds nothing: for what never changes."""
        found = await self.read_replica(block)
        if found is None and self.replica is not None:
            async with self.read() as tx:
                found = await block(tx)
        return found

    def write(self) -> AbstractAsyncContextManager[Write]:
        """Open a transaction: keep it short, and never wait for a network inside. Raises DatabaseAway.

        On SQLite it holds the only write lock from its first line, so that what it reads cannot change under
        it; on PostgreSQL it is READ COMMITTED: lock what you decide upon, or update conditionally.
        """
        return self._backend.writing(self._begin_write)

    async def empty_log(self, *, seconds: float) -> bool:
        """Leave no earlier version of a row in SQLite's log; False if others keep it busy for so long.

        Nothing to do on PostgreSQL, whose log belongs to its server.
        """
        return self.dialect != "sqlite" or await empty_log(sqlite.path_of(self.url), seconds=seconds)

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
