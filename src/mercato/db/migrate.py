"""Bring a database to the schema of this version; safe when several processes start at once."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    create_mock_engine,
    inspect,
    select,
    text,
)

from mercato.db import postgresql, sqlite
from mercato.db.engine import Read
from mercato.db.pooler import refuse_pooler
from mercato.db.tables import metadata

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
    on_postgresql = postgresql.is_url(url)
    if on_postgresql:
        await refuse_pooler(url)
    engine = postgresql.migrator(url) if on_postgresql else sqlite.migrator(sqlite.path_of(url))
    try:
        async with engine.begin() as connection:
            if on_postgresql:
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
            return await connection.run_sync(_upgrade)
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
    if connection.dialect.name == "sqlite":
        # Its driver is a thread: all at once, because asking it sixty times takes longer than what is asked.
        connection.connection.run_async(lambda driver: driver.hop(_execute_all, statements))
    else:
        for statement in statements:
            connection.exec_driver_sql(statement)
    connection.execute(_VERSION.insert().values(version_num=HEAD))


def _execute_all(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


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
