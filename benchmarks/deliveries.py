"""Deliveries a second to a local sink, against a bare aiohttp loop that posts the same bytes to it.

Once as a backlog that is drained: the events stand in the database before the worker starts, as after a receiver or a
worker was away. And once with the pushes of the events in it, while the worker is at work.

`python -m benchmarks.deliveries [URL]`: on an empty PostgreSQL database; without one, on SQLite.
"""

import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import aiohttp
import uvloop
from sqlalchemy import func, select

from benchmarks.alternated import met
from benchmarks.load import bare, encoded, environment
from benchmarks.report import row
from mercato.app import running
from mercato.features.metrics import CommerceMetrics
from mercato.features.partners.accounts import create_partner
from mercato.features.partners.model import PartnerKind, Surface
from mercato.features.schema import SCHEMA
from mercato.features.webhooks.credentials import WebhookCredentials
from mercato.features.webhooks.model import KIND
from mercato.features.webhooks.outbox import NewEvent, Recipient, push
from mercato.features.webhooks.sender import Sender
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Write
from mercato.platform.db.migrate import migrate
from mercato.platform.db.url import database_url
from mercato.platform.jobs import Worker
from mercato.platform.telemetry import configure_logs
from mercato.services import Services
from mercato.settings import Settings, load
from mercato_contract.clock import new_id, now
from mercato_contract.events import EventType
from mercato_tools.cli.main import NEW_OBJECTS

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
        variables = environment(url) | {"MERCATO_DATA_DIR": directory}
        uvloop.run(compare(load(variables), f"http://127.0.0.1:{sink.port}/hooks"))


async def compare(chosen: Settings, sink: str) -> None:
    """Print how many deliveries a second there are, and the CPU of each."""
    await migrate(database_url(chosen), SCHEMA)
    # As `serve` and `worker` have it; the floor, too.
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    async with running(chosen, works=False) as app, aiohttp.ClientSession() as session:
        async with app.db.write() as tx:
            made = [
                await create_partner(tx, app.vault, name=str(n), kind=PartnerKind.COMMERCE)
                for n in range(PARTNERS)
            ]
        ours = Deliveries(app, [one.id for one in made], sink)
        await ours.push(DELIVERIES // 6)
        await ours.drain(DELIVERIES // 6)
        backlogs, pushes = [], []
        for _ in range(ROUNDS):
            await ours.push(DELIVERIES)
            backlogs.append(
                (
                    await measured(lambda: posted(session, sink)),
                    await measured(lambda: ours.drain(DELIVERIES)),
                )
            )
            await ours.check()
            pushes.append(
                (
                    await measured(lambda: posted(session, sink)),
                    await measured(lambda: ours.push_and_drain(DELIVERIES)),
                )
            )
            await ours.check()
    report("a backlog drained", backlogs, GOAL)
    report("pushed and delivered", pushes, None)


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


class Sent(CommerceMetrics):
    """Metrics that count the deliveries that were sent."""

    count = 0

    def delivered(self, outcome: str, seconds: float) -> None:
        super().delivered(outcome, seconds)
        self.count += 1


class Deliveries:
    """What is measured: events that are pushed, and workers that deliver them."""

    def __init__(self, app: Services, partners: list[UUID], sink: str) -> None:
        self._app = app
        self._partners = partners
        self._sink = sink
        self._metrics = Sent()
        sender = Sender(
            db=app.db,
            outbound=app.outbound,
            credentials=WebhookCredentials(app.db, app.feed, app.vault, now),
            vault=app.vault,
            clock=now,
            random=random.random,
            seconds=app.settings.webhook_seconds,
            metrics=self._metrics,
        )
        self._handler = sender.handler(
            concurrency=app.settings.delivery_concurrency,
            per_partner=app.settings.delivery_concurrency_per_partner,
        )

    async def push(self, count: int) -> None:
        """Write the events down, as many in a transaction as an order or a catalog has at most."""
        for first in range(0, count, PUSHED_AT_ONCE):
            async with self._app.db.write() as tx:
                await self._pushed(tx, numbers=range(first, min(first + PUSHED_AT_ONCE, count)))

    async def drain(self, count: int) -> None:
        """Start a worker, and return when it has sent and recorded so many."""
        done = asyncio.Event()
        self._metrics.count = 0

        def observe(kind: str, outcome: str, seconds: float) -> None:
            self._app.metrics.ran(kind, outcome, seconds)
            if self._metrics.count == count:
                # What the last runs have sent is recorded when the worker has stopped.
                done.set()

        worker = Worker(self._app.db, {KIND: self._handler}, observe=observe)
        working = asyncio.create_task(worker.run())
        await done.wait()
        await worker.stop(grace=timedelta(seconds=5))
        await working

    async def push_and_drain(self, count: int) -> None:
        """Push the events beside the worker that delivers them."""
        await asyncio.gather(self.drain(count), self.push(count))

    async def check(self) -> None:
        """Make sure that what was measured was done."""
        async with self._app.db.read() as tx:
            assert await tx.scalar(_OPEN) == 0

    async def _pushed(self, tx: Write, numbers: range) -> None:
        for number in numbers:
            event = NewEvent(
                delivery_id=new_id(),
                webhook_id=new_id(),
                type=EventType.CATALOG_SYNC_SUCCEEDED,
                data=DATA,
                traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            )
            recipient = Recipient(self._partners[number % PARTNERS], Surface.COMMERCE, self._sink)
            await push(tx, event, to=recipient, now=now())


_OPEN = select(func.count()).select_from(deliveries).where(deliveries.c.status != "succeeded")


def report(
    name: str, pairs: list[tuple[tuple[float, float], tuple[float, float]]], goal: float | None
) -> None:
    """Print both ratios of pairs of the floor and ours, in seconds and in CPU seconds."""
    rate = statistics.median(floor[0] / ours[0] for floor, ours in pairs)
    cpu = statistics.median(floor[1] / ours[1] for floor, ours in pairs)
    seconds, spent = (statistics.median(ours[kind] for _, ours in pairs) / DELIVERIES for kind in (0, 1))
    least, bare_cpu = (statistics.median(floor[kind] for floor, _ in pairs) / DELIVERIES for kind in (0, 1))
    said = "-" if goal is None else f"≥ {goal}"
    row(
        f"{name}: deliveries a second ÷ bare ({1 / seconds:.0f} ÷ {1 / least:.0f})",
        rate,
        said,
        ok=met(rate, goal),
    )
    row(
        f"{name}: bare CPU ÷ CPU ({bare_cpu * 1e6:.0f} µs ÷ {spent * 1e6:.0f} µs)",
        cpu,
        said,
        ok=met(cpu, goal),
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
