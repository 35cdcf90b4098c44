"""A sandbox storefront: receives the signed events of its orders and puts them in their order.

It does what a storefront's system has to do and no more, so it can be read as an example.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from mercato.sandbox.inbox import Inbox, Received
from mercato.sandbox.merchant import HOST

MOST_EVENTS: Final = 10_000
"""Events that there is room for; more are refused with 503, and so sent again later."""


@dataclass(slots=True)
class Storefront:
    """The running receiver. `events` by order, then by sequence: a late one takes its place among the others."""

    base: str
    inbox: Inbox = field(default_factory=Inbox)
    events: dict[str, dict[int, Received]] = field(default_factory=dict)
    late: int = 0
    repeats: int = 0
    _ids: set[str] = field(default_factory=set)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def event_url(self) -> str:
        """Return the URL to register as event URL."""
        return f"{self.base}/events"

    async def event(self, order_id: str, sequence: int) -> Any:
        """Wait for an order's event of that number and return it."""
        async with self._news:
            await self._news.wait_for(lambda: sequence in self.events.get(order_id, {}))
        return self.events[order_id][sequence].json()

    def newest(self, order_id: str) -> Any:
        """Return the order as the newest of its events has it."""
        events = self.events[order_id]
        return events[max(events)].json()["data"]["order"]

    def complete(self, order_id: str) -> bool:
        """Tell whether the order's events count from 1 without a gap."""
        events = self.events[order_id]
        return sorted(events) == list(range(1, len(events) + 1))

    async def receive(self, request: web.Request) -> web.Response:
        """Answer an event: 204 when its signature is good, 401 when it is not."""
        event = await self.inbox.read(request)
        if event.fault is not None:
            return web.Response(status=401)
        if event.webhook_id in self._ids:
            self.repeats += 1
        elif len(self._ids) >= MOST_EVENTS:
            return web.Response(status=503)
        else:
            await self._keep(event)
        return web.Response(status=204)

    async def _keep(self, event: Received) -> None:
        data = event.json()["data"]
        events = self.events.setdefault(data["orderId"], {})
        self.late += any(sequence > data["sequence"] for sequence in events)
        self._ids.add(event.webhook_id)
        events[data["sequence"]] = event
        async with self._news:
            self._news.notify_all()


@asynccontextmanager
async def storefront(*, port: int = 0) -> AsyncIterator[Storefront]:
    """Run a storefront's receiver on a loopback port (0: a free one) while the block runs."""
    here = Storefront("")
    app = web.Application()
    app.router.add_post("/events", here.receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        here.base = f"http://{HOST}:{runner.addresses[0][1]}"
        yield here
    finally:
        await runner.cleanup()
