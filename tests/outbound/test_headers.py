"""The headers of an answer: up to 64 KiB together, however they are divided, and not a byte of more is kept."""

import gzip
from collections.abc import AsyncIterator

import pytest
from tests.outbound.conftest import RecordedSleep
from tests.servers import Peer, Request, Script, in_turn, raw, reply, serve

from mercato_outbound.client import Outbound
from mercato_outbound.connections import MAX_HEADERS
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import Fault, Options, PulledDocument, RequestFailed

MENU = b'{"items": {}}'


@pytest.fixture
async def outbound(sleeps: RecordedSleep) -> AsyncIterator[Outbound]:
    async with Outbound(Options(policy=AddressPolicy(allow_private=True), sleep=sleeps)) as client:
        yield client


def answer(*headers: bytes, body: bytes = MENU) -> Script:
    length = b"Content-Length: %d" % len(body)
    return raw(b"HTTP/1.1 200 OK\r\n" + b"\r\n".join((*headers, length, b"", body)))


WITHIN = {
    "one of 8,191 bytes": [b"X-Policy: " + b"p" * 8191],
    "one of 60,000 bytes": [b"X-Policy: " + b"p" * 60_000],
    "129": [b"X-%d: %d" % (number, number) for number in range(129)],
    "5,000": [b"X: %d" % number for number in range(5000)],
}
BEYOND = {
    "one of 64 KiB": [b"X-Policy: " + b"p" * MAX_HEADERS],
    "one of 2 MiB": [b"X-Policy: " + b"p" * (2 << 20)],
    "20 of 4,000 bytes": [b"X-Policy: " + b"p" * 4000] * 20,
    "10,000": [b"X: %d" % number for number in range(10_000)],
}
MESSAGE = "sent more than 64 KiB of headers. Shorten them: cookies and policies are the longest."


@pytest.mark.parametrize("headers", WITHIN.values(), ids=WITHIN)
async def test_an_answer_may_have_64_kib_of_headers(outbound: Outbound, headers: list[bytes]) -> None:
    async with serve(answer(*headers)) as server:
        pulled = await outbound.pull(server.url)
        assert isinstance(pulled, PulledDocument)
        assert pulled.body == MENU
        replied = await outbound.post(server.url, headers={}, body=b"{}", timeout=30)
        assert (replied.status, replied.body) == (200, MENU)


@pytest.mark.parametrize("headers", BEYOND.values(), ids=BEYOND)
async def test_more_headers_are_refused_with_their_bound(outbound: Outbound, headers: list[bytes]) -> None:
    async with serve(answer(*headers)) as server:
        with pytest.raises(RequestFailed) as pull:
            await outbound.pull(server.url)
        assert len(server.requests) == 1
        with pytest.raises(RequestFailed) as call:
            await outbound.post(server.url, headers={}, body=b"{}", timeout=30)
    for failure, subject in ((pull.value, "URL"), (call.value, "webhook URL")):
        assert failure.message == f"The server of the {subject} {MESSAGE}"
        assert failure.fault is Fault.PROTOCOL


ENDLESS = {
    "a header": (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: x\r\n" * 8_192),
    "a header after an informational answer": (
        b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nX: ",
        b"x" * 65_536,
    ),
    "trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
        b"X: x\r\n" * 8_192,
    ),
    "a chunk's extension": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=", b"x" * 65_536),
}


@pytest.mark.parametrize(("start", "more"), ENDLESS.values(), ids=ENDLESS)
async def test_headers_without_end_are_not_read_to_the_time_limit(
    outbound: Outbound, start: bytes, more: bytes
) -> None:
    sent = 0

    async def script(_: Request, peer: Peer) -> None:
        nonlocal sent
        await peer.send(start)
        while True:
            sent += len(more)
            await peer.send(more)

    async with serve(script) as server:
        with pytest.raises(RequestFailed) as call:
            await outbound.post(server.url, headers={}, body=b"{}", timeout=300)
    assert call.value.fault is Fault.PROTOCOL
    assert sent < 64 << 20  # what the sockets of both sides hold


async def test_a_kept_connection_counts_each_answer_for_itself(outbound: Outbound) -> None:
    async with serve(answer(b"X-Policy: " + b"p" * 50_000)) as server:
        for _ in range(3):
            await outbound.post(server.url, headers={}, body=b"{}", timeout=30)


# --- a body that breaks off -----------------------------------------------------------------------

HALF = gzip.compress(MENU)[:-9]
CUT: dict[str, Script] = {
    "before its length": raw(b'HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{"items"'),
    "inside a chunk": raw(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9000\r\n{"items"'),
    "between chunks": raw(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"items"\r\n'),
    "inside compressed data": raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + HALF),
}


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
@pytest.mark.parametrize("failures", [1, 3, 4])
async def test_a_download_that_breaks_off_is_tried_three_times_again(
    outbound: Outbound, sleeps: RecordedSleep, cut: Script, failures: int
) -> None:
    async with serve(in_turn(*[cut] * failures, reply(200, MENU))) as server:
        if failures < 4:
            pulled = await outbound.pull(server.url)
            assert isinstance(pulled, PulledDocument)
            assert pulled.body == MENU
        else:
            with pytest.raises(RequestFailed):
                await outbound.pull(server.url)
    assert sleeps.seconds == [0.5, 1.0, 2.0][:failures]
