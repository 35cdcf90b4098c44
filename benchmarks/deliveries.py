"""Deliveries a second to a local sink, against a bare aiohttp loop that posts the same bytes to it.

`python -m benchmarks.deliveries [URL]`: on an empty PostgreSQL database; without one, on SQLite.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

import aiohttp
import uvloop
from sqlalchemy import func, select

from benchmarks.alternated import met
from benchmarks.load import bare, encoded, environment
from benchmarks.report import row
from mercato import settings
from mercato.clock import new_id, now
from mercato.db.engine import Write
from mercato.db.migrate import migrate
from mercato.db.tables import deliveries
from mercato.db.url import database_url
from mercato.partners.accounts import create_partner
from mercato.partners.model import PartnerKind, Surface
from mercato.runtime import Runtime, running
from mercato.telemetry import configure_logs
from mercato.webhooks.deliveries import push

GOAL = 0.4
ROUNDS = 5
DELIVERIES = 600
PARTNERS = 8
PUSHED_AT_ONCE = 20
AT_ONCE = 32
"""What the service has under way at most."""

DATA = {"storeId": str(UUID(int=7)), "catalogSetId": str(UUID(int=8)), "note": "x" * 500}


def main(url: str | None = None) -> None:
    with bare("static", encoded(b"")) as sink, tempfile.TemporaryDirectory() as directory:
        configure_logs(level="warning", form="json")
        told = environment(url) | {"MERCATO_DATA_DIR": directory}
        uvloop.run(compare(settings.load(told), f"http://127.0.0.1:{sink.port}/hooks"))


async def compare(chosen: settings.Settings, sink: str) -> None:
    """Print how many deliveries a second there are, and the CPU of each."""
    await migrate(database_url(chosen))
    async with running(chosen, works=False) as app, aiohttp.ClientSession() as session:
        async with app.db.write() as tx:
            made = [
                await create_partner(tx, app.vault, name=str(n), kind=PartnerKind.COMMERCE)
                for n in range(PARTNERS)
            ]
        working = asyncio.create_task(app.worker.run())
        partners = [one.id for one in made]
        await delivered(app, partners, sink, DELIVERIES // 6)
        pairs = []
        for _ in range(ROUNDS):
            floor = await measured(lambda: posted(session, sink))
            ours = await measured(lambda: delivered(app, partners, sink, DELIVERIES))
            pairs.append((floor, ours))
        await app.worker.stop(grace=timedelta(seconds=5))
        await working
    report(pairs)


async def measured(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return seconds and CPU seconds."""
    began, before = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - began, time.process_time() - before


async def posted(session: aiohttp.ClientSession, sink: str) -> None:
    """Post as often, with as many under way."""
    left = iter(range(DELIVERIES))
    body = b'{"type":"catalog.sync","data":{"note":"' + b"x" * 600 + b'"}}'

    async def loop() -> None:
        for _ in left:
            async with session.post(
                sink, data=body, headers={"Content-Type": "application/json"}
            ) as response:
                await response.read()

    await asyncio.gather(*(loop() for _ in range(AT_ONCE)))


async def delivered(app: Runtime, partners: list[UUID], sink: str, count: int) -> None:
    """Push the events, which counts as ours, and wait until all have arrived."""

    async def pushed(tx: Write, first: int) -> None:
        for number in range(first, min(first + PUSHED_AT_ONCE, count)):
            await push(
                tx,
                delivery_id=new_id(),
                partner_id=partners[number % PARTNERS],
                surface=Surface.COMMERCE,
                store_id=None,
                base_url=sink,
                suffix="catalog-sync",
                type="catalog.sync",
                webhook_id=new_id(),
                data=DATA,
                occurred_at=now(),
                traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                now=now(),
            )

    for first in range(0, count, PUSHED_AT_ONCE):
        await app.db.atomically(partial(pushed, first=first))
    open_ones = select(func.count()).select_from(deliveries).where(deliveries.c.status != "succeeded")
    while True:
        async with app.db.read() as tx:
            if await tx.scalar(open_ones) == 0:
                return
        await asyncio.sleep(0.02)


def report(pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    rate = statistics.median(floor[0] / ours[0] for floor, ours in pairs)
    cpu = statistics.median(floor[1] / ours[1] for floor, ours in pairs)
    seconds, spent = (statistics.median(ours[kind] for _, ours in pairs) / DELIVERIES for kind in (0, 1))
    least, bare_cpu = (statistics.median(floor[kind] for floor, _ in pairs) / DELIVERIES for kind in (0, 1))
    row(
        f"deliveries a second ÷ bare ({1 / seconds:.0f} ÷ {1 / least:.0f})",
        rate,
        f"≥ {GOAL}",
        ok=met(rate, GOAL),
    )
    row(
        f"deliveries: bare CPU ÷ CPU ({bare_cpu * 1e6:.0f} µs ÷ {spent * 1e6:.0f} µs)",
        cpu,
        f"≥ {GOAL}",
        ok=met(cpu, GOAL),
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
