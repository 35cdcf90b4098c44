"""The console's search over a million orders: `python -m benchmarks.finding [ORDERS] [URL]`.

On an empty PostgreSQL database; without one, on SQLite. The orders are copies of one. Each has a number of its
store from 0 to 999, as stores that count anew each day have them; each customer has ordered ten times.
"""

import asyncio
import sys
import time
import urllib.parse
import urllib.request
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select, text

from benchmarks.console import BATCH, GOAL_MS, sign_in
from benchmarks.hammer import hammer
from benchmarks.load import Server
from benchmarks.report import row
from benchmarks.trade import trading
from mercato.features.orders.search import PURPOSE, ContactKeys, SearchKind, number_key, tail_key
from mercato.features.orders.tables import order_search, orders
from mercato.features.partners.vault import Vault, load_keys
from mercato.platform.db.engine import Database
from mercato_contract.clock import first_id, new_id, now
from mercato_contract.placements import Customer

ORDERS = 1_000_000
NUMBERS = 1_000
EACH = 10
ROUNDS = 60


def main(count: int = ORDERS, url: str | None = None) -> None:
    with trading(url=url) as trade:
        for request in trade.placements(trade.order(), 1):
            hammer(trade.server.process, trade.server.port, [request], connections=1)
        order = asyncio.run(_multiply(trade.server, count))
        cookie = sign_in(trade)
        wanted = {
            "a phone number": _phone(7),
            "the same as it is dialled": "0" + _phone(7)[3:],
            "an e-mail address": "customer-7@example.com",
            "a number that a thousand orders have": "500",
            "an id": str(order),
            "the end of an id": str(order)[-8:],
            "a name of a store": "Benchmark",
            "what nothing has": "nothing at all",
        }
        times: dict[str, list[float]] = {name: [] for name in wanted}
        for _ in range(ROUNDS):
            for name, words in wanted.items():
                began = time.perf_counter()
                _post(trade.server, words, cookie)
                times[name].append((time.perf_counter() - began) * 1000)
        print(f"{count:,} orders")
        for name, taken in times.items():
            p95 = sorted(taken)[int(0.95 * (ROUNDS - 1))]
            row(f"search for {name}: p95 in ms", p95, f"≤ {GOAL_MS}", ok=p95 <= GOAL_MS)


def _phone(customer: int) -> str:
    return f"+31612{customer:06}"


async def _multiply(server: Server, count: int) -> UUID:
    """Copy the order that is there, back over a month; return one of the copies."""
    keys = ContactKeys(Vault(load_keys(None, server.data_dir)).derive(PURPOSE))
    async with Database.open(server.url or f"sqlite:///{server.data_dir / 'mercato.db'}") as db:
        async with db.read() as tx:
            found = await tx.first(select(orders).limit(1))
        assert found is not None
        values: dict[str, Any] = found._asdict()
        step, began = timedelta(days=30) / count, now()
        last: UUID = found.id
        for start in range(0, count, BATCH):
            rows, entries = [], []
            for number in range(start, min(start + BATCH, count)):
                at = began - step * (count - number)
                last = UUID(int=first_id(at).int | new_id().int & (1 << 62) - 1 | 0x7 << 76 | 0b10 << 62)
                its = {"id": last, "token_id": None, "partner_order_id": str(number % NUMBERS)}
                rows.append(values | its | {"created_at": at, "updated_at": at, "state": "completed"})
                customer = Customer(
                    email=f"customer-{number // EACH}@example.com",
                    first_name="A",
                    last_name="B",
                    phone=_phone(number // EACH),
                )
                found_by = {
                    **keys.entries_of(customer, "NL"),
                    SearchKind.NUMBER: number_key(str(number % NUMBERS)),
                    SearchKind.TAIL: tail_key(last),
                }
                entries += [{"order_id": last, "kind": kind, "key": key} for kind, key in found_by.items()]
            async with db.write() as tx:
                await tx.execute(insert(orders), rows)
                await tx.execute(insert(order_search), entries)
        async with db.write() as tx:
            await tx.execute(text("ANALYZE"))
    return last


def _post(server: Server, words: str, cookie: str) -> bytes:
    request = urllib.request.Request(  # a loopback URL
        f"http://127.0.0.1:{server.port}/console/search",
        method="POST",
        data=urllib.parse.urlencode({"text": words}).encode(),
        headers={"Cookie": cookie, "Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310  # a loopback URL
        body: bytes = reply.read()
        return body


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ORDERS, *sys.argv[2:3])
