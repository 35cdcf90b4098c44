"""SQLAlchemy's engine and connection, awaited: as much of its own `ext.asyncio` as is used here.

That package imports the whole ORM, which took a tenth of the time in which the service starts, for sessions that
nobody here opens. What it does for Core is done here in the same way: the drivers are asynchronous, and everything
above them runs in a greenlet that is left while a driver waits.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import CursorResult, Executable, Transaction
from sqlalchemy import Engine as SyncEngine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry
from sqlalchemy.pool.base import _ConnectionRecord
from sqlalchemy.util import greenlet_spawn

_T = TypeVar("_T")

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


CLOSE_SECONDS: Final = 2.0
"""How long the far ends of watched connections may take to say goodbye: there is nothing else to hear from them."""


class Watched(Protocol):
    """A driver's connection that ends itself unless it is told in time that what was asked is answered."""

    def watch(self, seconds: float) -> None: ...

    def unwatch(self) -> None: ...


class Pool(AsyncAdaptedQueuePool):
    """A pool of which nobody waits for a connection that could not be made."""

    def _create_connection(self) -> ConnectionPoolEntry:
        # SQLAlchemy's own connects here, and tells nobody that there is room again when that fails or is cut off.
        # What is connected by whoever takes it goes back into the pool, and the next one tries.
        return _ConnectionRecord(self, connect=False)


class Engine:
    """A pool of connections; `sync` is made by `create_engine` with the URL of an asynchronous driver.

    `patience` is how many seconds a connection may take for anything that it is asked, if it is a `Watched` one.
    """

    __slots__ = ("_patience", "_sync")

    def __init__(self, sync: SyncEngine, *, patience: float | None = None) -> None:
        assert sync.dialect.is_async
        self._sync = sync
        self._patience = patience

    async def connect(self) -> "Connection":
        """Return a connection of the pool, which goes back with `close`."""
        sync = await greenlet_spawn(self._sync.connect)
        if self._patience is None:
            return Connection(sync)
        watched: Watched = sync.connection.driver_connection  # type: ignore[assignment]  # whoever sets patience knows
        watched.unwatch()
        return WatchedConnection(sync, watched, self._patience)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["Connection"]:
        """Give a connection in a transaction that ends with the block."""
        connection = await self.connect()
        try:
            async with connection.begin():
                yield connection
        finally:
            await connection.close()

    async def dispose(self) -> None:
        """Close the connections that nobody uses; the others when they come back."""
        # A process that is to end must not wait for ever for a network that swallows what is sent.
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self._patience is None else CLOSE_SECONDS):
                await greenlet_spawn(self._sync.dispose)


class Connection:
    """One connection, for one task at a time."""

    __slots__ = ("_sync",)

    def __init__(self, sync: SyncConnection) -> None:
        self._sync = sync

    async def _ask(self, function: Callable[..., _T], *arguments: Any) -> _T:
        return await greenlet_spawn(function, *arguments)

    @property
    def driver(self) -> Any:
        """The driver's own connection."""
        return self._sync.connection.driver_connection

    @property
    def adapted(self) -> Any:
        """SQLAlchemy's connection over the driver's, as its dialect sees one."""
        return self._sync.connection.dbapi_connection

    @property
    def dialect(self) -> Dialect:
        return self._sync.dialect

    async def directly(self, function: Callable[..., Awaitable[_T]], *arguments: Any) -> _T:
        """Await what asks the driver past SQLAlchemy."""
        return await function(*arguments)

    async def execute(
        self, statement: Executable, parameters: Parameters | None = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Return the result; its rows have been read."""
        return await self._ask(self._sync.execute, statement, parameters)

    async def run_sync(self, function: Callable[[SyncConnection], _T]) -> _T:
        """Call what knows the ordinary connection alone, such as Alembic."""
        return await self._ask(function, self._sync)

    def begin(self) -> "_Transaction":
        """Return a block that is a transaction: committed at its end, rolled back if it raises."""
        return _Transaction(self._sync, self._ask)

    def give_up(self) -> None:
        """End the driver's connection: another takes its place. For one that was left in the middle of something."""
        self._sync.invalidate()

    async def close(self) -> None:
        """Give the connection back; a transaction that is open is rolled back."""
        await self._ask(self._sync.close)


class WatchedConnection(Connection):
    """A connection that is lost, and says so, when a network swallows what is sent: nobody waits for ever."""

    __slots__ = ("_patience", "_watched")

    def __init__(self, sync: SyncConnection, watched: Watched, patience: float) -> None:
        super().__init__(sync)
        self._watched = watched
        self._patience = patience

    async def _ask(self, function: Callable[..., _T], *arguments: Any) -> _T:
        self._watched.watch(self._patience)
        try:
            return await greenlet_spawn(function, *arguments)
        finally:
            self._watched.unwatch()

    async def directly(self, function: Callable[..., Awaitable[_T]], *arguments: Any) -> _T:
        self._watched.watch(self._patience)
        try:
            return await function(*arguments)
        finally:
            self._watched.unwatch()


class _Transaction:
    __slots__ = ("_ask", "_connection", "_sync")

    def __init__(self, connection: SyncConnection, ask: Callable[..., Awaitable[Any]]) -> None:
        self._connection = connection
        self._ask = ask
        self._sync: Transaction | None = None

    async def __aenter__(self) -> None:
        self._sync = (await self._ask(self._connection.begin)).__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sync is not None
        await self._ask(self._sync.__exit__, kind, error, trace)
