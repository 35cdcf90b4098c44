"""What every receiver of webhooks has to do first: read the bytes as they came, and see who signed them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

Judge = Callable[[Mapping[str, str], bytes], str | None]
"""Return why a webhook with these headers (lower-case) and this body is not to be believed, or None."""


@dataclass(frozen=True, slots=True)
class Received:
    """A webhook as it arrived; header names are lower-case. `fault` is why it was not believed, or None."""

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    fault: str | None

    @property
    def webhook_id(self) -> str:
        """Return the id that a repeat of it has too."""
        return self.headers.get("webhook-id", "")

    def json(self) -> Any:
        """Return the body's value."""
        return json.loads(self.body)


@dataclass(slots=True)
class Inbox:
    """Reads webhooks, and counts those that came and those that were believed."""

    came: int = 0
    believed: int = 0
    _secrets: tuple[str, ...] = field(default=(), repr=False)

    def trust(self, *secrets: str) -> None:
        """Believe webhooks that are signed with any of these secrets, and no others."""
        self._secrets = secrets

    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return why a webhook is not to be believed, None when one of the secrets signed it."""
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
        """Return the webhook of a request, judged by `fault_of` or by another."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        received = Received(request.path, headers, body, (judge or self.fault_of)(headers, body))
        self.came += 1
        self.believed += received.fault is None
        return received
