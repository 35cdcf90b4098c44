import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import Index, exc, select, text
from tests.databases import only_postgresql, only_sqlite

from mercato.features.schema import SCHEMA
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import (
    DatabaseUnavailable,
    database_error,
    is_unavailable,
    is_unique_violation,
)
from mercato.platform.db.migrate import migrate
from mercato.platform.db.tables import jobs, jobs_dedup, jobs_one_running_per_key
from mercato.platform.db.url import sqlite_path


async def add(tx: Write, **values: object) -> None:
    await tx.execute(
        text(
            "INSERT INTO jobs (kind, ordering_key, group_key, dedup, payload, state, run_at, enqueued_at)"
            " VALUES ('k', :lane, '', :dedup, '{}', :state, 0, 0)"
        ),
        {"lane": "l", "dedup": None, "state": "ready", **values},
    )


async def violation(db: Database, **values: object) -> exc.IntegrityError:
    with pytest.raises(exc.IntegrityError) as refused:  # noqa: PT012  # either may be the one
        async with db.write() as tx:
            await add(tx, **values)
            await add(tx, **values)
    return refused.value


@pytest.mark.parametrize(
    ("values", "broken", "kept"),
    [
        ({"state": "running"}, jobs_one_running_per_key, jobs_dedup),
        ({"dedup": "d"}, jobs_dedup, jobs_one_running_per_key),
    ],
)
async def test_a_unique_violation_is_recognised_by_its_index(
    db: Database, values: dict[str, object], broken: Index, kept: Index
) -> None:
    refused = await violation(db, **values)
    assert is_unique_violation(refused)
    assert is_unique_violation(refused, broken)
    assert not is_unique_violation(refused, kept)
    assert not is_unavailable(refused)


@pytest.mark.parametrize(
    ("named", "recognised"),
    [
        ("uq_jobs_dedup", True),
        ("uq_jobs_dedup_102030", True),
        ("uq_jobs_dedup_other", False),
        ("other_uq_jobs_dedup", False),
        ("uq_jobs_ordering_key_running_102030", False),
    ],
)
def test_a_unique_violation_without_a_constraint_is_recognised_by_its_message(named: str, recognised: bool):
    """A worker of a distributed database sends the state and the message alone, and names a shard's index."""
    message = f'duplicate key value violates unique constraint "{named}"'
    bare = asyncpg.PostgresError.new({"S": "ERROR", "C": "23505", "M": message})
    refused = database_error(bare, "INSERT")
    assert is_unique_violation(refused)
    assert is_unique_violation(refused, jobs_dedup) is recognised
    assert not is_unavailable(refused)


async def test_a_violation_of_another_constraint_is_not_a_unique_violation(db: Database) -> None:
    with pytest.raises(exc.IntegrityError) as refused:
        async with db.write() as tx:
            await add(tx, state=None)
    assert not is_unique_violation(refused.value)


async def test_a_wrong_statement_is_a_bug_and_not_an_unavailable_database(db: Database) -> None:
    with pytest.raises(exc.DBAPIError) as refused:
        async with db.read() as tx:
            await tx.execute(text("SELECT nonsense FROM nowhere"))
    assert not is_unavailable(refused.value)
    assert not is_unavailable(ValueError("something else"))
    assert not is_unavailable(OSError("a file of somebody else"))


@only_sqlite
async def test_a_file_that_another_process_keeps_locked_is_unavailable_after_the_busy_timeout(
    database_url: str,
) -> None:
    other = sqlite3.connect(sqlite_path(database_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        async with Database.open(database_url, busy_timeout=timedelta(milliseconds=20)) as db:
            with pytest.raises(exc.OperationalError) as refused:
                async with db.write() as tx:
                    await add(tx)
            assert is_unavailable(refused.value)
            other.execute("COMMIT")
            async with db.write() as tx:
                await add(tx)
    finally:
        other.close()


@only_postgresql
async def test_a_connection_that_is_closed_while_it_opens_means_an_unavailable_database(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(*_: object, **__: object) -> None:
        raise asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")

    monkeypatch.setattr(asyncpg.Connection, "prepare", ended)
    with pytest.raises(exc.DBAPIError) as refused:
        await migrate(database_url, SCHEMA)
    assert is_unavailable(refused.value)


async def test_a_database_in_a_missing_directory_is_unavailable(tmp_path: Path) -> None:
    async with Database.open(str(tmp_path / "missing" / "x.db")) as db:
        with pytest.raises(DatabaseUnavailable) as refused:
            async with db.read() as tx:
                await tx.execute(text("SELECT 1"))
    assert is_unavailable(refused.value)


async def test_a_missing_server_is_unavailable(tmp_path: Path) -> None:
    async with Database.open(f"postgresql://postgres@/x?host={tmp_path}") as db:
        with pytest.raises(DatabaseUnavailable) as refused:
            async with db.read() as tx:
                await tx.execute(text("SELECT 1"))
    assert is_unavailable(refused.value)


@only_postgresql
async def test_connections_that_the_server_closed_fail_once_and_are_replaced(db: Database) -> None:
    end = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()")
    async with db.read() as tx:
        await tx.execute(text("SELECT 1"))
    with pytest.raises(exc.DBAPIError) as ended:
        async with db.write() as tx:
            await tx.execute(end)
    assert is_unavailable(ended.value)
    for _ in range(2):
        try:
            async with db.read() as tx:
                await tx.execute(select(jobs))
        except exc.DBAPIError as error:
            assert is_unavailable(error)  # noqa: PT017  # the pool may or may not know by now
    async with db.read() as tx:
        assert await tx.all(select(jobs)) == []
    async with db.write() as tx:
        await add(tx)


@only_postgresql
async def test_a_deadlock_may_be_retried(db: Database) -> None:
    async with db.write() as tx:
        await add(tx, lane="a")
        await add(tx, lane="b")
    locked = asyncio.Barrier(2)

    async def lock(*lanes: str) -> None:
        async with db.write() as tx:
            await tx.execute(text("SET LOCAL deadlock_timeout = '20ms'"))
            for lane in lanes:
                await tx.execute(
                    text("UPDATE jobs SET attempt = 1 WHERE ordering_key = :lane"), {"lane": lane}
                )
                if lane == lanes[0]:
                    await locked.wait()

    outcomes = await asyncio.gather(lock("a", "b"), lock("b", "a"), return_exceptions=True)
    errors = [outcome for outcome in outcomes if outcome is not None]
    assert len(errors) == 1
    assert is_unavailable(errors[0])
