"""PostgreSQL stops and restarts under load: clients get 503 with `retryAfter` and never 500, and nothing is lost."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from tests.api.trade import MERCHANT, PLACE, tea
from tests.catalog.documents import cafe
from tests.forks import Running, start
from tests.own_postgres import OwnPostgres, own_postgres
from tests.processes.test_serve import environment, mercato, serving, until_status
from tests.service import Client, MerchantServer, merchant
from tests.waiting import PATIENCE, loop_timeout

from mercato_client.testing.caller import Answer

STORES = "/v1/commerce/onboarding/stores"
CARTS = "/v1/marketfront/carts/add"
AWAY_SECONDS = 1.0
PLACERS = 3


@dataclass
class Trade:
    """Storefronts and a merchant at work, with the answers that they got."""

    pos: Client
    front: Client
    store: Any
    quiet: Any
    """A store that never changes, so that it stays cached."""
    shop: MerchantServer
    taken: set[str] = field(default_factory=set)
    orders: dict[str, str] = field(default_factory=dict)
    """Accepted placements: the key, and the order."""
    runs: list[str] = field(default_factory=list)
    """The status URLs of accepted notifications."""
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    odd: list[bytes] = field(default_factory=list)
    successes: int = 0
    """The times of successful writes."""
    over: bool = False

    def cart(self) -> dict[str, Any]:
        return {"storeId": self.store["storeId"], "catalogSetId": self.store["catalogSetId"]}

    def order(self) -> dict[str, Any]:
        return {
            "cart": self.cart() | {"lineItems": [tea()]},
            "clientContext": {"ip": "203.0.113.7", "userAgent": "shop/1.0"},
            "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
            "payment": {"type": "cardOnFile", "cardToken": "tok_1"},
        }

    def note(self, what: str, reply: Answer) -> bool:
        """Count an answer; return whether it was a success, and keep unexpected ones."""
        self.answers[what, reply.status] += 1
        if reply.status == 503:
            if not reply.json()["retryAfter"]:
                self.odd.append(reply.body)
        elif reply.status >= 300:
            self.odd.append(reply.body)
        return reply.status < 300

    async def add(self) -> None:
        ids = {name: self.quiet[name] for name in ("storeId", "catalogSetId")}
        self.note("cart", await self.front.post(CARTS, ids | {"item": tea()}))

    async def read(self) -> None:
        self.note("read", await self.pos.get("/v1/commerce/stores"))

    async def notify(self) -> None:
        path = f"/v1/commerce/catalogset-notification?storeId={self.store['storeId']}"
        reply = await self.pos.post(path, {"callbackUrl": self.shop.base + "/catalog.json"})
        if reply.status == 429:
            return  # ten runs of the store are queued: the expected refusal
        if self.note("notify", reply):
            self.runs.append(reply.json()["statusUrl"])
            self.successes += 1

    async def place(self, key: str) -> None:
        """Place an order, retrying with the same key until it is answered."""
        while True:
            reply = await self.front.post(PLACE, self.order(), headers={"Idempotency-Key": key})
            if reply.status == 409:
                # An earlier attempt is still in progress: the key is not lost.
                self.answers["place", 409] += 1
            elif self.note("place", reply):
                self.orders[key] = reply.json()["orderId"]
                self.successes += 1
                return
            await asyncio.sleep(0.1)

    async def work(self) -> None:
        """Repeat all of this until the end; each placement is completed."""

        async def again(action: Callable[[], Awaitable[None]], pause: float) -> None:
            while not self.over:
                await action()
                await asyncio.sleep(pause)

        async def placing(name: int) -> None:
            number = 0
            while not self.over:
                number += 1
                await self.place(f"{name}-{number}")

        async with asyncio.TaskGroup() as group:
            group.create_task(again(self.add, 0.01))
            group.create_task(again(self.read, 0.02))
            group.create_task(again(self.notify, 0.1))
            for name in range(PLACERS):
                group.create_task(placing(name))

    async def take(self, request: web.Request, _body: bytes) -> web.Response:
        self.taken.add(request.headers["webhook-id"])
        return web.json_response({"accepted": True, "partnerOrderId": request.headers["webhook-id"]})


@asynccontextmanager
async def working(**settings: str) -> AsyncIterator[Running]:
    """Run `mercato worker`."""
    process = await start("worker", stdout=asyncio.subprocess.PIPE, env=environment(**settings))
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await process.stdout.readline() == b"working\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def partner(kind: str, **settings: str) -> Any:
    code, out, err = await mercato("partner", "create", kind, "--kind", kind, "--json", **settings)
    assert code == 0, err
    return json.loads(out)


async def trading(base: str, shop: MerchantServer, session: aiohttp.ClientSession, **settings: str) -> Trade:
    """Bring a store live that accepts everything, and create a storefront."""
    keys = [await partner(kind, **settings) for kind in ("commerce", "marketfront")]
    pos = Client(base, keys[0]["commerceKey"], session)
    front = Client(base, keys[1]["marketfrontKey"], session)
    stores: list[Any] = []
    for name in ("busy", "quiet"):
        body: dict[str, Any] = {
            "partnerStoreId": name,
            "name": "Cafe",
            "address": {},
            "webhookUrl": shop.base,
        }
        reply = await pos.post(STORES, body | {"catalogCallbackUrl": shop.host(cafe())})
        await until_status(pos, reply.headers["Location"], {"ready_to_activate"})
        stores.append((await pos.post(reply.headers["Location"] + "/activate")).json())
    trade = Trade(pos, front, stores[0], stores[1], shop)
    shop.answers |= {"validate": {"isValid": True}, "place": trade.take}
    return trade


async def test_a_restart_of_postgresql_under_load_costs_only_503s(tmp_path: Path):
    async with own_postgres() as server, merchant() as shop:
        settings = {
            "MERCATO_DATABASE_URL": server.url,
            "MERCATO_DATA_DIR": str(tmp_path),
            "MERCATO_LOG_LEVEL": "error",
            # The claim of a key whose request was cut off in the middle ends 5 s after this.
            "MERCATO_PLACE_SECONDS": "1",
        }
        async with (
            serving(tmp_path, **settings, MERCATO_WORKERS="2") as (_, base),
            working(**settings) as worker,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
            AsyncExitStack() as stack,
        ):
            trade = await trading(base, shop, session, **settings)
            load = asyncio.create_task(trade.work())
            stack.callback(load.cancel)
            await until(lambda: len(trade.orders) >= PLACERS and len(trade.runs) >= 2)
            await restarted(server, trade)
            successes = trade.successes
            # On a machine at rest it is some 0.1 s; this only checks that nothing waits for a timeout.
            async with loop_timeout(10):
                await until(lambda: trade.successes > successes)
            placed = len(trade.orders)
            await until(lambda: len(trade.orders) >= placed + PLACERS)
            trade.over = True
            async with asyncio.timeout(PATIENCE):
                await load
            await nothing_is_lost(trade)
            assert worker.returncode is None


async def restarted(server: OwnPostgres, trade: Trade) -> None:
    """Stop the server under load, check the answers meanwhile, and restart it."""
    await server.stop()
    before = trade.answers.copy()
    await asyncio.sleep(AWAY_SECONDS)
    # A caller whose key is known gets carts priced, from memory; everything else is asked to come again, and so is a
    # caller of a process that was never asked before.
    expected = (("cart", 200), ("place", 503))
    await until(lambda: all(trade.answers[one] > before[one] for one in expected))
    await server.start()


async def nothing_is_lost(trade: Trade) -> None:
    """Compare the records: each side has every order once, and every accepted run has ended."""
    assert not trade.odd, trade.odd[:3]
    assert not any(status == 500 for _, status in trade.answers)
    mine = {order_id: await trade.pos.get(f"{MERCHANT}/{order_id}") for order_id in trade.orders.values()}
    assert len(mine) == len(trade.orders)
    assert {reply.status for reply in mine.values()} == {200}
    assert set(mine) == trade.taken
    for path in set(trade.runs):
        run = await until_status(trade.pos, path, {"succeeded", "failed"})
        assert run["status"] == "succeeded", run


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.02)
