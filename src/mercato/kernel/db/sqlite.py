"""Connections of SQLite: short statements run in the event loop's own thread, and long ones in a thread beside it.

A statement that touches a few rows takes SQLite some 10 µs, and handing it to a thread ten times that. A statement that
isn't prepared may take longer, so it has a thread.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Executable
from sqlalchemy.dialects import sqlite

from mercato.kernel.db.errors import DatabaseAway, UnusableUrl, database_error
from mercato.kernel.db.statements import Compiled, Parameters, Result, compiled

T = TypeVar("T")

DIALECT: Final = sqlite.dialect()

PRAGMAS: Final = (
    "journal_mode=WAL",
    # FULL: a commit that was answered survives a power cut.
    "synchronous=FULL",
    "foreign_keys=ON",
    # What is deleted or replaced is overwritten with zeros: erased customers must not stay in free pages.
    "secure_delete=ON",
    "temp_store=MEMORY",
    "cache_size=-16000",
)


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute` or a plain path."""
    scheme, found, rest = url.partition("://")
    if found and not (scheme in {"sqlite", "sqlite+aiosqlite"} and rest.startswith("/")):
        raise UnusableUrl(f"MERCATO_DATABASE_URL starts with sqlite:/// or postgresql://, not {scheme}://.")
    return Path(rest[1:] if found else url)


def create_private(path: Path) -> None:
    """Create the file for its owner alone, unless it exists: SQLite gives the files beside it the same mode."""
    with suppress(OSError):  # SQLite reports what is wrong with the path
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def connect(path: Path, *pragmas: str, lock_timeout: timedelta) -> sqlite3.Connection:
    """Return a connection on which a transaction begins with a statement alone."""
    connection = sqlite3.connect(
        path,
        isolation_level=None,
        cached_statements=500,
        check_same_thread=False,
        timeout=lock_timeout.total_seconds(),
    )
    try:
        for pragma in (*PRAGMAS, *pragmas):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


class Connection:
    """One connection, for one task at a time, with a thread for what takes long."""

    def __init__(self, plain: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self.plain = plain
        self._thread = thread

    async def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Return the result, its rows read. Raises SQLAlchemy's errors."""
        if not self.plain.in_transaction:
            raise _rolled_back()
        if parameters is None or isinstance(parameters, Mapping):
            given = parameters or {}
            made = compiled(statement, DIALECT, given)
            run = partial(_run, self.plain, made, made.values(given))
        else:
            made = compiled(statement, DIALECT, parameters[0])
            run = partial(_run_many, self.plain, made, [made.values(given) for given in parameters])
        try:
            return run() if made.is_short else await self.in_thread(run)
        except sqlite3.Error as error:
            raise database_error(error, made.sql) from error

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Run a prepared statement at once: there is no round trip to save."""
        if not self.plain.in_transaction:
            raise _rolled_back()
        made = compiled(statement, DIALECT, parameters)
        assert made.is_short, "only prepared statements can be deferred"
        try:
            self.plain.execute(made.sql, made.values(parameters))
        except sqlite3.Error as error:
            raise database_error(error, made.sql) from error

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function in the thread. When cancelled, it interrupts the statement and waits for its end."""
        return await completed(submitted(self._thread, function, *arguments), self.plain.interrupt)


def _rolled_back() -> Exception:
    """Return the error of a block whose transaction a full disk has ended: the rest must not be committed."""
    return database_error(sqlite3.OperationalError("the transaction was rolled back by an earlier error"))


def _run(plain: sqlite3.Connection, made: Compiled, values: Sequence[Any]) -> Result:
    cursor = plain.execute(made.sql, values)
    if cursor.description is None:
        return Result([], cursor.rowcount)
    rows = made.rows(cursor.fetchall(), lambda: [column[0] for column in cursor.description])
    return Result(rows, cursor.rowcount)


def _run_many(plain: sqlite3.Connection, made: Compiled, values: Sequence[Sequence[Any]]) -> Result:
    return Result([], plain.executemany(made.sql, values).rowcount)


def submitted(thread: ThreadPoolExecutor, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """Return what the thread will make. Raises DatabaseAway once the database has been closed."""
    try:
        return asyncio.get_running_loop().run_in_executor(thread, function, *arguments)
    except RuntimeError as error:
        raise DatabaseAway("the database has been closed") from error


async def completed(running: asyncio.Future[T], interrupt: Callable[[], None] | None = None) -> T:
    """Return what a thread makes. A caller that is cancelled leaves when the thread is free again, not before."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if interrupt is not None:
            interrupt()
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        running.exception()  # retrieved: the caller no longer waits for it
        raise


class Readers:
    """Connections that see one snapshot for each block, and can't write."""

    def __init__(self, path: Path, *, size: int, pool_timeout: timedelta, lock_timeout: timedelta) -> None:
        self._path = path
        self._seconds = pool_timeout.total_seconds()
        self._lock_timeout = lock_timeout
        self._room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._thread = ThreadPoolExecutor(size, thread_name_prefix="sqlite-reader")
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Give a connection in a transaction of its own. Raises DatabaseAway."""
        async with acquired(self._room, self._seconds):
            connection = self._idle.pop() if self._idle else await self._open()
            try:
                connection.plain.execute("BEGIN")
                yield connection
            finally:
                if connection.plain.in_transaction:
                    connection.plain.execute("ROLLBACK")
                if self._closed:
                    connection.plain.close()
                else:
                    self._idle.append(connection)

    async def _open(self) -> Connection:
        return await opened(self._thread, self._path, "query_only=ON", lock_timeout=self._lock_timeout)

    async def close(self) -> None:
        self._closed = True
        for connection in self._idle:
            connection.plain.close()
        self._idle.clear()
        self._thread.shutdown(wait=False)


@asynccontextmanager
async def acquired(room: asyncio.Lock | asyncio.Semaphore, seconds: float) -> AsyncIterator[None]:
    """Hold the lock or semaphore while the block runs. Raises DatabaseAway if there is none within `seconds`."""
    if room.locked():
        try:
            async with asyncio.timeout(seconds):
                await room.acquire()
        except TimeoutError:
            raise DatabaseAway(f"no connection to the database was free within {seconds:g} s") from None
    else:
        await room.acquire()
    try:
        yield
    finally:
        room.release()


async def opened(
    thread: ThreadPoolExecutor, path: Path, *pragmas: str, lock_timeout: timedelta
) -> Connection:
    """Return a new connection. Raises DatabaseAway."""
    made: list[sqlite3.Connection] = []

    def close() -> None:
        for plain in made:
            plain.close()

    def connect_in_thread() -> None:
        made.append(connect(path, *pragmas, lock_timeout=lock_timeout))

    try:
        await completed(submitted(thread, connect_in_thread))
    except sqlite3.Error as error:
        raise DatabaseAway(f"no connection to the database: {error}") from error
    except asyncio.CancelledError:
        close()
        raise
    return Connection(made[0], thread)
