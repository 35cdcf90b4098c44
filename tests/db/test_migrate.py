import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from tests import databases
from tests.db import releases

from mercato.kernel.db import migrate as module
from mercato.kernel.db.engine import Database
from mercato.kernel.db.migrate import HEAD, SchemaIsNewer, migrate, run_in_transaction
from mercato.kernel.db.tables import metadata
from mercato.kernel.db.tables.discovery import WORDS_OBJECTS
from mercato.kernel.db.url import is_postgresql

_numbers = count()

SCHEMA = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%' AND sql IS NOT NULL ORDER BY name",
    "postgresql": """
        SELECT tablename || '.' || indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'public' AND tablename <> 'alembic_version'
        UNION ALL
        SELECT table_name || '.' || column_name, data_type || is_nullable || coalesce(column_default, '')
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
        UNION ALL
        SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version'
        ORDER BY 1, 2
    """,
}


@asynccontextmanager
async def an_empty_one(kind: str, directory: Path) -> AsyncIterator[str]:
    name = f"empty_{os.getpid()}_{next(_numbers)}"
    if kind == "sqlite":
        yield f"sqlite:///{directory / name}.db"
        return
    server = await databases.postgresql_server()
    await databases.run(server, f"CREATE DATABASE {name}")
    yield databases.with_database(server, name)
    await databases.run(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def empty_url(database_kind: str, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database with nothing in it."""
    async with an_empty_one(database_kind, tmp_path) as url:
        yield url


@pytest.fixture
async def other_empty_url(database_kind: str, tmp_path: Path) -> AsyncIterator[str]:
    async with an_empty_one(database_kind, tmp_path) as url:
        yield url


async def differences(url: str) -> list[Any]:
    def compare(connection: Connection) -> list[Any]:
        def ours(name: str | None, _kind: str, _parents: Any) -> bool:
            return name is None or not name.startswith(WORDS_OBJECTS)

        options = {"compare_type": True, "compare_server_default": True, "include_name": ours}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

    return await run_in_transaction(url, compare)


async def schema(url: str) -> dict[str, str]:
    async with Database.open(url) as db, db.read() as tx:
        rows = await tx.all(text(SCHEMA[db.dialect]))
    return {row[0]: " ".join(row[1].replace('"', "").split()) for row in rows}


async def version(url: str) -> tuple[Any, ...]:
    """Return the definition and the rows of Alembic's own table."""

    def look(connection: Connection) -> tuple[Any, ...]:
        about = inspect(connection)
        columns = [(c["name"], repr(c["type"]), c["nullable"]) for c in about.get_columns("alembic_version")]
        row = connection.execute(text("SELECT * FROM alembic_version")).all()
        return columns, about.get_pk_constraint("alembic_version"), [tuple(one) for one in row]

    return await run_in_transaction(url, look)


async def test_a_migrated_database_equals_the_schema(empty_url: str, database_url: str) -> None:
    await migrate(empty_url)
    assert await differences(empty_url) == []
    assert await schema(empty_url) == await schema(database_url)


@pytest.mark.parametrize("release", sorted(path.stem for path in releases.HERE.glob("*.json")))
async def test_a_migrated_database_of_a_release_equals_a_new_one(
    release: str, empty_url: str, other_empty_url: str
) -> None:
    await migrate(empty_url)
    kind = "postgresql" if is_postgresql(other_empty_url) else "sqlite"

    def create(connection: Connection) -> None:
        for statement in releases.load_statements(release, kind):
            connection.exec_driver_sql(statement)

    await run_in_transaction(other_empty_url, create)
    assert await migrate(other_empty_url) == release
    assert await differences(other_empty_url) == []
    assert await schema(empty_url) == await schema(other_empty_url)
    assert await version(empty_url) == await version(other_empty_url)


async def test_migrating_twice_changes_nothing(empty_url: str) -> None:
    await migrate(empty_url)
    before = await schema(empty_url)
    await migrate(empty_url)
    assert await schema(empty_url) == before


async def test_only_its_owner_can_read_a_new_database_file(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        await migrate(f"sqlite:///{tmp_path / 'mercato.db'}")
        async with Database.open(f"sqlite:///{tmp_path / 'mercato.db'}") as db, db.write() as tx:
            await tx.execute(text("CREATE TABLE more (number INTEGER)"))
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("mercato.db", "mercato.db-wal", "mercato.db-shm"), 0o600)


async def test_processes_that_start_at_once_migrate_once(empty_url: str) -> None:
    await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    async with Database.open(empty_url) as db, db.read() as tx:
        assert [row[0] for row in await tx.all(text("SELECT version_num FROM alembic_version"))] == [HEAD]


async def test_a_migration_that_fails_half_way_leaves_nothing(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = module._upgrade

    def fails(connection: Connection) -> None:
        whole(connection)
        raise LookupError

    monkeypatch.setattr(module, "_upgrade", fails)
    with pytest.raises(LookupError):
        await migrate(empty_url)
    monkeypatch.undo()
    async with Database.open(empty_url) as db, db.read() as tx:
        tables = {
            "sqlite": "SELECT count(*) FROM sqlite_master",
            "postgresql": "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'",
        }
        assert await tx.scalar(text(tables[db.dialect])) == 0
    await migrate(empty_url)


async def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(empty_url: str) -> None:
    await migrate(empty_url)
    async with Database.open(empty_url) as db, db.write() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    before = await schema(empty_url)
    with pytest.raises(SchemaIsNewer, match="9999"):
        await migrate(empty_url)
    assert await schema(empty_url) == before


def test_head_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(module.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]
