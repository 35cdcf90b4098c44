"""A request with a malformed target gets a problem; browsers are admitted by their origin."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.examples import in_turn
from tests.databases import only_sqlite
from tests.security.exchange import LAST, answers, exchange
from tests.service import Client, MerchantServer, Service, service
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind
from mercato.http.head import MOST_HOSTS

pytestmark = [shared, only_sqlite]  # independent of the database

SHOP = "https://shop.example.com"
STORES = "/v1/marketfront/webhook-deliveries"
PLACE = "/v1/marketfront/orders/place"


async def problem_of(mercato: Service, sent: bytes) -> tuple[int, Any]:
    first = answers(await exchange(mercato, sent + LAST))[0]
    return first.status, json.loads(first.body)["errorCode"] if first.body else None


@in_turn(
    ("hosts", "status"),
    [
        (b"", 400),
        (b"Host: a.example\r\nHost: b.example\r\n", 400),
        (b"Host: a.example\r\nHost: a.example\r\n", 400),
        (b"Host: a.example/path\r\n", 400),
        (b"Host: user@a.example\r\n", 400),
        (b"Host: a.example\r\n", 404),
        (b"Host: my_service:8000\r\n", 404),
        (b"Host: [::1]:8000\r\n", 404),
        (b"Host:\r\n", 400),
    ],
)
async def test_http_1_1_has_exactly_one_host(mercato: Service, hosts: bytes, status: int):
    code = "INVALID_REQUEST" if status == 400 else "NOT_FOUND"
    for _ in range(2):
        assert await problem_of(mercato, b"GET /no HTTP/1.1\r\n" + hosts + b"\r\n") == (status, code)


async def test_http_1_0_needs_no_host(mercato: Service):
    assert answers(await exchange(mercato, b"GET /healthz HTTP/1.0\r\n\r\n"))[0].status == 200


async def test_of_a_target_with_a_host_the_path_is_read_and_the_host_header_counts(mercato: Service):
    # The server doesn't pass the target's host on, unless there is no Host: then it takes its place.
    for hosts, host in ((b"", b"target.example"), (b"Host: header.example\r\n", b"header.example")):
        sent = b"GET http://target.example/no HTTP/1.1\r\n" + hosts + b"\r\n"
        first = answers(await exchange(mercato, sent + LAST))[0]
        assert first.status == 404
        assert json.loads(first.body)["type"] == f"http://{host.decode()}/errors/NOT_FOUND"


@in_turn("method", ["BREW", "get", "PROPFIND", "QUERY"])
async def test_a_method_that_http_does_not_have_is_501_on_every_path(mercato: Service, method: str):
    for path in ("/healthz", "/no", "/v1/commerce/stores", "/console"):
        sent = f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        assert await problem_of(mercato, sent) == (501, "METHOD_NOT_IMPLEMENTED")


async def test_options_of_the_whole_service_is_405_with_every_method(mercato: Service):
    sent = b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" + LAST
    first = answers(await exchange(mercato, sent))[0]
    assert (first.status, first.headers[b"allow"]) == (405, [b"DELETE, GET, HEAD, POST, PUT"])
    assert await problem_of(mercato, b"GET * HTTP/1.1\r\nHost: x\r\n\r\n") == (404, "NOT_FOUND")


async def test_remembered_hosts_are_bounded(mercato: Service):

    many = b"".join(b"GET /healthz HTTP/1.1\r\nHost: h%d.example\r\n\r\n" % n for n in range(MOST_HOSTS + 50))
    assert {answer.status for answer in answers(await exchange(mercato, many + LAST))} == {200}


@in_turn("char", list("[]\\^`{|}"))
async def test_a_query_with_a_character_that_must_be_escaped_is_a_problem(mercato: Service, char: str):
    sent = f"GET /healthz?a=x{char} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert await problem_of(mercato, sent) == (400, "INVALID_REQUEST")


async def test_a_query_with_raw_letters_beyond_ascii_is_a_problem(mercato: Service):
    sent = "GET /healthz?a=é HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert await problem_of(mercato, sent) == (400, "INVALID_REQUEST")


@in_turn("char", [b'"', b"<", b">", b"\x7f", b"\xe9"])
async def test_a_request_that_the_server_cannot_parse_is_a_400_without_a_body(mercato: Service, char: bytes):
    first = answers(await exchange(mercato, b"GET /healthz?a=" + char + b" HTTP/1.1\r\nHost: x\r\n\r\n"))[0]
    assert (first.status, first.body, first.headers[b"connection"]) == (400, b"", [b"close"])


async def test_every_character_that_a_query_may_hold_is_read(mercato: Service):
    query = "a=AZaz09-._~!$&'()*+,;=:@/?%5B%C3%A9"
    sent = f"GET /healthz?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert answers(await exchange(mercato, sent + LAST))[0].status == 200


# --- browsers -------------------------------------------------------------------------------------


@pytest.fixture
async def open_to(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[Service]:
    assert shop.base
    async with service(
        database_url, tmp_path / "data", cors_origins=f"{SHOP}, http://localhost:5173"
    ) as running:
        yield running


def preflight(method: str, origin: str = SHOP) -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
    }


@pytest.mark.parametrize(("path", "method"), [(PLACE, "POST"), (STORES, "GET")])
@pytest.mark.parametrize("origin", [SHOP, "http://localhost:5173"])
async def test_a_preflight_of_an_allowed_origin_is_answered(
    open_to: Service, path: str, method: str, origin: str
):
    reply = await open_to.anonymous().call("OPTIONS", path, headers=preflight(method, origin))
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["Access-Control-Allow-Origin"] == origin
    assert reply.headers["Access-Control-Allow-Methods"] == method
    allowed = reply.headers["Access-Control-Allow-Headers"].lower().split(", ")
    assert {"authorization", "content-type", "idempotency-key"} <= set(allowed)
    assert "Origin" in reply.headers.getall("Vary")
    assert "Access-Control-Allow-Credentials" not in reply.headers


@in_turn(
    ("path", "headers"),
    [
        (PLACE, preflight("POST", "https://evil.example")),
        (PLACE, preflight("POST", "https://shop.example.com.evil.example")),
        (PLACE, preflight("POST", "null")),
        (PLACE, preflight("DELETE")),
        ("/v1/commerce/stores", preflight("GET")),
        ("/v1/oauth/token", preflight("POST")),
        (PLACE, {"Origin": SHOP}),
    ],
)
async def test_any_other_preflight_is_answered_as_an_ordinary_request(
    open_to: Service, path: str, headers: dict[str, str]
):
    reply = await open_to.anonymous().call("OPTIONS", path, headers=headers)
    assert reply.status == 405
    assert "Access-Control-Allow-Methods" not in reply.headers
    is_preflight = "Access-Control-Request-Method" in headers
    assert ("MERCATO_CORS_ORIGINS" in reply.json()["detail"]) is is_preflight


async def test_answers_and_refusals_can_be_read_by_the_allowed_origin_alone(open_to: Service):
    _, storefront = await open_to.partner(PartnerKind.MARKETFRONT)
    for client, status in ((storefront, 200), (open_to.anonymous(), 401)):
        reply = await client.get(STORES, headers={"Origin": SHOP})
        assert (reply.status, reply.headers["Access-Control-Allow-Origin"]) == (status, SHOP)
        assert "X-Request-Id" in reply.headers["Access-Control-Expose-Headers"]
        assert "Access-Control-Allow-Credentials" not in reply.headers
    other = await storefront.get(STORES, headers={"Origin": "https://evil.example"})
    assert (other.status, "Access-Control-Allow-Origin" in other.headers) == (200, False)
    assert "Origin" in other.headers.getall("Vary")
    _, pos = await open_to.partner()
    commerce = await pos.get("/v1/commerce/stores", headers={"Origin": SHOP})
    assert "Access-Control-Allow-Origin" not in commerce.headers


async def test_the_404_of_an_unknown_path_can_be_read_by_the_allowed_origin(open_to: Service):
    _, storefront = await open_to.partner(PartnerKind.MARKETFRONT)
    unknown = "/v1/marketfront/nothing"
    asked = await open_to.anonymous().call("OPTIONS", unknown, headers=preflight("GET"))
    assert (asked.status, asked.headers["Access-Control-Allow-Methods"]) == (204, "GET")
    reply = await storefront.get(unknown, headers={"Origin": SHOP})
    assert (reply.status, reply.headers["Access-Control-Allow-Origin"]) == (404, SHOP)
    for method, origin in (("GET", "https://evil.example"), ("BREW", SHOP)):
        refused = await open_to.anonymous().call("OPTIONS", unknown, headers=preflight(method, origin))
        assert refused.status == 404
        assert "Access-Control-Allow-Methods" not in refused.headers
    other = await storefront.get(unknown, headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


async def test_only_options_is_a_preflight(open_to: Service):
    reply = await open_to.anonymous().call("GET", PLACE, headers=preflight("POST"))
    assert reply.status == 405


async def test_without_the_setting_no_origin_is_allowed(mercato: Service):
    _, storefront = await mercato.partner(PartnerKind.MARKETFRONT)
    reply = await storefront.get(STORES, headers={"Origin": SHOP})
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]
    refused = await Client(mercato.base, None, mercato.session).call(
        "OPTIONS", PLACE, headers=preflight("POST")
    )
    assert refused.status == 405
    assert "MERCATO_CORS_ORIGINS" in refused.json()["detail"]
