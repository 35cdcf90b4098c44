"""Copies between both kinds of database: complete, resumable, and only onto an empty one that nobody uses."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

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
    func,
    insert,
    select,
    text,
    update,
)
from tests.catalog.documents import cafe
from tests.db.test_migrate import an_empty_one
from tests.forks import start
from tests.partners.test_commands import Shell, shell
from tests.service import merchant, service

from mercato.features.partners.model import PartnerKind
from mercato.features.schema import SCHEMA
from mercato.platform.db import copy as module
from mercato.platform.db.copy import Content, CopyError, copy
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import UnusableUrl
from mercato.platform.db.migrate import migrate
from mercato.platform.db.tables import audit, jobs, metadata
from mercato.platform.db.types import Instant
from mercato_client import Client, types

__all__ = ["shell"]

ROWS = 25
START = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
async def other_url(database_kind: str, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database of the other kind, with nothing in it."""
    kind = "postgresql" if database_kind == "sqlite" else "sqlite"
    async with an_empty_one(kind, tmp_path) as url:
        yield url


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 10)


def value(column: Column[Any], number: int, parents: dict[str, list[Any]]) -> Any:
    """Return a value that differs from row to row; every third is null where it may be."""
    for key in column.foreign_keys:
        return parents[key.column.table.name][number]
    if column.nullable and number % 3 == 0:
        return None
    match column.type:
        case Boolean():
            return bool(number % 2)
        case LargeBinary():
            return bytes(range(256)) + bytes([number])
        case Double():
            return -0.1 * number
        case Uuid():
            return uuid4()
        case Instant():
            return START + timedelta(milliseconds=number)
        case BigInteger():
            return 2**40 + number
        case Integer():
            return number + 1
        case Text():
            return f"{number} 'Ćevapi' \U0001f35c \\ \n?$1"
    raise AssertionError(column.type)


async def fill(url: str) -> None:
    """Write rows into every table."""
    parents: dict[str, list[Any]] = {}
    async with Database.open(url) as db, db.write() as tx:
        for table in metadata.sorted_tables:
            rows = [
                {column.name: value(column, number, parents) for column in table.columns}
                for number in range(ROWS)
            ]
            if "id" in table.columns:
                parents[table.name] = [row["id"] for row in rows]
            await tx.execute(insert(table), rows)


async def rows_of(url: str) -> dict[str, list[dict[str, Any]]]:
    found = {}
    async with Database.open(url) as db, db.read() as tx:
        for table in metadata.sorted_tables:
            rows = await tx.all(select(table))
            found[table.name] = sorted(
                (row._asdict() for row in rows), key=lambda row: str(key_of(table, row))
            )
    return found


def key_of(table: Table, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column.name] for column in table.primary_key)


async def nothing() -> None: ...


async def copied(source: str, target: str, **options: Any) -> list[Content]:
    return await copy(source, target, SCHEMA, finish=nothing, **options)


async def revision(url: str) -> str:
    async with Database.open(url) as db, db.read() as tx:
        return str(await tx.scalar(text("SELECT version_num FROM alembic_version")))


async def test_every_row_of_every_table_arrives_and_is_compared(database_url: str, other_url: str):
    await fill(database_url)
    contents = await copied(database_url, other_url)
    assert await rows_of(other_url) == await rows_of(database_url)
    assert {one.table: one.rows for one in contents} == dict.fromkeys(metadata.tables, ROWS)
    assert len({one.checksum for one in contents}) == len(contents)
    assert await revision(other_url) == SCHEMA.head
    assert await migrate(other_url, SCHEMA) == SCHEMA.head


async def test_the_copy_numbers_rows_after_the_last_one_of_the_source(database_url: str, other_url: str):
    row = {c.name: value(c, 1, {}) for c in jobs.columns if c.name != "id"}
    async with Database.open(database_url) as db, db.write() as tx:
        for _ in range(3):
            last = await tx.scalar(insert(jobs).values(row | {"state": "dead"}).returning(jobs.c.id))
        # Its number isn't given again, which a fenced worker relies on.
        await tx.execute(jobs.delete().where(jobs.c.id == last))
    await copied(database_url, other_url)
    async with Database.open(other_url) as db, db.write() as tx:
        assert await tx.scalar(insert(jobs).values(row).returning(jobs.c.id)) == last + 1


class StopCopyError(Exception): ...


class Interruption:
    """Raises after a number of batches, and counts the rows of each table."""

    def __init__(self, batches: int = sys.maxsize) -> None:
        self.batches = batches
        self.rows: dict[str, int] = {}

    def __call__(self, table: str, rows: int) -> None:
        self.rows[table] = rows
        self.batches -= 1
        if not self.batches:
            raise StopCopyError


async def test_an_interrupted_copy_goes_on_after_the_last_batch_and_serves_only_when_complete(
    database_url: str, other_url: str
):
    await fill(database_url)
    first = Interruption(batches=8)
    with pytest.raises(StopCopyError):
        await copied(database_url, other_url, progress=first)
    with pytest.raises(UnusableUrl, match="unfinished copy"):
        await migrate(other_url, SCHEMA)
    with pytest.raises(CopyError, match="unfinished copy"):
        await copied(other_url, database_url)
    second = Interruption()
    await copied(database_url, other_url, progress=second)
    for table in metadata.tables:
        assert first.rows.get(table, 0) + second.rows.get(table, 0) == ROWS
    assert sum(first.rows.values()) >= 3 * 10
    assert await rows_of(other_url) == await rows_of(database_url)


KILLED = """
import asyncio, os, signal, sys
from mercato.features.schema import SCHEMA
from mercato.platform.db import copy
copy.ROWS = 10
batches = 0
def progress(table, rows):
    global batches
    batches += 1
    if batches == 20:
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(copy.copy(*sys.argv[1:], SCHEMA, finish=None, progress=progress))
"""


async def test_a_copy_that_is_killed_is_finished_by_the_same_command(
    database_url: str, other_url: str, shell: Shell, tmp_path: Path
):
    await fill(database_url)
    (tmp_path / "killed.py").write_text(KILLED)
    killed = await start(database_url, other_url, module="killed", cwd=tmp_path, env=os.environ)
    assert await killed.wait() == -signal.SIGKILL
    rows = await rows_of(database_url)
    shown = await asyncio.to_thread(shell, "db", "copy", "--to", other_url)
    assert f"{ROWS * len(rows):,} rows in {len(rows)} tables: both databases are equal." in shown
    assert await rows_of(other_url) == rows


async def test_an_interruption_before_the_end_repeats_only_the_end(database_url: str, other_url: str):
    await fill(database_url)

    async def interrupt() -> None:
        raise StopCopyError

    with pytest.raises(StopCopyError):
        await copy(database_url, other_url, SCHEMA, finish=interrupt)
    again = Interruption()
    await copied(database_url, other_url, progress=again)
    assert again.rows == {}
    assert await revision(other_url) == SCHEMA.head


async def test_a_source_that_was_changed_meanwhile_is_found_and_the_copy_begins_anew(
    database_url: str, other_url: str
):
    await fill(database_url)
    with pytest.raises(StopCopyError):
        await copied(database_url, other_url, progress=Interruption(batches=60))
    async with Database.open(database_url) as db, db.write() as tx:
        await tx.execute(update(audit).values(action="changed"))
    with pytest.raises(CopyError, match=r"differ in audit: the source was changed"):
        await copied(database_url, other_url)
    assert not any((await rows_of(other_url)).values())
    await copied(database_url, other_url)
    assert await rows_of(other_url) == await rows_of(database_url)


async def test_a_target_with_a_row_is_refused_and_keeps_it(database_url: str, other_url: str):
    await migrate(other_url, SCHEMA)
    async with Database.open(other_url) as db, db.write() as tx:
        await tx.execute(insert(audit).values({c.name: value(c, 1, {}) for c in audit.columns}))
    with pytest.raises(CopyError, match="isn't empty: there are rows in audit"):
        await copied(database_url, other_url)
    async with Database.open(other_url) as db, db.read() as tx:
        assert await tx.scalar(select(func.count()).select_from(audit)) == 1
    assert await revision(other_url) == SCHEMA.head


@pytest.mark.parametrize("used", ["source", "target"])
async def test_a_database_that_a_process_has_open_is_refused(used: str, database_url: str, other_url: str):
    await migrate(other_url, SCHEMA)
    async with Database.open(database_url if used == "source" else other_url) as db:
        async with db.read() as tx:
            await tx.scalar(text("SELECT 1"))
        with pytest.raises(CopyError, match=r"is in use\. Stop its servers"):
            await copied(database_url, other_url)
    await copied(database_url, other_url)


async def test_a_database_is_not_copied_to_itself(database_url: str):
    with pytest.raises(CopyError, match="the same database"):
        await copied(database_url, database_url)


async def test_a_source_that_is_not_there_or_of_another_version_is_refused(
    database_url: str, other_url: str, tmp_path: Path
):
    missing = tmp_path / "missing.db"
    with pytest.raises(CopyError, match="There is no database"):
        await copied(f"sqlite:///{missing}", other_url)
    assert not missing.exists()
    async with Database.open(database_url) as db, db.write() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    with pytest.raises(CopyError, match="at revision 0001"):
        await copied(database_url, other_url)


async def test_a_batch_has_no_more_bytes_than_its_bound(
    database_url: str, other_url: str, monkeypatch: pytest.MonkeyPatch
):
    await fill(database_url)
    monkeypatch.setattr(module, "BYTES", 1)
    batches = Interruption()
    await copied(database_url, other_url, progress=batches)
    assert sys.maxsize - batches.batches > ROWS * 20
    assert await rows_of(other_url) == await rows_of(database_url)


async def test_the_copy_is_served_with_its_stores_and_words(
    database_url: str, other_url: str, tmp_path: Path, shell: Shell
):
    """What the tables don't have, the words of a search, is made in the copy; keys and secrets still open."""
    home = shell.data_dir
    async with merchant() as shop, service(database_url, home) as mercato:
        _, pos = await mercato.partner()
        _, front = await mercato.partner(PartnerKind.MARKETFRONT)
        registered = types.OnboardingRequest(
            partner_store_id="1",
            name="Café",
            address=types.AddressRequest(city="Madison", state="WI"),
            catalog_callback_url=shop.host(cafe()),
        )

        def register() -> types.Store:
            with Client(mercato.base, pos.key) as client:
                return client.wait_until_live(client.register_store(registered).onboarding_id)

        store = await asyncio.to_thread(register)
    shown = await asyncio.to_thread(shell, "db", "copy", "--to", other_url)
    assert "both databases are equal" in shown
    async with service(other_url, home) as mercato:

        def find() -> list[Any]:
            with Client(mercato.base, front.key) as client:
                return [
                    found.store_id for found in client.discover_stores(types.DiscoverRequest(query="tea"))
                ]

        assert await asyncio.to_thread(find) == [store.store_id]


def test_the_command_says_what_it_did_and_how_to_serve_the_copy(shell: Shell, other_url: str):
    key = shell.data_dir / "encryption.key"
    key.unlink(missing_ok=True)
    assert shell.json("db", "copy", "--to", other_url).keys() == {"tables"}
    assert "To serve the copy:" in shell.err
    assert "put the encryption.key of the servers until now into its data directory" in shell.err
    assert str(key) not in shell.err
    assert (
        "same database"
        in (shell("db", "copy", "--to", os.environ["MERCATO_DATABASE_URL"], code=1), shell.err)[1]
    )


async def test_doctor_says_that_a_copy_is_unfinished(
    database_url: str, other_url: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
):
    await fill(database_url)
    with pytest.raises(StopCopyError):
        await copied(database_url, other_url, progress=Interruption(batches=8))
    monkeypatch.setenv("MERCATO_DATABASE_URL", other_url)
    shown = await asyncio.to_thread(partial(shell, "doctor", code=2))
    assert "The database is an unfinished copy of another one." in shown
    assert "mercato db copy" in shown


def test_a_directory_that_does_not_exist_is_named_in_full(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A path after three slashes is a relative one: the message shows where it leads."""
    monkeypatch.chdir(tmp_path)
    shell("db", "copy", "--to", "sqlite:///var/lib/mercato.db", code=1)
    assert f"There is no directory {tmp_path}/var/lib for the database." in shell.err
