"""The OpenAPI document declares every status, media type and header that a client gets."""

import json
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.api.responses import responses_of
from tests.api.table import body_for, headers_for, takes_store, target
from tests.api.world import World, ids_for
from tests.databases import only_sqlite
from tests.logs import log_plainly
from tests.service import Client, MerchantServer, Service, service

from mercato.asgi import document, operations
from mercato.features.partners.limits import Limiter, Quota
from mercato.http.operations import PROBLEM_DETAILS, Access, BodyForm, Operation
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.telemetry import configure_logs
from mercato_client.testing.caller import Answer

pytestmark = only_sqlite  # independent of the database

SHOP = "https://shop.example.com"
DOCUMENT: Any = json.loads(document())
PATHS: Any = DOCUMENT["paths"]
TRANSPORT = {"content-type", "content-length", "date", "server", "connection", "transfer-encoding"}
"""Headers that belong to HTTP itself."""

ALWAYS = {
    "access-control-allow-origin", "access-control-expose-headers",
    "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
}  # fmt: skip
"""Headers that depend on the settings alone, so they are sent wherever they are declared."""


@pytest.fixture
async def mercato(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[Service]:
    """A service that sends every header: with limits, and with an allowed origin."""
    assert shop.base
    async with service(
        database_url, tmp_path / "data", cors_origins=SHOP, rate_limits=True, rate_limit_writes=10_000
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def _short_log() -> Iterator[None]:
    # A bug's traceback for people takes a second to write, and this test makes one for each operation.
    configure_logs(level="critical", form="json")
    yield
    log_plainly()


class Declared:
    """What the document declares, compared with each answer."""

    def __init__(self) -> None:
        self.statuses: set[tuple[str, int]] = set()

    def compare(self, operation: Operation, reply: Answer) -> None:
        responses = responses_of(PATHS[operation.path][operation.method.lower()], DOCUMENT)
        where = (operation.id, reply.status, reply.body[:200])
        assert str(reply.status) in responses, where
        declared = responses[str(reply.status)]
        names = {name.lower() for name in declared.get("headers", ())}
        sent = {name.lower() for name in reply.headers} - TRANSPORT
        assert sent <= names, (sent - names, where)
        # A head that can't be read is refused before anything is counted; a bug may be found there, too.
        if reply.status not in {400, 500, 503}:
            assert names & ALWAYS <= sent, (names & ALWAYS - sent, where)
        if reply.body:
            media_type = reply.headers["Content-Type"].partition(";")[0]
            kinds = set(declared["content"])
            assert kinds & {media_type, media_type.partition("/")[0] + "/*"}, (media_type, where)
        self.statuses.add((operation.id, reply.status))


def wrong_requests(operation: Operation) -> Iterator[dict[str, Any]]:
    """Yield options of requests that are refused because of their form."""
    yield {"headers": {"Accept": "text/markdown"}, "key": None}
    if operation.reads_body:
        yield {"data": b"{"}
        yield {"data": b"{}", "headers": {"Content-Encoding": "gzip"}}
        yield {"data": b"{}", "headers": {"Content-Encoding": "gzip", "Accept": "text/markdown"}}
        yield {"data": b"x", "headers": {"Content-Type": "text/plain"}}
        if operation.body_form is not BodyForm.UPLOAD:
            yield {"data": BytesIO(b" " * (1024 * 1024 + 1))}
    if operation.query is not None:
        yield {"query": "limit=0&cursor=x&at=x&state=x&storeId=x"}
        yield {"query": "a=["}
    if operation.refusals is PROBLEM_DETAILS:
        # The head of a request is checked before its operation is known, so any other form isn't known either.
        yield {"headers": {"Host": "a/b"}}
    if "If-None-Match" in operation.request_headers:
        yield {"headers": {"If-None-Match": "*"}}
        yield {"headers": {"If-Match": '"other"'}}


async def send(client: Client, operation: Operation, path: str, options: dict[str, Any]) -> Answer:
    options = dict(options)
    sender = Client(client.base, options.pop("key", client.key), client.session)
    headers = {"Origin": SHOP, "Content-Type": "application/json"} | headers_for(operation)
    headers |= options.pop("headers", {})
    if (query := options.pop("query", None)) is not None:
        path = f"{path.partition('?')[0]}?{query}"
    return await sender.call(operation.method, path, headers=headers, **options)


async def test_every_status_header_and_media_type_that_is_sent_is_declared(
    mercato: Service, world: World, monkeypatch: pytest.MonkeyPatch
):
    declared = Declared()
    other = {Access.COMMERCE: Access.MARKETFRONT, Access.MARKETFRONT: Access.COMMERCE}
    names = world.ids | {"name": "start.js", "errorCode": "NOT_FOUND"}
    known = {operation.id: await ids_for(world, operation) for operation in operations()}
    unknown = dict.fromkeys(names, "x")

    async def good(client: Client, operation: Operation, path: str, ids: dict[str, str]) -> None:
        headers = {"Origin": SHOP} | headers_for(operation)
        body = body_for(operation, ids) if operation.access is not Access.PUBLIC else None
        declared.compare(operation, await client.call(operation.method, path, body, headers=headers))

    async def everybody(*, forms: bool = True) -> None:
        for operation in operations():
            client = world.owner.get(operation.access, mercato.anonymous())
            ids = names | known[operation.id]
            path = target(operation, ids, store=world.ids["storeId"])
            await good(client, operation, path, ids)
            if operation.names:
                await good(client, operation, target(operation, unknown), ids)
            if operation.access is not Access.PUBLIC:
                await good(mercato.anonymous(), operation, path, ids)
            if operation.access in other:
                await good(world.owner[other[operation.access]], operation, path, ids)
            if takes_store(operation):
                await good(client, operation, target(operation, ids, store=world.ids["orderId"]), ids)
            for options in wrong_requests(operation) if forms else ():
                declared.compare(operation, await send(client, operation, path, options))

    await everybody()
    with monkeypatch.context() as patch:
        patch.setattr(Limiter, "take", lambda *_: Quota(limit=1, remaining=0, reset=1, wait=1))
        await everybody(forms=False)
    for error in (RuntimeError("a bug"), DatabaseUnavailable("away")):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Limiter, "take", fail)
            await everybody(forms=False)
    seen = {status for _, status in declared.statuses}
    assert seen >= {200, 201, 202, 304, 400, 401, 403, 404, 409, 412, 413, 415, 422, 429, 500, 503}
    succeeded = [one.id for one in operations() if (one.id, one.status) in declared.statuses]
    assert len(succeeded) > len(operations()) * 4 // 5, "most succeed"
