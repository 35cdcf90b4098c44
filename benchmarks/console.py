"""Pages of the console over a million deliveries, beside a running load.

`python -m benchmarks.console [DELIVERIES] [URL]`: on an empty PostgreSQL database; without one, on SQLite. The floor is
the page without a list, `Account`, in the same turns. The operators' page `Health` is measured beside a day of 240,000
orders, and the deliveries of its last hour.
"""

import asyncio
import re
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select

from benchmarks.hammer import hammer
from benchmarks.load import Server
from benchmarks.report import row
from benchmarks.trade import CARTS, Trade, trading
from mercato.features.orders.tables import orders
from mercato.features.partners.model import Surface
from mercato.features.sign_in.model import Grant
from mercato.features.sign_in.sessions import create_link
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Database
from mercato_contract.clock import first_id, new_id, now
from mercato_contract.events import EventType
from mercato_contract.wire import rfc3339

DELIVERIES = 1_000_000
ORDERS = 240_000
HOURS = 24
BATCH = 5_000
ROUNDS = 60
GOAL_MS = 50
GOAL_KB = 100
FLOOR = "/console/account"
HEALTH = "/console/health"


def main(count: int = DELIVERIES, url: str | None = None) -> None:
    with trading(url=url) as trade:
        template = trade.call("/v1/marketfront/orders/validate", trade.order())
        assert template["isValid"]
        for request in trade.placements(trade.order(), 1):
            hammer(trade.server.process, trade.server.port, [request], connections=1)
        asyncio.run(_multiply(trade.server, count))
        asyncio.run(_fill_day(trade.server))
        cookies = dict.fromkeys((FLOOR, *_pages(trade)), sign_in(trade))
        cookies[HEALTH] = asyncio.run(sign_in_operator(trade.server))
        times: dict[str, list[float]] = {path: [] for path in cookies}
        sizes: dict[str, int] = {}
        with _load(trade):
            for _ in range(ROUNDS):
                for path, taken in times.items():
                    began = time.perf_counter()
                    sizes[path] = len(get_page(trade.server, path, cookies[path]))
                    taken.append((time.perf_counter() - began) * 1000)
        floor = statistics.median(times[FLOOR])
        print(f"{count:,} deliveries; the floor's median: {floor:.1f} ms")
        for path, taken in times.items():
            p95, kb = sorted(taken)[int(0.95 * (ROUNDS - 1))], sizes[path] / 1000
            ratio = statistics.median(taken) / floor
            row(
                f"{_named(path)}: p95 in ms ({ratio:.1f} times the floor)",
                p95,
                f"≤ {GOAL_MS}",
                ok=p95 <= GOAL_MS,
            )
            row(f"{_named(path)}: kB compressed", kb, f"≤ {GOAL_KB}", ok=kb <= GOAL_KB)


def _pages(trade: Trade) -> list[str]:
    store, since = trade.store["storeId"], rfc3339(now() - timedelta(days=2))[:16]
    deep = first_id(now() - timedelta(days=20))
    return [
        "/console/overview",
        "/console/orders",
        "/console/webhooks",
        "/console/webhooks?status=failed",
        "/console/webhooks?type=order.cancelled",
        f"/console/webhooks?storeId={store}",
        f"/console/webhooks?since={since}",
        f"/console/webhooks?storeId={store}&status=failed&since={since}",
        f"/console/webhooks?orderId={deep}",
        "/console/refused-requests",
        "/console/stores",
        "/console/reports",
    ]


def _named(path: str) -> str:
    """Return the path without values, which differ from run to run."""
    return re.sub(r"(Id|since)=[^&]+", r"\1=…", path)


async def _multiply(server: Server, count: int) -> None:
    """Copy the delivery that is there, back over a month, one in fifty of them failed."""
    async with opened(server) as db:
        async with db.read() as tx:
            found = await tx.first(select(deliveries).limit(1))
        assert found is not None, "the placed order has made a delivery"
        values: dict[str, Any] = found._asdict()
        step, began = timedelta(days=30) / count, now()
        for start in range(0, count, BATCH):
            rows = []
            for number in range(start, min(start + BATCH, count)):
                at = began - step * (count - number)
                status = "failed" if number % 50 == 0 else "succeeded"
                its = {"id": _id_at(at), "webhook_id": new_id(), "status": status}
                rows.append(values | its | {"created_at": at, "updated_at": at, "next_attempt_at": None})
            async with db.write() as tx:
                await tx.execute(insert(deliveries), rows)


async def _fill_day(server: Server) -> None:
    """Copy the order that is there over a day, and its deliveries over the last hour, one in fifty of them failed."""
    began = now()
    async with opened(server) as db:
        async with db.read() as tx:
            order = await tx.first(select(orders).limit(1))
            call = await tx.first(
                select(deliveries).where(deliveries.c.type == EventType.ORDER_PLACE).limit(1)
            )
        assert order is not None
        assert call is not None, "the store was called"
        for start in range(0, ORDERS, BATCH):
            placed, sent = [], []
            for number in range(start, min(start + BATCH, ORDERS)):
                at = began - timedelta(hours=HOURS) * (ORDERS - number) / ORDERS
                its: dict[str, Any] = {"created_at": at, "updated_at": at}
                placed.append(order._asdict() | its | {"id": _id_at(at), "token_id": None})
                if began - at > timedelta(hours=1):
                    continue
                status = "failed" if number % 50 == 0 else "succeeded"
                made: dict[str, Any] = call._asdict() | its | {"status": status, "next_attempt_at": None}
                event = made | {"type": EventType.ORDER_UPDATED, "surface": Surface.MARKETFRONT}
                sent += [one | {"id": _id_at(at), "webhook_id": new_id()} for one in (made, event, event)]
            async with db.write() as tx:
                await tx.execute(insert(orders), placed)
                if sent:
                    await tx.execute(insert(deliveries), sent)


def opened(server: Server) -> AbstractAsyncContextManager[Database]:
    """Open the server's database."""
    return Database.open(server.url or f"sqlite:///{server.data_dir / 'mercato.db'}")


def _id_at(at: datetime) -> UUID:
    """Return an id that was made then."""
    return UUID(int=first_id(at).int | new_id().int & (1 << 62) - 1 | 0x7 << 76 | 0b10 << 62)


async def sign_in_operator(server: Server) -> str:
    """Return the cookie of a session of the operator."""
    async with opened(server) as db, db.write() as tx:
        made = await create_link(tx, Grant(partner_id=None, created_by="cli:bench"), now=now())
    return _use(f"http://127.0.0.1:{server.port}/console/links/{made.token}")


def sign_in(trade: Trade, key: str | None = None) -> str:
    """Return the cookie of a session of the partner whose key this is: of the merchant if none is given."""
    return _use(trade.server.call("POST", "/v1/console/links", {}, key=key or trade.commerce_key)["url"])


def _use(url: str) -> str:
    """Return the cookie of the session that a link begins."""

    class Kept(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_arguments: Any) -> None:
            return None

    request = urllib.request.Request(url, method="POST", data=b"")  # noqa: S310  # a loopback URL
    try:
        urllib.request.build_opener(Kept).open(request)
    except urllib.error.HTTPError as redirect:
        found = re.search(r"[\w-]*mercato-session=[^;]+", str(redirect.headers))
        assert found is not None
        return found[0]
    raise AssertionError("a sign-in redirects")


def get_page(server: Server, path: str, cookie: str) -> bytes:
    """Return a page as it is sent, compressed."""
    request = urllib.request.Request(  # a loopback URL
        f"http://127.0.0.1:{server.port}{path}",
        headers={"Cookie": cookie, "Accept-Encoding": "gzip", "Accept": "text/html"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310  # a loopback URL
        body: bytes = reply.read()
        return body


@contextmanager
def _load(trade: Trade) -> Iterator[None]:
    """Price carts all the while, two at a time, with pauses."""
    ended = threading.Event()
    request = trade.post(CARTS, trade.add())

    def run() -> None:
        while not ended.wait(0.02):
            hammer(trade.server.process, trade.server.port, repeat(request, 20), connections=2)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DELIVERIES, *sys.argv[2:3])
