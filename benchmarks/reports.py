"""A report of very many orders: how much memory the service takes for it, and how long.

`python -m benchmarks.reports [ORDERS] [URL]`: on an empty PostgreSQL database; without one, on SQLite. Copies of one
order of five lines with modifiers are spread over a year, which one report then has, as CSV and as JSON; a third one is
read slowly. The floor is what reading, decompressing and decoding the content of the orders takes, which the service
did itself before it stored what reports need of it. Then the console's page adds up days that it hasn't added up
before, as many as have no more orders than it takes.
"""

import asyncio
import http.client
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import insert, select

from benchmarks.console import get_page, sign_in
from benchmarks.hammer import hammer
from benchmarks.load import Server
from benchmarks.report import row
from benchmarks.trade import Trade, trading
from mercato.console.screens.reports import MAX_DAYS
from mercato.features.compression import decompress
from mercato.features.orders.reports import PAGE
from mercato.features.orders.summaries import MAX_SUMMED
from mercato.features.orders.tables import order_history, orders
from mercato.platform.db.engine import Database
from mercato_contract.clock import first_id, new_id, now

ORDERS = 1_000_000
BATCH = 5_000
DAYS = 360
GOAL_MB = 150
GOAL_TIMES_FLOOR = 3.0
GOAL_PAGE_MS = 50
PAGES = 30


def main(count: int = ORDERS, url: str | None = None) -> None:
    with trading(url=url) as trade:
        for request in trade.placements(trade.order(), 1):
            hammer(trade.server.process, trade.server.port, [request], connections=1)
        asyncio.run(_multiply(trade.server, count))
        floor = asyncio.run(_floor(trade.server, count))
        # The first report of a process imports what it needs.
        _read(trade, "text/csv", days=1)
        before = _memory(trade.server)
        print(
            f"{count:,} orders; reading and decoding them takes {floor.seconds:.1f} s, {floor.cpu:.1f} of CPU; "
            f"before: {before:.0f} MB"
        )
        for media_type in ("text/csv", "application/json"):
            with _peak(trade.server) as peak:
                began, cpu = time.perf_counter(), trade.server.process.cpu_times()
                size, rows = _read(trade, media_type)
                seconds, after = time.perf_counter() - began, trade.server.process.cpu_times()
            assert rows == count, rows
            row(
                f"{media_type}: MB that the service takes at most",
                peak[0],
                f"≤ {GOAL_MB}",
                ok=peak[0] <= GOAL_MB,
            )
            row(f"{media_type}: thousand orders a second", rows / seconds / 1000, "", ok=None)
            spent = after.user + after.system - cpu.user - cpu.system
            for name, ratio in (("time", seconds / floor.seconds), ("CPU", spent / floor.cpu)):
                row(
                    f"{media_type}: times the floor's {name} ({size / 1e6:.0f} MB sent)",
                    ratio,
                    f"≤ {GOAL_TIMES_FLOOR}",
                    ok=ratio <= GOAL_TIMES_FLOOR,
                )
        with _peak(trade.server) as peak:
            _read(trade, "text/csv", slowly=True)
        row(
            "a slow client: MB that the service takes at most", peak[0], f"≤ {GOAL_MB}", ok=peak[0] <= GOAL_MB
        )
        _add_up(trade, count)


def _add_up(trade: Trade, count: int) -> None:
    """Open the console's page for days that it hasn't shown yet, and again for the same."""
    process, cookie = trade.server.process, sign_in(trade)
    days = min(MAX_SUMMED * DAYS // count, MAX_DAYS)
    for name, again in (("first", False), ("again", True)):
        times, cpu = [], []
        for turn in range(PAGES):
            last = now().date() - timedelta(days=3 if again else 3 + turn)
            path = f"/console/reports?from={last - timedelta(days=days - 1)}&to={last}"
            before, began = process.cpu_times(), time.perf_counter()
            get_page(trade.server, path, cookie)
            times.append((time.perf_counter() - began) * 1000)
            after = process.cpu_times()
            cpu.append((after.user + after.system - before.user - before.system) * 1000)
        p95 = sorted(times)[int(0.95 * (PAGES - 1))]
        row(
            f"the page over {days * count // DAYS:,} orders, {name}: p95 in ms ({statistics.mean(cpu):.0f} of CPU)",
            p95,
            f"≤ {GOAL_PAGE_MS}",
            ok=p95 <= GOAL_PAGE_MS,
        )


class _Cost(NamedTuple):
    """What something took, in seconds."""

    seconds: float
    cpu: float


def _opened(server: Server) -> Any:
    return Database.open(server.url or f"sqlite:///{server.data_dir / 'mercato.db'}")


async def _multiply(server: Server, count: int) -> None:
    """Copy the order that is there, with its history, over a year back."""
    began, step = now(), timedelta(days=DAYS) / count
    async with _opened(server) as db:
        async with db.read() as tx:
            found = await tx.first(select(orders).limit(1))
            entries = await tx.all(select(order_history).where(order_history.c.order_id == found.id))
        values = found._asdict()
        for start in range(1, count, BATCH):
            made, told = [], []
            for number in range(start, min(start + BATCH, count)):
                at = began - step * number
                its = {"id": UUID(int=first_id(at).int | new_id().int & (1 << 80) - 1)}
                made.append(values | its | {"created_at": at, "updated_at": at, "token_id": None})
                told += [entry._asdict() | {"order_id": its["id"]} for entry in entries]
            async with db.write() as tx:
                await tx.execute(insert(orders), made)
                await tx.execute(insert(order_history), told)


async def _floor(server: Server, count: int) -> _Cost:
    """Return the time in which the content of as many orders is read, decompressed and decoded."""
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    sample = min(count, 50_000)
    began, cpu = time.perf_counter(), time.process_time()
    async with _opened(server) as db:
        last, read = first_id(now() - timedelta(days=2 * DAYS)), 0
        while read < sample:
            async with db.read() as tx:
                query = select(orders.c.id, orders.c.content).where(orders.c.id > last)
                found = await tx.all(query.order_by(orders.c.id).limit(PAGE))
            for _, content in found:
                decode(decompress(content))
            read, last = read + len(found), found[-1].id
    share = count / sample
    return _Cost((time.perf_counter() - began) * share, (time.process_time() - cpu) * share)


def _read(trade: Trade, media_type: str, *, days: int = DAYS + 2, slowly: bool = False) -> tuple[int, int]:
    """Read a report; return its bytes and its rows. Slowly: some of it, with pauses, and then go away."""
    last = now().date()
    path = f"/v1/commerce/reports/orders?from={last - timedelta(days=days)}&to={last}&timezone=UTC"
    connection = http.client.HTTPConnection("127.0.0.1", trade.server.port, timeout=600)
    headers = {"Authorization": f"Bearer {trade.commerce_key}", "Accept": media_type}
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    mark = b"\r\n" if media_type == "text/csv" else b'"orderId"'
    size, rows, kept = 0, 0, b""
    for turn in range(1 << 60):
        if slowly and turn == 50:
            break
        part = reply.read(1 << 16)
        if not part:
            break
        if slowly:
            time.sleep(0.1)
        size += len(part)
        rows += (kept + part).count(mark)
        # A mark that two parts share is counted once.
        kept = part[-len(mark) + 1 :]
    connection.close()
    return size, rows - (media_type == "text/csv")


def _memory(server: Server) -> float:
    """Return the MB that the server's process has in memory."""
    with open(f"/proc/{server.process.pid}/statm") as file:  # noqa: PTH123  # read many times a second
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def _peak(server: Server) -> Iterator[list[float]]:
    """Give the most MB that the server had in memory meanwhile."""
    peak, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak[0] = max(peak[0], _memory(server))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ORDERS, *sys.argv[2:3])
