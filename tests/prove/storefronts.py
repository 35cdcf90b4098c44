"""The simulated storefront's receiver of order events."""

from dataclasses import dataclass, field

from aiohttp import web
from tests.prove.books import Event, StorefrontBook, digest
from tests.prove.moods import Dropped, Moods

from mercato.testing.inbox import Inbox


@dataclass(slots=True)
class Storefront:
    """Writes every event down. One that it could not acknowledge is not in its book: it has to come again."""

    book: StorefrontBook
    moods: Moods
    base: str = ""
    inbox: Inbox = field(default_factory=Inbox)
    webhooks: int = 0

    def application(self) -> web.Application:
        """Return the web server's application."""
        app = web.Application()
        app.router.add_post("/events", self.receive)
        return app

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Answer an event."""
        received = await self.inbox.read(request)
        self.webhooks += 1
        if received.fault is not None:
            self.book.mail.forged.append(f"{received.path} {received.webhook_id}: {received.fault}")
            return web.Response(status=401)
        self.book.mail.note(received.webhook_id, received.body)
        try:
            refusal = await self.moods.suffer_once(request, received.webhook_id)
        except Dropped:
            return web.Response(status=500)
        if refusal is not None:
            return refusal
        data = received.json()["data"]
        order = data["order"]
        event = Event(received.webhook_id, digest(received.body), order["state"], order["status"])
        self.book.events[data["orderId"]][data["sequence"]].add(event)
        self.book.mail.acknowledged.add(received.webhook_id)
        return web.Response(status=204)
