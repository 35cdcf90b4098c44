"""An unavailable database is 503 with `retryAfter`, never 500, until it is back."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from tests.api.table import GUARDED, call, target
from tests.api.trade import tea, trade
from tests.databases import only_postgresql, only_sqlite, run
from tests.service import CATALOG, Client, MerchantServer, service
from tests.waiting import loop_timeout

from mercato.features.partners import callers
from mercato.http.operations import Access
from mercato.platform.db import postgresql, servers
from mercato.platform.db.engine import Database
from mercato.platform.db.url import sqlalchemy_url
from mercato_client.testing.caller import Answer

STORES = "/v1/commerce/stores"
# Of this test's own database: the server is shared by tests that run beside it.
BLOCKED = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def assert_away(reply: Answer) -> None:
    problem = reply.json()
    assert (reply.status, problem["errorCode"], problem["retryable"]) == (503, "SERVICE_UNAVAILABLE", True)
    assert reply.headers["Retry-After"] == str(problem["retryAfter"]) == "2"


class Wire:
    """A proxy to the PostgreSQL server whose connections can be cut, also in the middle of a message."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._ends: set[asyncio.StreamWriter] = set()
        self.down = False
        self.speaks = asyncio.Event()
        self.speaks.set()

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[int]:
        """Accept connections on a loopback port while the block runs."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            self.speaks.set()
            self.cut()

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_unix_connection(self._socket)
        self._ends |= {writer, to_writer}
        await asyncio.gather(self._pump(reader, to_writer), self._pump(to_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                # When silent it forwards nothing, like a firewall that has lost the connection's state.
                await self.speaks.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # cut
        finally:
            writer.close()


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[tuple[Wire, str]]:
    """A proxy, and the URL of the database behind it."""
    url = sqlalchemy_url(database_url)
    made = Wire(f"{url.query['host']}/.s.PGSQL.5432")
    async with made.laid() as port:
        proxied = url.set(host="127.0.0.1", port=port).difference_update_query(["host"])
        yield made, proxied.render_as_string(hide_password=False)


@only_postgresql
async def test_every_operation_is_503_while_the_database_is_unavailable_and_answers_again_afterwards(
    wire: tuple[Wire, str], tmp_path: Path
):
    cable, url = wire
    async with service(url, tmp_path / "data") as mercato:
        _, pos = await mercato.partner()
        assert (await pos.get(STORES)).status == 200
        cable.down = True
        cable.cut()
        for operation in GUARDED:
            if operation.access is Access.COMMERCE:
                ids = {name: str(uuid4()) for name in (*operation.names, "orderId", "storeId")}
                reply = await call(pos, operation, target(operation, ids, store=str(uuid4())), ids)
                assert reply.status == 503, operation.id
                assert_away(reply)
        assert_away(await mercato.anonymous().get("/readyz"))
        assert (await mercato.anonymous().get("/healthz")).status == 200
        cable.down = False
        async with loop_timeout(10):
            while (await pos.get(STORES)).status != 200:
                await asyncio.sleep(0.02)
        assert (await mercato.anonymous().get("/readyz")).status == 200


@only_postgresql
async def test_known_keys_are_accepted_for_a_minute_while_the_database_is_unavailable(
    wire: tuple[Wire, str], tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    cable, url = wire
    async with service(url, tmp_path / "data") as mercato:
        there = await trade(mercato, shop)
        cart = {"storeId": there.store["storeId"], "catalogSetId": there.store["catalogSetId"], "item": tea()}
        add = "/v1/marketfront/carts/add"
        assert (await there.front.post(add, cart)).status == 200
        cable.down = True
        cable.cut()
        assert (await there.front.post(add, cart)).status == 200
        assert_away(await mercato.anonymous().get("/readyz"))
        # However long a slow machine took until here.
        monkeypatch.setattr(mercato.app.feed, "age", lambda: callers.TRUST_SECONDS - 1)
        assert (await there.front.post(add, cart)).status == 200
        monkeypatch.setattr(mercato.app.feed, "age", lambda: callers.TRUST_SECONDS + 1)
        assert_away(await there.front.post(add, cart))


@only_postgresql
async def test_a_connection_that_is_lost_in_the_middle_of_a_request_is_503(
    wire: tuple[Wire, str], database_url: str, tmp_path: Path, shop: MerchantServer
):
    cable, url = wire
    async with service(url, tmp_path / "data") as mercato, Database.open(database_url) as other:
        _, pos = await mercato.partner()
        store = await mercato.live(pos, shop.host(CATALOG))
        path = f"{STORES}/{store['storeId']}"
        async with other.write() as tx:
            await tx.execute(text("SELECT id FROM stores FOR UPDATE"))
            waiting = [
                asyncio.create_task(pos.call("PUT", path, {"name": "Lost"})),
                asyncio.create_task(pos.post(f"{path}/status", {"status": "paused"})),
            ]
            await until_blocked(other, len(waiting))
            cable.cut()
            for reply in await asyncio.gather(*waiting):
                assert_away(reply)
        await mercato.until(pos, path, lambda now: now.get("name") == store["name"])
        assert (await pos.call("PUT", path, {"name": "Kept"})).json()["name"] == "Kept"


@only_postgresql
async def test_a_silent_network_ends_requests_with_503_until_it_recovers(
    wire: tuple[Wire, str], tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgresql, "GRACE", timedelta(seconds=0.2))
    for module in (postgresql, servers):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    cable, url = wire
    hasty: dict[str, Any] = {"database_statement_seconds": 0.3, "database_pool_seconds": 0.5}
    async with service(url, tmp_path / "data", **hasty) as mercato:
        _, pos = await mercato.partner()
        store = await mercato.live(pos, shop.host(CATALOG))
        path = f"{STORES}/{store['storeId']}"
        cable.speaks.clear()
        async with loop_timeout(5):
            for reply in await asyncio.gather(
                *(pos.call("PUT", path, {"name": "Lost"}) for _ in range(20)),
                *(pos.get(STORES) for _ in range(20)),
            ):
                assert_away(reply)
            assert_away(await mercato.anonymous().get("/readyz"))
        cable.speaks.set()
        async with loop_timeout(10):
            while (await pos.call("PUT", path, {"name": "Kept"})).status != 200:
                await asyncio.sleep(0.02)
        # Every lost connection was dropped, so the pools are complete again.
        async with loop_timeout(10):
            while {reply.status for reply in await asyncio.gather(*[pos.get(STORES) for _ in range(30)])} != {
                200
            }:
                await asyncio.sleep(0.02)


@only_postgresql
async def test_a_statement_that_waits_too_long_for_a_lock_is_503(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", database_lock_seconds=0.1) as mercato:
        _, pos = await mercato.partner()
        store = await mercato.live(pos, shop.host(CATALOG))
        path = f"{STORES}/{store['storeId']}"
        async with Database.open(database_url) as other, other.write() as tx:
            await tx.execute(text("SELECT id FROM stores FOR UPDATE"))
            assert_away(await pos.call("PUT", path, {"name": "Lost"}))
        assert (await pos.call("PUT", path, {"name": "Kept"})).json()["name"] == "Kept"


@only_postgresql
async def test_a_connection_that_was_lost_unnoticed_fails_no_request(wire: tuple[Wire, str], tmp_path: Path):
    cable, url = wire
    async with service(url, tmp_path / "data", works=False) as mercato:
        _, pos = await mercato.partner()
        await asyncio.gather(*(pos.get(STORES) for _ in range(20)))
        cable.cut()
        # So that the notification arrives, for which there is no event.
        await asyncio.sleep(0.2)
        assert (await pos.get(STORES)).status == 200


@only_postgresql
async def test_a_request_that_the_operator_ends_is_503(
    database_url: str, mercato: Any, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}"
    async with Database.open(database_url) as other, other.write() as tx:
        await tx.execute(text("SELECT id FROM stores FOR UPDATE"))
        waiting = asyncio.create_task(pos.call("PUT", path, {"name": "Lost"}))
        await until_blocked(other, 1)
        await run(database_url, f"SELECT pg_cancel_backend(pid) {BLOCKED}")
        assert_away(await waiting)


@only_sqlite
async def test_a_database_that_another_process_keeps_busy_is_503_for_writes_alone(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", database_lock_seconds=0.05) as mercato:
        _, pos = await mercato.partner()
        store = await mercato.live(pos, shop.host(CATALOG))
        path = f"{STORES}/{store['storeId']}"
        other = sqlite3.connect(database_url.removeprefix("sqlite:///"), isolation_level=None, timeout=0)
        async with loop_timeout(10):
            # The service, in this loop, may be writing: a wait in SQLite would keep it from its end.
            while not other.in_transaction:
                with suppress(sqlite3.OperationalError):
                    other.execute("BEGIN IMMEDIATE")
                await asyncio.sleep(0.01)
        try:
            assert_away(await pos.call("PUT", path, {"name": "Lost"}))
            assert_away(await pos.post(f"{path}/status", {"status": "paused"}))
            assert (await pos.get(STORES)).json()["stores"] == [store]
        finally:
            other.close()
        assert (await pos.call("PUT", path, {"name": "Kept"})).json()["name"] == "Kept"


async def until_blocked(database: Database, count: int) -> None:
    """Wait until that many statements wait for a lock."""
    blocked = text(f"SELECT count(*) {BLOCKED}")
    async with loop_timeout(10):
        while True:
            async with database.read() as tx:
                if await tx.scalar(blocked) >= count:
                    return
            await asyncio.sleep(0.02)
