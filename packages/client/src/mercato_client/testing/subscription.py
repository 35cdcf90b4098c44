"""How a partner gets events with its key: at a webhook endpoint that it registers, and from the feed with a cursor."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal

from mercato_client.testing.caller import Answer, Caller, NoAnswerError, RefusedError
from mercato_client.testing.double import Double
from mercato_contract.feeds import MAX_FEED_PAGE, MAX_WAIT, EventPage
from mercato_contract.webhooks import WebhookDeliveryDetail, WebhookEndpointPage, WebhookEndpointWithSecret

PAUSE_SECONDS: Final = 2.0
"""How long to wait when the service can't be reached."""


@dataclass(slots=True)
class Subscription:
    """A double's own ways to its events at a service. `public` is where the service reaches it, if not at its URL.

    Events of the feed are calls `feed` of its journal. `cursor` stands after the last one that was read.
    """

    double: Double
    caller: Caller
    surface: Literal["commerce", "marketfront"]
    say: Callable[[str], object] = lambda _words: None
    public: str = ""
    cursor: str = ""
    read: int = 0
    gaps: int = 0
    """Events whose `storeSequence` wasn't the next one of their store."""
    _sequences: dict[str, int] = field(default_factory=dict)

    # --- the endpoint ---

    @asynccontextmanager
    async def endpoint(self) -> AsyncIterator[str]:
        """Have a webhook endpoint for every event while the block runs, tested by a `ping`; yields its id.

        The double trusts its secret, too. Raises ServiceError.
        """
        endpoint_id, secret = await self._made()
        self.double.inbox.trust_also(secret)
        path = f"{self._endpoints}/{endpoint_id}"
        try:
            tested = await self.caller.post(f"{path}/test")
            tested.expect(HTTPStatus.OK, "The webhook endpoint can't be tested", WebhookDeliveryDetail)
            self.say(f"The webhook endpoint {endpoint_id} sends events to {self._url}")
            yield endpoint_id
        finally:
            # A service that has ended already keeps it: the next run takes it over.
            with suppress(NoAnswerError):
                await self.caller.call("DELETE", path)

    async def _made(self) -> tuple[str, str]:
        """Return the id and secret of a new endpoint, or of the one that a killed run has left at this URL."""
        body = {"url": self._url, "description": self.double.title, "enabled": True}
        made = await self.caller.post(self._endpoints, body)
        if made.status == HTTPStatus.CONFLICT:
            left = await self._left()
            if left is not None:
                made = await self.caller.post(f"{self._endpoints}/{left}/rotate-secret", {"overlapHours": 0})
                refused = "The webhook endpoint gets no new secret"
                value = made.expect(HTTPStatus.OK, refused, WebhookEndpointWithSecret)
                return left, value["secret"]
        value = made.expect(HTTPStatus.CREATED, "No webhook endpoint is made", WebhookEndpointWithSecret)
        return value["endpointId"], value["secret"]

    async def _left(self) -> str | None:
        listed = await self.caller.get(f"{self._endpoints}?limit=100")
        page = listed.expect(HTTPStatus.OK, "Webhook endpoints can't be read", WebhookEndpointPage)
        ours = [
            endpoint["endpointId"]
            for endpoint in page["endpoints"]
            if (endpoint["kind"], endpoint["url"]) == ("endpoint", self._url)
        ]
        return ours[0] if ours else None

    @property
    def _endpoints(self) -> str:
        return f"/v1/{self.surface}/webhook-endpoints"

    @property
    def _url(self) -> str:
        url = self.double.endpoint_url
        return url.replace(self.double.url, self.public.rstrip("/"), 1) if self.public else url

    # --- the feed ---

    async def skip(self) -> None:
        """Set the cursor behind the newest event. Raises ServiceError."""
        async for _ in self._pages():
            pass

    async def drain(self) -> None:
        """Read what there is now. Raises ServiceError."""
        async for events in self._pages():
            self._take(events)

    async def follow(self) -> None:
        """Read events as they happen, until cancelled. Raises RefusedError."""
        while True:
            try:
                self._take((await self._page(wait=MAX_WAIT))["events"])
            except RefusedError as refused:
                if not refused.answer.is_retryable:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
            except NoAnswerError as error:
                self.say(str(error))
                await asyncio.sleep(PAUSE_SECONDS)

    async def _pages(self) -> AsyncIterator[list[Any]]:
        """Yield the events of each page that there is now."""
        while True:
            page = await self._page(wait=0)
            yield page["events"]
            if not page["hasMore"]:
                return

    async def _page(self, *, wait: int) -> Any:
        """Return the page after the cursor, and move the cursor behind it."""
        answer = await self._events(wait)
        page = answer.expect(HTTPStatus.OK, "The events feed can't be read", EventPage)
        self.cursor = page["nextCursor"]
        return page

    async def _events(self, wait: int) -> Answer:
        after = f"&after={self.cursor}" if self.cursor else ""
        return await self.caller.get(f"/v1/{self.surface}/events?limit={MAX_FEED_PAGE}&wait={wait}{after}")

    def _take(self, events: list[Any]) -> None:
        for event in events:
            self.read += 1
            store, sequence = event["storeId"], event["storeSequence"]
            if store is not None:
                expected = self._sequences.get(store, sequence - 1) + 1
                self.gaps += sequence != expected
                self._sequences[store] = sequence
            self.double.journal.read(f"/v1/{self.surface}/events", event)
