"""A caller's connections are its own to close before the service does."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from mercato.http.server import HEAD_MILLISECONDS
from mercato_client.testing.caller import IDLE_SECONDS, Answer, Caller, RefusedError, open_session
from mercato_client.testing.journal import Journal

CLOSED_AFTER = 0.2


class Handler(BaseHTTPRequestHandler):
    """Closes a connection that was idle for CLOSED_AFTER seconds."""

    protocol_version = "HTTP/1.1"
    timeout = CLOSED_AFTER

    def do_POST(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def base() -> Iterator[str]:
    """A server in a thread of its own, which closes connections while the caller's event loop is busy."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


async def test_no_request_is_sent_on_a_connection_that_was_idle_for_long(base: str) -> None:
    async with open_session(idle_seconds=CLOSED_AFTER / 2) as session:
        caller = Caller(base, None, session)
        assert (await caller.send("POST", "/")).status == 204
        # As on a busy machine: the loop doesn't see that the server closes the connection.
        time.sleep(CLOSED_AFTER * 2)  # noqa: ASYNC251
        assert (await caller.send("POST", "/")).status == 204


def test_a_caller_closes_an_idle_connection_in_half_the_time_of_the_service() -> None:
    assert IDLE_SECONDS * 1000 <= HEAD_MILLISECONDS / 2


@pytest.mark.parametrize(
    ("header", "body", "seconds"),
    [
        ("7", b"", 7.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", b"<html>", 0.0),
        ("Sun Nov  6 08:49:37 1994", b"[]", 0.0),
        ("soon", b"", None),
        ("-1", b"", None),
        ("nan", b"\xff", None),
        (None, b"", None),
        ("7", b'{"title": "", "retryAfter": 3}', 3.0),
        ("7", b'{"title": "", "retryAfter": "soon"}', 7.0),
    ],
)
def test_what_an_answer_asks_to_wait_is_a_number_or_a_date_and_anything_else_is_nothing(
    header: str | None, body: bytes, seconds: float | None
) -> None:
    headers = CIMultiDict({} if header is None else {"Retry-After": header})
    assert Answer(503, CIMultiDictProxy(headers), body).retry_after == seconds


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b'"hello"', b"7", b"<html>", b'{"a":"\xff"}', b"[" * 100_000 + b"]" * 100_000],
    ids=["nothing", "list", "null", "text", "number", "HTML", "no UTF-8", "deep"],
)
def test_an_answer_that_no_service_gives_is_refused_in_words(body: bytes) -> None:
    answer = Answer(200, CIMultiDictProxy(CIMultiDict()), body)
    with pytest.raises(RefusedError, match=r"Is this the URL of a Mercato service\?"):
        answer.expect(200, "Stores cannot be found")
    assert (answer.code, answer.is_retryable) == (None, False)
    seen = Journal().sent("discover", "POST", "/", headers={}, body=None, answer=answer)
    assert seen.status == 200


def test_an_answer_without_a_body_is_nothing() -> None:
    assert Answer(204, CIMultiDictProxy(CIMultiDict()), b"").expect(204, "The endpoint is deleted") is None
