"""A block that reads sees everything that was committed before it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from sqlalchemy import func, select, text

from mercato.platform.db.changes import announce
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.errors import is_unavailable
from mercato.platform.db.tables import changes

T = TypeVar("T")


async def read(db: Database, block: Callable[[Read], Awaitable[T]]) -> T:
    async with db.read() as tx:
        return await block(tx)


async def count(tx: Read) -> int:
    found: int = await tx.scalar(select(func.count()).select_from(changes))
    return found


async def test_the_next_read_sees_commits_of_another_process(db: Database, database_url: str):
    async with Database.open(database_url) as other:
        for number in range(5):
            assert await read(db, count) == number
            async with other.write() as tx:
                await announce(tx, "store", "x")


async def test_many_concurrent_reads_are_all_answered(db: Database):
    assert await asyncio.gather(*(read(db, count) for _ in range(50))) == [0] * 50


async def test_an_error_does_not_affect_the_next_read(db: Database):
    async def broken(tx: Read) -> None:
        await tx.scalar(text("SELECT * FROM nowhere"))

    assert await read(db, count) == 0
    with pytest.raises(Exception, match="nowhere") as fault:
        await read(db, broken)
    assert not is_unavailable(fault.value)
    assert await read(db, count) == 0


async def test_a_read_cannot_write(db: Database):
    async def written(tx: Read) -> None:
        await tx.execute(text("DELETE FROM changes"))

    with pytest.raises(Exception, match=r"read-?only"):
        await read(db, written)
