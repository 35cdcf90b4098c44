"""What an order stores, table by table: `python -m benchmarks.stored`, on SQLite, with partners that answer.

Each order has five lines with modifiers, is validated three times, placed, and moved on four times; every event is
delivered. Bytes are those of whole pages, indices included.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from benchmarks.load import Server, bare, encoded
from benchmarks.trade import PLACE, VALIDATE, trading

ORDERS: Final = 200
VALIDATIONS: Final = 3
MOVES: Final = (
    {"status": "confirmed"},
    {"status": "preparing"},
    {"status": "ready"},
    {"state": "completed"},
)
DRAINED_SECONDS: Final = 120


def main() -> None:
    with (
        bare("static", encoded(b"{}")) as events,
        trading(event_url=f"http://127.0.0.1:{events.port}/events") as trade,
    ):
        order = trade.order()
        place(trade.server, trade.front_key, trade.commerce_key, order)
        drain(trade.server)
        before = sizes(trade.server)
        for _ in range(ORDERS):
            place(trade.server, trade.front_key, trade.commerce_key, order)
        drain(trade.server)
        after = sizes(trade.server)
    print(
        f"The request has {len(json.dumps(order, separators=(',', ':'))):,} bytes; stored for each of {ORDERS} orders:"
    )
    for table in sorted(after, key=lambda name: before.get(name, 0) - after[name]):
        grown = (after[table] - before.get(table, 0)) / ORDERS
        if grown:
            print(f"| `{table}` | {grown:,.0f} |")


def place(server: Server, front_key: str, commerce_key: str, order: Any) -> None:
    """Validate and place an order, and move it to its end."""
    for _ in range(VALIDATIONS):
        token = server.call("POST", VALIDATE, order, key=front_key)["validatedOrderToken"]
    body = order | {"validatedOrderToken": token}
    headers = {"Idempotency-Key": str(uuid4())}
    order_id = server.call("POST", PLACE, body, key=front_key, headers=headers)["orderId"]
    for move in MOVES:
        server.call("POST", f"/v1/commerce/orders/{order_id}/status", move, key=commerce_key)


def drain(server: Server) -> None:
    """Wait until every event is delivered."""
    until = time.monotonic() + DRAINED_SECONDS
    with opened(server) as database:
        while database.execute("SELECT count(*) FROM deliveries WHERE status = 'pending'").fetchone()[0]:
            if time.monotonic() > until:
                raise TimeoutError("deliveries are still pending")
            time.sleep(0.1)


def sizes(server: Server) -> dict[str, int]:
    """Return the bytes of each table with its indices."""
    query = (
        "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_schema m ON m.name = s.name GROUP BY 1"
    )
    with opened(server) as database:
        return dict(database.execute(query).fetchall())


@contextmanager
def opened(server: Server) -> Iterator[sqlite3.Connection]:
    [path] = Path(server.data_dir).glob("*.db")
    with closing(sqlite3.connect(path)) as database:
        yield database


if __name__ == "__main__":
    main()
