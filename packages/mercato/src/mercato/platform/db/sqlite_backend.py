"""One SQLite file: readers that cannot write, and one writer whose transactions share commits.

A commit waits for the disk in a thread. No connection waits for another process's lock inside SQLite, which would
block the event loop: it tries again after a pause.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from mercato.platform.db.backend import H, WritingConnection
from mercato.platform.db.errors import DatabaseUnavailable, database_error, is_locked
from mercato.platform.db.sqlite import Connection, Readers, acquire, open_connection, result_of_thread, submit

BATCH_WINDOW: Final = 3
"""Iterations of the event loop for which a commit waits: transactions that are ready by then share it."""

MAX_BATCH: Final = 32
"""Transactions of one commit: they take the event loop some milliseconds, in pieces."""

LOCK_PAUSES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Seconds between attempts while another process holds the lock; the last one repeats."""


class Batch:
    """The transactions that share one commit. `done` is set after it."""

    def __init__(self, changes_before: int) -> None:
        self.changes_before = changes_before
        self.size = 0
        self.waiting = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        self.done.set_exception(error)
        self.done.exception()  # marks it as retrieved: all waiters may have been cancelled


class Writer:
    """The one connection that writes. Its transactions run one after the other, each a savepoint of a shared one.

    One that fails does not affect the others. Callers resume after the shared commit.
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
        async with acquire(self._lock, self._seconds):
            connection = self._connection or await self._open()
            batch = self._batch or await self._begin(connection)
            try:
                connection.plain.execute("SAVEPOINT block")
                handle = begin(connection)
                yield handle
                _release(connection)
            except BaseException as error:
                self._undo(connection, batch, error)
                raise
            batch.size += 1
            if batch.size == MAX_BATCH:
                await self._commit(connection, batch)
        await self._committed(connection, batch)
        handle.committed()

    async def _open(self) -> Connection:
        self._connection = await open_connection(self._thread, self._path, lock_timeout=self._lock_timeout)
        # From now on `_begin` waits for another process's lock, without blocking the event loop.
        self._connection.plain.execute("PRAGMA busy_timeout=0")
        return self._connection

    async def _begin(self, connection: Connection) -> Batch:
        """Take the write lock; wait while another process holds it."""
        loop = asyncio.get_running_loop()
        until, pauses, pause = loop.time() + self._lock_timeout.total_seconds(), iter(LOCK_PAUSES), 0.0
        while True:
            try:
                connection.plain.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.Error as error:
                if not is_locked(error) or loop.time() >= until:
                    raise database_error(error, "BEGIN IMMEDIATE") from error
            pause = next(pauses, pause)
            await asyncio.sleep(pause)
        self._batch = Batch(connection.plain.total_changes)
        return self._batch

    def _undo(self, connection: Connection, batch: Batch, error: BaseException) -> None:
        """Roll the block back, or fail the batch if the block's error has rolled back all of it."""
        if connection.plain.in_transaction:
            connection.plain.execute("ROLLBACK TO block")
            connection.plain.execute("RELEASE block")
            if not batch.waiting:
                self._roll_back(connection, batch)
        elif self._batch is batch:
            self._batch = None
            batch.fail(DatabaseUnavailable(f"the shared transaction was rolled back: {type(error).__name__}"))

    async def _committed(self, connection: Connection, batch: Batch) -> None:
        """Return when the batch is on the disk. The first caller commits it for all."""
        batch.waiting += 1
        try:
            await _iterations(BATCH_WINDOW)
            if self._batch is batch:
                async with self._lock:
                    await self._commit(connection, batch)
            await asyncio.shield(batch.done)
        finally:
            batch.waiting -= 1
            if self._batch is batch and not batch.waiting and not self._lock.locked():
                # All waiters were cancelled: none has returned a result, and the write lock must be released.
                self._roll_back(connection, batch)

    async def _commit(self, connection: Connection, batch: Batch) -> None:
        """Commit the batch, unless that has been done. The caller holds the lock."""
        if self._batch is not batch:
            return
        self._batch = None
        plain = connection.plain
        if plain.total_changes == batch.changes_before:
            plain.execute("COMMIT")  # nothing has changed, so it doesn't wait for the disk
            batch.done.set_result(None)
            return
        committing = submit(self._thread, plain.execute, "COMMIT")
        try:
            await result_of_thread(committing)
        except sqlite3.Error as error:
            if plain.in_transaction:
                plain.execute("ROLLBACK")
            batch.fail(database_error(error, "COMMIT"))
        finally:
            # Even a cancelled caller has waited for the end of the commit.
            if committing.exception() is None:
                batch.done.set_result(None)

    def _roll_back(self, connection: Connection, batch: Batch) -> None:
        if self._batch is batch:
            self._batch = None
            connection.plain.execute("ROLLBACK")
            batch.done.cancel()

    async def close(self) -> None:
        async with self._lock:
            if self._batch is not None and self._connection is not None:
                await self._commit(self._connection, self._batch)
            if self._connection is not None:
                await self._connection.in_thread(self._connection.plain.close)
                self._connection = None
        self._thread.shutdown(wait=False)


def _iterations(count: int) -> asyncio.Future[None]:
    """Return a future that is done after so many iterations of the event loop: its waiter is suspended only once."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def count_down(left: int) -> None:
        if left > 1:
            loop.call_soon(count_down, left - 1)
        elif not done.done():
            done.set_result(None)

    loop.call_soon(count_down, count - 1)
    return done


def _release(connection: Connection) -> None:
    try:
        connection.plain.execute("RELEASE block")
    except sqlite3.Error as error:
        raise database_error(error, "RELEASE block") from error


class Backend:
    """One SQLite file."""

    dialect: Final = "sqlite"

    def __init__(
        self, path: Path, *, pool_size: int, pool_timeout: timedelta, lock_timeout: timedelta
    ) -> None:
        self._readers = Readers(path, size=pool_size, pool_timeout=pool_timeout, lock_timeout=lock_timeout)
        self._writer = Writer(path, pool_timeout=pool_timeout, lock_timeout=lock_timeout)
        self.reading = self._readers.connection
        self.writing = self._writer.transaction

    async def close(self) -> None:
        await self._writer.close()
        await self._readers.close()
