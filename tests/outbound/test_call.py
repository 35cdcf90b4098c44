"""Webhook calls: the request, the reply, and the failure if there is none."""

import gzip
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import standardwebhooks
from tests.outbound.conftest import PUBLIC
from tests.ports import free_port
from tests.servers import (
    Peer,
    Request,
    Script,
    StubDns,
    drip,
    drop,
    endless,
    hang,
    head,
    in_turn,
    raw,
    redirect,
    reply,
    reset,
    self_signed,
    serve,
)
from tests.waiting import PATIENCE, lengthening

from mercato_contract import USER_AGENT
from mercato_contract.signing import target, webhook_headers
from mercato_outbound.client import Outbound
from mercato_outbound.connections import MAX_HEADS
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import EndpointResponse, Fault, Options, RequestFailed

SECRET = "whsec_" + "YWFh" * 11
DEVELOPMENT = AddressPolicy(allow_private=True)


@pytest.fixture
async def private() -> AsyncIterator[Outbound]:
    """A client with the policy for development: it reaches loopback, also by http."""
    async with Outbound(Options(policy=DEVELOPMENT)) as client:
        yield client


async def post(outbound: Outbound, url: str, **options: object) -> EndpointResponse:
    given = {"headers": {}, "body": b"{}", "timeout": 5.0} | options
    return await outbound.post(url, **given)  # type: ignore[arg-type]


async def failed(outbound: Outbound, url: str, **options: object) -> RequestFailed:
    with pytest.raises(RequestFailed) as failure:
        await post(outbound, url, **options)
    for hidden in (
        "127.0.0",
        "localhost",
        "inside.example",
        "aiohttp",
        "Errno",
        "Cannot",
        "ssl:",
        "object at",
    ):
        assert hidden not in failure.value.message
    assert failure.value.message.endswith(".")
    assert failure.value.elapsed_ms >= 0
    return failure.value


# --- the request ---------------------------------------------------------------------------------------


async def test_a_call_arrives_as_it_was_signed(private: Outbound) -> None:
    body = '{"type":"catalog.sync.succeeded","data":{"name":"Café"}}'.encode()
    headers = webhook_headers(
        webhook_id="id-1",
        timestamp=int(time.time()),
        body=body,
        secrets=[SECRET],
        token="partner-token",
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    async with serve(reply(200, b"ok")) as server:
        url = target(server.url + "/hooks?key=%2F1", "catalog-sync")
        answer = await post(private, url, headers=headers, body=body)
    assert (answer.status, answer.body, answer.complete) == (200, b"ok", True)
    arrived = server.requests[0]
    assert (arrived.method, arrived.path, arrived.body) == ("POST", "/hooks/catalog-sync?key=%2F1", body)
    assert arrived.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-length": str(len(body)),
    } | {name.lower(): value for name, value in headers.items()}
    standardwebhooks.Webhook(SECRET).verify(arrived.body, dict(arrived.headers))


async def test_the_service_names_itself(private: Outbound) -> None:
    async with serve(reply(204)) as server:
        await post(private, server.url)
    assert server.requests[0].headers["user-agent"] == USER_AGENT


async def test_calls_to_one_server_share_a_connection(private: Outbound) -> None:
    async with serve(reply(200, b"ok")) as server:
        for _ in range(3):
            await post(private, server.url)
    assert [request.connection for request in server.requests] == [0, 0, 0]


# --- the reply -----------------------------------------------------------------------------------------


async def test_informational_responses_before_the_reply_are_skipped(private: Outbound) -> None:
    async def hint(_: Request, peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 10 + head(200, content_length=0))

    async with serve(hint) as server:
        for _ in range(4):
            assert (await post(private, server.url)).status == 200
    assert server.connections == 1


async def test_too_many_informational_responses_are_named_as_that(private: Outbound) -> None:
    async def flood(_: Request, peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n" * MAX_HEADS + head(200, content_length=0))

    async with serve(flood) as server:
        failure = await failed(private, server.url)
    assert f"more than {MAX_HEADS - 1} informational responses (1xx)" in failure.message


@pytest.mark.parametrize("status", [200, 202, 204, 400, 409, 410, 422, 429, 500, 503])
async def test_every_status_is_a_reply(private: Outbound, status: int) -> None:
    async with serve(
        reply(status, b"" if status == 204 else b"{}", content_type="application/json")
    ) as server:
        answer = await post(private, server.url)
    assert (answer.status, answer.content_type) == (status, "application/json")
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_reply_and_is_not_followed(private: Outbound, status: int) -> None:
    async with serve(redirect("/elsewhere", status)) as server:
        assert (await post(private, server.url)).status == status
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("sent", "read"), [("120", 120.0), ("0", 0.0), ("-1", None), ("soon", None), ("", None)]
)
async def test_retry_after_is_read_as_seconds(private: Outbound, sent: str, read: float | None) -> None:
    async with serve(reply(503, b"", retry_after=sent)) as server:
        assert (await post(private, server.url)).retry_after == read


async def test_a_reply_that_is_compressed_without_being_asked_is_decompressed(private: Outbound) -> None:
    async with serve(reply(200, gzip.compress(b"ok"), content_encoding="gzip")) as server:
        assert (await post(private, server.url)).body == b"ok"


async def test_a_reply_of_exactly_the_limit_is_complete(private: Outbound) -> None:
    async with serve(reply(200, b"x" * 1024)) as server:
        answer = await post(private, server.url, max_reply=1024)
    assert (len(answer.body), answer.complete) == (1024, True)


async def test_a_reply_beyond_the_limit_is_truncated_if_the_caller_allows_it(private: Outbound) -> None:
    async with serve(reply(200, b"x" * 1025)) as server:
        answer = await post(private, server.url, max_reply=1024, truncate=True)
        assert (answer.body, answer.complete) == (b"x" * 1024, False)
        failure = await failed(private, server.url, max_reply=1024)
    assert (failure.fault, failure.status) == (Fault.REPLY_TOO_LARGE, 200)


@pytest.mark.parametrize(
    ("script", "body"),
    [
        (endless(b"x" * 1000), b"x" * 1024),
        (reply(200, gzip.compress(bytes(1 << 20)), content_encoding="gzip"), bytes(1024)),
        (reply(200, gzip.compress(b"ok")[:-3], content_encoding="gzip"), b"ok"),
        (reply(200, b"ok", content_encoding="gzip"), b""),
        (reply(200, b"ok", content_encoding="lzma"), b""),
        (raw(head(200, content_length=9) + b"ok"), b"ok"),
        (raw(head(200, transfer_encoding="chunked") + b"2\r\nok\r\n"), b"ok"),
    ],
)
async def test_a_broken_body_is_ignored_if_only_the_status_matters(
    private: Outbound, script: Script, body: bytes
) -> None:
    async with serve(script) as server:
        answer = await post(private, server.url, max_reply=1024, truncate=True)
    assert (answer.status, answer.body, answer.complete) == (200, body, False)


async def test_a_body_that_hangs_is_abandoned_if_only_the_status_matters(private: Outbound) -> None:
    async with serve(hang(head(200, content_length=9) + b"ok")) as server:
        for seconds in lengthening(0.5):
            with suppress(RequestFailed):
                answer = await post(private, server.url, truncate=True, timeout=seconds)
                break
    assert (answer.status, answer.body, answer.complete) == (200, b"ok", False)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (endless(b"x" * 1000), Fault.REPLY_TOO_LARGE),
        (reply(200, gzip.compress(bytes(1 << 20)), content_encoding="gzip"), Fault.REPLY_TOO_LARGE),
        (reply(200, gzip.compress(b"ok")[:-3], content_encoding="gzip"), Fault.PROTOCOL),
        (reply(200, b"ok", content_encoding="gzip"), Fault.PROTOCOL),
        (reply(200, b"ok", content_encoding="lzma"), Fault.PROTOCOL),
        (raw(head(200, content_length=9) + b"ok"), Fault.PROTOCOL),
        (raw(head(200, transfer_encoding="chunked") + b"2\r\nok\r\n"), Fault.PROTOCOL),
        (hang(head(200, content_length=9) + b"ok"), Fault.TIMEOUT),
        (drip(b"ok" * 99, pause=0.1), Fault.TIMEOUT),
    ],
)
async def test_a_broken_body_is_a_failure_if_it_is_needed(
    private: Outbound, script: Script, reason: Fault
) -> None:
    async with serve(script) as server:
        for seconds in lengthening(0.5 if reason is Fault.TIMEOUT else PATIENCE):
            failure = await failed(private, server.url, max_reply=1024, timeout=seconds)
            if failure.status is not None:
                break
    assert (failure.fault, failure.status) == (reason, 200)


# --- failures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (hang(), Fault.TIMEOUT),
        (hang(b"HTTP/1.1 200"), Fault.TIMEOUT),
        (drop(), Fault.PROTOCOL),
        (reset(), Fault.PROTOCOL),
        (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), Fault.PROTOCOL),
        (endless(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, b""), Fault.PROTOCOL),
    ],
)
async def test_no_answer_is_a_failure_with_its_reason(
    private: Outbound,
    script: Script,
    reason: Fault,
    truncate: bool,  # a column of the table
) -> None:
    for seconds in lengthening(0.1 if reason is Fault.TIMEOUT else PATIENCE):
        async with serve(script) as server:
            failure = await failed(private, server.url, timeout=seconds, truncate=truncate)
        if server.requests:
            break
    assert (failure.fault, failure.status) == (reason, None)
    assert len(server.requests) == 1


async def test_a_refused_connection_is_a_failure(private: Outbound) -> None:
    assert (await failed(private, f"http://127.0.0.1:{free_port()}/")).fault is Fault.CONNECT


async def test_an_unknown_host_name_is_a_failure(outbound: Outbound) -> None:
    assert (await failed(outbound, "https://nowhere.example/")).fault is Fault.DNS


async def test_a_kept_connection_that_died_is_replaced_once_silently(private: Outbound) -> None:
    async with serve(in_turn(reply(200, b"1"), drop(), reply(200, b"2"), drop(), drop())) as server:
        assert (await post(private, server.url)).body == b"1"
        assert (await post(private, server.url, body=b'{"n":2}')).body == b"2"
        assert [request.body for request in server.requests[1:]] == [b'{"n":2}'] * 2
        assert (await failed(private, server.url)).fault is Fault.PROTOCOL
    assert len(server.requests) == 5


# --- allowed targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://menu.example/hook",
        "file:///etc/passwd",
        "https://user:secret@menu.example/",
        "https://menu.example:0/",
        "https://127.0.0.2/",
        "https://[::1]/",
        "https://2130706433/",
        "https://inside.example/",
    ],
)
async def test_a_webhook_goes_to_public_addresses_by_https_alone(outbound: Outbound, url: str) -> None:
    failure = await failed(outbound, url)
    assert failure.fault is Fault.REFUSED_ADDRESS
    assert "secret" not in failure.message


async def test_development_does_not_open_link_local_or_metadata_addresses(private: Outbound) -> None:
    for url in ("http://169.254.169.254/", "http://[fe80::1]/", "http://0.0.0.0/", "http://[fd00:ec2::254]/"):
        assert (await failed(private, url)).fault is Fault.REFUSED_ADDRESS


async def test_a_webhook_is_posted_by_https_to_a_server_with_a_trusted_certificate() -> None:
    tls = self_signed("menu.example")
    dns = StubDns({"menu.example": [["127.0.0.1"]]})
    async with serve(reply(200, b"ok"), tls=tls.server) as server:
        async with Outbound(Options(policy=PUBLIC, resolver=dns, tls=tls.client)) as trusting:
            assert (await post(trusting, server.at("menu.example"))).body == b"ok"
        async with Outbound(Options(policy=PUBLIC, resolver=dns)) as strict:
            failure = await failed(strict, server.at("menu.example"))
    assert failure.fault is Fault.TLS
    assert "self-signed" in failure.message
    assert len(server.requests) == 1
