"""Sends raw bytes to the running service that no HTTP client would send."""

import asyncio
import contextlib
import re
from dataclasses import dataclass

from tests.service import Service
from tests.waiting import PATIENCE, loop_timeout

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?")

LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""A request after which the connection closes: sent behind another, it is answered if the first one's end was found."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer; header names are lower-case, with all values that each has."""

    status: int
    headers: dict[bytes, list[bytes]]
    body: bytes


async def connect(mercato: Service) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = mercato.base.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def exchange(mercato: Service, sent: bytes, *, soon: float | None = None) -> bytes:
    """Send bytes as they are; return everything that is answered before the connection closes.

    That must happen within `soon` seconds of the event loop, if they are given.
    """
    reader, writer = await connect(mercato)
    got = b""
    try:
        async with asyncio.timeout(PATIENCE) if soon is None else loop_timeout(soon):
            # A client that is refused while it sends may get a reset connection.
            with contextlib.suppress(ConnectionError):
                writer.write(sent)
                await writer.drain()
                while part := await reader.read(65_536):
                    got += part
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return got


def answers(got: bytes) -> list[Answered]:
    """Return the answers to requests other than HEAD, in their order. Raises for anything that isn't an answer."""
    found = []
    while got:
        head, _, rest = got.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(first)
        assert status is not None, got[:200]
        headers: dict[bytes, list[bytes]] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            assert colon, line
            headers.setdefault(name.lower(), []).append(value.strip())
        (length,) = headers[b"content-length"]
        found.append(Answered(int(status[1]), headers, rest[: int(length)]))
        got = rest[int(length) :]
    return found


def statuses(got: bytes) -> list[int]:
    """Return the status of each answer, in their order."""
    return [answer.status for answer in answers(got)]
