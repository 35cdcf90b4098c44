"""The events feed: pages at random cursors of a long feed, and the time from a commit to a reader who waits.

`python -m benchmarks.feeds [--events 1000000] [--database postgresql]`. The feed of one partner is filled with so many
events of 1 kB and read by the code that answers requests, in this process. The floor of a page is a read of one row,
that of the way to a reader is the commit of the event. A reader in the writer's process is woken by it, one in another
process looks every 30 ms.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import UUID

from sqlalchemy import insert, select

from benchmarks.postgres import postgres
from benchmarks.report import row
from mercato.features.compression import compress
from mercato.features.events.cursors import Cursors
from mercato.features.events.feed import Feeds, Waiters
from mercato.features.events.log import Event, append
from mercato.features.events.sequencer import Sequencer
from mercato.features.events.tables import STATE_ID, event_positions, events, sequencer
from mercato.features.partners.model import Caller, Limits, Surface
from mercato.features.schema import SCHEMA
from mercato.platform.db.engine import Database
from mercato.platform.db.migrate import migrate
from mercato_contract import clock
from mercato_contract.events import EventType
from mercato_contract.feeds import EventsQuery

BATCH: Final = 5_000
PAGES: Final = 300
COMMITS: Final = 100
KEYS: Final = [b"k" * 32]
FEED: Final = "{}.{}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feeds", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        if options.database == "postgresql":
            url = stack.enter_context(postgres()).url
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{Path(folder) / 'mercato.db'}"
        asyncio.run(_measure(url, options.events))
    return 0


def _body(number: int) -> bytes:
    """Return an event's body: the size of an order of five lines."""
    lines = [
        {"lineItemId": str(clock.new_id()), "name": f"Dish {number % 97}", "quantity": 1} for _ in range(12)
    ]
    data = {"orderId": str(clock.new_id()), "sequence": 1, "order": {"cart": {"lineItems": lines}}}
    return json.dumps(
        {"type": "order.updated", "timestamp": "2026-11-23T12:00:00.000Z", "data": data}
    ).encode()


async def _fill(db: Database, partner_id: UUID, count: int) -> None:
    bodies = [compress(_body(number)) for number in range(200)]
    store, now = clock.new_id(), clock.now()
    for first in range(1, count + 1, BATCH):
        numbers = range(first, min(first + BATCH, count + 1))
        ids = [clock.new_id() for _ in numbers]
        async with db.write() as tx:
            await tx.execute(
                insert(events),
                [
                    {
                        "id": one,
                        "type": EventType.ORDER_UPDATED,
                        "order_id": None,
                        "body": bodies[number % 200],
                    }
                    for one, number in zip(ids, numbers, strict=True)
                ],
            )
            await tx.execute(
                insert(event_positions),
                [
                    {
                        "partner_id": partner_id,
                        "surface": Surface.MARKETFRONT,
                        "position": number,
                        "event_id": one,
                        "store_id": store,
                        "store_sequence": number,
                        "at": now,
                    }
                    for one, number in zip(ids, numbers, strict=True)
                ],
            )
    async with db.write() as tx:
        state = {"id": STATE_ID, "last": count, "events_deleted_to": 0, "stores_deleted_to": 0}
        await tx.execute(insert(sequencer).values(state))


async def _measure(url: str, count: int) -> None:
    await migrate(url, SCHEMA)
    partner_id = clock.new_id()
    reader = Caller(partner_id, clock.new_id(), Surface.MARKETFRONT, Limits())
    async with Database.open(url) as db, Database.open(url) as other:
        began = time.perf_counter()
        await _fill(db, partner_id, count)
        print(f"filled with {count} events in {time.perf_counter() - began:.0f} s", flush=True)
        await _pages(db, reader, count)
        await _latency(db, db, reader, "in the writer's process")
        await _latency(db, other, reader, "in another process")


async def _pages(db: Database, reader: Caller, count: int) -> None:
    cursors = Cursors(KEYS)
    feeds = Feeds(db, cursors, Waiters(db))
    name = FEED.format(reader.partner_id, reader.surface)
    floor, pages = [], []
    for _ in range(PAGES):
        after = cursors.write(random.randrange(max(count - 100, 1)), feed=name)  # a benchmark
        began = time.perf_counter()
        async with db.read() as tx:
            await tx.first(select(sequencer))
        floor.append(time.perf_counter() - began)
        began = time.perf_counter()
        page = await feeds.read_events(reader, EventsQuery(after=after, limit=100))
        pages.append(time.perf_counter() - began)
        assert len(page.events) == min(100, count)
    _show("a page of 100", pages, floor)


async def _latency(writing: Database, reading: Database, reader: Caller, where: str) -> None:
    """Measure from the return of the commit to the answer of a reader who waits."""
    waiters = Waiters(reading)
    feeds = Feeds(reading, Cursors(KEYS), waiters)
    wakes = waiters.wake if reading is writing else lambda _numbered: None
    tasks = [
        asyncio.create_task(Sequencer(writing, clock.now, wakes).run()),
        asyncio.create_task(waiters.run()),
    ]
    floor, told = [], []
    after = await _end(feeds, reader)
    for number in range(COMMITS):
        waiting = asyncio.create_task(feeds.read_events(reader, EventsQuery(after=after, wait=25)))
        # Not always at the same moment between two looks of the reader's process.
        await asyncio.sleep(0.02 + random.random() * 0.05)
        began = time.perf_counter()
        async with writing.write() as tx:
            event = Event(
                id=clock.new_id(),
                partner_id=reader.partner_id,
                surface=reader.surface,
                type=EventType.ORDER_UPDATED,
                body=_body(number),
            )
            append(tx, event)
        committed = time.perf_counter()
        after = (await waiting).next_cursor
        told.append(time.perf_counter() - committed)
        floor.append(committed - began)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    _show(f"commit to reader {where}", told, floor)


async def _end(feeds: Feeds, reader: Caller) -> str:
    name = FEED.format(reader.partner_id, reader.surface)
    async with feeds.db.read() as tx:
        last = int(await tx.scalar(select(sequencer.c.last)))
    query = EventsQuery(after=feeds.cursors.write(last, feed=name))
    return (await feeds.read_events(reader, query)).next_cursor


def _show(what: str, times: list[float], floor: list[float]) -> None:
    ordered = sorted(times)
    p50, p95 = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
    base = statistics.median(floor)
    print(f"{what}: p50 {p50 * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms; floor {base * 1000:.2f} ms", flush=True)
    row(f"{what}, p50 ÷ floor", p50 / base, "", ok=None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
