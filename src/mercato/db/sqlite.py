"""SQLite: one writer that takes the lock as it begins, and readers that cannot write.

With SQLAlchemy's defaults two transactions that read and then write lose each other's changes without an
error; here a transaction holds the write lock from its first line, and one process's writers wait in order.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute` or a plain path."""
    scheme, found, path = url.partition(":///")
    if found and scheme not in {"sqlite", "sqlite+aiosqlite"}:
        raise ValueError(f"a database URL starts with sqlite:/// or postgresql://, not {scheme}://")
    return Path(path if found else url)


def engines(
    path: Path, *, pool_size: int, pool_timeout: timedelta, busy_timeout: timedelta
) -> tuple[AsyncEngine, AsyncEngine]:
    """Return the readers and the writer of one file."""
    readers = _engine(
        path,
        pool_size=pool_size,
        pool_timeout=pool_timeout,
        begin="BEGIN",
        pragmas=(*_pragmas(busy_timeout), "query_only=ON"),
    )
    # One connection: who waits for it is served first come, first served, which SQLite's own lock is not.
    writer = _engine(
        path, pool_size=1, pool_timeout=pool_timeout, begin="BEGIN IMMEDIATE", pragmas=_pragmas(busy_timeout)
    )
    return readers, writer


def migrator(path: Path) -> AsyncEngine:
    """Return the engine that changes the schema: it waits as long for the lock as another may migrate."""
    # Foreign keys are off, because a table that is rebuilt is dropped for an instant.
    pragmas = (*_pragmas(timedelta(seconds=60)), "foreign_keys=OFF")
    timeout = timedelta(seconds=10)
    return _engine(path, pool_size=1, pool_timeout=timeout, begin="BEGIN IMMEDIATE", pragmas=pragmas)


def _pragmas(busy_timeout: timedelta) -> tuple[str, ...]:
    return (
        # First, because the switch to WAL waits for other processes, too.
        f"busy_timeout={busy_timeout // timedelta(milliseconds=1)}",
        "journal_mode=WAL",
        # FULL: a commit that was answered survives a power cut.
        "synchronous=FULL",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        "cache_size=-16000",
    )


def _engine(
    path: Path, *, pool_size: int, pool_timeout: timedelta, begin: str, pragmas: tuple[str, ...]
) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=pool_timeout.total_seconds(),
        query_cache_size=2000,
        # The driver opens no transaction by itself: `begin` below is the only one.
        connect_args={"isolation_level": None, "cached_statements": 500},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
