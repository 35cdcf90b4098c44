"""What an order stores, table by table, with partners that answer.

`python -m benchmarks.stored [URL]`: on an empty PostgreSQL database; without one, on SQLite.

Each order is validated three times, placed, and moved on four times; every event is delivered. One kind has five lines
with modifiers, the cart as it was answered; the other as many lines as an order may have, 200 with their modifiers.
Bytes are those of whole pages, indices included; on PostgreSQL after `VACUUM FULL`, so without dead rows.
"""

import asyncio
import json
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg

from benchmarks.load import Server, bare, encoded
from benchmarks.trade import PLACE, VALIDATE, Trade, trading

ORDERS: Final = 100
VALIDATIONS: Final = 3
MOVES: Final = (
    {"status": "confirmed"},
    {"status": "preparing"},
    {"status": "ready"},
    {"state": "completed"},
)
DRAINED_SECONDS: Final = 120


@dataclass(frozen=True)
class Measured:
    """What orders of one kind store: bytes of each by table, and of its request."""

    kind: str
    request: int
    tables: dict[str, float]

    @property
    def stored(self) -> float:
        return sum(self.tables.values())

    @property
    def ratio(self) -> float:
        return self.stored / self.request


def main(url: str | None = None) -> None:
    """Print a table of each kind of order."""
    for measured in measure(url):
        print(
            f"{measured.kind}: a request of {measured.request:,} bytes stores {measured.stored:,.0f}, "
            f"{measured.ratio:.2f} times as many; for each of {ORDERS} orders:"
        )
        for table, size in sorted(measured.tables.items(), key=lambda one: -one[1]):
            print(f"| `{table}` | {size:,.0f} |")


def measure(url: str | None = None) -> list[Measured]:
    """Place orders of each kind, and return what they store."""
    with (
        bare("static", encoded(b"{}")) as events,
        trading(url=url, event_url=f"http://127.0.0.1:{events.port}/events") as trade,
    ):
        return [
            _measured(trade, "five lines", trade.order()),
            _measured(trade, "200 lines", trade.large_order()),
        ]


def _measured(trade: Trade, kind: str, order: Any) -> Measured:
    before = _sizes_after(trade, order, 1)
    after = _sizes_after(trade, order, ORDERS)
    grown = {table: (size - before.get(table, 0)) / ORDERS for table, size in after.items()}
    request = len(json.dumps(order, separators=(",", ":")))
    return Measured(kind, request, {table: size for table, size in grown.items() if size})


def _sizes_after(trade: Trade, order: Any, count: int) -> dict[str, int]:
    for _ in range(count):
        place(trade.server, trade.front_key, trade.commerce_key, order)
    drain(trade.server)
    return sizes(trade.server)


def place(server: Server, front_key: str, commerce_key: str, order: Any) -> None:
    """Validate and place an order, and move it to its end."""
    for _ in range(VALIDATIONS):
        token = server.call("POST", VALIDATE, order, key=front_key)["validatedOrderToken"]
    body = order | {"validatedOrderToken": token}
    headers = {"Idempotency-Key": str(uuid4())}
    order_id = server.call("POST", PLACE, body, key=front_key, headers=headers)["orderId"]
    for move in MOVES:
        server.call("POST", f"/v1/commerce/orders/{order_id}/status", move, key=commerce_key)


PENDING: Final = "SELECT count(*) FROM deliveries WHERE status = 'pending'"
SIZES: Final = (
    "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_schema m ON m.name = s.name GROUP BY 1"
)
POSTGRESQL_SIZES: Final = "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables"


def drain(server: Server) -> None:
    """Wait until every event is delivered."""
    until = time.monotonic() + DRAINED_SECONDS
    while query(server, PENDING)[0][0]:
        if time.monotonic() > until:
            raise TimeoutError("deliveries are still pending")
        time.sleep(0.1)


def sizes(server: Server) -> dict[str, int]:
    """Return the bytes of each table with its indices."""
    return dict(query(server, SIZES if server.url is None else POSTGRESQL_SIZES))


def query(server: Server, text: str) -> list[tuple[Any, Any]]:
    """Return the rows of a query; on PostgreSQL after all dead ones are gone if it reads sizes."""
    if server.url is None:
        [path] = Path(server.data_dir).glob("*.db")
        with closing(sqlite3.connect(path)) as database:
            return database.execute(text).fetchall()
    return asyncio.run(_query(server.url, text))


async def _query(url: str, text: str) -> list[tuple[Any, Any]]:
    connection = await asyncpg.connect(url)
    try:
        if text == POSTGRESQL_SIZES:
            await connection.execute("VACUUM FULL")
        return [tuple(row) for row in await connection.fetch(text)]
    finally:
        await connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
