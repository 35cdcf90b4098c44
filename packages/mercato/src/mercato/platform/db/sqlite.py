"""One SQLite file: readers that cannot write, and one writer whose transactions share commits.

Short statements run in the event loop's thread, long ones in a thread of their own: a statement that touches a few rows
takes SQLite about 10 µs, and handing it to a thread takes ten times that. One that isn't prepared may take longer.
A commit waits for the disk in a thread. No connection waits for another process's lock inside SQLite, which would
block the event loop: it tries again after a pause.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Executable
from sqlalchemy.dialects import sqlite

from mercato.platform.db.errors import DatabaseUnavailable, acquire, database_error, is_locked
from mercato.platform.db.statements import (
    CompiledStatement,
    Compiler,
    H,
    Parameters,
    R,
    Result,
    WritingConnection,
)

T = TypeVar("T")

_compiler: Final = Compiler(sqlite.dialect())

BATCH_WINDOW: Final = 3
"""Iterations of the event loop for which a commit waits: transactions that are ready by then share it."""

MAX_BATCH: Final = 32
"""Transactions of one commit: they take the event loop some milliseconds, in pieces."""

LOCK_PAUSES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Seconds between attempts while another process holds the lock; the last one repeats."""

MAX_SHORT: Final = 100
"""Executions of a prepared statement that are one call in the event loop's thread: a millisecond or less."""

PRAGMAS: Final = (
    # FULL: a commit survives a power cut.
    "synchronous=FULL",
    "foreign_keys=ON",
    # Deleted and replaced rows are overwritten with zeros: erased customers must not stay in free pages.
    "secure_delete=ON",
    "temp_store=MEMORY",
    "cache_size=-16000",
)

READER_PRAGMAS: Final = (
    "query_only=ON",
    # 2 MB, SQLite's default, for each of them: every commit of another connection empties their caches, so larger ones
    # would only be filled, by a report with pages that nobody reads again. The writer's commits leave its cache valid.
    "cache_size=-2000",
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
        _use_log(connection, lock_timeout)
        for pragma in (*PRAGMAS, *pragmas):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _use_log(connection: sqlite3.Connection, lock_timeout: timedelta) -> None:
    """Use a write-ahead log. Of several processes that make a new file do so, SQLite refuses some without waiting."""
    pauses = _pauses(until=time.monotonic() + lock_timeout.total_seconds())
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.Error as error:
            if not is_locked(error) or (pause := next(pauses, None)) is None:
                raise
        time.sleep(pause)


def _pauses(*, until: float) -> Iterator[float]:
    """Yield how long to pause before each further attempt, until that instant on a monotonic clock."""
    for pause in chain(LOCK_PAUSES, repeat(LOCK_PAUSES[-1])):
        if time.monotonic() >= until:
            return
        yield pause


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
            made = _compiler.compile(statement, given)
            run, is_short = partial(_run, self.plain, made, made.values(given)), made.is_short
        else:
            made = _compiler.compile(statement, parameters[0])
            run = partial(_run_many, self.plain, made, [made.values(given) for given in parameters])
            is_short = made.is_short and len(parameters) <= MAX_SHORT
        try:
            return run() if is_short else await self.in_thread(run)
        except sqlite3.Error as error:
            raise database_error(error, made.sql) from error

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Run a prepared statement at once: there is no round trip to save."""
        self._change(statement, parameters)

    def require(self, statement: Executable, parameters: Parameters, *, otherwise: Exception) -> None:
        """Run a prepared statement at once; raise `otherwise` if it changed or found no row."""
        if self._change(statement, parameters) == 0:
            raise otherwise

    def _change(self, statement: Executable, parameters: Parameters) -> int:
        """Run a prepared statement; return how many rows it changed or found."""
        if not self.plain.in_transaction:
            raise _rolled_back()
        made = _compiler.compile(statement, parameters)
        assert made.is_short, "only prepared statements can be deferred"
        try:
            cursor = self.plain.execute(made.sql, made.values(parameters))
            return cursor.rowcount if cursor.description is None else len(cursor.fetchall())
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
        # The one that was opened first comes first: each has a cache of its own, so a long report read by them in turns
        # would fill several.
        self._idle: list[tuple[int, Connection]] = []
        self._numbers = count()
        self._thread = ThreadPoolExecutor(size, thread_name_prefix="sqlite-reader")
        self._closed = False

    @asynccontextmanager
    async def reading(self, begin: Callable[[Connection], R]) -> AsyncIterator[R]:
        """Yield the result of `begin` for a connection, in a new transaction. Raises DatabaseUnavailable."""
        await acquire(self._room, self._seconds)
        try:
            if self._idle:
                number, connection = heappop(self._idle)
            else:
                number, connection = next(self._numbers), await self._open()
            try:
                connection.plain.execute("BEGIN")
                yield begin(connection)
            finally:
                if connection.plain.in_transaction:
                    connection.plain.execute("ROLLBACK")
                if self._closed:
                    connection.plain.close()
                else:
                    heappush(self._idle, (number, connection))
        finally:
            self._room.release()

    async def _open(self) -> Connection:
        return await open_connection(
            self._thread, self._path, *READER_PRAGMAS, lock_timeout=self._lock_timeout
        )

    async def close(self) -> None:
        self._closed = True
        for _, connection in self._idle:
            connection.plain.close()
        self._idle.clear()
        self._thread.shutdown(wait=False)


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


class Batch:
    """The transactions that share one commit, which the task `committing` makes. Each waits for its end."""

    def __init__(self, changes_before: int) -> None:
        self.changes_before = changes_before
        self.committing: asyncio.Task[None] | None = None
        self.waiters: list[asyncio.Future[None]] = []

    def end(self, error: BaseException | None) -> None:
        """Let the waiters know: the commit is on the disk, or has failed."""
        for waiter in self.waiters:
            if waiter.done():
                continue  # its caller was cancelled
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
                waiter.exception()  # marks it as retrieved: its caller may be cancelled yet


class Writer:
    """The one connection that writes. Its transactions run one after the other, each a savepoint of a shared one.

    One that fails does not affect the others. Callers resume after the shared commit, also those of one that failed.
    """

    def __init__(self, path: Path, *, pool_timeout: timedelta, lock_timeout: timedelta) -> None:
        self._path = path
        self._seconds = pool_timeout.total_seconds()
        self._lock_timeout = lock_timeout
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._batch: Batch | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-writer")

    @asynccontextmanager
    async def transaction(self, begin: Callable[[WritingConnection], H]) -> AsyncIterator[H]:
        """Yield the handle of a transaction that is committed at the end of the block. Raises DatabaseUnavailable."""
        failure: Exception | None = None
        await acquire(self._lock, self._seconds)
        try:
            connection = self._connection or await self._open()
            batch = self._batch or await self._begin(connection)
            try:
                connection.plain.execute("SAVEPOINT block")
                handle = begin(connection)
                yield handle
                _release(connection)
            except BaseException as error:
                self._undo(connection, batch, error)
                if self._batch is not batch or not isinstance(error, Exception):
                    raise
                # It may have read what others of the batch wrote, so its caller waits, too: nobody is refused because
                # of a change that isn't on the disk, and a caller that tries again reads no older state.
                failure = error
            ended = asyncio.get_running_loop().create_future()
            batch.waiters.append(ended)
            if len(batch.waiters) == MAX_BATCH:
                await self._commit(connection, batch)
            self._schedule_commit(connection, batch)
        finally:
            self._lock.release()
        await ended
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # it refers to this frame
        handle.committed()

    async def _open(self) -> Connection:
        self._connection = await open_connection(self._thread, self._path, lock_timeout=self._lock_timeout)
        # From now on `_begin` waits for another process's lock, without blocking the event loop.
        self._connection.plain.execute("PRAGMA busy_timeout=0")
        return self._connection

    async def _begin(self, connection: Connection) -> Batch:
        """Take the write lock; wait while another process holds it."""
        pauses = _pauses(until=time.monotonic() + self._lock_timeout.total_seconds())
        while True:
            try:
                connection.plain.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.Error as error:
                if not is_locked(error) or (pause := next(pauses, None)) is None:
                    raise database_error(error, "BEGIN IMMEDIATE") from error
            await asyncio.sleep(pause)
        self._batch = Batch(connection.plain.total_changes)
        return self._batch

    def _undo(self, connection: Connection, batch: Batch, error: BaseException) -> None:
        """Roll the block back, or fail the batch if the block's error has rolled back all of it."""
        if connection.plain.in_transaction:
            connection.plain.execute("ROLLBACK TO block")
            connection.plain.execute("RELEASE block")
            if batch.waiters:
                self._schedule_commit(connection, batch)
            else:
                self._roll_back(connection, batch)
        elif self._batch is batch:
            self._batch = None
            batch.end(DatabaseUnavailable(f"the shared transaction was rolled back: {type(error).__name__}"))

    def _schedule_commit(self, connection: Connection, batch: Batch) -> None:
        if self._batch is batch and (batch.committing is None or batch.committing.done()):
            batch.committing = asyncio.create_task(self._commit_soon(connection, batch))

    async def _commit_soon(self, connection: Connection, batch: Batch) -> None:
        """Commit the batch once others have had the time to join it."""
        try:
            for _ in range(BATCH_WINDOW):
                await asyncio.sleep(0)
            async with self._lock:
                await self._commit(connection, batch)
        except asyncio.CancelledError:
            # The process ends: no caller has returned a result, and the write lock must be released.
            if self._batch is batch and not self._lock.locked():
                self._roll_back(connection, batch)
            raise

    async def _commit(self, connection: Connection, batch: Batch) -> None:
        """Commit the batch, unless that has been done. The caller holds the lock."""
        if self._batch is not batch:
            return
        self._batch = None
        plain, error = connection.plain, None
        try:
            if plain.total_changes == batch.changes_before:
                plain.execute("COMMIT")  # nothing has changed, so it doesn't wait for the disk
            else:
                committing = submit(self._thread, plain.execute, "COMMIT")
                try:
                    await result_of_thread(committing)
                finally:
                    # Even a cancelled task has waited for the end of the commit.
                    error = committing.exception()
        except (sqlite3.Error, DatabaseUnavailable) as failed:
            error = failed
        finally:
            if error is not None and plain.in_transaction:
                plain.execute("ROLLBACK")
            batch.end(database_error(error, "COMMIT") if isinstance(error, sqlite3.Error) else error)

    def _roll_back(self, connection: Connection, batch: Batch) -> None:
        if self._batch is batch:
            self._batch = None
            connection.plain.execute("ROLLBACK")
            for waiter in batch.waiters:
                waiter.cancel()

    async def close(self) -> None:
        async with self._lock:
            batch = self._batch
            if batch is not None and self._connection is not None:
                await self._commit(self._connection, batch)
            if self._connection is not None:
                await self._connection.in_thread(self._connection.plain.close)
                self._connection = None
        if batch is not None and batch.committing is not None:
            await asyncio.wait([batch.committing])  # it finds that this is done
        self._thread.shutdown(wait=False)


def _release(connection: Connection) -> None:
    try:
        connection.plain.execute("RELEASE block")
    except sqlite3.Error as error:
        raise database_error(error, "RELEASE block") from error


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


class Backend:
    """One SQLite file."""

    dialect: Final = "sqlite"

    def __init__(
        self, path: Path, *, pool_size: int, pool_timeout: timedelta, lock_timeout: timedelta
    ) -> None:
        self._readers = Readers(path, size=pool_size, pool_timeout=pool_timeout, lock_timeout=lock_timeout)
        self._writer = Writer(path, pool_timeout=pool_timeout, lock_timeout=lock_timeout)
        self.reading = self._readers.reading
        self.writing = self._writer.transaction

    async def close(self) -> None:
        await self._writer.close()
        await self._readers.close()
