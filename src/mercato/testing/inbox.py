"""The first step of every receiver of webhooks: read the raw bytes and verify who signed them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

Judge = Callable[[Mapping[str, str], bytes], str | None]
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

    came: int = 0
    believed: int = 0
    _secrets: tuple[str, ...] = field(default=(), repr=False)

    def trust(self, *secrets: str) -> None:
        """Accept webhooks that are signed with one of these secrets, and no others."""
        self._secrets = secrets

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

    async def read(self, request: web.Request, *, judge: Judge | None = None) -> Received:
        """Return the webhook of a request, verified by `fault_of` or by `judge`."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        received = Received(request.path, headers, body, (judge or self.fault_of)(headers, body))
        self.came += 1
        self.believed += received.fault is None
        return received
