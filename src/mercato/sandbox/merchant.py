"""A sandbox merchant: a web server on loopback that hosts CatalogSets and receives signed webhooks.

It does what a merchant's system has to do and no more, so it can be read as an example.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

HOST: Final = "127.0.0.1"

MOST_WAITING: Final = 1000
"""Webhooks kept for whoever asks for them; more are refused with 503, and so sent again later."""


@dataclass(frozen=True, slots=True)
class Document:
    """A hosted document, and how often it was fetched or found unchanged."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Received:
    """A webhook as it arrived; header names are lower-case. `fault` is why it was not believed, or None."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    fault: str | None

    def json(self) -> Any:
        """Return the body's value."""
        return json.loads(self.body)


@dataclass(slots=True)
class Merchant:
    """The running merchant. Documents are replaced by hosting another one under the same path."""

    base: str
    fetched: int = 0
    unchanged: int = 0
    _documents: dict[str, Document] = field(default_factory=dict)
    _secrets: tuple[str, ...] = ()
    _received: asyncio.Queue[Received] = field(default_factory=lambda: asyncio.Queue(MOST_WAITING))

    @property
    def webhook_url(self) -> str:
        """Return the URL to register as `webhookUrl`."""
        return f"{self.base}/hooks"

    def host(self, path: str, document: Any) -> str:
        """Host a document as JSON, in place of what the path had before; return its URL."""
        body = json.dumps(document, ensure_ascii=False).encode()
        self._documents[path] = Document(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
        return self.base + path

    def trust(self, *secrets: str) -> None:
        """Believe webhooks that are signed with any of these secrets, and no others."""
        self._secrets = secrets

    async def webhook(self) -> Received:
        """Wait for the next webhook, believed or not."""
        return await self._received.get()

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

    async def serve_document(self, request: web.Request) -> web.Response:
        """Answer a GET: the document, 304 to who has it, 404."""
        document = self._documents.get(request.path)
        if document is None:
            return web.Response(status=404)
        self.fetched += 1
        headers = {"ETag": document.etag}
        if request.headers.get("If-None-Match") == document.etag:
            self.unchanged += 1
            return web.Response(status=304, headers=headers)
        return web.Response(body=document.body, content_type="application/json", headers=headers)

    async def receive(self, request: web.Request) -> web.Response:
        """Answer a webhook: 204 when its signature is good, 401 when it is not."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        received = Received(request.path, headers, body, self.fault_of(headers, body))
        try:
            self._received.put_nowait(received)
        except asyncio.QueueFull:
            return web.Response(status=503)
        return web.Response(status=204 if received.fault is None else 401)


@asynccontextmanager
async def merchant(*, port: int = 0) -> AsyncIterator[Merchant]:
    """Run a merchant on a loopback port (0: a free one) while the block runs."""
    here = Merchant("")
    app = web.Application()
    app.router.add_get("/{path:.*}", here.serve_document)
    app.router.add_post("/hooks/{event}", here.receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        here.base = f"http://{HOST}:{runner.addresses[0][1]}"
        yield here
    finally:
        await runner.cleanup()
