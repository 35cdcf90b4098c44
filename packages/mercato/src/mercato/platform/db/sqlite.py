"""Connections of SQLite: short statements run in the event loop's thread, long ones in a thread of their own.

A statement that touches a few rows takes SQLite about 10 µs; handing it to a thread takes ten times that. A statement
that isn't prepared may take longer, so it gets a thread.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Executable
from sqlalchemy.dialects import sqlite

from mercato.platform.db.errors import DatabaseUnavailable, database_error, is_locked
from mercato.platform.db.statements import CompiledStatement, Parameters, Result, compiled

T = TypeVar("T")

DIALECT: Final = sqlite.dialect()

PRAGMAS: Final = (
    "journal_mode=WAL",
    # FULL: a commit survives a power cut.
    "synchronous=FULL",
    "foreign_keys=ON",
    # Deleted and replaced rows are overwritten with zeros: erased customers must not stay in free pages.
    "secure_delete=ON",
    "temp_store=MEMORY",
    "cache_size=-16000",
)


def create_private(path: Path) -> None:
    """Create the file with mode 0600, unless it exists; SQLite gives the files beside it the same mode."""
    with suppress(OSError):  # SQLite reports what is wrong with the path
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def connect(path: Path, *pragmas: str, lock_timeout: timedelta) -> sqlite3.Connection:
    """Return a connection on which only a BEGIN starts a transaction."""
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
    """One connection, for one task at a time, with a thread for long statements."""

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
        return await result_of_thread(submit(self._thread, function, *arguments), self.plain.interrupt)


def _rolled_back() -> Exception:
    """Return the error of a block whose transaction a full disk has ended: its other changes must not be committed."""
    return database_error(sqlite3.OperationalError("the transaction was rolled back by an earlier error"))


def _run(plain: sqlite3.Connection, made: CompiledStatement, values: Sequence[Any]) -> Result:
    cursor = plain.execute(made.sql, values)
    if cursor.description is None:
        return Result([], cursor.rowcount)
    rows = made.rows(cursor.fetchall(), lambda: [column[0] for column in cursor.description])
    return Result(rows, cursor.rowcount)


def _run_many(plain: sqlite3.Connection, made: CompiledStatement, values: Sequence[Sequence[Any]]) -> Result:
    return Result([], plain.executemany(made.sql, values).rowcount)


def submit(thread: ThreadPoolExecutor, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """Run the function in the thread. Raises DatabaseUnavailable once the database has been closed."""
    try:
        return asyncio.get_running_loop().run_in_executor(thread, function, *arguments)
    except RuntimeError as error:
        raise DatabaseUnavailable("the database has been closed") from error


async def result_of_thread(running: asyncio.Future[T], interrupt: Callable[[], None] | None = None) -> T:
    """Return the result of a thread's work. A cancelled caller resumes when the thread is free again, not before."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if interrupt is not None:
            interrupt()
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        running.exception()  # marks it as retrieved: the caller no longer wants it
        raise


class Readers:
    """Connections that see one snapshot per block and can't write."""

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
        """Yield a connection in a transaction of its own. Raises DatabaseUnavailable."""
        async with acquire(self._room, self._seconds):
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
        return await open_connection(
            self._thread, self._path, "query_only=ON", lock_timeout=self._lock_timeout
        )

    async def close(self) -> None:
        self._closed = True
        for connection in self._idle:
            connection.plain.close()
        self._idle.clear()
        self._thread.shutdown(wait=False)


@asynccontextmanager
async def acquire(room: asyncio.Lock | asyncio.Semaphore, seconds: float) -> AsyncIterator[None]:
    """Hold the lock or semaphore during the block. Raises DatabaseUnavailable if it isn't free within `seconds`."""
    if room.locked():
        try:
            async with asyncio.timeout(seconds):
                await room.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                f"no connection to the database was free within {seconds:g} s"
            ) from None
    else:
        await room.acquire()
    try:
        yield
    finally:
        room.release()


async def open_connection(
    thread: ThreadPoolExecutor, path: Path, *pragmas: str, lock_timeout: timedelta
) -> Connection:
    """Return a new connection. Raises DatabaseUnavailable."""
    made: list[sqlite3.Connection] = []  # a cancelled caller gets no result, but must close the connection

    def connect_in_thread() -> None:
        made.append(connect(path, *pragmas, lock_timeout=lock_timeout))

    try:
        await result_of_thread(submit(thread, connect_in_thread))
    except sqlite3.Error as error:
        raise DatabaseUnavailable(f"no connection to the database: {error}") from error
    except asyncio.CancelledError:
        for plain in made:
            plain.close()
        raise
    return Connection(made[0], thread)


LOG_ATTEMPT_SECONDS: Final = 0.1
"""How long one attempt to empty the log waits for readers and writers."""

LOG_PAUSE_SECONDS: Final = 0.1
"""Seconds between two attempts, in which others write."""


async def empty_log(path: Path, *, seconds: float) -> bool:
    """Copy the write-ahead log, which holds earlier versions of rows, into the file, and truncate it.

    Returns False if readers or writers prevent that for so long. Each attempt is short: SQLite holds the write lock
    while it waits for readers.
    """
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(_truncate_log, path):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(LOG_PAUSE_SECONDS)
    return True


def _truncate_log(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=LOG_ATTEMPT_SECONDS, isolation_level=None)) as connection:
        try:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise
            return False
    return not busy
