"""The code of a release works on the next one's tables: both run while servers are replaced one by one."""

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    delete,
    exc,
    insert,
    select,
    text,
    update,
)
from sqlalchemy import Connection as SyncConnection
from tests.databases import only_postgresql
from tests.db import releases

from mercato.features.schema import SCHEMA
from mercato.platform.db import migrate as module
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import is_unavailable
from mercato.platform.db.migrate import migrate
from mercato.platform.db.schema import Schema

RELEASED = sorted(releases.HERE.glob("*.json"))


def value(column: Column[Any], rows: dict[str, dict[str, Any]], number: int) -> Any:
    """Return a value for the column; a foreign key refers to the existing row of the other table."""
    refers = column.info["refers"]
    if refers is not None:
        table, _, name = refers.partition(".")
        return rows[table][name]
    match column.type:
        case Boolean():
            return bool(number % 2)
        case LargeBinary():
            return b"{}" + bytes([number])
        case Double():
            return 0.5 + number
        case Uuid():
            return uuid4()
        case BigInteger() | Integer():
            return number
        case Text():
            return f'{{"{number}":{number}}}'
    raise AssertionError(column.type)


async def written(tx: Write, table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Insert a row, and return it as selected with all columns."""
    key = await tx.first(insert(table).values(row).returning(*table.primary_key))
    assert key is not None
    found = await tx.first(select(table).where(*matches(table, tuple(key))))
    assert found is not None
    return found._asdict()


def matches(table: Table, key: tuple[Any, ...]) -> list[Any]:
    return [column == part for column, part in zip(table.primary_key, key, strict=True)]


def key_of(table: Table, row: dict[str, Any]) -> tuple[UUID | int | str, ...]:
    return tuple(row[column.name] for column in table.primary_key)


def test_there_is_a_release_to_compare_with():
    assert RELEASED
    assert RELEASED[-1].stem <= SCHEMA.head


async def work_as(release: Path, db: Database) -> None:
    """Read, write, change and delete rows of every table, as the code of a release does."""
    tables = releases.load(release)
    rows: dict[str, dict[str, Any]] = {}
    made: list[tuple[Table, dict[str, Any]]] = []
    async with db.write() as tx:
        for table in tables.tables.values():
            whole = {c.name: value(c, rows, 1) for c in table.columns if not c.info["filled"]}
            first = rows[table.name] = await written(tx, table, whole)
            assert first.items() >= whole.items()
            # As little as it must write: new columns need defaults.
            needed = [c for c in table.columns if not (c.info["filled"] or c.nullable)]
            second = await written(tx, table, {c.name: value(c, rows, 2) for c in needed})
            made += [(table, first), (table, second)]
            for column in table.columns:
                if not column.primary_key and column.info["refers"] is None:
                    change = {column.name: value(column, rows, 3)}
                    where = matches(table, key_of(table, second))
                    assert (await tx.execute(update(table).where(*where).values(change))).rowcount == 1
        for table, row in reversed(made):
            gone = await tx.execute(delete(table).where(*matches(table, key_of(table, row))))
            assert gone.rowcount == 1


@pytest.mark.parametrize("release", releases.shared_out(RELEASED), ids=[path.stem for path in RELEASED])
async def test_the_code_of_a_release_reads_and_writes_every_table(release: Path, db: Database):
    await work_as(release, db)


@only_postgresql
@pytest.mark.parametrize(
    "step",
    [
        "ALTER TABLE stores ADD COLUMN more text NOT NULL",
        "ALTER TABLE stores DROP COLUMN name",
        "ALTER TABLE orders RENAME COLUMN total TO sum",
        "ALTER TABLE stores ALTER COLUMN phone SET NOT NULL",
        "ALTER TABLE orders ALTER COLUMN sequence TYPE text",
        "DROP TABLE endpoints",
    ],
    ids=["needed", "dropped", "renamed", "narrowed", "retyped", "gone"],
)
async def test_a_step_that_removes_something_is_noticed(step: str, db: Database):
    async with db.write() as tx:
        await tx.execute(text(step))
    with pytest.raises((exc.DBAPIError, AssertionError)):
        await work_as(RELEASED[-1], db)


@only_postgresql
async def test_a_step_gives_up_on_a_locked_table_so_that_requests_do_not_queue(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    def step(connection: SyncConnection, _schema: Schema) -> None:
        connection.execute(text("ALTER TABLE stores ADD COLUMN more text"))

    monkeypatch.setattr(module, "_upgrade", step)
    monkeypatch.setattr(module, "LOCK_MS", 100)
    async with Database.open(database_url) as db:
        async with db.write() as tx:
            await tx.execute(text("SELECT 1 FROM stores"))
            with pytest.raises(Exception) as busy:  # noqa: PT011  # the driver's own, distinguished below
                await migrate(database_url, SCHEMA)
        assert is_unavailable(busy.value)
        await migrate(database_url, SCHEMA)
