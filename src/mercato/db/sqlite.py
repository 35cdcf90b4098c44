"""SQLite: one writer that takes the lock as it begins, and readers that cannot write.

With SQLAlchemy's defaults two transactions that read and then write lose each other's changes without an
error; here a transaction holds the write lock from its first line, and one process's writers wait in order.
"""

import asyncio
import os
import sqlite3
import time
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import Engine as SyncEngine
from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL

from mercato.db.awaited import Engine, Pool
from mercato.db.errors import UnusableUrl
from mercato.db.sqlite_driver import Connection

_LOG_WAIT: Final = 0.1
"""Seconds that one try to empty the log waits for others."""

_LOG_PAUSE: Final = 0.1
"""Seconds between two tries, in which others write."""


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute` or a plain path."""
    scheme, found, rest = url.partition("://")
    if found and not (scheme in {"sqlite", "sqlite+aiosqlite"} and rest.startswith("/")):
        raise UnusableUrl(f"MERCATO_DATABASE_URL starts with sqlite:/// or postgresql://, not {scheme}://.")
    return Path(rest[1:] if found else url)


def engines(
    path: Path, *, pool_size: int, pool_timeout: timedelta, busy_timeout: timedelta
) -> tuple[Engine, Engine]:
    """Return the readers and the writer of one file."""
    read = readers(path, pool_size=pool_size, pool_timeout=pool_timeout, busy_timeout=busy_timeout)
    return read, _writer(path, pool_timeout=pool_timeout, busy_timeout=busy_timeout, pragmas=_PRAGMAS)


def readers(path: Path, *, pool_size: int, pool_timeout: timedelta, busy_timeout: timedelta) -> Engine:
    """Return the readers alone."""
    return _engine(
        path,
        pool_size=pool_size,
        pool_timeout=pool_timeout,
        begin="BEGIN",
        busy_timeout=busy_timeout,
        pragmas=(*_PRAGMAS, "query_only=ON"),
        writes=False,
    )


def migrator(path: Path) -> Engine:
    """Return the engine that changes the schema: it waits as long for the lock as another may migrate.

    A file that is not there yet is made for its owner alone, and so are SQLite's own beside it: customers are in it.
    """
    with suppress(OSError):  # what is wrong with the path SQLite says
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return _writer(
        path,
        pool_timeout=timedelta(seconds=10),
        busy_timeout=timedelta(seconds=60),
        # Foreign keys are off, because a table that is rebuilt is dropped for an instant.
        pragmas=(*_PRAGMAS, "foreign_keys=OFF"),
    )


async def empty_log(path: Path, *, seconds: float) -> bool:
    """Copy the write-ahead log into the file and truncate it; False if readers or writers prevent that for so long.

    Each try is short: SQLite holds the write lock while it waits for readers.
    """
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(_truncate_log, path):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_LOG_PAUSE)
    return True


def _truncate_log(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=_LOG_WAIT, isolation_level=None)) as connection:
        try:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise
            return False
    return not busy


def _writer(
    path: Path, *, pool_timeout: timedelta, busy_timeout: timedelta, pragmas: tuple[str, ...]
) -> Engine:
    return _engine(
        path,
        # One connection: who waits for it is served first come, first served, which SQLite's own lock is not.
        pool_size=1,
        pool_timeout=pool_timeout,
        begin="BEGIN IMMEDIATE",
        busy_timeout=busy_timeout,
        pragmas=pragmas,
        writes=True,
    )


_PRAGMAS: Final = (
    "journal_mode=WAL",
    # FULL: a commit that was answered survives a power cut.
    "synchronous=FULL",
    "foreign_keys=ON",
    # What is deleted or replaced is overwritten with zeros: erased customers must not stay in free pages.
    "secure_delete=ON",
    "temp_store=MEMORY",
    "cache_size=-16000",
)


def _engine(
    path: Path,
    *,
    pool_size: int,
    pool_timeout: timedelta,
    begin: str,
    busy_timeout: timedelta,
    pragmas: tuple[str, ...],
    writes: bool,
) -> Engine:
    busy_ms = busy_timeout // timedelta(milliseconds=1)

    async def connect() -> Connection:
        # Nobody waits for the end of a transaction that has changed nothing.
        made = Connection(path, begin=begin, busy_ms=busy_ms, pragmas=pragmas, waits_for_end=writes)
        return await made.open()

    sync: SyncEngine = create_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        creator=lambda: sync.dialect.dbapi.connect(async_creator_fn=connect),  # type: ignore[union-attr]  # its own
        poolclass=Pool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=pool_timeout.total_seconds(),
        pool_use_lifo=True,
        query_cache_size=2000,
        # An error's text goes into logs; the values of a row stay out of it.
        hide_parameters=True,
    )

    @event.listens_for(sync, "begin")
    def _begin(connection: SyncConnection) -> None:
        connection.connection.driver_connection.expect_transaction()  # type: ignore[union-attr]  # it is ours

    return Engine(sync)
