"""The receiving half of a storefront's double: signed order events, in the order of their sequence."""

from http import HTTPStatus
from typing import Any, ClassVar, Final

from aiohttp import web

from mercato_client.testing import acts
from mercato_client.testing.acts import Act
from mercato_client.testing.double import Double, Reply
from mercato_client.testing.server import Received

MAX_EVENTS: Final = 10_000
"""The most events that are kept; more are answered with 503, so they are sent again."""


class Events(Double):
    """Receives events. `events` has them by order id and sequence, however late one arrives."""

    operations: ClassVar = acts.STOREFRONT

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.events: dict[str, dict[int, Received]] = {}
        self.late = 0
        self.repeats = 0
        self._ids: set[str] = set()

    @property
    def event_url(self) -> str:
        """Return the URL to register as the event URL."""
        return f"{self.url}/events"

    async def event(self, order_id: str, sequence: int) -> Any:
        """Wait for an order's event with that sequence and return it."""
        await self.journal.until(lambda: sequence in self.events.get(order_id, {}))
        return self.events[order_id][sequence].json()

    def newest(self, order_id: str) -> Any:
        """Return the order as its newest event has it."""
        events = self.events[order_id]
        return events[max(events)].json()["data"]["order"]

    def complete(self, order_id: str) -> bool:
        """Return whether the sequences of the order's events have no gap."""
        events = self.events[order_id]
        return sorted(events) == list(range(1, len(events) + 1))

    # --- the steps of handling an event; each may be overridden ---

    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:  # noqa: ARG002  # there is one operation
        """Return the answer to a genuine event: 204, for a repeat, too."""
        if not self.is_new(webhook):
            self.repeats += 1
        elif len(self._ids) >= MAX_EVENTS:
            return Reply(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self.keep(webhook)
        return Reply(HTTPStatus.NO_CONTENT)

    def is_new(self, webhook: Received) -> bool:
        """Return whether the event wasn't handled before."""
        return webhook.webhook_id not in self._ids

    def keep(self, webhook: Received) -> None:
        """Keep an event by its order and sequence. Of one about something else, such as a ping, only the id."""
        data = webhook.json()["data"]
        self._ids.add(webhook.webhook_id)
        if "orderId" not in data:
            return
        events = self.events.setdefault(data["orderId"], {})
        self.late += any(sequence > data["sequence"] for sequence in events)
        events[data["sequence"]] = webhook

    def addresses(self) -> list[tuple[str, str]]:
        """Return the URLs to register."""
        return [("event URL", self.event_url), ("an order", f"{self.url}/orders/{{orderId}}")]

    def facts(self) -> list[tuple[str, int]]:
        """Return counts for the page."""
        return [
            ("orders", len(self.events)),
            ("events", len(self._ids)),
        ]

    def routes(self, app: web.Application) -> None:
        """Add the receiver, and the orders as their events describe them."""
        app.router.add_get("/orders/{order_id}", self.show_order)
        app.router.add_post("/events", self.take)

    async def show_order(self, request: web.Request) -> web.Response:
        """Answer with an order as its newest event has it; 404 before the first event."""
        order_id = request.match_info["order_id"]
        known = order_id in self.events
        return web.json_response(self.newest(order_id)) if known else web.Response(status=404)
