"""SQLite: one writer that takes the lock as it begins, and readers that cannot write.

With SQLAlchemy's defaults two transactions that read and then write lose each other's changes without an
error; here a transaction holds the write lock from its first line, and one process's writers wait in order.
"""

from datetime import timedelta
from pathlib import Path

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import Engine as SyncEngine
from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL

from mercato.db.awaited import Engine
from mercato.db.errors import UnusableUrl
from mercato.db.sqlite_driver import Connection


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute` or a plain path."""
    scheme, found, rest = url.partition("://")
    if found and not (scheme in {"sqlite", "sqlite+aiosqlite"} and rest.startswith("/")):
        raise UnusableUrl(f"a database URL starts with sqlite:/// or postgresql://, not {scheme}://")
    return Path(rest[1:] if found else url)


def engines(
    path: Path, *, pool_size: int, pool_timeout: timedelta, busy_timeout: timedelta
) -> tuple[Engine, Engine]:
    """Return the readers and the writer of one file."""
    readers = _engine(
        path,
        pool_size=pool_size,
        pool_timeout=pool_timeout,
        begin="BEGIN",
        pragmas=(*_pragmas(busy_timeout), "query_only=ON"),
        writes=False,
    )
    return readers, _writer(path, pool_timeout=pool_timeout, pragmas=_pragmas(busy_timeout))


def migrator(path: Path) -> Engine:
    """Return the engine that changes the schema: it waits as long for the lock as another may migrate."""
    # Foreign keys are off, because a table that is rebuilt is dropped for an instant.
    pragmas = (*_pragmas(timedelta(seconds=60)), "foreign_keys=OFF")
    return _writer(path, pool_timeout=timedelta(seconds=10), pragmas=pragmas)


def _writer(path: Path, *, pool_timeout: timedelta, pragmas: tuple[str, ...]) -> Engine:
    # One connection: who waits for it is served first come, first served, which SQLite's own lock is not.
    return _engine(
        path, pool_size=1, pool_timeout=pool_timeout, begin="BEGIN IMMEDIATE", pragmas=pragmas, writes=True
    )


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
    path: Path, *, pool_size: int, pool_timeout: timedelta, begin: str, pragmas: tuple[str, ...], writes: bool
) -> Engine:
    async def connect() -> Connection:
        # Nobody waits for the end of a transaction that has changed nothing.
        return await Connection(path, begin=begin, pragmas=pragmas, waits_for_end=writes).open()

    sync: SyncEngine = create_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        creator=lambda: sync.dialect.dbapi.connect(async_creator_fn=connect),  # type: ignore[union-attr]  # its own
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
