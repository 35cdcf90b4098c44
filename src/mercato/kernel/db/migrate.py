"""Bring a database to the schema of this version; safe when several processes start at once."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    NullPool,
    PrimaryKeyConstraint,
    String,
    Table,
    create_engine,
    create_mock_engine,
    event,
    inspect,
    select,
    text,
)

from mercato.kernel.db import postgresql, sqlite
from mercato.kernel.db.engine import Read
from mercato.kernel.db.pooler import refuse_pooler
from mercato.kernel.db.tables import metadata

T = TypeVar("T")

HEAD = "0001"
"""The newest revision. Written here so that a start with no step to take loads no Alembic; a test holds it."""

# Alembic's own table, as it makes it.
_VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

_IS_THERE: Final = {
    "sqlite": text("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"),
    "postgresql": text("SELECT to_regclass('alembic_version')"),
}

# Any number that nobody else uses for an advisory lock in the same database.
_LOCK = 7_275_110_001


LOCK_WAIT: Final = timedelta(minutes=1)
"""How long a process waits while another one migrates."""

LOCK_MS: Final = 3000
"""How long a step waits for a table that is in use: everybody else waits behind it, and may still be serving."""


class SchemaIsNewer(Exception):  # noqa: N818  # a state of the world, as `Problem` is
    """The database was migrated by a newer version of the service."""


async def migrate(url: str) -> str | None:
    """Upgrade to `HEAD` in one transaction, all of it or nothing; return the revision it was at, None if it is new.

    A second process waits for the first: on PostgreSQL for an advisory lock, on SQLite for the write lock.
    A database of a newer version is left as it is, with `SchemaIsNewer`. A step that meets a table in use gives up
    soon, and nothing is changed. Raises UnusableUrl for a pooler in transaction mode.
    """
    if postgresql.is_url(url):
        await refuse_pooler(url)
    return await run_in_transaction(url, _upgrade)


async def run_in_transaction(url: str, function: Callable[[Connection], T]) -> T:
    """Run what needs SQLAlchemy's own connection, as Alembic does, in a transaction that nobody migrates beside."""
    if postgresql.is_url(url):
        return await _run_on_postgresql(url, function)
    return await asyncio.to_thread(_run_on_sqlite, sqlite.path_of(url), function)


def _run_on_sqlite(path: Path, function: Callable[[Connection], T]) -> T:
    sqlite.create_private(path)
    engine = create_engine(
        "sqlite://",
        # It waits for the lock as long as another process may migrate. Foreign keys are off, because a table that is
        # rebuilt is dropped for an instant.
        creator=lambda: sqlite.connect(path, "foreign_keys=OFF", lock_timeout=LOCK_WAIT),
        poolclass=NullPool,
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with engine.begin() as connection:
        return function(connection)


async def _run_on_postgresql(url: str, function: Callable[[Connection], T]) -> T:
    # Imported where a PostgreSQL is migrated: it brings SQLAlchemy's whole ORM along.
    import asyncpg
    from sqlalchemy.ext.asyncio import create_async_engine

    async def connect() -> Any:
        return await asyncpg.connect(
            postgresql.driver_url(url),
            timeout=postgresql.CONNECT_SECONDS,
            server_settings={
                "application_name": "mercato migrate",
                # No statement is cut short, and none waits long for a lock: those behind it would wait, too.
                "statement_timeout": "0",
                "lock_timeout": f"{LOCK_WAIT // timedelta(milliseconds=1)}",
            },
        )

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
            return await connection.run_sync(function)
    finally:
        await engine.dispose()


async def find_revision(tx: Read) -> str | None:
    """Return the schema's revision; None of a database that has no tables of ours."""
    if await tx.scalar(_IS_THERE[tx.dialect]) is None:
        return None
    revision: str | None = await tx.scalar(select(_VERSION.c.version_num))
    return revision


def _upgrade(connection: Connection) -> str | None:
    revision = _revision(connection)
    if revision is None:
        _create(connection)
    elif revision != HEAD:
        _walk(connection, revision)
    return revision


def _create(connection: Connection) -> None:
    """Make a new database at once, because the tables are quicker made than Alembic is imported.

    A test holds what is made here against what all revisions make together. Tables alone: rows that a revision
    inserts would have to be inserted here, too.
    """
    statements: list[str] = []
    noting = create_mock_engine(
        connection.engine.url,
        lambda statement, *_: statements.append(str(statement.compile(dialect=connection.dialect))),
    )
    metadata.create_all(noting, checkfirst=False)
    _VERSION.create(noting, checkfirst=False)
    for statement in statements:
        connection.exec_driver_sql(statement)
    connection.execute(_VERSION.insert().values(version_num=HEAD))


def _walk(connection: Connection, revision: str | None) -> None:
    """Take the steps from the revision to `HEAD`; from None, all there are."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise SchemaIsNewer(f"the database is at revision {revision}, which this version does not know")
    command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision
