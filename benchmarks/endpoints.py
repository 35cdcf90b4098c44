"""Placements of a storefront with three webhook endpoints against those with one, in turns.

`python -m benchmarks.endpoints [URL URL]`: on two empty PostgreSQL databases; without any, on SQLite.
"""

import sys

from benchmarks.alternated import against
from benchmarks.load import bare, encoded
from benchmarks.trade import PLACE, Trade, trading

GOAL = 0.9
PLACEMENTS = 300
ENDPOINTS = "/v1/marketfront/webhook-endpoints"


def main(one: str | None = None, three: str | None = None) -> None:
    with bare("static", encoded(b"{}")) as sink, trading(url=one) as first, trading(url=three) as second:
        for trade, count in ((first, 1), (second, 3)):
            for number in range(count):
                body = {"url": f"http://127.0.0.1:{sink.port}/{number}", "types": ["order.created"]}
                trade.server.call("POST", ENDPOINTS, body, key=trade.front_key)
        orders = {trade.server.port: trade.order() for trade in (first, second)}

        def requests(trade: Trade) -> list[bytes]:
            return trade.placements(orders[trade.server.port], PLACEMENTS)

        against(
            "place with three endpoints, with one",
            first.server,
            second.server,
            lambda: requests(second),
            floor_requests=lambda: requests(first),
            goal=GOAL,
        )
        print(f"  {PLACE}: the CPU of the process includes that of its deliveries")


if __name__ == "__main__":
    main(*sys.argv[1:3])
