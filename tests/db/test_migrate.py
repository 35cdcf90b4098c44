import asyncio
import json
import os
import re
import sqlite3
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from msgspec.structs import replace
from sqlalchemy import Connection, Table, inspect, select, text
from tests import databases
from tests.databases import only_postgresql, only_sqlite
from tests.db import releases
from tests.db.test_side_by_side import value, written
from tests.partners.test_commands import Shell, shell
from tests.processes.test_serve import mercato
from tests.waiting import PATIENCE

from mercato.features.schema import SCHEMA
from mercato.platform.db import migrate as module
from mercato.platform.db import sqlite
from mercato.platform.db.engine import Database
from mercato.platform.db.migrate import SchemaDiffers, SchemaIsNewer, migrate, run_in_transaction
from mercato.platform.db.schema import Schema
from mercato.platform.db.tables import metadata
from mercato.platform.db.url import is_postgresql

__all__ = ["shell"]

_numbers = count()

RELEASED = sorted(path.stem for path in releases.HERE.glob("*.json"))
BEFORE_RELEASE = Path(__file__).parent / "refused"

WORDS_OBJECTS = ("store_words", "words", "ix_store_search_words")
"""Names, or beginnings of names, that a comparison with the metadata skips: FTS5 has tables of its own."""

OBJECTS = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%' AND sql IS NOT NULL ORDER BY name",
    "postgresql": """
        SELECT tablename || '.' || indexname, indexdef FROM pg_indexes
        WHERE schemaname = current_schema() AND tablename <> 'alembic_version'
        UNION ALL
        SELECT table_name || '.' || column_name, data_type || is_nullable || coalesce(column_default, '')
        FROM information_schema.columns WHERE table_schema = current_schema() AND table_name <> 'alembic_version'
        UNION ALL
        SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = quote_ident(current_schema())::regnamespace
            AND conrelid::regclass::text <> 'alembic_version'
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
    yield await databases.create_database(server, name)
    await databases.run(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def empty_url(database_kind: str, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database with nothing in it."""
    async with an_empty_one(database_kind, tmp_path) as url:
        yield url


async def differences(url: str) -> list[Any]:
    def compare(connection: Connection) -> list[Any]:
        def ours(name: str | None, _kind: str, _parents: Any) -> bool:
            return name is None or not name.startswith(WORDS_OBJECTS)

        options = {"compare_type": True, "compare_server_default": True, "include_name": ours}
        with warnings.catch_warnings():
            # SQLite's can't be read back; `schema` compares them.
            warnings.filterwarnings("ignore", ".*expression-based index")
            return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

    return await run_in_transaction(url, compare)


async def schema(url: str) -> dict[str, str]:
    async with Database.open(url) as db, db.read() as tx:
        rows = await tx.all(text(OBJECTS[db.dialect]))
    return {row[0]: " ".join(re.sub("([(),])", r" \1 ", row[1].replace('"', "")).split()) for row in rows}


async def version(url: str) -> tuple[Any, ...]:
    """Return the definition and the rows of Alembic's own table."""

    def look(connection: Connection) -> tuple[Any, ...]:
        about = inspect(connection)
        columns = [(c["name"], repr(c["type"]), c["nullable"]) for c in about.get_columns("alembic_version")]
        row = connection.execute(text("SELECT * FROM alembic_version")).all()
        return columns, about.get_pk_constraint("alembic_version"), [tuple(one) for one in row]

    return await run_in_transaction(url, look)


async def test_a_migrated_database_equals_the_schema(empty_url: str, database_url: str) -> None:
    await migrate(empty_url, SCHEMA)
    assert await differences(empty_url) == []
    assert await schema(empty_url) == await schema(database_url)


def kind_of(url: str) -> str:
    return "postgresql" if is_postgresql(url) else "sqlite"


async def execute(url: str, statements: list[str]) -> None:
    def run(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    await run_in_transaction(url, run)


async def rows_of(url: str, tables: list[Table]) -> dict[str, list[dict[str, Any]]]:
    async with Database.open(url) as db, db.read() as tx:
        return {
            table.name: [
                row._asdict() for row in await tx.all(select(table).order_by(*table.primary_key.columns))
            ]
            for table in tables
        }


@pytest.mark.parametrize("release", releases.shared_out(RELEASED))
async def test_a_migrated_database_of_a_release_equals_a_new_one_and_keeps_the_rows_of_every_table(
    release: str, empty_url: str, database_url: str
) -> None:
    tables = list(releases.load(releases.HERE / f"{release}.json").tables.values())
    await execute(empty_url, releases.load_statements(release, kind_of(empty_url)))
    rows: dict[str, dict[str, Any]] = {}
    async with Database.open(empty_url) as db, db.write() as tx:
        for table in tables:
            whole = {c.name: value(c, rows, 1) for c in table.columns if not c.info["filled"]}
            rows[table.name] = await written(tx, table, whole)
            needed = [c for c in table.columns if not (c.info["filled"] or c.nullable)]
            await written(tx, table, {c.name: value(c, rows, 2) for c in needed})
    before = await rows_of(empty_url, tables)
    assert {len(found) for found in before.values()} == {2}
    assert await migrate(empty_url, SCHEMA) == release
    assert await rows_of(empty_url, tables) == before
    assert await differences(empty_url) == []
    assert await schema(empty_url) == await schema(database_url)
    assert await version(empty_url) == await version(database_url)


def test_a_change_of_the_tables_is_a_revision() -> None:
    for path, content in releases.files().items():
        assert releases.is_same(path.read_text(), content), (
            f"{path.name} has other tables: see CONTRIBUTING.md, Schema"
        )


def test_the_tables_of_a_revision_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "HERE", tmp_path)
    releases.main()
    releases.main()
    changed = tmp_path / f"{SCHEMA.head}.json"
    changed.write_text(json.dumps({}))
    with pytest.raises(SystemExit, match="Add a revision"):
        releases.main()
    assert changed.read_text() == "{}"


def test_every_revision_has_its_tables_in_a_file() -> None:
    config = Config()
    config.set_main_option("script_location", str(SCHEMA.revisions))
    assert sorted(one.revision for one in ScriptDirectory.from_config(config).walk_revisions()) == RELEASED


async def test_migrating_twice_changes_nothing(empty_url: str) -> None:
    await migrate(empty_url, SCHEMA)
    before = await schema(empty_url)
    await migrate(empty_url, SCHEMA)
    assert await schema(empty_url) == before


async def test_only_its_owner_can_read_a_new_database_file(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        await migrate(f"sqlite:///{tmp_path / 'mercato.db'}", SCHEMA)
        async with Database.open(f"sqlite:///{tmp_path / 'mercato.db'}") as db, db.write() as tx:
            await tx.execute(text("CREATE TABLE more (number INTEGER)"))
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("mercato.db", "mercato.db-wal", "mercato.db-shm"), 0o600)


async def test_processes_that_start_at_once_migrate_once(empty_url: str) -> None:
    await asyncio.gather(*(migrate(empty_url, SCHEMA) for _ in range(4)))
    async with Database.open(empty_url) as db, db.read() as tx:
        assert [row[0] for row in await tx.all(text("SELECT version_num FROM alembic_version"))] == [
            SCHEMA.head
        ]


def test_of_processes_that_make_a_file_at_once_each_waits_until_it_can_use_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mercato.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        # As SQLite locks a file while it begins its log: it refuses others then, and doesn't wait.
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            sqlite.connect(path, lock_timeout=timedelta(0))

        monkeypatch.setattr(time, "sleep", lambda _: other.execute("ROLLBACK"))
        with closing(sqlite.connect(path, lock_timeout=timedelta(seconds=PATIENCE))) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_migration_that_fails_half_way_leaves_nothing(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = module._upgrade

    def fails(connection: Connection, wanted: Schema) -> None:
        whole(connection, wanted)
        raise LookupError

    monkeypatch.setattr(module, "_upgrade", fails)
    with pytest.raises(LookupError):
        await migrate(empty_url, SCHEMA)
    monkeypatch.undo()
    async with Database.open(empty_url) as db, db.read() as tx:
        tables = {
            "sqlite": "SELECT count(*) FROM sqlite_master",
            "postgresql": "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()",
        }
        assert await tx.scalar(text(tables[db.dialect])) == 0
    await migrate(empty_url, SCHEMA)


async def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(empty_url: str) -> None:
    await migrate(empty_url, SCHEMA)
    async with Database.open(empty_url) as db, db.write() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    before = await schema(empty_url)
    with pytest.raises(SchemaIsNewer, match="9999"):
        await migrate(empty_url, SCHEMA)
    assert await schema(empty_url) == before


@pytest.fixture
async def url_before_release(empty_url: str) -> str:
    """A database with a row, made before the first release."""
    statements = releases.split((BEFORE_RELEASE / f"before_release.{kind_of(empty_url)}.sql").read_text())
    await execute(empty_url, [*statements, "INSERT INTO changes (topic, key, at) VALUES ('news', 'kept', 1)"])
    return empty_url


async def content(url: str) -> tuple[dict[str, str], Any]:
    async with Database.open(url) as db, db.read() as tx:
        changes = [row[0] for row in await tx.all(text("SELECT key FROM changes"))]
        return await schema(url), (changes, await tx.scalar(text("SELECT version_num FROM alembic_version")))


async def test_a_database_with_other_tables_than_its_revisions_is_refused_and_left_as_it_is(
    url_before_release: str,
) -> None:
    before = await content(url_before_release)
    assert before[1] == (["kept"], "0001")
    with pytest.raises(SchemaDiffers, match=r"at revision 0001, but .* no table agent_spending; .* more"):
        await migrate(url_before_release, SCHEMA)
    assert await content(url_before_release) == before


@pytest.mark.parametrize(
    "step", ["ALTER TABLE console_sessions ADD COLUMN more text", "ALTER TABLE jobs ADD COLUMN lane text"]
)
async def test_a_database_on_whose_tables_a_step_fails_is_refused_and_left_as_it_is(
    step: str, url_before_release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upgrade(config: Config, _to: str) -> None:
        connection = config.attributes["connection"]
        connection.exec_driver_sql("ALTER TABLE stores ADD COLUMN extra text")
        connection.exec_driver_sql(step)

    monkeypatch.setattr(command, "upgrade", upgrade)
    before = await content(url_before_release)
    with pytest.raises(SchemaDiffers, match="no table agent_spending"):
        await migrate(url_before_release, replace(SCHEMA, head="0000"))
    assert await content(url_before_release) == before


@pytest.mark.parametrize(
    ("statements", "difference"),
    [
        (["DROP TABLE endpoints"], "there is no table endpoints"),
        (["ALTER TABLE stores DROP COLUMN phone"], "stores has no column phone"),
        (["DROP INDEX ix_jobs_dead"], "jobs has no index ix_jobs_dead"),
        (
            ["DROP INDEX ix_jobs_dead", "CREATE INDEX ix_jobs_dead ON jobs (kind, run_at)"],
            "the index ix_jobs_dead is another one",
        ),
        (
            ["DROP INDEX uq_orders_token_id", "CREATE INDEX uq_orders_token_id ON orders (token_id)"],
            "the index uq_orders_token_id is another one",
        ),
        (
            ["ALTER TABLE stores DROP COLUMN phone", "ALTER TABLE stores ADD COLUMN phone bigint"],
            "stores.phone is BIGINT, not TEXT",
        ),
    ],
)
async def test_a_database_whose_tables_were_changed_is_refused_in_words(
    statements: list[str], difference: str, empty_url: str
) -> None:
    await migrate(empty_url, SCHEMA)
    await execute(empty_url, statements)
    with pytest.raises(SchemaDiffers) as refused:
        await migrate(empty_url, SCHEMA)
    assert str(refused.value).endswith(f"but its tables are others: {difference}.")


@only_postgresql
@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("ALTER TABLE stores ALTER COLUMN phone SET NOT NULL", "stores.phone is TEXT NOT NULL, not TEXT"),
        ("ALTER TABLE stores ALTER COLUMN name DROP NOT NULL", "stores.name is TEXT, not TEXT NOT NULL"),
        ("ALTER TABLE store_search DROP COLUMN words", "store_search has no column words"),
        (
            "ALTER TABLE stores ADD COLUMN more text NOT NULL",
            "stores has a column more which this version doesn't fill",
        ),
    ],
)
async def test_a_column_of_other_properties_is_a_difference(
    statement: str, difference: str, empty_url: str
) -> None:
    await migrate(empty_url, SCHEMA)
    await execute(empty_url, [statement])
    with pytest.raises(SchemaDiffers, match=difference):
        await migrate(empty_url, SCHEMA)


@only_sqlite
async def test_a_database_without_its_full_text_index_is_refused(empty_url: str) -> None:
    await migrate(empty_url, SCHEMA)
    await execute(empty_url, ["DROP TABLE store_words"])
    with pytest.raises(SchemaDiffers, match="there is no table store_words"):
        await migrate(empty_url, SCHEMA)


async def test_what_an_operator_has_added_is_no_difference(empty_url: str) -> None:
    await migrate(empty_url, SCHEMA)
    await execute(
        empty_url,
        [
            "CREATE TABLE theirs (number integer NOT NULL)",
            "CREATE INDEX ix_theirs ON stores (phone)",
            "ALTER TABLE stores ADD COLUMN note text",
            "ALTER TABLE stores ADD COLUMN marked text NOT NULL DEFAULT ''",
        ],
    )
    assert await migrate(empty_url, SCHEMA) == SCHEMA.head


@pytest.mark.parametrize("arguments", [("serve", "--port", "0"), ("worker",), ("migrate",)])
async def test_commands_refuse_a_database_with_other_tables_and_say_what_to_do(
    arguments: tuple[str, ...], url_before_release: str, tmp_path: Path
) -> None:
    before = await content(url_before_release)
    code, _, err = await mercato(
        *arguments, "--data-dir", tmp_path / "data", MERCATO_DATABASE_URL=url_before_release
    )
    assert code == 1
    assert "at revision 0001, but its tables are others: a step fails (" in err
    assert "console_passkeys" in err
    assert "Nothing was changed." in err
    assert "Run the version that made it" in err
    assert "mercato backup" in err
    assert "Traceback" not in err
    assert await content(url_before_release) == before


async def test_doctor_finds_a_database_with_other_tables(
    empty_url: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(empty_url, SCHEMA)
    await execute(empty_url, ["DROP TABLE endpoints"])
    monkeypatch.setenv("MERCATO_DATABASE_URL", empty_url)
    said = await asyncio.to_thread(shell, "doctor", "--json", code=2)
    check = next(one for one in json.loads(said)["checks"] if one["name"] == "schema")
    assert check["state"] == "unusable"
    assert "there is no table endpoints" in check["said"]
    assert "Run the version that made it" in check["advice"]


async def test_doctor_names_the_command_that_examines_a_database_of_an_earlier_revision(
    url_before_release: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERCATO_DATABASE_URL", url_before_release)
    said = await asyncio.to_thread(shell, "doctor", "--json", code=2)
    check = next(one for one in json.loads(said)["checks"] if one["name"] == "schema")
    assert check["state"] == "unusable"
    assert "at revision 0001" in check["said"]
    assert "mercato migrate" in check["advice"]


def test_head_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(SCHEMA.revisions))
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA.head]
