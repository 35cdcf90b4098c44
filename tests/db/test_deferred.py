"""Deferred statements run with the next one, or before the commit."""

from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, delete, select, text
from sqlalchemy.exc import IntegrityError
from tests.databases import only_postgresql

from mercato.platform.db.engine import Database
from mercato.platform.db.statements import prepared, prepared_insert, prepared_update

pairs = Table("pairs", MetaData(), Column("name", Text, primary_key=True), Column("value", Integer))
INSERT = prepared_insert(pairs)
MOVE = prepared_update(pairs, "value", where=[pairs.c.name == bindparam("where_name")])
DELETE = prepared(delete(pairs).where(pairs.c.name == bindparam("where_name")))
VALUES = select(pairs.c.name, pairs.c.value).order_by(pairs.c.name)


@pytest.fixture(autouse=True)
async def _pairs(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(text("CREATE TABLE pairs (name TEXT PRIMARY KEY, value INTEGER)"))
        await tx.execute(INSERT, [{"name": "a", "value": 1}, {"name": "b", "value": 2}])


async def found(db: Database) -> list[tuple[str, int]]:
    async with db.read() as tx:
        return [(row.name, row.value) for row in await tx.all(VALUES)]


async def test_the_next_statement_sees_deferred_statements_which_are_committed(db: Database) -> None:
    async with db.write() as tx:
        tx.defer(INSERT, {"name": "c", "value": 3})
        tx.defer(MOVE, {"where_name": "a", "value": 10})
        tx.defer(DELETE, {"where_name": "b"})
        rows = await tx.all(VALUES)
        assert [(row.name, row.value) for row in rows] == [("a", 10), ("c", 3)]
        tx.defer(INSERT, {"name": "d", "value": 4})
    assert await found(db) == [("a", 10), ("c", 3), ("d", 4)]


async def test_a_statement_that_goes_with_the_deferred_ones_says_how_many_rows_it_changed(
    db: Database,
) -> None:
    async with db.write() as tx:
        tx.defer(INSERT, {"name": "c", "value": 3})
        tx.defer(DELETE, {"where_name": "b"})
        moved = await tx.execute_with_deferred(MOVE, {"where_name": "a", "value": 10})
        assert moved.rowcount == 1
        tx.defer(INSERT, {"name": "d", "value": 4})
        assert (await tx.execute_with_deferred(MOVE, {"where_name": "z", "value": 10})).rowcount == 0
        assert (await tx.execute_with_deferred(DELETE, {"where_name": "c"})).rowcount == 1
    assert await found(db) == [("a", 10), ("d", 4)]


async def test_deferred_statements_are_rolled_back_with_their_transaction(db: Database) -> None:
    with pytest.raises(LookupError):  # noqa: PT012  # the whole block is what is tested
        async with db.write() as tx:
            tx.defer(INSERT, {"name": "c", "value": 3})
            raise LookupError
    assert await found(db) == [("a", 1), ("b", 2)]


async def test_a_constraint_violation_of_a_deferred_statement_fails_the_transaction(db: Database) -> None:
    with pytest.raises(IntegrityError):  # noqa: PT012  # as above
        async with db.write() as tx:
            tx.defer(MOVE, {"where_name": "b", "value": 20})
            tx.defer(INSERT, {"name": "a", "value": 3})
    assert await found(db) == [("a", 1), ("b", 2)]


@only_postgresql
async def test_several_deferred_statements_are_one_round_trip(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncpg

    sent: list[str] = []
    execute = asyncpg.Connection.execute

    async def recorded(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        sent.append(query)
        return await execute(self, query, *arguments, **options)

    monkeypatch.setattr(asyncpg.Connection, "execute", recorded)
    async with db.write() as tx:
        for number in range(5):
            tx.defer(INSERT, {"name": f"n{number}", "value": number})
    assert [query.partition(" ")[0] for query in sent] == ["BEGIN", "WITH", "COMMIT"]
    assert len(await found(db)) == 7
