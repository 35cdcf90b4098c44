"""A port that serves only metrics, for a worker."""

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from mercato.platform.telemetry.metrics import METRICS_TYPE, Metrics
from mercato_outbound.guard import is_loopback

log = structlog.get_logger("mercato.telemetry")

PORTS: Final = 64
"""Ports that are tried, one after the other: at least as many as processes of one machine."""

HEAD_SECONDS: Final = 5.0
MAX_HEAD: Final = 16 * 1024


@asynccontextmanager
async def serve_metrics(metrics: Metrics, *, host: str, port: int, token: str | None) -> AsyncIterator[int]:
    """Serve `GET /metrics` during the block, on the first free port from `port` on, which is yielded.

    With a token, the request must have it as bearer; without one, the address must be loopback. Raises OSError if no
    port is free.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that disconnects or is too slow gets nothing.
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await _reply(metrics, head, token, allow_any=is_loopback(host)))
            await writer.drain()
        writer.close()

    listener = _bound(host, port)
    server = await asyncio.start_server(answer, sock=listener, limit=MAX_HEAD)
    bound: int = listener.getsockname()[1]
    log.info("serving metrics", port=bound)
    async with server:
        yield bound


async def _reply(metrics: Metrics, head: bytes, token: str | None, *, allow_any: bool) -> bytes:
    line, *headers = head.split(b"\r\n")
    if not line.startswith(b"GET /metrics "):
        return _response(b"404 Not Found", b"Use GET /metrics.\n")
    if token is None and not allow_any:
        return _response(b"403 Forbidden", b"Set MERCATO_METRICS_TOKEN to read metrics on this address.\n")
    if token is not None and not any(_is_bearer(header, token) for header in headers):
        return _response(
            b"401 Unauthorized", b"Send MERCATO_METRICS_TOKEN as bearer.\n", b"WWW-Authenticate: Bearer"
        )
    return _response(b"200 OK", await metrics.read(), kind=METRICS_TYPE.encode())


def _is_bearer(header: bytes, token: str) -> bool:
    name, _, value = header.partition(b":")
    return name.lower() == b"authorization" and hmac.compare_digest(
        value.strip(), b"Bearer " + token.encode()
    )


def _response(status: bytes, body: bytes, *more: bytes, kind: bytes = b"text/plain; charset=utf-8") -> bytes:
    head = [
        b"HTTP/1.1 " + status,
        b"Content-Type: " + kind,
        b"Content-Length: %d" % len(body),
        b"Connection: close",
    ]
    return b"\r\n".join([*head, *more, b"", body])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, min(port + PORTS, 65536)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            # Two sockets may both bind; only one of them can listen.
            listener.listen()
        except OSError:
            listener.close()
            continue
        listener.setblocking(False)
        return listener
    raise OSError(f"no port from {port} on is free for metrics (MERCATO_METRICS_PORT)")
