"""Tablets that show the board: what they cost while nothing happens, and how soon a store's have a new order.

`python -m benchmarks.board [TABLETS] [SECONDS] [URL]`: 500 sessions of one merchant, each with the request that waits;
four show a store with twelve open orders, the others a quiet one. On SQLite, or on an empty PostgreSQL database. The
floor is a request to a server that only answers it. Then orders are placed one by one, and the four read the board.
"""

import asyncio
import re
import statistics
import sys
import time
from dataclasses import dataclass, field

import aiohttp
import psutil
from sqlalchemy import select

from benchmarks.load import bare, encoded, get, load
from benchmarks.report import row
from benchmarks.trade import Trade, trading
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.features.stores.tables import stores
from mercato.platform.db.engine import Database
from mercato_contract.clock import now

TABLETS = 500
SECONDS = 60.0
ORDERS = 12
PLACED = 10
BUSY = 4
"""Tablets of the store where orders are placed."""
AT_ONCE = 8
"""Tablets that are switched on at a time."""
GOAL_SHARE = 10
"""Percent of a core."""
GOAL_REQUESTS = 1
"""Requests of a tablet in 20 seconds."""
GOAL_SECONDS = 2
BOARD = "/console/board"
_CURSOR = re.compile(r'data-cursor="([^"]+)"')


def main(tablets: int = TABLETS, seconds: float = SECONDS, url: str | None = None) -> None:
    with trading(url=url) as trade:
        store = trade.store["storeId"]
        change = {"orderHandling": "manual", "acceptWithin": 60}
        trade.server.call("PUT", f"/v1/commerce/stores/{store}", change, key=trade.commerce_key)
        order = trade.order()
        for _ in range(ORDERS):
            _place(trade, order)
        asyncio.run(_measure(trade, order, tablets, seconds))
    with bare("static", encoded(b"same\n")) as floor:
        least = load(floor.process, floor.port, get(BOARD), seconds=3, connections=tablets)
    print(f"      the floor answers a request in {least.cpu_us:.0f} us of CPU")


def _place(trade: Trade, order: object) -> None:
    headers = {"Idempotency-Key": str(time.perf_counter_ns())}
    trade.server.call("POST", "/v1/marketfront/orders/place", order, key=trade.front_key, headers=headers)


@dataclass
class Tablet:
    """A browser with the board: its session's cookie, and how often it has asked."""

    base: str
    cookie: str
    store: str
    client: aiohttp.ClientSession
    requests: int = 0
    drawn: float = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, path: str, **query: str) -> str:
        headers = {"Cookie": self.cookie, "HX-Request": "true"}
        self.requests += 1
        async with self.client.get(self.base + path, params=query, headers=headers) as answer:
            text = await answer.text()
            assert answer.status == 200, f"{answer.status} {text}"
            return text

    async def draw(self) -> str:
        found = _CURSOR.search(await self.ask(BOARD, storeId=self.store))
        assert found is not None
        self.drawn = time.perf_counter()
        self.begun.set()
        return found[1]

    async def follow(self, turn: asyncio.Semaphore) -> None:
        async with turn:
            cursor = await self.draw()
        while True:
            if (await self.ask(f"{BOARD}/changes", after=cursor, storeId=self.store)).strip() == "changed":
                cursor = await self.draw()


async def _measure(trade: Trade, order: object, tablets: int, seconds: float) -> None:
    base, process = f"http://127.0.0.1:{trade.server.port}", trade.server.process
    idle = await _share(process, seconds / 4)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as client:
        quiet = await asyncio.to_thread(trade.server.live, trade.commerce_key, trade.catalog_url, "quiet")
        ids = [(trade.store if number < BUSY else quiet)["storeId"] for number in range(tablets)]
        cookies = await _sign_in(trade, tablets)
        shown = [Tablet(base, cookie, id_, client) for cookie, id_ in zip(cookies, ids, strict=True)]
        turn = asyncio.Semaphore(AT_ONCE)
        following = [asyncio.create_task(one.follow(turn)) for one in shown]
        await asyncio.gather(*(one.begun.wait() for one in shown))
        for one in shown:
            one.requests = 0
        await asyncio.sleep(1)
        share = await _share(process, seconds)
        asked = sum(one.requests for one in shown) / tablets / seconds * 20
        print(f"      without tablets the service takes {idle:.2f} % of a core")
        row(f"{tablets} idle tablets: % of a core", share, f"≤ {GOAL_SHARE}", ok=share <= GOAL_SHARE)
        row("requests of one in 20 s", asked, f"≤ {GOAL_REQUESTS}", ok=asked <= GOAL_REQUESTS)
        print(f"      memory: {process.memory_info().rss / 1e6:.0f} MB")
        times: list[float] = []
        for _ in range(PLACED):
            busy = shown[:BUSY]
            for one in busy:
                one.begun.clear()
            await asyncio.to_thread(_place, trade, order)
            began = time.perf_counter()
            await asyncio.gather(*(one.begun.wait() for one in busy))
            times += [one.drawn - began for one in busy]
            await asyncio.sleep(1)
        for name, value in (("median", statistics.median(times)), ("last of all", max(times))):
            what = f"from an order's answer to its store's {BUSY} boards: s, {name}"
            row(what, value, f"≤ {GOAL_SECONDS}", ok=value <= GOAL_SECONDS)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def _share(process: psutil.Process, seconds: float) -> float:
    """Return the share of a core that the process takes in this time, in percent."""
    before = process.cpu_times()
    await asyncio.sleep(seconds)
    after = process.cpu_times()
    return float(after.user - before.user + after.system - before.system) / seconds * 100


async def _sign_in(trade: Trade, count: int) -> list[str]:
    """Return the cookies of new sessions of the merchant."""
    url = trade.server.url or f"sqlite:///{trade.server.data_dir / 'mercato.db'}"
    async with Database.open(url) as db, db.write() as tx:
        partner_id = await tx.scalar(select(stores.c.partner_id))
        grant = Grant(partner_id=partner_id, created_by="cli:bench")
        tokens = [await sessions.begin(tx, grant, now=now()) for _ in range(count)]
    return [f"__Host-mercato-session={token}" for token in tokens]


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float, str), sys.argv[1:], strict=False)))
