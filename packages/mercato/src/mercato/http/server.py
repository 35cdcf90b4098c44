"""Granian inside this process's own event loop, so that the API and background work are one process."""

import asyncio
import errno
import os
import resource
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.net import SocketHolder  # type: ignore[attr-defined]  # where its pickling finds it
from granian.server.embed import Server

HEAD_MILLISECONDS: Final = 10_000
"""How long a client may take to send a request's head. The edge limits the time of the body."""

HEAD_BYTES: Final = 64 * 1024
"""The largest head of a request that is always read. One that arrives at once may have 48 KiB more, which the server
reads before it looks at the size. So much may each connection hold; a hundred headers need a fraction of it."""

BACKLOG: Final = 1024
"""Connections that wait to be accepted."""

CONNECTIONS: Final = 16_384
"""Connections that one process holds open. Idle ones count until they are closed; each costs a file descriptor and a
few KiB."""

FILES_BESIDE: Final = 2_048
"""File descriptors for other uses: connections to partners' servers and to the database."""

DRAIN_SECONDS: Final = 20.0
"""How long requests in flight may take to finish when the server stops."""


class PortTakenError(OSError):
    """Another process listens on the address, or the address isn't this machine's."""


class Application(Protocol):
    """An ASGI application that tracks its requests: the server doesn't track those whose client has gone."""

    @property
    def in_flight(self) -> set[asyncio.Task[Any]]: ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class _Server(Server):
    """The server on a socket that listens already and that other processes may share."""

    def __init__(self, target: Any, listener: socket.socket, **options: Any) -> None:
        self._listener = listener
        super().__init__(target, **options)

    def _init_shared_socket(self) -> None:
        # The server closes the socket that it gets; the listener stays its owner's.
        self._ssp = None
        # The stubs lack the constructor, by which it is unpickled, and say that this is always None.
        self._shd = SocketHolder(os.dup(self._listener.fileno()), False, BACKLOG)  # type: ignore[call-arg,assignment]


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one.

    Raises PortTakenError, also for an address that isn't this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, TypeError, UnicodeError) as error:
        # TypeError and UnicodeError are of an invalid host name.
        listener.close()
        fault = error if isinstance(error, OSError) else OSError(errno.EINVAL, "this isn't a host name")
        reason = (
            f"Can't listen on {host}:{port}: {fault.strerror}. "
            "Choose another address with --port or --host (MERCATO_PORT, MERCATO_HOST)."
        )
        if fault.errno == errno.EADDRINUSE:
            reason = (
                f"Can't listen on {host}:{port}: another program listens there, perhaps another mercato serve. "
                f"Stop it, or choose another port with --port (MERCATO_PORT); --port 0 takes a free one."
            )
        raise PortTakenError(fault.errno, reason) from None
    listener.setblocking(False)
    return listener


def connections() -> int:
    """Raise the limit of open files as far as allowed, and return how many connections to hold."""
    soft, hard = (_files(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = min(CONNECTIONS + FILES_BESIDE, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    files = max(soft, wanted)
    # If few files are allowed, half of them: the database needs some too.
    return min(CONNECTIONS, max(files - FILES_BESIDE, files // 2))


def _files(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def url_of(listener: socket.socket) -> str:
    """Return the base URL at which the socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def serving(
    app: Application, *, host: str = "127.0.0.1", port: int = 0, listener: socket.socket | None = None
) -> AsyncIterator[str]:
    """Serve the ASGI application while the block runs; yields the base URL.

    A `listener` stays open afterwards. Raises PortTakenError.
    """
    sock = listener or listen(host, port)
    server = _Server(
        app,
        sock,
        address=sock.getsockname()[0],
        port=sock.getsockname()[1],
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        # The default is the backlog: a thousand idle connections would make all others wait.
        backpressure=connections(),
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_MILLISECONDS, max_buffer_size=HEAD_BYTES),
        log_enabled=False,
    )
    task = asyncio.create_task(server.serve(), name="granian")
    try:
        # The socket listens already: a connection is answered as soon as the server runs.
        await asyncio.sleep(0)
        if task.done():
            task.result()
        yield url_of(sock)
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        # Not cancelled when the time is over: the server notifies the task of its last request's end, and an error
        # follows if the task is gone.
        await asyncio.wait({task, *app.in_flight}, timeout=DRAIN_SECONDS)
        if listener is None:
            sock.close()
