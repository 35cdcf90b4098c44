"""500 updates of orders in five requests, against the same in 500 requests, one after the other on one connection.

`python -m benchmarks.updates [URL]`: on an empty PostgreSQL database; without one, on SQLite.
"""

import http.client
import json
import statistics
import sys
import time
from collections.abc import Iterable
from typing import Any

import psutil

from benchmarks.load import Server, bare, encoded
from benchmarks.report import row
from benchmarks.trade import PLACE, Trade, trading

ORDERS = 500
BATCH = 100
GOAL = 0.2
STEPS = (("confirmed", "preparing"), ("ready", "inTransit"))
"""What the requests set: one update each, then a batch each. Both are measured in turns on the same orders."""


def main(url: str | None = None) -> None:
    with (
        bare("static", encoded(b"{}")) as events,
        trading(url=url, event_url=f"http://127.0.0.1:{events.port}/events") as trade,
    ):
        ids = placed(trade)
        pairs = []
        for one, many in STEPS:
            singles = [(f"/v1/commerce/orders/{order}/status", {"status": one}) for order in ids]
            batches = [
                (
                    "/v1/commerce/orders/status",
                    {"updates": [{"orderId": order, "status": many} for order in part]},
                )
                for part in (ids[start : start + BATCH] for start in range(0, ORDERS, BATCH))
            ]
            pairs.append((cost(trade, singles), cost(trade, batches)))
        for name, side in (("seconds", 0), ("CPU seconds of the server", 1)):
            ratio = statistics.median(many[side] / one[side] for one, many in pairs)
            least, most = pairs[0][1][side], pairs[0][0][side]
            said = f"500 updates in five requests ÷ in 500: {name} ({least:.2f} ÷ {most:.2f})"
            row(said, ratio, f"≤ {GOAL:g}", ok=ratio <= GOAL)


def placed(trade: Trade) -> list[str]:
    """Return the ids of so many placed orders."""
    order = trade.order()
    return [
        trade.server.call(
            "POST", PLACE, order, key=trade.front_key, headers={"Idempotency-Key": f"update-{number}"}
        )["orderId"]
        for number in range(ORDERS)
    ]


def cost(trade: Trade, requests: Iterable[tuple[str, Any]]) -> tuple[float, float]:
    """Return the seconds, and the CPU seconds of the server, of requests that follow one another."""
    connection = http.client.HTTPConnection("127.0.0.1", trade.server.port)
    headers = {"Authorization": f"Bearer {trade.commerce_key}", "Content-Type": "application/json"}
    began, used = time.perf_counter(), cpu(trade.server)
    for path, body in requests:
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != http.client.OK or b'"problem"' in text:
            raise RuntimeError(text.decode())
    seconds = time.perf_counter() - began, cpu(trade.server) - used
    connection.close()
    return seconds


def cpu(server: Server) -> float:
    """Return the CPU seconds of the server and its children until now."""
    main_process: psutil.Process = server.process
    processes = [main_process, *main_process.children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


if __name__ == "__main__":
    main(*sys.argv[1:2])
