"""Placements as fast as some storefronts send them, through `mercato serve`, and a record of what was acknowledged."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import aiohttp
from sqlalchemy import func, select
from tests.api.trade import PLACE
from tests.ha.cluster import Cluster
from tests.processes.test_postgres_restart import Trade, trading
from tests.processes.test_serve import serving
from tests.service import merchant
from tests.waiting import PATIENCE

from mercato.features.orders.tables import orders
from mercato.platform.db.engine import Database

PLACERS: Final = 16
PAUSE: Final = 0.1
"""Seconds before a placement that was answered 503 is sent again, under the same key."""

EXPECTED: Final = {HTTPStatus.CREATED, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.CONFLICT}
"""409 says that an earlier try with the key is in progress."""


@dataclass(slots=True)
class Load:
    """The storefronts' records."""

    trade: Trade
    url: str
    acknowledged: dict[str, float] = field(default_factory=dict)
    """Orders by their ids, with the instants when their 201 arrived."""
    seconds: list[float] = field(default_factory=list)
    """The time from each key's first request to its 201."""
    statuses: Counter[int] = field(default_factory=Counter)
    over: bool = False

    async def run(self) -> None:
        """Place orders until `over`; each key is settled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(PLACERS):
                group.create_task(self._place())

    async def _place(self) -> None:
        while not self.over:
            headers, began = {"Idempotency-Key": str(uuid4())}, monotonic()
            while True:
                reply = await self.trade.front.post(PLACE, self.trade.order(), headers=headers)
                self.statuses[reply.status] += 1
                if reply.status == HTTPStatus.CREATED:
                    break
                await asyncio.sleep(PAUSE)
            self.seconds.append(monotonic() - began)
            self.acknowledged[reply.json()["orderId"]] = monotonic()

    async def accepts(self, orders: int, *, after: float = 0.0) -> None:
        """Return once so many orders were acknowledged after an instant."""
        async with asyncio.timeout(PATIENCE):
            while sum(at > after for at in self.acknowledged.values()) < orders:
                await asyncio.sleep(0.05)

    async def lost_and_doubled(self) -> tuple[int, int]:
        """Return how many acknowledged orders the database lacks, and how many it has that nobody was told of."""
        async with Database.open(self.url) as db, db.read() as tx:
            stored = {str(row.id) for row in await tx.all(select(orders.c.id))}
            assert len(stored) == await tx.scalar(select(func.count()).select_from(orders))
        return len(self.acknowledged.keys() - stored), len(stored - self.acknowledged.keys())


@asynccontextmanager
async def loading(cluster: Cluster, directory: Path) -> AsyncIterator[Load]:
    """Place orders during the block, on a new database of the cluster."""
    url = await cluster.new_database()
    settings: dict[str, Any] = {
        "MERCATO_DATABASE_URL": url,
        "MERCATO_LOG_LEVEL": "error",
        "MERCATO_RATE_LIMITS": "off",
        # The claim of a key whose request was cut off in the middle ends 5 s after this.
        "MERCATO_PLACE_SECONDS": "1",
    }
    async with (
        merchant() as shop,
        serving(directory, **settings, MERCATO_WORKERS="2") as (_, base),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        load = Load(await trading(base, shop, session, **settings, MERCATO_DATA_DIR=str(directory)), url)
        task = asyncio.create_task(load.run())
        try:
            yield load
        finally:
            load.over = True
            await task
