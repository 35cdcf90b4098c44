"""Calls over a reused connection have the same results as first calls."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable

import pytest
from tests.servers import (
    Peer,
    Request,
    Script,
    drip,
    endless,
    hang,
    head,
    in_turn,
    raw,
    redirect,
    reply,
    serve,
)

from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import EndpointResponse, Options, RequestFailed

LIMIT = 1024
FIRST = reply(200, b"first")

ANSWERS: dict[str, Callable[[], Script]] = {
    "an answer": lambda: reply(200, b"ok", content_type="application/json", retry_after="7"),
    "no body": lambda: reply(204),
    "a refusal": lambda: reply(422, b"no"),
    "a redirect": lambda: redirect("/elsewhere"),
    "early words": lambda: raw(b"HTTP/1.1 103 Early Hints\r\n\r\n" + head(200, content_length=2) + b"ok"),
    "to the end": lambda: raw(b"HTTP/1.1 200 OK\r\n\r\nok"),
    "chunks": lambda: raw(head(200, transfer_encoding="chunked") + b"2\r\nok\r\n0\r\n\r\n"),
    "the limit": lambda: reply(200, b"x" * LIMIT),
    "compressed": lambda: reply(200, gzip.compress(b"ok"), content_encoding="gzip"),
    "a bomb": lambda: reply(200, gzip.compress(bytes(1 << 20)), content_encoding="gzip"),
    "an unknown coding": lambda: reply(200, b"ok", content_encoding="lzma"),
    "no end": lambda: endless(b"x" * 1000),
    "too short": lambda: raw(head(200, content_length=9) + b"ok"),
    "a chunk too few": lambda: raw(head(200, transfer_encoding="chunked") + b"2\r\nok\r\n"),
    "no HTTP": lambda: raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "a head without end": lambda: raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000),
    "silence after the head": lambda: hang(head(200, content_length=9) + b"ok"),
    "silence": hang,
    "drops": lambda: drip(b"ok" * 99, pause=0.4),
}
SLOW = {"silence after the head", "silence", "drops"}


@pytest.fixture
async def private() -> AsyncIterator[Outbound]:
    """A client with the policy for development: it reaches loopback, also by http."""
    async with Outbound(Options(policy=AddressPolicy(allow_private=True))) as client:
        yield client


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("name", ANSWERS)
async def test_every_reply_is_the_same_over_a_reused_connection(
    private: Outbound,
    name: str,
    truncate: bool,  # a column of the table
) -> None:
    seconds = 1.0 if name in SLOW else 30.0
    async with (
        serve(ANSWERS[name]()) as server,
        Outbound(Options(policy=AddressPolicy(allow_private=True))) as other,
    ):
        expected = await outcome_of(other, server.url, seconds, truncate=truncate)
    async with serve(in_turn(FIRST, ANSWERS[name]())) as server:
        await outcome_of(private, server.url, 30.0)
        assert await outcome_of(private, server.url, seconds, truncate=truncate) == expected
    assert [request.connection for request in server.requests] == [0, 0]


async def test_a_request_is_the_same_over_a_kept_connection(private: Outbound) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "shop/1", "webhook-id": "x"}
    async with serve(FIRST) as server:
        for _ in range(2):
            await private.post(server.url + "/hook?a=b", headers=headers, body=b'{"n":1}', timeout=30)
    first, second = server.requests
    assert second.connection == first.connection
    assert (second.path, second.body) == (first.path, first.body)
    assert {**second.headers} == {**first.headers}


async def test_an_aborted_connection_is_not_kept(private: Outbound) -> None:
    async with serve(in_turn(FIRST, endless(b"x" * 1000), FIRST)) as server:
        for _ in range(3):
            await outcome_of(private, server.url, 30.0, truncate=True)
    assert [request.connection for request in server.requests] == [0, 0, 1]


async def test_a_cancelled_call_leaves_no_response_for_the_next(private: Outbound) -> None:
    async with serve(in_turn(FIRST, hang(), reply(200, b"third"))) as server:
        await outcome_of(private, server.url, 30.0)
        leaving = asyncio.create_task(outcome_of(private, server.url, 30.0))
        while len(server.requests) < 2:  # the server has no event for it
            await asyncio.sleep(0.01)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        third = await outcome_of(private, server.url, 30.0)
    assert third == (200, None, None, b"third", True)
    assert [request.connection for request in server.requests] == [0, 0, 1]


UNASKED = {
    "an answer": head(200, content_length=5) + b"ghost",
    "a farewell": head(408, content_length=0, connection="close"),
    "early words": b"HTTP/1.1 103 Early Hints\r\n\r\n",
}


@pytest.mark.parametrize("words", UNASKED.values(), ids=UNASKED)
async def test_unsolicited_data_does_not_answer_the_next_call(private: Outbound, words: bytes) -> None:
    sent_unsolicited = asyncio.Event()

    async def twice(request: Request, peer: Peer) -> None:
        await FIRST(request, peer)
        # After the response has been read and its connection is kept.
        await sent_unsolicited.wait()
        await peer.send(words)
        sent_unsolicited.clear()

    async with serve(in_turn(twice, reply(200, b"second"))) as server:
        await outcome_of(private, server.url, 30.0)
        sent_unsolicited.set()
        while sent_unsolicited.is_set():  # the client has no event for it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert await outcome_of(private, server.url, 30.0) == (200, None, None, b"second", True)
    assert [request.connection for request in server.requests] == [0, 1]


@pytest.mark.parametrize("value", ["a\r\nX-More: b", "a\nX-More: b", "a\rb", "a\0b"])
async def test_no_header_becomes_two(private: Outbound, value: str) -> None:
    async with serve(FIRST) as server:
        await outcome_of(private, server.url, 30.0)
        with pytest.raises(ValueError, match="headers"):
            await private.post(server.url, headers={"X": value}, body=b"{}", timeout=30)
    assert len(server.requests) == 1


async def outcome_of(outbound: Outbound, url: str, seconds: float, *, truncate: bool = False) -> object:
    """Return the result of a call, without its duration."""
    try:
        reply: EndpointResponse = await outbound.post(
            url, headers={}, body=b"{}", timeout=seconds, max_reply=LIMIT, truncate=truncate
        )
    except RequestFailed as failed:
        return failed.fault, failed.status, failed.message
    return reply.status, reply.content_type, reply.retry_after, reply.body, reply.complete
