"""A sandbox merchant: a web server on loopback that hosts CatalogSets, takes orders and receives signed events.

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

from mercato.sandbox.inbox import Inbox, Received
from mercato.sandbox.till import Till

HOST: Final = "127.0.0.1"

MOST_WAITING: Final = 1000
"""Events kept for whoever asks for them; more are refused with 503, and so sent again later."""


@dataclass(frozen=True, slots=True)
class Document:
    """A hosted document, and how often it was fetched or found unchanged."""

    body: bytes
    etag: str


@dataclass(slots=True)
class Merchant:
    """The running merchant. Documents are replaced by hosting another one under the same path."""

    base: str
    fetched: int = 0
    unchanged: int = 0
    till: Till = field(default_factory=Till)
    _documents: dict[str, Document] = field(default_factory=dict)
    _inbox: Inbox = field(default_factory=Inbox)
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
        self._inbox.trust(*secrets)
        self.till.inbox.trust(*secrets)

    async def webhook(self) -> Received:
        """Wait for the next event, believed or not."""
        return await self._received.get()

    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return why a webhook is not to be believed, None when one of the secrets signed it."""
        return self._inbox.fault_of(headers, body)

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
        """Answer an event: 204 when its signature is good, 401 when it is not."""
        received = await self._inbox.read(request)
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
    app.router.add_post("/hooks/validate", here.till.answer_validate)
    app.router.add_post("/hooks/place", here.till.answer_place)
    app.router.add_post("/hooks/{event}", here.receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        here.base = f"http://{HOST}:{runner.addresses[0][1]}"
        yield here
    finally:
        await runner.cleanup()
