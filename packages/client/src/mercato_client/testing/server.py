"""A web server on loopback that runs as long as a block, and the webhooks that it receives, verified."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

HOST: Final = "127.0.0.1"

MAX_BODY: Final = 16 << 20
"""Bytes of a request that are read."""

CLOSING: Final = 0.2
"""Seconds that requests in flight have when the server stops."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def app_of(handler: Handler, *, max_body: int = MAX_BODY) -> web.Application:
    """Return an application that passes every request to one handler."""
    app = web.Application(client_max_size=max_body)
    app.router.add_route("*", "/{path:.*}", handler)
    return app


@asynccontextmanager
async def listening(
    app: web.Application, *, host: str = HOST, port: int = 0, closing: float = CLOSING, backlog: int = 128
) -> AsyncIterator[str]:
    """Serve the application while the block runs; yields its base URL. Raises OSError if the address isn't free."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=closing)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=backlog).start()
        yield f"http://{f'[{host}]' if ':' in host else host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


# --- webhooks -----------------------------------------------------------------------------------------

Verify = Callable[[Mapping[str, str], bytes], str | None]
"""Returns why a webhook with these headers (lower-case) and body is rejected, or None."""


@dataclass(frozen=True, slots=True)
class Received:
    """A webhook as it arrived; header names are lower-case. `fault` is why it was rejected, or None."""

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    fault: str | None

    @property
    def webhook_id(self) -> str:
        """Return the id, which a repeat has too."""
        return self.headers.get("webhook-id", "")

    def json(self) -> Any:
        """Return the body's value."""
        return json.loads(self.body)


@dataclass(slots=True)
class Inbox:
    """Reads webhooks, and counts all of them and those that were genuine."""

    received: int = 0
    verified: int = 0
    _secrets: tuple[str, ...] = field(default=(), repr=False)

    def trust(self, *secrets: str) -> None:
        """Accept webhooks that are signed with one of these secrets, and no others."""
        self._secrets = secrets

    def trust_also(self, secret: str) -> None:
        """Accept webhooks that are signed with this secret, too."""
        self._secrets = (*self._secrets, secret)

    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return why a webhook is rejected, None if one of the secrets signed it."""
        fault = "no signing secret is known"
        for secret in self._secrets:
            try:
                Webhook(secret).verify(body, dict(headers), json_parse=False)
            except (WebhookVerificationError, ValueError) as refusal:
                fault = str(refusal)
            else:
                return None
        return fault

    async def read(self, request: web.Request, *, verify: Verify | None = None) -> Received:
        """Return the webhook of a request, verified by `fault_of` or by `verify`."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        received = Received(request.path, headers, body, (verify or self.fault_of)(headers, body))
        self.received += 1
        self.verified += received.fault is None
        return received
