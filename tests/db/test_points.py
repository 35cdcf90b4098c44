"""Reads of rows by their key go over one kept connection, and see what was committed before them."""

import asyncio

import pytest
from sqlalchemy import func, select, text
from tests.databases import only_postgresql

from mercato.db.changes import announce
from mercato.db.engine import Database, Read
from mercato.db.errors import is_unavailable
from mercato.db.tables import changes


async def count(tx: Read) -> int:
    found: int = await tx.scalar(select(func.count()).select_from(changes))
    return found


async def test_what_another_process_has_committed_is_seen_by_the_next_read(db: Database, database_url: str):
    async with Database.open(database_url) as other:
        for number in range(5):
            assert await db.read_points(count) == number
            async with other.write() as tx:
                await announce(tx, "store", "x")


async def test_many_at_once_are_answered_one_after_another(db: Database):
    assert await asyncio.gather(*(db.read_points(count) for _ in range(50))) == [0] * 50


async def test_a_fault_leaves_the_next_read_alone(db: Database):
    async def broken(tx: Read) -> None:
        await tx.scalar(text("SELECT * FROM nowhere"))

    assert await db.read_points(count) == 0
    with pytest.raises(Exception, match="nowhere") as fault:
        await db.read_points(broken)
    assert not is_unavailable(fault.value)
    assert await db.read_points(count) == 0


async def test_nothing_can_be_written(db: Database):
    async def written(tx: Read) -> None:
        await tx.execute(text("DELETE FROM changes"))

    with pytest.raises(Exception, match=r"read-?only"):
        await db.read_points(written)


@only_postgresql
async def test_a_connection_that_was_lost_is_replaced(db: Database, database_kind: str):
    async def backend(tx: Read) -> int:
        pid: int = await tx.scalar(text("SELECT pg_backend_pid()"))
        return pid

    before = await db.read_points(backend)
    async with db.write() as tx:
        await tx.execute(text(f"SELECT pg_terminate_backend({before})"))
    assert await db.read_points(backend) != before
