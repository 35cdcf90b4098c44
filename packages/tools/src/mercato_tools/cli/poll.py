"""`mercato listen --poll`: reads the events feed with a key instead of listening. No port has to be reachable."""

import asyncio
import os
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from mercato_client import AsyncClient
from mercato_client.errors import MercatoError, NoAnswerError, ProblemError, UnreadableError
from mercato_contract import clock
from mercato_contract.debugger.explain import Secret, SecretOrigin, Webhook, explain
from mercato_contract.events import Envelope
from mercato_contract.feeds import FEED_PAGE, MAX_FEED_PAGE, MAX_WAIT, EventPage, FeedEvent
from mercato_contract.signing import new_secret, webhook_headers
from mercato_contract.wire import as_json, redacted
from mercato_outbound.client import Outbound
from mercato_tools.cli import UnusableError
from mercato_tools.cli.inputs import read_file, why_not
from mercato_tools.cli.output import note, replace_file
from mercato_tools.cli.received import ReceivedWebhook, forward_webhook

PAGE: Final = 20
"""Events that one page has: as many may come again when it is killed before their cursor is stored."""

PAUSES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before the tries of an event that the program didn't accept; the last one also between tries to read."""

READS: Final = {
    "commerce": attrgetter("list_commerce_events"),
    "marketfront": attrgetter("list_marketfront_events"),
}
"""The surfaces that a key may open, with the client's read of their events."""

_PASSING: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses that pass: a proxy's, too, while the service behind it restarts."""

MAX_CURSOR: Final = 1024
assert PAGE <= FEED_PAGE


@redacted("secret")
class Poller(Struct):
    """Reads events after a cursor, and reports each as if it had been received."""

    client: AsyncClient
    surface: str
    secret: str
    report: Callable[[ReceivedWebhook], None]
    cursor: Path | None = None
    forward: str | None = None
    outbound: Outbound | None = None
    count: int | None = None
    """End after this many events."""
    pauses: Sequence[float] = PAUSES

    async def run(self, *, from_oldest: bool) -> None:
        """Read until cancelled, or until the `count`. Raises UnusableError when it can't go on."""
        after = read_cursor(self.cursor)
        if after is None and not from_oldest:
            after = await self._skip()
            self._store(after)
        left = self.count
        while left is None or left > 0:
            limit = PAGE if left is None else min(left, PAGE)
            page = await self._read(after, limit=limit, wait=MAX_WAIT)
            for event in page.events:
                await self._handle(event)
            after = page.next_cursor
            self._store(after)
            left = None if left is None else left - len(page.events)

    async def _skip(self) -> str:
        """Return the cursor after the last event that there is now."""
        after: str | None = None
        while True:
            page = await self._read(after, limit=MAX_FEED_PAGE)
            after = page.next_cursor
            if not page.has_more:
                return after

    async def _read(self, after: str | None, *, limit: int, wait: int | None = None) -> EventPage:
        """Return a page; while the service doesn't answer, try again."""
        read = READS[self.surface](self.client)
        failures = 0
        while True:
            try:
                page: EventPage = await read(after=after, limit=limit, wait=wait)
            except MercatoError as error:
                if not _may_pass(error):
                    raise UnusableError(self._why_not_read(error)) from None
                if not failures:
                    note(f"The service gave no answer, so this tries again: {error}")
                await asyncio.sleep(self.pauses[min(failures, len(self.pauses) - 1)])
                failures += 1
            else:
                return page

    def _why_not_read(self, error: MercatoError) -> str:
        if isinstance(error, ProblemError) and error.code == "CURSOR_EXPIRED" and self.cursor is not None:
            return (
                f"{error} Delete {self.cursor} and start with --oldest, which reads all that is kept: what you have "
                "handled comes again, with the same webhook-id. What isn't kept any more may have changed your orders: "
                f"list those since your last event, with GET /v1/{self.surface}/orders?since=, and compare."
            )
        return f"The events can't be read: {error}"

    async def _handle(self, event: FeedEvent) -> None:
        """Report an event; forwarded, until it is accepted. Raises UnusableError after the last try."""
        for times, pause in enumerate((*self.pauses, None), start=1):
            received = await self._receive(event, times)
            self.report(received)
            if 200 <= received.status < 300:  # noqa: PLR2004  # HTTP's own numbers
                return
            if pause is not None:
                await asyncio.sleep(pause)
        raise UnusableError(
            f"Your program did not accept {event.type} {event.event_id} in {len(self.pauses) + 1} tries. Start this "
            "again when it does: the cursor is before that event."
        )

    async def _receive(self, event: FeedEvent, times: int) -> ReceivedWebhook:
        now, body = clock.now(), body_of(event)
        headers = webhook_headers(
            webhook_id=str(event.event_id),
            timestamp=int(now.timestamp()),
            body=body,
            secrets=[self.secret],
            token=None,
            traceparent=None,
        )
        results: dict[str, Any] = {"status": 200}
        if self.forward is not None:
            assert self.outbound is not None
            sent = await forward_webhook(
                self.outbound, self.forward, base=self.forward, headers=headers, body=body
            )
            results = {"status": sent.status, "ms": sent.ms, "forward_error": sent.error}
        webhook = Webhook(headers=headers, body=body, received_at=now)
        secrets = (Secret(self.secret, SecretOrigin.GIVEN, 0),)
        return ReceivedWebhook(
            at=now,
            path="/",
            headers=headers,
            body=body,
            webhook_id=str(event.event_id),
            times=times,
            explanation=await asyncio.to_thread(explain, webhook, secrets=secrets, now=now),
            **results,
        )

    def _store(self, cursor: str) -> None:
        """Replace the file, so that it is whole whenever this is killed or the power fails. Raises UnusableError."""
        if self.cursor is None:
            return
        try:
            replace_file(self.cursor, f"{cursor}\n".encode())
        except OSError as error:
            raise UnusableError(f"{self.cursor} cannot be written: {why_not(error)}.") from None


def body_of(event: FeedEvent) -> bytes:
    """Return the body that a webhook about the event has, byte for byte."""
    return as_json(Envelope(type=event.type, timestamp=event.timestamp, data=msgspec.Raw(event.data)))


def read_cursor(file: Path | None) -> str | None:
    """Return the cursor in the file; None if there is none yet. Raises UnusableError."""
    if file is None or not file.exists():
        return None
    return read_file(str(file), max_bytes=MAX_CURSOR).decode("utf-8", "replace").strip() or None


def surface_of(key: str) -> str:
    """Return the surface that a key opens. Raises UnusableError for what isn't one."""
    for surface in READS:
        if key.startswith(f"mk_{surface}_"):
            return surface
    raise UnusableError("--key is an API key: mk_commerce_… or mk_marketfront_….")


def session_secret(given: Sequence[str], *, forwards: bool) -> str:
    """Return the secret to sign with: the first one given, or a new one, which is printed for who verifies it."""
    if given:
        return given[0]
    secret = new_secret(os.urandom)
    if forwards:
        note(f"Signed with a secret of this run, which verifies what is forwarded: {secret}")
    return secret


def _may_pass(error: MercatoError) -> bool:
    if isinstance(error, ProblemError):
        # A proxy before the service says nothing about a repeat.
        return error.status in _PASSING if error.retryable is None else error.retryable
    return isinstance(error, NoAnswerError | UnreadableError)
