"""Granian inside this process's own event loop: one process is API and background work, and dies as one."""

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
"""How long a client may take to send a request's head; the body's time is the edge's."""

HEAD_BYTES: Final = 64 * 1024
"""How long a request's head may be. Each connection may hold so much: a hundred headers need a fraction of it."""

BACKLOG: Final = 1024
"""Connections that wait to be taken."""

CONNECTIONS: Final = 16_384
"""Connections that one process holds open at a time. Idle ones count, so that it must be more than anybody opens in
the seconds until they are closed; each costs a file descriptor and a few KiB."""

FILES_BESIDE: Final = 2_048
"""File descriptors left for what is not a client's connection: those to partners' servers and to the database."""

START_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 20.0
"""How long requests in flight may take to finish when the server is told to stop."""


class PortTakenError(OSError):
    """Another process listens on the address already."""


class Application(Protocol):
    """An ASGI application that knows what it is at: of a request whose client has gone the server knows nothing."""

    @property
    def under_way(self) -> set[asyncio.Task[Any]]: ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class _Server(Server):
    """The server over a socket that listens already, and that other processes may share."""

    def __init__(self, target: Any, listener: socket.socket, **options: Any) -> None:
        self._listener = listener
        super().__init__(target, **options)

    def _init_shared_socket(self) -> None:
        # The server closes what it is given; the listener stays whoever's it is.
        self._ssp = None
        # Its stubs know neither the constructor, by which it is unpickled, nor that this may be anything but None.
        self._shd = SocketHolder(os.dup(self._listener.fileno()), False, BACKLOG)  # type: ignore[call-arg,assignment]


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one.

    Raises PortTakenError, also for an address that is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, TypeError, UnicodeError) as error:
        # All but the first are of a name that cannot be asked for.
        listener.close()
        fault = error if isinstance(error, OSError) else OSError(errno.EINVAL, "this is no host's name")
        others = "--port or --host (MERCATO_PORT, MERCATO_HOST)"
        why = f"Cannot listen on {host}:{port}: {fault.strerror}. Take another with {others}."
        if fault.errno == errno.EADDRINUSE:
            why = (
                f"Cannot listen on {host}:{port}: another program listens there, perhaps another mercato serve. "
                f"Stop it, or choose another port with --port (MERCATO_PORT); --port 0 takes a free one."
            )
        raise PortTakenError(fault.errno, why) from None
    listener.setblocking(False)
    return listener


def connections() -> int:
    """Return how many connections to hold, having raised the limit of open files as far as this process may."""
    soft, hard = (_files(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = min(CONNECTIONS + FILES_BESIDE, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    files = max(soft, wanted)
    # With few files to be had, half of them: a server that cannot open its database serves nobody.
    return min(CONNECTIONS, max(files - FILES_BESIDE, files // 2))


def _files(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def url_of(listener: socket.socket) -> str:
    """Return where the socket listens, as clients write it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def serving(
    app: Application, *, host: str = "127.0.0.1", port: int = 0, listener: socket.socket | None = None
) -> AsyncIterator[str]:
    """Serve the ASGI application while the block runs; gives the base URL once requests are answered.

    A `listener` that is given is served and left open. Raises PortTakenError.
    """
    taken = listener or listen(host, port)
    server = _Server(
        app,
        taken,
        address=taken.getsockname()[0],
        port=taken.getsockname()[1],
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        # Its own default is the backlog: a thousand idle connections would keep everybody else waiting.
        backpressure=connections(),
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_MILLISECONDS, max_buffer_size=HEAD_BYTES),
        log_enabled=False,
    )
    task = asyncio.create_task(server.serve(), name="granian")
    try:
        # It listens already: a connection that is made now is answered as soon as the server runs.
        await asyncio.sleep(0)
        if task.done():
            task.result()
        yield url_of(taken)
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        # Not cancelled when the time is over: the server tells it of its last request's end, whenever that comes, and
        # takes it for an error if nobody is there to be told.
        await asyncio.wait({task, *app.under_way}, timeout=DRAIN_SECONDS)
        if listener is None:
            taken.close()
