"""Slow or idle clients don't delay others."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.databases import only_sqlite
from tests.security.exchange import LAST, answers, connect, exchange, statuses
from tests.service import Service, service
from tests.waiting import PATIENCE

from mercato.http import server

HEAD = b"POST /v1/oauth/token HTTP/1.1\r\nHost: x\r\n"
IDLE = 1_200
"""More connections than the backlog, so that a server which holds only that many would not answer."""

pytestmark = only_sqlite


@pytest.fixture
async def hasty(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service that waits 0.3 s for a head and as long for a body."""
    monkeypatch.setattr(server, "HEAD_MILLISECONDS", 300)
    async with service(database_url, tmp_path / "data", body_seconds=0.3) as running:
        yield running


async def drip(mercato: Service, begin: bytes, each: bytes) -> bytes:
    """Send a piece every 50 ms after the beginning, until the other side closes; return its answer."""
    reader, writer = await connect(mercato)
    writer.write(begin)

    async def go_on() -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(0.05)
                writer.write(each)
                await writer.drain()

    dripping = asyncio.create_task(go_on())
    try:
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                return await reader.read()
        return b""
    finally:
        dripping.cancel()
        writer.close()


@pytest.mark.parametrize(
    ("begin", "each"),
    [
        (b"", b""),
        (b"G", b""),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b""),
        (b"GET /healthz HTTP/1.1\r\n", b"x: y\r\n"),
        (b"GET /", b"a"),
        (b"\r\n", b"\r\n"),
    ],
    ids=["silent", "a letter", "no end", "header after header", "letter after letter", "empty lines"],
)
async def test_a_head_that_does_not_end_closes_its_connection(hasty: Service, begin: bytes, each: bytes):
    assert await drip(hasty, begin, each) == b""


async def test_a_connection_kept_and_not_used_is_closed(hasty: Service):
    got = await exchange(hasty, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert statuses(got) == [200]


@pytest.mark.parametrize(
    ("begin", "each"),
    [
        (b"Content-Length: 1000\r\n\r\n", b""),
        (b"Content-Length: 1000\r\n\r\n", b"a"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"Transfer-Encoding: chunked\r\n\r\n5;", b"a"),
    ],
    ids=["silent", "byte after byte", "chunk after chunk", "an extension without end"],
)
async def test_a_body_that_does_not_end_is_refused_in_its_time(hasty: Service, begin: bytes, each: bytes):
    (only,) = answers(await drip(hasty, HEAD + begin, each))
    assert only.status == 400
    assert b"The body didn't arrive within 0.3 s." in only.body


@pytest.mark.parametrize(
    "begin", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"], ids=["silent", "half a head"]
)
async def test_idle_connections_do_not_delay_other_clients(mercato: Service, begin: bytes):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4 * IDLE:
        pytest.skip("this machine allows too few open files per process")
    idle = [await connect(mercato) for _ in range(IDLE)]
    try:
        for _, writer in idle:
            writer.write(begin)
        # Half of the time after which the idle ones are closed.
        assert statuses(await exchange(mercato, LAST, soon=server.HEAD_MILLISECONDS / 2000)) == [200]
    finally:
        for _, writer in idle:
            writer.transport.abort()


async def test_unread_answers_do_not_delay_other_clients(mercato: Service):
    """A client that sends requests and reads no answers blocks only its own connection."""
    _, writer = await connect(mercato)
    writer.write(b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
    await writer.drain()
    assert statuses(await exchange(mercato, LAST, soon=5)) == [200]
    writer.transport.abort()
