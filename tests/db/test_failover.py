"""Several servers of one database: the primary is found, however the others behave, and nothing of it is mistaken."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import asyncpg
import pytest
from sqlalchemy import text
from tests.own_postgres import DURABLE, REPLICATED, configure, own_postgres, pair
from tests.waiting import loop_timeout

from mercato.features.schema import SCHEMA
from mercato.platform.db import postgresql, servers
from mercato.platform.db.changes import ChangeFeed, announce
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.db.health import WriteProbe
from mercato.platform.db.migrate import migrate
from mercato.platform.db.servers import Servers
from mercato.platform.db.url import server_urls


def url_of(*homes: Path, options: str = "") -> str:
    return f"postgresql://postgres@/postgres?{'&'.join(f'host={home}' for home in homes)}{options}"


@asynccontextmanager
async def silent(directory: Path) -> AsyncIterator[list[None]]:
    """Run a server that accepts connections and never answers; the list has an entry for each."""
    accepted: list[None] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(None)
        with suppress(OSError, asyncio.CancelledError):
            while await reader.read(1024):
                pass
        writer.close()

    server = await asyncio.start_unix_server(accept, directory / ".s.PGSQL.5432")
    try:
        yield accepted
    finally:
        server.close()


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@a:5432,b:5433/d", ["host=a%3A5432", "host=b%3A5433"]),
        ("postgres://u@a,b/d", ["host=a", "host=b"]),
        ("postgresql://u@[::1]:5,[::2]:7/d", ["host=%5B%3A%3A1%5D%3A5", "host=%5B%3A%3A2%5D%3A7"]),
        ("postgresql://u@/d?host=a&host=b&port=1,2", ["host=a&port=1", "host=b&port=2"]),
        ("postgresql://u@/d?host=a,b&port=1", ["host=a&port=1", "host=b&port=1"]),
    ],
)
def test_every_way_to_write_several_hosts_names_each_of_them(url: str, hosts: list[str]):
    found = server_urls(url, "primary")
    assert [one.partition("?")[2] for one in found] == [
        f"{host}&target_session_attrs=primary" for host in hosts
    ]


def test_a_url_with_one_host_is_used_as_it_is():
    assert server_urls("postgresql://u@a:1/d", "primary") == ["postgresql://u@a:1/d"]


def test_what_the_url_says_of_its_servers_goes_before_the_default():
    found = server_urls("postgresql://u@a,b/d?target_session_attrs=prefer-standby", "primary")
    assert [one.rpartition("=")[2] for one in found] == ["standby", "standby", "any", "any"]


async def test_a_server_that_never_answers_leaves_time_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(servers, "CONNECT_SECONDS", 1.0)
    async with (
        own_postgres() as server,
        silent(tmp_path),
        Database.open(url_of(tmp_path, server.home)) as db,
        db.read() as tx,
    ):
        assert await tx.scalar(text("SELECT 1")) == 1


async def test_the_server_that_answered_last_is_tried_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "CONNECT_SECONDS", 1.0)
    async with own_postgres() as server, silent(tmp_path) as accepted:
        known = Servers(url_of(tmp_path, server.home))
        for _ in range(3):
            connection = await known.connect()
            await connection.close()
        assert len(accepted) == 1


async def test_a_write_goes_to_the_primary_wherever_it_stands_in_the_url():
    async with pair() as (primary, replica):
        for homes in ((replica.home, primary.home), (primary.home, replica.home)):
            async with Database.open(url_of(*homes)) as db, db.write() as tx:
                await tx.execute(text("CREATE TABLE IF NOT EXISTS written (id int)"))


async def test_servers_without_a_primary_among_them_are_an_outage_and_no_bug(tmp_path: Path):
    tmp_path.chmod(0o755)
    async with pair() as (primary, replica):
        await primary.stop()
        async with Database.open(url_of(replica.home, tmp_path)) as db:
            with pytest.raises(DatabaseUnavailable):
                await WriteProbe(db).check_ready()
            with pytest.raises(DatabaseUnavailable):
                await postgresql.listen(db.url, "news", lambda _: None)
            with pytest.raises(DatabaseUnavailable):
                await migrate(db.url, SCHEMA)


async def test_a_primary_that_has_become_a_replica_is_an_outage_and_its_session_ends():
    async with own_postgres() as server, Database.open(server.url) as db:
        async with db.write() as tx:
            await tx.execute(text("CREATE TABLE written (id int)"))
            first = await tx.scalar(text("SELECT pg_backend_pid()"))
        # It is the next transaction's default that PostgreSQL reads again; a demotion has the same answer.
        await configure(server, "default_transaction_read_only", "on")
        with pytest.raises(DatabaseUnavailable, match="read-only"):
            async with db.write() as tx:
                await tx.execute(text("INSERT INTO written VALUES (1)"))
        await configure(server, "default_transaction_read_only", "off")
        async with db.write() as tx:
            await tx.execute(text("INSERT INTO written VALUES (1)"))
            assert await tx.scalar(text("SELECT pg_backend_pid()")) != first


async def test_a_commit_that_no_replica_confirms_in_time_is_unavailable_and_stays_invisible(
    monkeypatch: pytest.MonkeyPatch,
):
    """If the wait were cancelled, others would see a commit that a failover could still take back."""
    monkeypatch.setattr(postgresql, "GRACE", timedelta(seconds=0.2))
    async with (
        # From the start: a running server's commits notice the setting only when its checkpointer has.
        own_postgres(*REPLICATED, "synchronous_standby_names=missing") as server,
        Database.open(server.url, statement_timeout=timedelta(seconds=0.5)) as db,
    ):
        connection = await asyncpg.connect(server.url)
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute("SET synchronous_commit = local")
        await connection.execute("CREATE TABLE written (id int)")
        await connection.close()
        with pytest.raises(DatabaseUnavailable):
            async with db.write() as tx:
                await tx.execute(text("INSERT INTO written VALUES (1)"))
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        async with db.read() as tx:
            for _ in range(20):
                assert await tx.scalar(text("SELECT count(*) FROM written")) == 0
                assert await tx.scalar(waiting) == 1
                await asyncio.sleep(0.05)


async def test_after_a_failover_that_lost_numbers_the_change_feed_misses_nothing():
    """Asynchronous replicas may lag: the new primary then gives out numbers that the feed has already seen."""
    async with own_postgres(*DURABLE) as server:
        await migrate(server.url, SCHEMA)
        async with Database.open(server.url) as db, Database.open(server.url) as elsewhere:
            feed = ChangeFeed(db)
            seen: list[str | None] = []
            feed.subscribe("store", seen.append)
            async with elsewhere.write() as tx:
                for number in range(50):
                    await announce(tx, "store", f"before-{number}")
            await feed.poll()
            async with elsewhere.write() as tx:
                await tx.execute(text("DELETE FROM changes WHERE seq > 10"))
                await tx.execute(text("SELECT setval(pg_get_serial_sequence('changes', 'seq'), 10)"))
            await server.stop()
            with pytest.raises(Exception):  # noqa: B017, PT011  # whichever way the connection ends
                await feed.poll()
            await server.start()
            seen.clear()
            async with loop_timeout(10):
                while not seen:
                    async with elsewhere.write() as tx:
                        await announce(tx, "store", "after")
                    await feed.poll()
        assert seen == [None]


def unavailable() -> NoReturn:
    raise DatabaseUnavailable("it is away for a moment")


async def test_an_outage_of_the_same_server_costs_no_cache_entry(monkeypatch: pytest.MonkeyPatch):
    async with own_postgres(*DURABLE) as server:
        await migrate(server.url, SCHEMA)
        async with Database.open(server.url) as db:
            feed = ChangeFeed(db)
            seen: list[str | None] = []
            feed.subscribe("store", seen.append)
            await feed.poll()
            seen.clear()
            with monkeypatch.context() as patched:
                patched.setattr(db, "read", unavailable)
                with pytest.raises(DatabaseUnavailable):
                    await feed.poll()
            await feed.poll()
            assert seen == []
