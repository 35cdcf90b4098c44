"""Upgrade a database to the schema of this version. Safe when several processes start at once."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import (
    URL,
    ClauseElement,
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
    exc,
    select,
    text,
)
from sqlalchemy.engine.mock import MockConnection

from mercato.platform.db import sqlite
from mercato.platform.db.engine import Read
from mercato.platform.db.errors import UnusableUrl, is_unavailable, no_connection
from mercato.platform.db.schema import Schema, list_differences
from mercato.platform.db.servers import Servers, refuse_pooler
from mercato.platform.db.tables import metadata
from mercato.platform.db.url import is_postgresql, sqlite_path

T = TypeVar("T")

# Alembic's own table, as Alembic creates it.
_VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

_VERSION_TABLE: Final = {
    "sqlite": text("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"),
    "postgresql": text(
        "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'alembic_version'"
    ),
}

LOCK: Final = "hashtextextended('mercato migrate ' || current_schema(), 0)"
"""The number of the migration lock: a schema's own, because advisory locks belong to a whole database."""

HOME: Final = """
    SELECT current_schema() AS own, current_setting('search_path') AS path, (
        SELECT nspname FROM pg_class JOIN pg_namespace AS home ON home.oid = relnamespace
        WHERE pg_class.oid = to_regclass('alembic_version')
    ) AS found
"""
"""Reads what `check_home` takes."""

UNFINISHED: Final = "copying-"
"""What the revision of an unfinished copy begins with, before that of its tables."""

LOCK_WAIT: Final = timedelta(minutes=1)
"""How long a process waits while another one migrates."""

LOCK_MS: Final = 3000
"""How long a step waits for a table that is in use: requests of running servers queue behind it."""


SHOWN: Final = 3
"""Differences that a message lists."""


class SchemaIsNewer(Exception):  # noqa: N818  # a state of the world, as `Problem` is
    """The database was migrated by a newer version of the service."""


class SchemaDiffers(Exception):  # noqa: N818  # the same
    """The database names a revision whose tables it doesn't have."""

    def __init__(self, revision: str, differences: list[str]) -> None:
        more = f"; and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        super().__init__(
            f"The database says that it is at revision {revision}, but its tables are others: "
            f"{'; '.join(differences[:SHOWN])}{more}."
        )


async def migrate(url: str, schema: Schema) -> str | None:
    """Upgrade to the schema in one transaction, all of it or nothing; return the revision it was at, None if it is new.

    A second process waits for the first: on PostgreSQL for an advisory lock, on SQLite for the write lock.
    Raises SchemaIsNewer for a database of a newer version, SchemaDiffers for one with other tables than its
    revision's, the database's error if a table stays locked for `LOCK_MS`, and UnusableUrl for a pooler in
    transaction mode; nothing is changed then.
    """
    if is_postgresql(url):
        await refuse_pooler(Servers(url))
    return await run_in_transaction(url, lambda connection: _upgrade(connection, schema))


async def run_in_transaction(url: str, function: Callable[[Connection], T]) -> T:
    """Run a function on SQLAlchemy's own connection, which Alembic needs, in a transaction under the migration lock."""
    if is_postgresql(url):
        return await _run_on_postgresql(url, function)
    path = sqlite_path(url)
    if not path.parent.is_dir():
        raise UnusableUrl(
            f"There is no directory {path.absolute().parent} for the database. Create it, or name another."
        )
    return await asyncio.to_thread(_run_on_sqlite, path, function)


def _run_on_sqlite(path: Path, function: Callable[[Connection], T]) -> T:
    sqlite.create_private(path)
    engine = create_engine(
        "sqlite://",
        # The lock may be held by another process that migrates. Foreign keys are off, because rebuilding a table drops
        # it for an instant.
        creator=lambda: sqlite.connect(path, "foreign_keys=OFF", lock_timeout=LOCK_WAIT),
        poolclass=NullPool,
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with engine.begin() as connection:
        return function(connection)


async def _run_on_postgresql(url: str, function: Callable[[Connection], T]) -> T:
    # Imported here, because it loads SQLAlchemy's whole ORM.
    import asyncpg
    from sqlalchemy.ext.asyncio import create_async_engine

    async def connect() -> Any:
        try:
            return await Servers(url).connect(
                server_settings={
                    "application_name": "mercato migrate",
                    # Statements may take long; waiting for a lock may not, because requests queue behind it.
                    "statement_timeout": "0",
                    "lock_timeout": f"{LOCK_WAIT // timedelta(milliseconds=1)}",
                },
            )
        except (OSError, asyncpg.InternalClientError) as error:
            raise no_connection(error) from error

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            check_home((await connection.execute(text(HOME))).one())
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
            await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
            return await connection.run_sync(function)
    finally:
        await engine.dispose()


def check_home(home: Sequence[Any]) -> None:
    """Return if the tables are, or will be made, in the first schema of the session's path. Raises UnusableUrl."""
    own, path, found = home
    if own is None:
        raise UnusableUrl(
            f"The database has no schema {path}. Create it with CREATE SCHEMA, or name another in "
            "MERCATO_DATABASE_URL."
        )
    if found not in {None, own}:
        # Two networks would share tables.
        raise UnusableUrl(
            f"There are tables in the schema {found}, but new ones would be made in {own}. "
            f"Name one schema alone in MERCATO_DATABASE_URL: ?options=-csearch_path%3D{found}"
        )


async def find_revision(tx: Read) -> str | None:
    """Return the schema's revision; None if the database has no tables of ours."""
    if await tx.scalar(_VERSION_TABLE[tx.dialect]) is None:
        return None
    revision: str | None = await tx.scalar(select(_VERSION.c.version_num))
    return revision


def _upgrade(connection: Connection, schema: Schema) -> str | None:
    revision = _revision(connection)
    if revision is None:
        _create(connection, schema)
        return None
    if revision != schema.head:
        _run_steps(connection, revision, schema)
    if differences := list_differences(connection, schema):
        raise SchemaDiffers(revision, differences)
    return revision


def _create(connection: Connection, schema: Schema) -> None:
    """Make a new database from the tables: no revision runs, and Alembic isn't imported.

    Rows that a revision inserts would have to be inserted here, too.
    """
    for statement in schema_statements(connection.engine.url):
        connection.exec_driver_sql(statement)
    connection.execute(_VERSION.insert().values(version_num=schema.head))


def schema_statements(url: URL | str) -> list[str]:
    """Return the DDL of a new database, for the kind of database at the URL."""
    statements: list[str] = []

    def record(statement: ClauseElement, *_: object) -> None:
        statements.append(str(statement.compile(dialect=recorder.dialect)))

    recorder: MockConnection = create_mock_engine(url, record)
    # In an order that doesn't depend on which module is imported first.
    metadata.create_all(recorder, tables=metadata.sorted_tables, checkfirst=False)
    _VERSION.create(recorder, checkfirst=False)
    return statements


def _run_steps(connection: Connection, revision: str, schema: Schema) -> None:
    """Run the steps from the revision to the newest. Raises SchemaIsNewer, and SchemaDiffers if one can't be run."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(schema.revisions))
    config.attributes["connection"] = connection
    if revision.startswith(UNFINISHED):
        raise UnusableUrl(
            "The database is an unfinished copy of another one. "
            "Finish it with mercato db copy, or name another database."
        )
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision not in known:
        raise SchemaIsNewer(f"the database is at revision {revision}, which this version does not know")
    try:
        with connection.begin_nested():
            command.upgrade(config, "head")
    except (exc.OperationalError, exc.ProgrammingError, exc.NoSuchTableError) as error:
        if is_unavailable(error):
            raise
        # What the steps would have added is a difference, too, so the step's own error comes first.
        reason = (str(getattr(error, "orig", error)).splitlines() or [type(error).__name__])[0]
        reason = reason.rpartition("'>: ")[2]
        raise SchemaDiffers(
            revision, [f"a step fails ({reason})", *list_differences(connection, schema)]
        ) from error


def _revision(connection: Connection) -> str | None:
    if connection.execute(_VERSION_TABLE[connection.dialect.name]).scalar() is None:
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision
