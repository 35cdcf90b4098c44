"""Deferred statements run with the next one, or before the commit."""

from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, delete, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from tests.databases import only_postgresql

from mercato.platform.db.engine import Database
from mercato.platform.db.statements import prepared, prepared_insert, prepared_update

pairs = Table("pairs", MetaData(), Column("name", Text, primary_key=True), Column("value", Integer))
INSERT = prepared_insert(pairs)
MOVE = prepared_update(pairs, "value", where=[pairs.c.name == bindparam("where_name")])
DELETE = prepared(delete(pairs).where(pairs.c.name == bindparam("where_name")))
FIND = prepared(select(pairs.c.value).where(pairs.c.name == bindparam("where_name")))
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


class Unmet(Exception):  # noqa: N818  # what a caller wants to be raised
    """A statement that had to change or find a row had none."""


async def test_statements_that_have_to_change_or_find_a_row_go_with_the_deferred_ones(db: Database) -> None:
    async with db.write() as tx:
        tx.require(FIND, {"where_name": "b"}, otherwise=Unmet())
        tx.require(INSERT, {"name": "c", "value": 3}, otherwise=Unmet())
        tx.defer(DELETE, {"where_name": "b"})
        tx.require(MOVE, {"where_name": "a", "value": 10}, otherwise=Unmet())
        tx.defer(DELETE, {"where_name": "z"})
    assert await found(db) == [("a", 10), ("c", 3)]


@pytest.mark.parametrize("is_begun", [False, True], ids=["alone", "after another statement"])
@pytest.mark.parametrize("is_last", [False, True], ids=["before another statement", "at the end"])
async def test_a_transaction_fails_as_asked_if_a_statement_changes_no_row(
    db: Database, *, is_begun: bool, is_last: bool
) -> None:
    first, second, third = Unmet(), Unmet(), Unmet()
    with pytest.raises(Unmet) as raised:  # noqa: PT012  # the whole block is what is tested
        async with db.write() as tx:
            if is_begun:
                await tx.execute(MOVE, {"where_name": "a", "value": 4})
            tx.require(MOVE, {"where_name": "b", "value": 5}, otherwise=first)
            tx.defer(INSERT, {"name": "c", "value": 3})
            tx.require(MOVE, {"where_name": "z", "value": 6}, otherwise=second)
            tx.require(DELETE, {"where_name": "y"}, otherwise=third)
            if not is_last:
                await tx.all(VALUES)
                pytest.fail("the statement after it was executed")
    assert raised.value is second
    assert await found(db) == [("a", 1), ("b", 2)]
    async with db.write() as tx:
        tx.defer(INSERT, {"name": "c", "value": 3})
    assert await found(db) == [("a", 1), ("b", 2), ("c", 3)]


async def test_a_transaction_fails_as_asked_if_a_statement_finds_no_row(db: Database) -> None:
    with pytest.raises(Unmet):  # noqa: PT012  # as above
        async with db.write() as tx:
            tx.require(MOVE, {"where_name": "a", "value": 4}, otherwise=LookupError())
            tx.require(FIND, {"where_name": "z"}, otherwise=Unmet())
    assert await found(db) == [("a", 1), ("b", 2)]


@only_postgresql
async def test_a_value_that_a_column_refuses_is_not_taken_for_an_unchanged_row(db: Database) -> None:
    with pytest.raises(DBAPIError):
        async with db.write() as tx:
            tx.require(INSERT, {"name": "z\0", "value": 1}, otherwise=Unmet())
    assert await found(db) == [("a", 1), ("b", 2)]


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
        tx.require(MOVE, {"where_name": "a", "value": 10}, otherwise=Unmet())
    assert [query.partition(" ")[0] for query in sent] == ["WITH"]
    assert len(await found(db)) == 7
    sent.clear()
    async with db.write() as tx:
        tx.defer(INSERT, {"name": "x", "value": 1})
        await tx.execute(MOVE, {"where_name": "a", "value": 11})
        tx.defer(INSERT, {"name": "y", "value": 1})
    assert [query.partition(" ")[0] for query in sent] == ["BEGIN", "INSERT", "UPDATE", "INSERT", "COMMIT"]
    sent.clear()
    async with db.write():
        pass
    assert sent == []
