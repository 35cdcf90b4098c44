"""Hostile or broken servers: every pull ends within its timeout and limits, with a message."""

import pytest
from tests.outbound.test_body import BOMBS, bomb
from tests.outbound.test_pull import MENU, failed, pulled
from tests.servers import Script, drip, endless, hang, head, in_turn, raw, redirect, reply, reset, serve

from mercato_outbound.client import Outbound
from mercato_outbound.results import Fault, PullLimits

SMALL = PullLimits(max_raw=100_000, max_decoded=1_000_000, waits=())
SHORT = PullLimits(total=0.1, waits=())
CHUNKED = head(200, transfer_encoding="chunked")


@pytest.mark.parametrize("coding", BOMBS)
async def test_a_bomb_is_stopped_while_it_is_decompressed(outbound: Outbound, coding: str) -> None:
    async with serve(reply(200, bomb(coding), content_encoding=coding)) as server:
        failure = await failed(outbound, server.url, limits=SMALL)
    assert (failure.fault, failure.retryable) == (Fault.REPLY_TOO_LARGE, False)
    assert ", decompressed" in failure.message


async def test_a_body_with_too_large_a_content_length_is_not_read(outbound: Outbound) -> None:
    async with serve(hang(head(200, content_length=100_001))) as server:
        failure = await failed(outbound, server.url, limits=SMALL)
    assert failure.fault is Fault.REPLY_TOO_LARGE
    assert "more than 100000 bytes" in failure.message


@pytest.mark.parametrize(
    "script",
    [
        endless(b"x" * 1000),
        endless(b"3e8\r\n" + b"x" * 1000 + b"\r\n", CHUNKED),
        endless(b"x" * 1000, head(200, content_length=1 << 60)),
    ],
)
async def test_a_body_that_never_ends_is_stopped_at_the_limit(outbound: Outbound, script: Script) -> None:
    async with serve(script) as server:
        failure = await failed(outbound, server.url, limits=SMALL)
    assert failure.fault is Fault.REPLY_TOO_LARGE


@pytest.mark.parametrize(
    "script",
    [
        drip(MENU * 1000, pause=0.01),
        hang(),
        hang(b"HTTP/1.1 "),
        hang(head(200)[:-2]),
        hang(head(200, content_length=100)),
        hang(head(200, content_length=100) + MENU),
        hang(CHUNKED + b"5\r\n{"),
        hang(CHUNKED + b"5;" + b"x" * 100),
        endless(b"0", b"HTTP/1.1 200 OK\r\ncontent-length: ", pause=0.01),
        endless(b"x: y\r\n", b"HTTP/1.1 200 OK\r\n", pause=0.01),
        endless(b"x" * 100, CHUNKED + b"1;", pause=0.001),
        in_turn(redirect("/b"), hang()),
    ],
)
async def test_a_slow_server_ends_the_pull_at_its_timeout(outbound: Outbound, script: Script) -> None:
    async with serve(script) as server:
        failure = await failed(outbound, server.url, limits=SHORT)
    assert (failure.fault, failure.retryable) == (Fault.TIMEOUT, True)
    assert "within 0.1 seconds" in failure.message


@pytest.mark.parametrize(
    "script",
    [
        raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
        raw(b"<html>hello</html>"),
        raw(b"\x00\x01\x02\x03" * 10_000),
        raw(b"HTTP/1.1 two hundred OK\r\n\r\n"),
        raw(b"HTTP/1.1 99999 OK\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1e3\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd"),
        raw(
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        ),
        raw(b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(10_000)) + b"\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n"),
        raw(b"HTTP/1.1 200 " + b"y" * 1_000_000 + b"\r\n\r\n"),
        endless(b"x" * 10_000, b"HTTP/1.1 200 OK\r\nx: "),
        endless(b"x: y\r\n" * 100, b"HTTP/1.1 200 OK\r\n"),
        endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, b""),
        raw(CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n"),
        raw(CHUNKED + b"-5\r\nabcde\r\n0\r\n\r\n"),
        raw(CHUNKED + b"3\r\nabcXX0\r\n\r\n"),
        raw(CHUNKED + b"ffffffffffffffffff\r\nabc\r\n"),
        endless(b"f" * 10_000, CHUNKED),
        raw(CHUNKED + b"3\r\nabc\r\n"),
        raw(head(200, content_length=100) + MENU),
        reset(head(200, content_length=100) + MENU),
    ],
)
async def test_a_response_that_is_not_http_is_reported_as_such(outbound: Outbound, script: Script) -> None:
    async with serve(script) as server:
        failure = await failed(outbound, server.url, limits=SMALL)
    assert (failure.fault, failure.retryable) == (Fault.PROTOCOL, True)


@pytest.mark.parametrize("coding", BOMBS)
async def test_a_truncated_compressed_document_is_reported_as_such(outbound: Outbound, coding: str) -> None:
    async with serve(reply(200, bomb(coding)[:-3], content_encoding=coding)) as server:
        failure = await failed(outbound, server.url)
    assert failure.fault is Fault.ENCODING
    assert "stops before its end" in failure.message


@pytest.mark.parametrize("coding", BOMBS)
async def test_a_document_with_a_wrong_content_encoding_is_reported_as_such(
    outbound: Outbound, coding: str
) -> None:
    async with serve(reply(200, MENU, content_encoding=coding)) as server:
        failure = await failed(outbound, server.url)
    assert failure.fault is Fault.ENCODING
    assert "cannot be decompressed" in failure.message


@pytest.mark.parametrize("coding", ["deflate", "compress", "lzma", "gzip, br", "gzip, gzip"])
async def test_an_unknown_coding_is_refused_with_the_supported_ones(outbound: Outbound, coding: str) -> None:
    async with serve(reply(200, MENU, content_encoding=coding)) as server:
        failure = await failed(outbound, server.url)
    assert failure.fault is Fault.ENCODING
    assert "zstd, br, gzip" in failure.message


@pytest.mark.parametrize(
    "location", [b"\xff\xfe", b"http://\xc3\xbc.example/", b"http://menu.example/\xff", b"/\x01"]
)
async def test_a_redirect_to_bytes_that_are_not_text_is_refused(outbound: Outbound, location: bytes) -> None:
    async with serve(
        raw(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: " + location + b"\r\n\r\n")
    ) as server:
        failure = await failed(outbound, server.url, limits=SMALL)
    assert failure.fault in {Fault.REFUSED_ADDRESS, Fault.PROTOCOL, Fault.DNS}


async def test_a_failed_pull_leaves_no_connection_that_a_later_one_reuses(
    outbound: Outbound,
) -> None:
    script = in_turn(raw(CHUNKED + b"zz\r\n"), endless(b"x" * 1000), reply(500), reply(200, MENU))
    async with serve(script) as server:
        for _ in range(3):
            await failed(outbound, server.url, limits=SMALL)
        assert (await pulled(outbound, server.url)).body == MENU
