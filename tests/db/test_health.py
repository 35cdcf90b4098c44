"""`/readyz` fails while the database cannot be written, even if it can be read."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text
from tests.databases import only_postgresql, only_sqlite
from tests.service import service

from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.db.health import WriteProbe
from mercato.platform.db.tables import write_probes


async def rows(db: Database) -> Any:
    async with db.read() as tx:
        return await tx.scalar(select(func.count()).select_from(write_probes))


async def full(db: Database, *, more: int) -> None:
    """Limit the file to so many more pages than it has now."""
    async with db.write() as tx:
        pages = await tx.scalar(text("PRAGMA page_count"))
        await tx.execute(text(f"PRAGMA max_page_count = {pages + more}"))


async def test_repeated_probes_leave_one_row(db: Database):
    probe = WriteProbe(db, interval=0)
    for _ in range(3):
        await probe.check()
    await asyncio.gather(*(WriteProbe(db, interval=0).check() for _ in range(5)))
    assert await rows(db) <= 5
    await probe.check()
    assert await rows(db) == 1


async def test_concurrent_checks_cost_one_write(db: Database, monkeypatch: pytest.MonkeyPatch):
    probe, real, writes = WriteProbe(db, interval=60), db.write, 0

    def counted() -> Any:
        nonlocal writes
        writes += 1
        return real()

    monkeypatch.setattr(db, "write", counted)
    await asyncio.gather(*(probe.check() for _ in range(20)))
    await probe.check()
    assert writes == 1


@only_sqlite
async def test_a_full_disk_is_noticed_until_it_has_space_again(db: Database):
    probe = WriteProbe(db, interval=0)
    await full(db, more=0)
    with pytest.raises(DatabaseUnavailable, match="full"):
        await probe.check()
    await full(db, more=1000)
    await probe.check()


@only_postgresql
async def test_a_server_that_has_become_read_only_is_noticed(db: Database, database_url: str):
    name = database_url.rpartition("/")[2].partition("?")[0]
    async with db.write() as tx:
        await tx.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
    async with Database.open(database_url) as fresh:
        with pytest.raises(DatabaseUnavailable, match="read-only"):
            await WriteProbe(fresh).check()


async def test_a_write_that_waits_too_long_for_others_is_a_failure(db: Database):
    async with db.write() as tx:
        await tx.execute(text("SELECT 1"))
        if db.dialect == "postgresql":
            await tx.execute(text("LOCK TABLE write_probes"))
        with pytest.raises(DatabaseUnavailable, match="in time"):
            await WriteProbe(db, seconds=0.1).check()
    await WriteProbe(db).check()


@only_sqlite
async def test_readyz_fails_while_the_disk_is_full_and_healthz_does_not(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path / "data") as mercato:
        anyone = mercato.anonymous()
        assert (await anyone.get("/readyz")).status == 200
        await full(mercato.app.db, more=0)
        await asyncio.sleep(1.1)  # an answer holds for a second
        reply = await anyone.get("/readyz")
        assert (reply.status, reply.json()["errorCode"]) == (503, "SERVICE_UNAVAILABLE")
        assert (await anyone.get("/healthz")).status == 200
