"""What holds for every operation."""

import asyncio
import base64
import gc
import hashlib
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service, service, standing_clock
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.partners.model import PartnerKind
from mercato.http.head import Head

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/commerce/stores"
JSON = {"Content-Type": "application/json"}


async def raw(mercato: Service, request: bytes) -> bytes:
    """Send bytes as they are; return everything that is answered before the connection closes."""
    host, port = mercato.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_no_key_and_a_wrong_key_are_401_with_a_challenge(mercato: Service):
    anonymous = mercato.anonymous()
    none = await anonymous.get(STORES)
    assert (none.status, none.headers["WWW-Authenticate"]) == (401, "Bearer")
    for value in ("Bearer mk_commerce_wrong", "Basic abc", "Bearer", "Bearer  "):
        wrong = await anonymous.get(STORES, headers={"Authorization": value})
        assert (wrong.status, wrong.headers["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"'), (
            value
        )
        assert wrong.json()["errorCode"] == "UNAUTHENTICATED"


async def test_the_scheme_is_read_in_any_case(mercato: Service, pos: Client):
    anonymous = mercato.anonymous()
    assert (await anonymous.get(STORES, headers={"Authorization": f"bEARER {pos.key}"})).status == 200


async def test_a_key_of_the_other_surface_is_403(mercato: Service):
    _, storefront = await mercato.partner(PartnerKind.MARKETFRONT)
    reply = await storefront.get(STORES)
    assert (reply.status, reply.json()["errorCode"]) == (403, "FORBIDDEN")


async def test_every_response_carries_a_request_id_and_echoes_a_valid_one(mercato: Service, pos: Client):
    made = await pos.get(STORES)
    assert UUID(made.headers["X-Request-Id"]).version == 7
    assert (await pos.get(STORES, headers={"X-Request-Id": "my-id.1"})).headers["X-Request-Id"] == "my-id.1"
    insane = await pos.get("/nowhere", headers={"X-Request-Id": "a b<script>"})
    assert insane.headers["X-Request-Id"] == insane.json()["requestId"] != "a b<script>"
    assert "X-Request-Id" in (await mercato.anonymous().get("/healthz")).headers


@on_both
async def test_the_trace_of_a_problem_is_the_callers(pos: Client):
    trace = "0af7651916cd43dd8448eb211c80319c"
    reply = await pos.get(f"{STORES}/{uuid4()}", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    assert reply.json()["traceId"] == trace
    made = (await pos.get(f"{STORES}/{uuid4()}")).json()["traceId"]
    assert re.fullmatch("[0-9a-f]{32}", made)


@only_sqlite
@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        ("00", "b7ad6b7169203331-01", True),
        ("42", "b7ad6b7169203331-01-what-will-be", True),
        ("00", "b7ad6b7169203331-01-what-will-be", False),
        ("00", "0000000000000000-01", False),
        ("ff", "b7ad6b7169203331-01", False),
    ],
)
async def test_a_traceparent_that_w3c_trace_context_calls_invalid_is_not_taken(
    pos: Client, before: str, after: str, taken: bool
):
    trace = "0af7651916cd43dd8448eb211c80319c"
    reply = await pos.get(f"{STORES}/{uuid4()}", headers={"traceparent": f"{before}-{trace}-{after}"})
    assert (reply.json()["traceId"] == trace) is taken


async def test_a_problem_has_every_member_and_a_type_that_can_be_opened(mercato: Service, pos: Client):
    reply = await pos.get(f"{STORES}/{uuid4()}")
    problem = reply.json()
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert set(problem) == {
        "type", "title", "status", "detail", "errorCategory", "errorCode", "errors", "instance", "requestId",
        "retryAfter", "retryable", "timestamp", "traceId",
    }  # fmt: skip
    assert (problem["status"], problem["errorCategory"], problem["retryable"]) == (404, "not_found", False)
    page = await mercato.anonymous().get(problem["type"].removeprefix(mercato.base))
    assert page.status == 200
    assert b"STORE_NOT_FOUND" in page.body


@only_sqlite
@pytest.mark.parametrize(
    ("accept", "markdown"),
    [
        ("text/markdown", True),
        ("text/markdown, */*", True),
        ("text/markdown;q=0.9, application/json;q=0.5", True),
        ("application/json, text/markdown", False),
        ("text/markdown;q=0.5, application/problem+json", False),
        ("*/*", False),
        ("text/*", False),
        ("text/markdown;q=0", False),
        ("TEXT/Markdown", True),
        ("text/markdown;q=0.9, */*;q=0.8", True),
        ("text/markdown;q=0.5, */*;q=0.9", False),
        ("text/markdown;q=0.5, application/*", False),
        ("text/markdown;q=0.5, application/json;q=0.1, */*", True),
    ],
)
async def test_a_problem_is_markdown_for_clients_that_name_it_first(pos: Client, accept: str, markdown: bool):
    reply = await pos.get("/nowhere", headers={"Accept": accept})
    assert reply.headers["Vary"] == "Accept"
    assert reply.headers["Content-Type"].startswith(
        "text/markdown" if markdown else "application/problem+json"
    )
    if markdown:
        front = reply.body.decode().split("---")[1]
        assert 'errorCode: "NOT_FOUND"' in front


async def test_unknown_paths_are_404_and_known_ones_405_with_allow(pos: Client, mercato: Service):
    assert (await pos.get("/v1/commerce/nothing")).json()["errorCode"] == "NOT_FOUND"
    assert (await pos.get("/v1/commerce/stores/")).status == 404
    wrong = await pos.call("DELETE", STORES)
    assert (wrong.status, wrong.headers["Allow"], wrong.json()["errorCode"]) == (
        405,
        "GET, HEAD",
        "METHOD_NOT_ALLOWED",
    )
    assert (await mercato.anonymous().post("/healthz")).status == 405


async def test_every_get_answers_head(pos: Client, mercato: Service):
    for client, path in ((pos, STORES), (pos, f"{STORES}/{uuid4()}"), (mercato.anonymous(), "/openapi.json")):
        got, head = await client.get(path), await client.call("HEAD", path)
        assert (head.status, head.body) == (got.status, b"")
        sizes = [
            int(one.headers["Content-Length"]) for one in (got, head)
        ]  # of what is sent, perhaps compressed
        assert abs(sizes[0] - sizes[1]) < 40  # ids in problems differ


async def test_a_body_over_the_limit_is_413(mercato: Service, pos: Client):
    big = json.dumps({"partnerStoreId": "x" * (1024 * 1024)}).encode()
    reply = await pos.call("POST", "/v1/commerce/onboarding/stores", data=BytesIO(big), headers=JSON)
    assert (reply.status, reply.json()["errorCode"]) == (413, "PAYLOAD_TOO_LARGE")

    async def pieces() -> Any:
        for _ in range(40):
            yield b" " * 65536

    try:
        chunked = await pos.session.post(
            f"{mercato.base}/v1/commerce/onboarding/stores",
            data=pieces(),
            headers={"Authorization": f"Bearer {pos.key}", "Content-Type": "application/json"},
        )
    except OSError:
        return  # answered and closed before everything was sent
    assert chunked.status == 413


@only_sqlite
@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": "application/xml"}, {"Content-Encoding": "gzip"}],
)
async def test_another_media_type_or_coding_is_415(pos: Client, headers: dict[str, str]):
    reply = await pos.post("/v1/commerce/onboarding/stores", b"{}", headers=headers)
    assert (reply.status, reply.json()["errorCode"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    # RFC 7694: the supported codings, and only if the coding is what is refused.
    accepted = "identity" if "Content-Encoding" in headers else None
    assert reply.headers.get("Accept-Encoding") == accepted


@on_both
async def test_operations_without_a_body_accept_any_body(mercato: Service, pos: Client, shop: MerchantServer):
    status = await mercato.onboard(pos, shop.host(CATALOG))
    path = f"/v1/commerce/onboarding/stores/{status['onboardingId']}/activate"
    assert (await pos.post(path, b"not json", headers={"Content-Type": "text/plain"})).status == 200


async def test_each_live_store_raises_the_limits_with_the_next_request_and_no_request_counts_it(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "d", rate_limits=True) as running:
        _, pos = await running.partner()
        stores = "/v1/commerce/stores"
        assert (await pos.get(stores)).headers["X-RateLimit-Limit"] == "1000"
        store = await running.live(pos, shop.host(CATALOG))
        status = f"{stores}/{store['storeId']}/status"
        assert (await pos.get(status)).headers["X-RateLimit-Limit"] == "1012"
        paused = await pos.post(status, {"status": "paused"})
        assert paused.headers["X-RateLimit-Limit"] == "106"
        lookups = running.app.callers.lookups
        before = lookups.misses
        for _ in range(5):
            await pos.get(status)
        assert lookups.misses == before
        await running.live(pos, shop.host(CATALOG), name="second")
        assert (await pos.get(status)).headers["X-RateLimit-Limit"] == "1024"


async def test_rate_limits_are_counted_and_shown_in_headers(database_url: str, tmp_path: Any):
    limits: dict[str, Any] = {"rate_limits": True, "rate_limit_reads": 3, "rate_limit_writes": 1}
    async with service(database_url, tmp_path / "d", now=standing_clock(), **limits) as mercato:
        _, pos = await mercato.partner()
        replies = [await pos.get(STORES) for _ in range(4)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429]
        assert [reply.headers["X-RateLimit-Remaining"] for reply in replies] == ["2", "1", "0", "0"]
        assert {reply.headers["X-RateLimit-Limit"] for reply in replies} == {"3"}
        last = replies[-1]
        assert last.headers["Retry-After"] == str(last.json()["retryAfter"])
        assert last.json()["errorCode"] == "RATE_LIMITED"
        assert last.json()["detail"].startswith("The limit is 3 read requests a minute. Wait ")
        # Writes have a window of their own, and so has every other partner.
        assert (await pos.post("/v1/commerce/onboarding/stores", {})).status == 400
        assert (await (await mercato.partner())[1].get(STORES)).status == 200


async def test_malformed_http_ends_without_a_500(mercato: Service):
    for request in (
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\nConnection: close\r\n\r\n",
        (
            b"POST /v1/commerce/stores HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n0\r\n\r\n"
        ),
        b"GARBAGE\r\n\r\n",
        b"GET /%ff%00/../x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /v1/commerce/stores?cursor=%00 HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n",
    ):
        answer = await raw(mercato, request)
        assert not answer.startswith(b"HTTP/1.1 5"), (request, answer[:200])


async def test_a_bug_is_a_bare_500_with_a_request_id(
    mercato: Service, pos: Client, monkeypatch: pytest.MonkeyPatch
):
    async def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(type(mercato.app.stores), "list", broken)
    reply = await pos.get(STORES)
    assert (reply.status, reply.json()["errorCode"]) == (500, "INTERNAL_ERROR")
    assert b"secret" not in reply.body


ADDRESSED = ("/errors/NOT_FOUND", "/llms.txt")
"""Texts that hold the address of the service."""


async def test_a_page_that_repeats_the_host_of_a_request_is_not_cached(mercato: Service):
    for path in ADDRESSED:
        for accept in ("text/html", "text/markdown"):
            headers = {"Host": "evil.example", "Accept": accept}
            reply = await mercato.anonymous().get(path, headers=headers)
            assert reply.headers["Cache-Control"] == "no-store", path


@on_both
async def test_pages_are_cached_once_the_public_url_is_set(database_url: str, tmp_path: Path):
    public = "https://api.example.com/base"
    async with service(database_url, tmp_path / "data", public_url=public) as mercato:
        for path in ADDRESSED:
            reply = await mercato.anonymous().get(path, headers={"Host": "evil.example"})
            assert reply.headers["Cache-Control"] == "public, max-age=86400"
            assert b"evil.example" not in reply.body
        policy = (await mercato.anonymous().get("/docs")).headers["Content-Security-Policy"]
        assert "connect-src 'self' https://api.example.com" in policy


@pytest.mark.parametrize("path", ["/docs", "/errors/NOT_FOUND"])
async def test_a_page_runs_only_its_own_scripts_and_cannot_be_framed(mercato: Service, path: str):
    reply = await mercato.anonymous().get(path)
    rules = dict(rule.split(" ", 1) for rule in reply.headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules.get("script-src", "'none'") in {"'self'", "'none'"}
    assert reply.headers.getall("X-Content-Type-Options") == ["nosniff"]
    page = reply.body.decode()
    for style in re.findall("<style>(.*?)</style>", page):
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert rules["style-src"] == f"'sha256-{digest}'"
    assert not re.search(r"<script(?! src=)|\bon[a-z]+=|style=", page)


async def test_system_pages_answer_without_a_key(mercato: Service):
    anonymous = mercato.anonymous()
    assert (await anonymous.get("/healthz")).json() == {"status": "ok"}
    assert (await anonymous.get("/readyz")).json() == {"status": "ok"}
    assert b"mercato_requests_total" in (await anonymous.get("/metrics")).body
    page = await anonymous.get("/docs")
    assets = re.findall(rb'(?:src|href)="([^"]+)"', page.body)
    assert assets
    for asset in assets:
        # Nothing is loaded from elsewhere.
        assert asset.startswith(b"/")
        assert (await anonymous.get(asset.decode())).status == 200
    assert (await anonymous.get("/docs/assets/..%2f..%2fpyproject.toml")).status == 404
    assert (await anonymous.get("/errors/NO_SUCH")).status == 404


@own()
async def test_a_refused_request_is_freed_without_the_garbage_collector(mercato: Service, pos: Client):
    """What keeps a request keeps its connection and its body, too."""
    gc.collect()
    paths = ("/v1/commerce/stores/x", "/nowhere", "/v1/marketfront/stores/x", "/v1/oauth/token")
    gc.disable()
    try:
        for path in paths:
            await pos.get(path)
            await pos.post(path, {})
        # The last answer is here before its task has ended. Services that tests share may still answer others.
        async with asyncio.timeout(PATIENCE):
            while any(isinstance(one, Head) and one.path in paths for one in gc.get_objects()):
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
