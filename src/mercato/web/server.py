"""Granian inside this process's own event loop: one process is API and background work, and dies as one."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

HEAD_MILLISECONDS: Final = 10_000
"""How long a client may take to send a request's head; the body's time is the edge's."""

START_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 20.0
"""How long requests in flight may take to finish when the server is told to stop."""

POLL_SECONDS: Final = 0.01


class PortTakenError(OSError):
    """Another process listens on the address already."""


@asynccontextmanager
async def serving(app: Any, *, host: str, port: int) -> AsyncIterator[str]:
    """Serve the ASGI application while the block runs; gives the base URL once requests are answered.

    Port 0 takes a free one. Raises PortTakenError, or OSError when the address is not this machine's.
    """
    port = _checked(host, port)
    server = Server(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        websockets=False,
        backlog=1024,
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_MILLISECONDS),
        log_enabled=False,
    )
    task = asyncio.create_task(server.serve(), name="granian")
    try:
        await _answers(host, port, task)
        yield f"http://{_shown(host)}:{port}"
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        _, late = await asyncio.wait({task}, timeout=DRAIN_SECONDS)
        for still_running in late:
            still_running.cancel()


def _checked(host: str, port: int) -> int:
    """Bind for a moment, so that a port that is taken is told in words and before anything starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            if port != 0:
                probe.listen(1)
        except OSError as error:
            raise PortTakenError(
                error.errno, f"{host}:{port} can't be listened on: {error.strerror}"
            ) from None
        bound: int = probe.getsockname()[1]
        return bound


async def _answers(host: str, port: int, task: asyncio.Task[None]) -> None:
    """Wait until the server takes connections: it says that it listens before it does."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # compared, not bound
    async with asyncio.timeout(START_SECONDS):
        while True:
            if task.done():
                task.result()
                raise OSError(f"the server on {host}:{port} ended before it answered")
            try:
                _, writer = await asyncio.open_connection(target, port)
            except OSError:
                await asyncio.sleep(POLL_SECONDS)
                continue
            writer.close()
            await writer.wait_closed()
            return


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
