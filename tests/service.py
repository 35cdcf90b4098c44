"""The whole service on a real loopback port in the test's own loop, and a merchant's web server beside it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aiohttp
from aiohttp import web
from tests.waiting import PATIENCE

from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.model import PartnerKind
from mercato.features.webhooks import credentials
from mercato.local.service import LocalService, local_service
from mercato.settings import Settings
from mercato_client.testing.caller import Answer, Caller, open_session
from mercato_client.testing.server import app_of, listening
from mercato_contract import clock
from mercato_contract.clock import Clock
from mercato_contract.texts import Secret

ITEM = "0190f5fe-7e3b-7ccc-8000-00000000000a"
SECTION = "0190f5fe-7e3b-7ccc-8000-00000000005e"
SOON = 0.03
"""Seconds that no run of a catalog ends within: to ask earlier costs more than the run."""

CATALOG = {
    "currency": "USD",
    "sections": {SECTION: {"sectionId": SECTION, "name": "Mains", "itemIds": [ITEM]}},
    "items": {ITEM: {"itemId": ITEM, "name": "Soup", "basePrice": "4.50"}},
}


class Client(Caller):
    """A partner's HTTP client with its key; options and errors are aiohttp's."""

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.send(method, path, body, **options)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)


@dataclass
class MerchantServer:
    """A merchant's web server, which does as the test says: documents and answers by path, and what it received.

    It believes nothing and checks nothing, so that a test can send and answer anything. `MerchantDouble` of
    `mercato_client.testing` is a merchant: it verifies signatures, keeps orders and takes cancellations as one does.
    """

    base: str
    documents: dict[str, Any] = field(default_factory=dict)
    received: asyncio.Queue[tuple[str, dict[str, str], bytes]] = field(default_factory=asyncio.Queue)
    pulls: list[str] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    """The answers to webhooks, by the end of their path: a value for JSON, or a handler of request and body."""

    def host(self, document: Any, path: str = "/catalog.json") -> str:
        """Host a document (bytes, or a value for JSON, or a handler) and return its URL."""
        self.documents[path] = document
        return self.base + path

    async def webhook(self) -> tuple[str, dict[str, str], bytes]:
        """Wait for the next webhook: its path, headers with lower-case names, and body."""
        async with asyncio.timeout(PATIENCE):
            return await self.received.get()

    async def serve(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer a request, whose path is `path` to the merchant, with its query."""
        if request.method == "POST":
            headers = {name.lower(): value for name, value in request.headers.items()}
            body = await request.read()
            self.received.put_nowait((path, headers, body))
            return await self._answer(request, path, body)
        path = path.partition("?")[0]
        self.pulls.append(path)
        document = self.documents.get(path)
        if document is None:
            return web.Response(status=404)
        if callable(document):
            made: web.StreamResponse = await document(request)
            return made
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return web.Response(body=body, content_type="application/json")

    async def _answer(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        said = self.answers.get(path.partition("?")[0].rpartition("/")[2])
        if said is None:
            return web.Response(status=204)
        if callable(said):
            made: web.StreamResponse = await said(request, body)
            return made
        return web.json_response(said)


@asynccontextmanager
async def merchant() -> AsyncIterator[MerchantServer]:
    """Run a merchant's web server on a free loopback port."""
    here = MerchantServer("")

    async def serve(request: web.Request) -> web.StreamResponse:
        return await here.serve(request, request.path_qs)

    # Don't wait for a handler that a failed test has left hanging.
    async with listening(app_of(serve), closing=1) as here.base:
        yield here


@dataclass
class Mall:
    """One web server for the merchants of many tests, each under a path of its own.

    What a service still sends to a merchant that has left is accepted, so that it doesn't send it again.
    """

    base: str = ""
    tenants: dict[str, MerchantServer] = field(default_factory=dict)

    @contextmanager
    def merchant(self) -> Iterator[MerchantServer]:
        """Let a merchant in while the block runs."""
        name = f"m{next(_numbers)}"
        self.tenants[name] = MerchantServer(f"{self.base}/{name}")
        try:
            yield self.tenants[name]
        finally:
            del self.tenants[name]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        name = request.path.split("/")[1]
        here = self.tenants.get(name)
        if here is None:
            return web.Response(status=204 if request.method == "POST" else 404)
        return await here.serve(request, request.path_qs.removeprefix(f"/{name}") or "/")


_numbers = count(1)


@asynccontextmanager
async def mall() -> AsyncIterator[Mall]:
    """Run a web server for many merchants on a free loopback port."""
    here = Mall()
    async with listening(app_of(here.serve), closing=1) as here.base:
        yield here


@dataclass
class Service(LocalService):
    """A running service, its base URL, and methods that create partners."""

    session: aiohttp.ClientSession

    async def partner(
        self, kind: PartnerKind = PartnerKind.COMMERCE, **options: Any
    ) -> tuple[NewPartner, Client]:
        """Create a partner; the client has its Commerce key, or its marketfront key if it has no other."""
        made = await self.create_partner(options.pop("name", f"Test {clock.new_id()}"), kind, **options)
        return made, Client(self.base, made.key, self.session)

    def anonymous(self) -> Client:
        return Client(self.base, None, self.session)

    async def until(self, client: Client, path: str, done: Callable[[Any], bool], *, after: float = 0) -> Any:
        """Poll until the condition holds, first `after` so many seconds; return the body."""
        pause = 0.02
        async with asyncio.timeout(PATIENCE):
            await asyncio.sleep(after)
            while True:
                body = (await client.get(path)).json()
                if done(body):
                    return body
                await asyncio.sleep(pause)
                # Most wait for one job. The polls of those that wait longer would take its time from it.
                pause = min(pause * 1.5, 0.2)

    async def onboard(
        self,
        client: Client,
        url: str,
        *,
        name: str = "store-1",
        webhook: str | None = None,
        members: dict[str, Any] | None = None,
    ) -> Any:
        """Register a store and wait until its catalog was accepted or refused; return the status."""
        body = {"partnerStoreId": name, "name": "Test Store", "address": {}, "catalogCallbackUrl": url}
        body |= members or {}
        if webhook is not None:
            body["webhookUrl"] = webhook
        reply = await client.post("/v1/commerce/onboarding/stores", body)
        assert reply.status == 201, reply.body
        path = reply.headers["Location"]
        ended = {"ready_to_activate", "catalog_failed"}
        return await self.until(client, path, lambda status: status["status"] in ended, after=SOON)

    async def live(self, client: Client, url: str, **options: Any) -> Any:
        """Bring a store live; return it."""
        status = await self.onboard(client, url, **options)
        assert status["status"] == "ready_to_activate", status
        reply = await client.post(f"/v1/commerce/onboarding/stores/{status['onboardingId']}/activate")
        assert reply.status == 200, reply.body
        return reply.json()

    async def run(self, client: Client, store_id: str, url: str) -> Any:
        """Notify of a catalog and wait for the run's end; return its status."""
        reply = await client.post(
            f"/v1/commerce/catalogset-notification?storeId={store_id}", {"callbackUrl": url}
        )
        assert reply.status == 202, reply.body
        return await self.until(
            client,
            reply.json()["statusUrl"],
            lambda status: status["status"] in {"succeeded", "failed"},
            after=SOON,
        )


def standing_clock() -> Clock:
    """Return a clock that stands still: the minute in which requests are counted doesn't end."""
    begun = clock.now()
    return lambda: begun


@asynccontextmanager
async def service(
    database_url: str, data_dir: Path, *, now: Clock = clock.now, works: bool = True, **settings: Any
) -> AsyncIterator[Service]:
    """Run the whole service over a migrated database; with `works`, background work runs, too."""
    # A busy machine is no reason for a 503.
    waits = {"database_pool_seconds": PATIENCE, "database_lock_seconds": PATIENCE}
    # Each session with PostgreSQL is a process there that reads the catalog and plans anew.
    options = {"allow_private_networks": True, "rate_limits": False, "database_pool": 4} | waits | settings
    made = Settings(database_url=Secret(database_url), data_dir=data_dir, **options)
    with patch.object(credentials, "READ_SECONDS", PATIENCE):
        async with local_service(made, now=now, works=works) as here, open_session() as session:
            yield Service(here.app, here.base, session)
