"""Transactions that share a commit are independent of each other."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mercato.features.webhooks.tables import failing_endpoints
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.statements import prepared_insert
from mercato_contract.clock import new_id, now

T = TypeVar("T")

PREPARED = prepared_insert(failing_endpoints, "partner_id", "url", "failing_since")


async def transact(db: Database, block: Callable[[Write], Coroutine[Any, Any, T]]) -> T:
    async with db.write() as tx:
        return await block(tx)


def row(url: str) -> dict[str, object]:
    return {"partner_id": new_id(), "url": url, "failing_since": now()}


async def count(db: Database) -> int:
    async with db.read() as tx:
        found: int = await tx.scalar(select(func.count()).select_from(failing_endpoints))
    return found


async def test_a_block_returns_its_row_which_every_reader_sees(db: Database) -> None:
    given = row("here")

    async def block(tx: Write) -> str:
        assert (await tx.execute(PREPARED, given)).rowcount == 1
        found = await tx.first(
            select(failing_endpoints).where(failing_endpoints.c.partner_id == given["partner_id"])
        )
        assert found is not None
        assert found.failing_since == given["failing_since"]
        moved = update(failing_endpoints).values(url="there").returning(failing_endpoints.c.url)
        return str((await tx.execute(moved)).scalar())

    assert await transact(db, block) == "there"
    assert await count(db) == 1


async def test_blocks_that_fail_leave_nothing_and_do_not_affect_the_others(db: Database) -> None:
    async def block(tx: Write, number: int) -> int:
        await tx.execute(PREPARED, row(str(number)))
        if number % 3 == 0:
            raise ValueError(number)
        return number

    ended = await asyncio.gather(
        *(transact(db, lambda tx, number=number: block(tx, number)) for number in range(90)),  # type: ignore[misc]  # the loop's own
        return_exceptions=True,
    )
    assert [number for number in ended if isinstance(number, int)] == [n for n in range(90) if n % 3]
    assert [error.args for error in ended if isinstance(error, ValueError)] == [(n,) for n in range(0, 90, 3)]
    assert await count(db) == 60


async def test_who_fails_because_of_another_transaction_finds_it_committed(db: Database) -> None:
    given = row("taken")
    taken = select(failing_endpoints.c.url).where(failing_endpoints.c.partner_id == given["partner_id"])

    async def write(tx: Write) -> None:
        await tx.execute(PREPARED, given)

    async def refuse(tx: Write) -> None:
        # On SQLite it may find what isn't committed yet: both share a commit.
        if await tx.scalar(taken) is not None:
            raise FileExistsError

    async def look() -> str | None:
        with suppress(FileExistsError):
            while True:
                await transact(db, refuse)
        async with db.read() as tx:
            found: str | None = await tx.scalar(taken)
        return found

    assert await count(db) == 0  # the reader is open and doesn't wait
    _, found = await asyncio.gather(transact(db, write), look())
    assert found == "taken"


async def test_blocks_and_transactions_wait_for_each_other(db: Database) -> None:
    async def block(tx: Write) -> None:
        await tx.execute(PREPARED, row("block"))

    async def plain() -> None:
        async with db.write() as tx:
            await tx.execute(insert(failing_endpoints).values(row("plain")))
            await asyncio.sleep(0)

    await asyncio.gather(*(transact(db, block) for _ in range(20)), *(plain() for _ in range(20)))
    assert await count(db) == 40


async def test_a_constraint_violation_in_a_shared_transaction_is_raised(db: Database) -> None:
    given = row("twice")

    async def block(tx: Write) -> None:
        await tx.execute(PREPARED, given)
        await tx.execute(PREPARED, given)

    with pytest.raises(IntegrityError):
        await transact(db, block)
    assert await count(db) == 0


async def test_callbacks_come_after_the_commit_and_never_after_a_failure(db: Database) -> None:
    called: list[str] = []

    async def block(tx: Write, *, fails: bool) -> None:
        tx.after_commit(lambda: called.append(f"fails={fails}"))
        if fails:
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        await transact(db, lambda tx: block(tx, fails=True))
    await transact(db, lambda tx: block(tx, fails=False))
    assert called == ["fails=False"]


async def test_a_block_whose_caller_was_cancelled_before_it_began_is_not_run(db: Database) -> None:
    async def block(tx: Write) -> None:
        await tx.execute(PREPARED, row("left"))

    async with db.write():
        waiting = asyncio.create_task(transact(db, block))
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await count(db) == 0
