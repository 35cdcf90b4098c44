"""The end of each request is unambiguous: nothing can be smuggled past a proxy.

After every request another one is sent. Its answer shows that the end of the first was found correctly.
If the end is ambiguous the connection closes, and what follows is never treated as a request.
"""

import asyncio

import pytest
from tests.databases import only_sqlite
from tests.security.exchange import LAST, answers, exchange, statuses
from tests.service import Service

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
LINE = b"POST /v1/oauth/token HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"

STAYS = [400, 200]  # refused by the operation, which accepts no such form; the next request is answered
CLOSES = [400]


def post(headers: bytes, body: bytes) -> bytes:
    return LINE + headers + b"\r\n" + body


def head_of(size: int) -> bytes:
    return GET + b"X: " + b"a" * (size - len(GET) - 7) + b"\r\n\r\n"


REQUESTS: dict[str, tuple[bytes, list[int]]] = {
    # a length and chunks at once: the chunks count, and the connection takes no further request
    "length, then chunked": (
        post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
        CLOSES,
    ),
    "chunked, then length": (
        post(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n" + SMUGGLED),
        CLOSES,
    ),
    "length of what follows, and chunked": (
        post(b"Content-Length: 40\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
        CLOSES,
    ),
    # lengths
    "one length": (post(b"Content-Length: 5\r\n", b"hello"), STAYS),
    "two lengths": (post(b"Content-Length: 5\r\nContent-Length: 0\r\n", b"hello" + SMUGGLED), CLOSES),
    "two lengths, the other way": (
        post(b"Content-Length: 0\r\nContent-Length: 5\r\n", b"hello" + SMUGGLED),
        CLOSES,
    ),
    "the same length twice": (post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello"), STAYS),
    "a list of lengths": (post(b"Content-Length: 5, 5\r\n", b"hello"), CLOSES),
    "a length with a sign": (post(b"Content-Length: +5\r\n", b"hello"), CLOSES),
    "a length below zero": (post(b"Content-Length: -5\r\n", b"hello"), CLOSES),
    "a length in hexadecimal": (post(b"Content-Length: 0x5\r\n", b"hello"), CLOSES),
    "a length with an underscore": (post(b"Content-Length: 1_0\r\n", b"helloworld"), CLOSES),
    "a length with a fraction": (post(b"Content-Length: 5.0\r\n", b"hello"), CLOSES),
    "a length in other digits": (post("Content-Length: \u0665\r\n".encode(), b"hello"), CLOSES),
    "a length beyond all integers": (post(b"Content-Length: 99999999999999999999\r\n", b"hello"), CLOSES),
    "a length that is empty": (post(b"Content-Length:\r\n", b"hello"), CLOSES),
    "a length under a name with a space": (post(b"Content-Length : 5\r\n", b"hello"), CLOSES),
    "a length that covers a request": (
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 35\r\n\r\n" + SMUGGLED,
        [405, 200],
    ),
    "a GET with a body": (GET + b"Content-Length: 35\r\n\r\n" + SMUGGLED, [200, 200]),
    "a GET with chunks": (GET + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", [200, 200]),
    # transfer codings
    "chunked": (post(b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"), STAYS),
    "CHUNKED": (post(b"Transfer-Encoding: CHUNKED\r\n", b"0\r\n\r\n"), STAYS),
    "chunked after a tab": (post(b"Transfer-Encoding:\tchunked\r\n", b"0\r\n\r\n"), STAYS),
    "chunked, and something before it": (post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), STAYS),
    "an unknown coding": (post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + SMUGGLED), CLOSES),
    "chunked, but not last": (
        post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n" + SMUGGLED),
        CLOSES,
    ),
    "two codings": (
        post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n" + SMUGGLED),
        CLOSES,
    ),
    "two codings, the other way": (
        post(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
        STAYS,
    ),
    "chunked in quotes": (post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n" + SMUGGLED), CLOSES),
    "chunked after a vertical tab": (post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"), CLOSES),
    "chunked under a name with a space": (post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), CLOSES),
    "chunked in HTTP/1.0": (
        b"POST /v1/oauth/token HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        CLOSES,
    ),
    # chunks
    "a chunk": (post(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"), STAYS),
    "a chunk with an extension": (
        post(b"Transfer-Encoding: chunked\r\n", b'5;a="b"\r\nhello\r\n0\r\n\r\n'),
        STAYS,
    ),
    "a chunk with a bare line feed in its extension": (
        post(b"Transfer-Encoding: chunked\r\n", b"2;a\nxx\r\nhe\r\n0\r\n\r\n" + SMUGGLED),
        CLOSES,
    ),
    "a chunk with an endless extension": (
        post(b"Transfer-Encoding: chunked\r\n", b"5;" + b"a" * 200_000 + b"\r\nhello\r\n0\r\n\r\n"),
        CLOSES,
    ),
    "a chunk that ends in a bare line feed": (
        post(b"Transfer-Encoding: chunked\r\n", b"5\nhello\n0\n\n" + SMUGGLED),
        CLOSES,
    ),
    "a chunk of negative size": (
        post(b"Transfer-Encoding: chunked\r\n", b"-5\r\nhello\r\n0\r\n\r\n"),
        CLOSES,
    ),
    "a chunk of 0x5": (post(b"Transfer-Encoding: chunked\r\n", b"0x5\r\nhello\r\n0\r\n\r\n"), CLOSES),
    "a chunk beyond all integers": (
        post(b"Transfer-Encoding: chunked\r\n", b"fffffffffffffffff5\r\nhello\r\n0\r\n\r\n"),
        CLOSES,
    ),
    "a chunk that is longer than it says": (
        post(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello!!0\r\n\r\n"),
        CLOSES,
    ),
    "trailers": (
        post(
            b"Transfer-Encoding: chunked\r\n",
            b"5\r\nhello\r\n0\r\nX-Request-Id: evil\r\nContent-Length: 5\r\n\r\n",
        ),
        STAYS,
    ),
    "thousands of trailers": (
        post(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n" + b"x: y\r\n" * 5000 + b"\r\n"),
        CLOSES,
    ),
    # lines
    "a folded line": (GET + b"X-A: a\r\n b\r\n\r\n", CLOSES),
    "a coding in a folded line": (
        post(b"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"hello"),
        CLOSES,
    ),
    "bare line feeds": (b"GET /healthz HTTP/1.1\nHost: x\n\n", [200, 200]),
    "bare carriage returns": (b"GET /healthz HTTP/1.1\rHost: x\r\r", CLOSES),
    "a carriage return in a header": (GET + b"X-A: a\rX-B: b\r\n\r\n", CLOSES),
    "a NUL in a header": (GET + b"X-A: a\x00b\r\n\r\n", CLOSES),
    "a header without a colon": (GET + b"X-A\r\n\r\n", CLOSES),
    "a header without a name": (GET + b": a\r\n\r\n", CLOSES),
    "a header with a space in its name": (GET + b"X A: a\r\n\r\n", CLOSES),
    "a NUL in the target": (b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n", CLOSES),
    "a space in the target": (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", CLOSES),
    "a space before the method": (b" GET / HTTP/1.1\r\nHost: x\r\n\r\n", CLOSES),
    "an invalid method": (b"G@T{} / HTTP/1.1\r\nHost: x\r\n\r\n", CLOSES),
    "empty lines first": (b"\r\n\r\n" + GET + b"\r\n", [200, 200]),
    # versions and protocols
    "HTTP/0.9": (b"GET /healthz\r\n\r\n", CLOSES),
    "HTTP/1.0": (b"GET /healthz HTTP/1.0\r\nHost: x\r\n\r\n", [200]),
    "HTTP/1.2": (b"GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n", CLOSES),
    "HTTP/2.0": (b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", CLOSES),
    "HTTP/2 by prior knowledge": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0", []),
    "an upgrade to HTTP/2": (
        GET
        + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        [200, 200],
    ),
    "an upgrade to a websocket": (
        GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        [200, 200],
    ),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300), CLOSES),
    # forms of the target
    "an absolute target": (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: x\r\n\r\n", [200, 200]),
    "an absolute target of another path": (
        b"GET http://evil.example/smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
        [404, 200],
    ),
    "a target to connect to": (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", [404, 200]),
    "CONNECT to a path": (b"CONNECT /healthz HTTP/1.1\r\nHost: x\r\n\r\n", [405, 200]),
    "an asterisk": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", [405, 200]),
    "TRACE": (b"TRACE /healthz HTTP/1.1\r\nHost: x\r\nX-A: secret\r\n\r\n", [405, 200]),
    # targets that are not ASCII
    "UTF-8 in the path": ("GET /stör HTTP/1.1\r\nHost: x\r\n\r\n".encode(), [404, 200]),
    "UTF-8 in the query": ("GET /healthz?ü=ü HTTP/1.1\r\nHost: x\r\n\r\n".encode(), [400, 200]),
    "bytes that aren't text in the path": (b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", CLOSES),
    "bytes that aren't text in the query": (b"GET /healthz?\xff HTTP/1.1\r\nHost: x\r\n\r\n", CLOSES),
    "escapes that aren't text": (b"GET /%ff%fe%zz%2 HTTP/1.1\r\nHost: x\r\n\r\n", [404, 200]),
    # sizes
    "a target of 8 KiB": (b"GET /" + b"a" * 8_192 + b" HTTP/1.1\r\nHost: x\r\n\r\n", [404, 200]),
    "a target of 70,000 bytes": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", [414]),
    "a hundred headers": (GET + b"".join(b"x%d: y\r\n" % n for n in range(99)) + b"\r\n", [200, 200]),
    "more than a hundred headers": (
        GET + b"".join(b"x%d: y\r\n" % n for n in range(101)) + b"\r\n",
        [431],
    ),
    "a head of 64 KiB": (head_of(64 * 1024), [200, 200]),
    "a head beyond 112 KiB": (head_of(112 * 1024 + 1), [431]),
    "a header of a megabyte": (GET + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n", [431]),
    "a long method": (b"A" * 1_000 + b" /healthz HTTP/1.1\r\nHost: x\r\n\r\n", [501, 200]),
    # three at once
    "three in one piece": (GET + b"\r\n" + SMUGGLED + GET + b"\r\n", [200, 404, 200, 200]),
}


@only_sqlite
async def test_each_request_is_answered_once_and_its_end_is_unambiguous(mercato: Service):
    async def tried(name: str) -> tuple[str, list[int]]:
        return name, statuses(await exchange(mercato, REQUESTS[name][0] + LAST))

    got = dict(await asyncio.gather(*map(tried, REQUESTS)))
    assert got == {name: expected for name, (_, expected) in REQUESTS.items()}


@only_sqlite
async def test_of_two_keys_two_hosts_or_two_types_none_counts(mercato: Service):
    _, pos = await mercato.partner()
    assert pos.key is not None
    good = pos.key.encode()
    others = (b"mk_commerce_other", b"mk_commerce_\xff", b"\xff")
    for first, second in [pair for other in others for pair in ((good, other), (other, good))]:
        keys = b"Authorization: Bearer " + first + b"\r\nAuthorization: Bearer " + second + b"\r\n"
        answer = await exchange(
            mercato, b"GET /v1/commerce/stores HTTP/1.1\r\nHost: x\r\n" + keys + b"\r\n" + LAST
        )
        assert statuses(answer) == [401, 200]
        assert good not in answer
    hosts = await exchange(
        mercato, b"GET /no HTTP/1.1\r\nHost: good.example\r\nHost: evil.example\r\n\r\n" + LAST
    )
    assert b"evil.example" not in hosts
    assert b"good.example" not in hosts
    types = post(b"Content-Type: application/x-www-form-urlencoded\r\nContent-Type: text/html\r\n", b"")
    assert b"Send a form" in await exchange(mercato, types + LAST)


@only_sqlite
async def test_a_length_beside_chunks_closes_the_connection(mercato: Service):
    sent = post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")
    (only,) = answers(await exchange(mercato, sent + LAST))
    assert only.headers[b"connection"] == [b"close"]


@only_sqlite
async def test_a_body_in_another_transfer_coding_is_not_parsed_as_its_content(mercato: Service):
    answer = await exchange(mercato, post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n") + LAST)
    assert b"The Transfer-Encoding isn't supported." in answer


@only_sqlite
@pytest.mark.parametrize("coding", [b"", b"Transfer-Encoding: chunked\r\n"], ids=["length", "chunks"])
async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing_behind(
    mercato: Service, coding: bytes
):
    for _ in range(20):
        _, writer = await asyncio.open_connection(*mercato.base.removeprefix("http://").split(":"))
        writer.write(LINE + (coding or b"Content-Length: 500\r\n") + b"\r\n5\r\nhel")
        await writer.drain()
        writer.transport.abort()
    assert statuses(await exchange(mercato, LAST)) == [200]
