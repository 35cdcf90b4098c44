"""aiosqlite with one hop to its thread for a statement, where SQLAlchemy's use of it makes four.

A hop costs about 0.1 ms. Here a statement is executed and its rows are fetched in one, the transaction begins in
the hop of its first statement, and a reader's end is not waited for. The rest is aiosqlite as it is.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from enum import Enum
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

from mercato.db.inline import Inline

T = TypeVar("T")


class _Phase(Enum):
    NONE = "no transaction"
    PENDING = "begins with the next statement"
    OPEN = "open"


class Connection(aiosqlite.Connection):
    """One connection. `begin` is the statement that opens its transactions, and may wait so long for a lock."""

    def __init__(
        self, path: Path, *, begin: str, busy_ms: int, pragmas: Sequence[str], waits_for_end: bool
    ) -> None:
        def connect() -> sqlite3.Connection:
            # The driver opens no transaction by itself: `begin` is the only one.
            connection = sqlite3.connect(
                path, isolation_level=None, cached_statements=500, check_same_thread=False
            )
            try:
                # First, because the switch to WAL waits for other processes, too.
                for pragma in (f"busy_timeout = {busy_ms}", *pragmas):
                    connection.execute(f"PRAGMA {pragma}")
            except sqlite3.Error:
                connection.close()
                raise
            return connection

        super().__init__(connect, iter_chunk_size=64)
        # A process must be able to end while a connection is open. Older versions are the thread themselves.
        self._worker: Any = getattr(self, "_thread", self)
        self._worker.daemon = True
        self._begin = begin
        self._patience = f"PRAGMA busy_timeout = {busy_ms}"
        self._waits_for_end = waits_for_end
        self._phase = _Phase.NONE
        self._changes_before = 0
        self._inline: Inline | None = None

    async def open(self) -> Self:
        """Connect, or leave no thread behind that would speak to an event loop that is gone."""
        try:
            await self
        except (Exception, asyncio.CancelledError):
            await asyncio.to_thread(self._worker.join)
            raise
        return self

    def expect_transaction(self) -> None:
        """Begin a transaction with the next statement."""
        self._phase = _Phase.PENDING

    @property
    def plain(self) -> sqlite3.Connection:
        """The driver's own connection, for who has begun a transaction with `begin_now`."""
        return self._conn

    @property
    def inline(self) -> Inline:
        """What executes statements where it is called; first asked for while no transaction is open, which it ends."""
        if self._inline is None:
            self._inline = Inline(self._conn)
        return self._inline

    async def begin_now(self) -> None:
        """Begin a transaction at once; until its end, statements may be executed on `plain`."""
        if self._begun_without_waiting():
            self._phase = _Phase.OPEN
        else:
            self._phase = _Phase.PENDING
            try:
                await self.hop(lambda _connection: None)
            except BaseException:
                # Cut off while the thread waits for the lock: it still begins, so its end is queued behind that.
                self._phase = _Phase.OPEN
                await self._end("ROLLBACK", waits=True)
                raise
        self._changes_before = self._conn.total_changes

    def _begun_without_waiting(self) -> bool:
        """Take the lock where we are, if nobody else has it: that costs a tenth of asking the thread for it."""
        connection = self._conn
        try:
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute(self._begin)
            finally:
                connection.execute(self._patience)
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return False  # the thread meets the same, and may wait
        return True

    async def commit_now(self) -> None:
        """Commit what was done on `plain`: where we are if that is nothing, for then no disk is waited for."""
        if self._conn.total_changes == self._changes_before:
            self._phase = _Phase.NONE
            self._conn.execute("COMMIT")
        else:
            await self.commit()

    def cursor(self) -> "Cursor":  # type: ignore[override]  # what SQLAlchemy needs of it is there
        return Cursor(self)

    # The phase belongs to the event loop, where one task at a time has the connection; the thread is told.

    async def hop(self, function: Any, *arguments: Any) -> Any:
        """Run the function in the connection's thread, with the driver's own connection and in a transaction."""
        phase = self._phase
        if phase is _Phase.PENDING:
            self._phase = _Phase.OPEN
        return await self._execute(self._within, phase, function, *arguments)  # type: ignore[no-untyped-call]

    async def whole(self, function: Callable[[Inline], T]) -> T:
        """Run a function that only reads in the connection's thread, on the caller's behalf, as one transaction."""
        result: T = await self._execute(copy_context().run, self._whole, function)  # type: ignore[no-untyped-call]
        return result

    async def commit(self) -> None:
        await self._end("COMMIT", waits=True)

    async def rollback(self) -> None:
        await self._end("ROLLBACK", waits=self._waits_for_end)

    def _within(self, phase: _Phase, function: Any, *arguments: Any) -> Any:
        connection = self._conn
        if phase is _Phase.PENDING:
            connection.execute(self._begin)
        elif phase is _Phase.OPEN and not connection.in_transaction:
            # A full disk rolls back by itself; what follows must not be committed statement by statement.
            raise sqlite3.OperationalError("the transaction was rolled back by an earlier error")
        return function(connection, *arguments)

    def _whole(self, function: Callable[[Inline], T]) -> T:
        connection, inline = self._conn, self.inline
        connection.execute(self._begin)
        try:
            return function(inline)
        finally:
            # An error of the disk may have ended it.
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    async def _end(self, how: str, *, waits: bool) -> None:
        phase, self._phase = self._phase, _Phase.NONE
        if phase is _Phase.OPEN:
            # The thread's queue keeps the order: what comes next on this connection comes after the end.
            future = asyncio.get_running_loop().create_future()
            self._tx.put_nowait((future, lambda: self._ended(how)))
            if waits:
                await future

    def _ended(self, how: str) -> None:
        if self._conn.in_transaction or how == "COMMIT":
            self._conn.execute(how)


class Cursor:
    """A statement and its rows, all of them fetched in the hop that executed it."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Iterable[Any] = ()) -> Self:
        await self._connection.hop(self._run, statement, parameters)
        return self

    async def executemany(self, statement: str, parameters: Iterable[Iterable[Any]]) -> Self:
        await self._connection.hop(self._run_many, statement, parameters)
        return self

    async def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        self._rows = []

    def _run(self, connection: sqlite3.Connection, statement: str, parameters: Any) -> None:
        self._keep(connection.execute(statement, parameters))

    def _run_many(self, connection: sqlite3.Connection, statement: str, parameters: Any) -> None:
        self._keep(connection.executemany(statement, parameters))

    def _keep(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        if cursor.description is not None:
            self._rows = cursor.fetchall()
        self.rowcount = cursor.rowcount
        self.lastrowid = cursor.lastrowid
