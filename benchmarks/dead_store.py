"""One store whose webhook hangs: how long the others' validations take beside it, against the quiet."""

import json
import multiprocessing
import statistics
import threading
import time
import urllib.error
import urllib.request
from multiprocessing.synchronize import Event

from benchmarks.load import Load, bare, load
from benchmarks.report import row
from benchmarks.trade import VALIDATE, Trade, trading

GOAL = 1.5
ROUNDS = 5
SECONDS = 3.0
CALLERS = 30
"""Storefronts that keep asking the store that hangs: more than may wait for it at one time."""

PAUSE = 0.5
"""Seconds between two requests of each of them, once it is refused at once."""


def main() -> None:
    with trading() as trade, bare("hanging") as hanging:
        order = trade.order()
        request = trade.post(VALIDATE, order)
        dead = sibling(trade, order, f"http://127.0.0.1:{hanging.port}/hooks")
        quiet(trade, request)
        ratios = []
        for _ in range(ROUNDS):
            before = quiet(trade, request)
            with Callers(trade, dead):
                during = quiet(trade, request)
            ratios.append(during.percentile(0.99) / before.percentile(0.99))
    ratio = statistics.median(ratios)
    row("validate p99 beside a store that hangs ÷ quiet p99", ratio, f"≤ {GOAL}", ok=ratio <= GOAL)


def quiet(trade: Trade, request: bytes) -> Load:
    """Validate at a moderate rate."""
    return load(trade.server.process, trade.server.port, request, seconds=SECONDS, connections=4, pause=0.004)


def sibling(trade: Trade, order: dict[str, object], hooks: str) -> dict[str, object]:
    """Bring a second store of the same merchant live, whose webhook hangs; return an order for it."""
    store = trade.server.live(trade.commerce_key, trade.catalog_url, "dead")
    path = f"/v1/commerce/stores/{store['storeId']}"
    trade.server.call("PUT", path, {"webhookUrl": hooks}, key=trade.commerce_key)
    cart = {**order["cart"], "storeId": store["storeId"], "catalogSetId": store["catalogSetId"]}  # type: ignore[dict-item]  # a JSON object
    return order | {"cart": cart}


class Callers:
    """Storefronts that ask the store that hangs, for as long as the block runs: in a process of their own, since what
    measures is Python, too."""

    def __init__(self, trade: Trade, order: dict[str, object]) -> None:
        url = f"http://127.0.0.1:{trade.server.port}{VALIDATE}"
        headers = {"Authorization": f"Bearer {trade.front_key}", "Content-Type": "application/json"}
        context = multiprocessing.get_context("spawn")
        self._begun, self._over = context.Event(), context.Event()
        body = json.dumps(order).encode()
        self._process = context.Process(
            target=_ask_all, args=(url, headers, body, self._begun, self._over), daemon=True
        )

    def __enter__(self) -> None:
        self._process.start()
        self._begun.wait(30)
        time.sleep(0.3)

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._process.join()


def _ask_all(url: str, headers: dict[str, str], body: bytes, begun: Event, over: Event) -> None:
    def ask() -> None:
        while not over.wait(PAUSE):
            request = urllib.request.Request(url, body, headers)  # noqa: S310  # loopback
            try:
                urllib.request.urlopen(request, timeout=30).close()  # noqa: S310  # loopback
            except urllib.error.HTTPError as refused:
                refused.close()

    threads = [threading.Thread(target=ask) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    begun.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
