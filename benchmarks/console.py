"""Pages of the console over a million deliveries, beside a running load.

`python -m benchmarks.console [DELIVERIES] [URL]`: on an empty PostgreSQL database; without one, on SQLite. The floor is
the page without a list, `Account`, in the same turns.
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
from contextlib import contextmanager
from datetime import timedelta
from itertools import repeat
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select

from benchmarks.hammer import hammer
from benchmarks.load import Server
from benchmarks.report import row
from benchmarks.trade import CARTS, Trade, trading
from mercato.features.webhooks.tables import deliveries
from mercato.platform.clock import first_id, new_id, now
from mercato.platform.db.engine import Database
from mercato_contract.wire import rfc3339

DELIVERIES = 1_000_000
BATCH = 5_000
ROUNDS = 60
GOAL_MS = 50
GOAL_KB = 100
FLOOR = "/console/account"


def main(count: int = DELIVERIES, url: str | None = None) -> None:
    with trading(url=url) as trade:
        template = trade.call("/v1/marketfront/orders/validate", trade.order())
        assert template["isValid"]
        for request in trade.placements(trade.order(), 1):
            hammer(trade.server.process, trade.server.port, [request], connections=1)
        asyncio.run(_multiply(trade.server, count))
        cookie = _sign_in(trade)
        pages = _pages(trade)
        times: dict[str, list[float]] = {path: [] for path in (FLOOR, *pages)}
        sizes: dict[str, int] = {}
        with _load(trade):
            for _ in range(ROUNDS):
                for path, taken in times.items():
                    began = time.perf_counter()
                    sizes[path] = len(_get(trade.server, path, cookie))
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
    ]


def _named(path: str) -> str:
    """Return the path without values, which differ from run to run."""
    return re.sub(r"(Id|since)=[^&]+", r"\1=…", path)


async def _multiply(server: Server, count: int) -> None:
    """Copy the delivery that is there, back over a month, one in fifty of them failed."""
    async with Database.open(server.url or f"sqlite:///{server.data_dir / 'mercato.db'}") as db:
        async with db.read() as tx:
            found = await tx.first(select(deliveries).limit(1))
        assert found is not None, "the placed order has made a delivery"
        values: dict[str, Any] = found._asdict()
        step, began = timedelta(days=30) / count, now()
        for start in range(0, count, BATCH):
            rows = []
            for number in range(start, min(start + BATCH, count)):
                at = began - step * (count - number)
                own = first_id(at).int | new_id().int & (1 << 62) - 1 | 0x7 << 76 | 0b10 << 62
                status = "failed" if number % 50 == 0 else "succeeded"
                its = {"id": UUID(int=own), "webhook_id": new_id(), "status": status}
                rows.append(values | its | {"created_at": at, "updated_at": at, "next_attempt_at": None})
            async with db.write() as tx:
                await tx.execute(insert(deliveries), rows)


def _sign_in(trade: Trade) -> str:
    """Return the cookie of a session of the merchant."""
    url = trade.server.call("POST", "/v1/console/links", {}, key=trade.commerce_key)["url"]

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


def _get(server: Server, path: str, cookie: str) -> bytes:
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
