"""With a faulty server the run ends with a readable message, and the store keeps its catalog."""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from backports import zstd
from tests.api.examples import in_turn
from tests.databases import mostly_sqlite, only_sqlite
from tests.live_stores import live_store
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service
from tests.sharing import Services
from tests.waiting import PATIENCE

pytestmark = mostly_sqlite

STORES = "/v1/commerce/stores"
NOTIFY = "/v1/commerce/catalogset-notification"
VALIDATION = "/v1/commerce/catalogset-validation"
MiB = 1024 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
def pull_seconds() -> float:
    """All the time that a busy machine needs."""
    return PATIENCE


@pytest.fixture
async def mercato(services: Services, database_kind: str, pull_seconds: float) -> Service:
    limits: dict[str, Any] = {"pull_bytes": MiB // 2, "pull_decoded_bytes": MiB, "pull_seconds": pull_seconds}
    return await services.of(database_kind, **limits)


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await live_store(mercato, pos, shop, CATALOG, webhook=False)


def redirect(*locations: str, status: int = 302) -> Handler:
    """Answer with the locations in turn, then repeat the last one."""
    left = list(locations)

    async def serve(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": left[0] if len(left) == 1 else left.pop(0)})

    return serve


def packed(body: bytes, coding: str) -> Handler:
    async def serve(_request: web.Request) -> web.Response:
        return web.Response(
            body=body, headers={"Content-Encoding": coding, "Content-Type": "application/json"}
        )

    return serve


def endless(piece: bytes, *, pause: float = 0.0) -> Handler:
    """Send the piece repeatedly until the client disconnects."""

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(piece)
                await asyncio.sleep(pause)
        except (ConnectionError, asyncio.CancelledError):
            return response

    return serve


async def hang(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.02)
    return response


def answers(status: int) -> Handler:
    async def serve(_request: web.Request) -> web.Response:
        return web.Response(
            status=status, text="<html>stack trace of 10.1.2.3</html>", content_type="text/html"
        )

    return serve


SPACES = b" " * (4 * MiB)

SERVERS: dict[str, tuple[Callable[[], Handler], str]] = {
    "a redirect loop": (lambda: redirect("/new.json"), "in a circle"),
    "a redirect loop of two": (lambda: redirect("/new.json?1", "/new.json?2", "/new.json?1"), "redirects"),
    "too many redirects": (lambda: redirect(*(f"/new.json?{n}" for n in range(9))), "more than 3 times"),
    "a redirect to file:": (lambda: redirect("file:///etc/passwd", status=301), "http:// or https://"),
    "a redirect to gopher:": (lambda: redirect("gopher://127.0.0.1/x"), "http:// or https://"),
    "a redirect with credentials": (lambda: redirect("http://user:word@127.0.0.1/"), "user name"),
    "a redirect to nowhere": (lambda: redirect(""), "without a Location"),
    "a redirect to port 0": (lambda: redirect("http://127.0.0.1:0/"), "port between 1 and 65535"),
    "a redirect to a number": (lambda: redirect("http://2130706433/"), "number"),
    "a redirect to half a bracket": (lambda: redirect("http://[::1/"), "not a valid name"),
    "a gzip bomb": (lambda: packed(gzip.compress(SPACES), "gzip"), ", decompressed"),
    "a zstd bomb": (lambda: packed(zstd.compress(SPACES), "zstd"), ", decompressed"),
    "a body that isn't gzip": (lambda: packed(b"{}", "gzip"), "cannot be decompressed"),
    "half a gzip": (
        lambda: packed(gzip.compress(json.dumps(CATALOG).encode())[:-9], "gzip"),
        "before its end",
    ),
    "an unknown coding": (lambda: packed(b"{}", "lzma"), "is not supported"),
    "a body that never ends": (lambda: endless(b" " * 65536), "more than"),
    "500 for ever": (lambda: answers(500), "500"),
    "a page that is not there": (lambda: answers(410), "410"),
    "a login": (lambda: answers(401), "without logging in"),
}
SLOW: list[Callable[[], Handler]] = [lambda: endless(b" ", pause=0.05), lambda: hang]
"""Servers that send 1 byte at a time, or nothing after the headers."""


def assert_said(errors: Any, words: str) -> None:
    """Every error is a readable sentence without addresses, host names, types or internal texts."""
    assert errors
    text = " ".join(error["message"] for error in errors)
    assert words in text, text
    assert not re.search(
        r"127\.0\.0\.1|localhost|10\.1\.2\.3|[a-z]Error\b|Exception|Traceback|aiohttp|<|0x", text
    ), text
    assert all(set(error) == {"code", "message", "path", "pointer"} and error["code"] for error in errors)


async def fail(mercato: Service, pos: Client, store: Any, url: str, words: str) -> None:
    run = await mercato.run(pos, store["storeId"], url)
    assert run["status"] == "failed", run
    assert_said(run["errors"], words)
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json() == store


# Many faults in one test: each takes milliseconds, but starting a service for each would take minutes.


async def test_a_misbehaving_server_fails_the_run_with_a_readable_message(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    for server, words in SERVERS.values():
        async with asyncio.timeout(PATIENCE):
            await fail(mercato, pos, store, shop.host(server(), "/new.json"), words)


@only_sqlite
@pytest.mark.parametrize("pull_seconds", [0.6])
async def test_a_slow_server_fails_the_run_and_the_dry_run_when_the_time_is_over(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    for server in SLOW:
        url = shop.host(server(), "/new.json")
        async with asyncio.timeout(PATIENCE):
            await fail(mercato, pos, store, url, "within 0.6 seconds")
            reply = (await pos.post(VALIDATION, {"callbackUrl": url})).json()
        assert_said(reply["errors"], "within 0.6 seconds")


@only_sqlite
async def test_a_dry_run_ends_at_every_misbehaving_server_too(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    for server, words in SERVERS.values():
        url = shop.host(server(), "/new.json")
        async with asyncio.timeout(PATIENCE):
            reply = (await pos.post(VALIDATION, {"callbackUrl": url})).json()
        assert (reply["valid"], reply["summary"], reply["diff"]) == (False, None, None)
        assert_said(reply["errors"], words)
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json() == store


URLS = [
    ("http://user:word@127.0.0.1/c.json", "user name or password"),
    ("http://2130706433/", "number"),
    ("http://0177.0.0.1/", "number"),
    ("http://0x7f.1/", "number"),
    ("http://[fe80::1%25eth0]/", "zone"),
    ("http://a..b/", "not a valid name"),
    ("http://127.0.0.1:1/", "refused the connection"),
    ("http://127.0.0.1/" + "a" * 9000, "longer than 8192"),
]


async def test_a_url_that_cannot_be_pulled_fails_the_run_with_a_readable_message(
    mercato: Service, pos: Client, store: Any
):
    for url, words in URLS:
        await fail(mercato, pos, store, url, words)


ITEMS = [
    (b'{"a":{"itemId":"a","basePrice":%d}}' % 2**70, "range"),
    (b'{"a":{"itemId":"a","basePrice":1e400}}', ""),
    (b'{"a":{"itemId":"a","basePrice":NaN}}', ""),
    (b'{"a":{"itemId":"b"}}', ""),
    (b'{"a":{"itemId":"a"},"a":{"itemId":"a"}}', ""),
    (b'{"a":{"itemId":"\\ud800"}}', "surrogate"),
    (b"[" * 100_000, "nested"),
    (b"3", ""),
]


async def test_a_hostile_document_fails_the_run_with_a_readable_message(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    for items, words in ITEMS:
        body = b'{"items":' + items + b"}"
        await fail(mercato, pos, store, shop.host(body, "/new.json"), words)
        reply = (await pos.post(f"{VALIDATION}?storeId={store['storeId']}", body)).json()
        assert reply["valid"] is False
        assert_said(reply["errors"], words)


async def test_an_onboarding_whose_pull_failed_can_be_retried(
    mercato: Service, pos: Client, shop: MerchantServer
):
    status = await mercato.onboard(pos, shop.host(redirect("file:///etc/passwd"), "/new.json"))
    assert status["status"] == "catalog_failed"
    assert_said(status["errors"], "http:// or https://")
    shop.host(CATALOG, "/new.json")
    path = f"/v1/commerce/onboarding/stores/{status['onboardingId']}"
    assert (await pos.post(f"{path}/retry")).status == 200
    await mercato.until(pos, path, lambda now: now["status"] == "ready_to_activate")


# --- tags -----------------------------------------------------------------------------------------


@asynccontextmanager
async def tagged(
    shop: MerchantServer, etag: str | None, status: int = 304
) -> AsyncIterator[list[str | None]]:
    """Host a catalog with an ETag, and the answer to a request with any ETag."""
    seen: list[str | None] = []

    async def serve(request: web.Request) -> web.Response:
        seen.append(request.headers.get("If-None-Match"))
        headers = {} if etag is None else {"ETag": etag}
        if seen[-1] is not None:
            return web.Response(status=status, headers=headers)
        return web.json_response(CATALOG | {"tagged": str(etag)[:9]}, headers=headers)

    shop.host(serve, "/tagged.json")
    yield seen


@only_sqlite
@pytest.mark.parametrize("etag", ['W/"1"', '"' + "x" * 250 + '"', '""'])
async def test_an_etag_of_any_form_is_sent_back_unchanged(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any, etag: str
):
    async with tagged(shop, etag) as seen:
        for _ in range(2):
            run = await mercato.run(pos, store["storeId"], shop.base + "/tagged.json")
            assert run["status"] == "succeeded"
    assert seen == [None, etag]


@only_sqlite
@in_turn("etag", ["unquoted", '"', '"a"b"', '"' + "x" * 5000 + '"', "*", None])
async def test_an_invalid_etag_is_not_sent_back(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any, etag: str | None
):
    async with tagged(shop, etag) as seen:
        for _ in range(2):
            run = await mercato.run(pos, store["storeId"], shop.base + "/tagged.json")
            assert run["status"] == "succeeded"
    assert seen == [None, None]


@only_sqlite
async def test_304_to_a_request_without_a_tag_fails_the_run(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    await fail(mercato, pos, store, shop.host(answers(304), "/new.json"), "304")


@only_sqlite
async def test_a_tag_is_not_sent_once_the_store_serves_another_document(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    other = CATALOG | {"items": {ITEM: {"itemId": ITEM, "name": "Other", "basePrice": "1"}}}
    async with tagged(shop, '"v1"') as seen:
        for url in (shop.base + "/tagged.json", shop.host(other, "/other.json"), shop.base + "/tagged.json"):
            assert (await mercato.run(pos, store["storeId"], url))["status"] == "succeeded"
    assert seen == [None, None]
