"""The pool of connections, and requests over one that is there already.

The HTTP client makes a request object, a response object and a task for each call, which takes longer than all the rest
of a call. They are needed to open a connection: to judge addresses, to shake hands. Over one that is kept, a POST is
one write and one read; the client's own protocol reads it, within the client's limits.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

import aiohttp
from aiohttp import ClientRequest, ClientTimeout, StreamReader, hdrs
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.tracing import Trace
from msgspec import Struct
from yarl import URL

from mercato.outbound.silent import SilentConnector

MOST_WAYS: Final = 4_096
"""URLs of which it is remembered how they are asked. Past it remembering starts anew."""

_FIRST_FINAL: Final = 200
_SWITCHED: Final = 101

was_kept: Final[ContextVar[bool]] = ContextVar("was_kept", default=False)
"""Whether the connection that this task was given last had been used before."""


class Way(Struct, frozen=True):
    """How a URL is asked: by which connections, and with what in front of the headers."""

    key: ConnectionKey
    start: str


class Connector(SilentConnector):
    """A pool whose calls learn whether they went out on a kept connection.

    The client's own tracing tells it, too, but awaits eight signals a call: a sixth of what the call costs.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[Any] = WeakSet()
        self._ways: dict[URL, Way] = {}

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109  # the client's own signature
    ) -> Connection:
        was_kept.set(False)
        connection = await super().connect(req, traces, timeout)
        was_kept.set(connection.protocol in self._used)
        self._used.add(connection.protocol)
        self._remember(req)
        return connection

    async def find_kept(self, url: URL) -> tuple[Way, Connection] | None:
        """Return an open connection to where the URL leads, which is the caller's to release or close."""
        way = self._ways.get(url)
        connection = None if way is None else await self._get(way.key, [])
        if way is None or connection is None:
            return None
        was_kept.set(True)
        return way, connection

    def _remember(self, req: ClientRequest) -> None:
        if req.url in self._ways or req.method != hdrs.METH_POST:
            return
        if len(self._ways) >= MOST_WAYS:
            self._ways.clear()
        start = f"POST {req.url.raw_path_qs} HTTP/1.1\r\nHost: {req.headers[hdrs.HOST]}\r\nAccept: */*\r\n"
        self._ways[req.url] = Way(req.connection_key, start)


async def ask(
    way: Way, connection: Connection, *, headers: Mapping[str, str], body: bytes
) -> tuple[RawResponseMessage, StreamReader]:
    """Return the head of the answer, and what its body is read from. Raises what the client raises."""
    protocol = connection.protocol
    if protocol is None or protocol.transport is None:
        raise aiohttp.ServerDisconnectedError
    protocol.set_response_params(read_until_eof=True, auto_decompress=False)
    try:
        protocol.transport.write(_head(way, headers, len(body)) + body)
        while True:
            message, payload = await protocol.read()
            if message.code >= _FIRST_FINAL or message.code == _SWITCHED:
                return message, payload
    except HttpProcessingError as error:
        raise aiohttp.ClientError("the answer is not HTTP") from error
    except aiohttp.ClientError:
        raise
    except OSError as error:
        raise aiohttp.ClientOSError(*error.args) from error


def give_back(connection: Connection) -> None:
    """Keep the connection for the next call, if the answer and the request are over."""
    transport = connection.transport
    if transport is not None and transport.get_write_buffer_size():
        connection.close()  # it was answered before it had been sent
    else:
        connection.release()


def _head(way: Way, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    text = "\r\n".join([*lines, f"Content-Length: {length}\r\n\r\n"])
    if text.count("\n") != len(lines) + 2 or text.count("\r") != len(lines) + 2 or "\0" in text:
        raise ValueError("A header must not have a line break in it.")
    return (way.start + text).encode()
