"""The pool of PostgreSQL's sessions: few are opened, and none whose state isn't known is used again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import literal_column, select, text
from tests.databases import only_postgresql
from tests.waiting import PATIENCE

from mercato.platform.db import postgresql
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.db.postgresql import Bounds, Sessions
from mercato.platform.db.servers import Servers
from mercato.platform.db.statements import prepared

pytestmark = only_postgresql

SIZE = 3
nothing: Any = prepared(select(literal_column("1")))


def opened(url: str, *, wait: timedelta = timedelta(seconds=PATIENCE)) -> Sessions:
    bounds = Bounds(
        pool_size=SIZE,
        pool_timeout=wait,
        statement_timeout=timedelta(seconds=PATIENCE),
        lock_timeout=timedelta(seconds=PATIENCE),
    )
    return Sessions(Servers(url), bounds, read_only=False)


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Sessions]:
    sessions = opened(database_url)
    yield sessions
    await sessions.close()


async def pid(sessions: Sessions) -> int:
    """Return which session a block gets."""
    async with sessions.connection() as connection:
        found: int = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar()
    return found


async def use_all(sessions: Sessions, stack: AsyncExitStack) -> None:
    """Use as many sessions as there may be, until the stack is closed."""
    for _ in range(SIZE):
        connection = await stack.enter_async_context(sessions.connection())
        await connection.execute(text("SELECT 1"))


async def burst(sessions: Sessions) -> None:
    """Open as many sessions as there may be."""
    async with AsyncExitStack() as stack:
        await use_all(sessions, stack)


async def test_the_session_that_was_used_last_is_used_next(sessions: Sessions) -> None:
    await burst(sessions)
    assert len({await pid(sessions) for _ in range(SIZE)}) == 1
    assert (len(sessions.idle), len(sessions.used)) == (SIZE, 0)


async def test_there_are_no_more_sessions_than_the_pool_has(database_url: str) -> None:
    sessions = opened(database_url, wait=timedelta(milliseconds=500))
    async with AsyncExitStack() as stack:
        await use_all(sessions, stack)
        with pytest.raises(DatabaseUnavailable, match=r"free within 0\.5 s"):
            await pid(sessions)
    await pid(sessions)
    await sessions.close()


async def test_a_block_uses_a_session_from_its_first_round_trip_on(sessions: Sessions) -> None:
    async with sessions.connection(is_transaction=True) as connection:
        connection.defer(nothing, {})
        assert not sessions.used
        await connection.flush()
        assert len(sessions.used) == 1
    assert (len(sessions.idle), len(sessions.used)) == (1, 0)


async def test_sessions_that_only_a_burst_needed_are_closed(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    await burst(sessions)
    monkeypatch.setattr(postgresql, "IDLE_SECONDS", 0.0)
    for _ in range(SIZE):
        await pid(sessions)
    assert len(sessions.idle) == 1


async def test_a_session_that_its_server_has_ended_is_not_used_again(
    sessions: Sessions, database_url: str
) -> None:
    lost = await pid(sessions)
    [(_, driver)] = sessions.idle
    ended = asyncio.Event()
    driver.add_termination_listener(lambda _: ended.set())
    other: Any = await Servers(database_url).connect()
    await other.execute("SELECT pg_terminate_backend($1)", lost)
    await other.close()
    await asyncio.wait_for(ended.wait(), PATIENCE)
    assert await pid(sessions) != lost
    assert len(sessions.idle) == 1


async def test_a_session_whose_transaction_is_open_is_not_used_again(sessions: Sessions) -> None:
    async with sessions.connection() as connection:
        await connection.command("BEGIN")
    assert not sessions.idle
    await pid(sessions)


async def test_a_pool_closes_once_its_blocks_have_ended_and_gives_no_more_sessions(database_url: str) -> None:
    sessions = opened(database_url)
    await burst(sessions)
    async with sessions.connection() as connection:
        await connection.execute(text("SELECT 1"))
        closing = asyncio.create_task(sessions.close())
        while sessions.idle:
            await asyncio.sleep(0)
        await connection.execute(text("SELECT 1"))
        assert not closing.done()
        with pytest.raises(DatabaseUnavailable, match="has been closed"):
            await pid(sessions)
    await closing
    assert (sessions.idle, sessions.used) == ([], set())
