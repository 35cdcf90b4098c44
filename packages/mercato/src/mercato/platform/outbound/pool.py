"""The pool of connections to other servers, built on aiohttp's documented `TCPConnector.connect`."""

from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

connection_was_reused: Final[ContextVar[bool]] = ContextVar("connection_was_reused", default=False)
"""Whether the last connection of the current task had carried a request before."""


class ConnectionPool(aiohttp.TCPConnector):
    """A pool that never reuses a connection on which bytes arrived after its last response.

    aiohttp would read them as the response to the next request: a 408 from a server that closes, or a response sent
    twice.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used_protocols: WeakSet[ResponseHandler] = WeakSet()

    async def connect(self, *request: Any, **options: Any) -> Connection:
        """Return a connection for the request, and set `connection_was_reused`."""
        while True:
            connection = await super().connect(*request, **options)
            protocol = connection.protocol
            assert protocol is not None, "it has just been connected"
            reused = protocol in self._used_protocols
            # A server may also send first on a new connection: another new one would not help.
            if not (reused and protocol.should_close):
                break
            connection.close()
        self._used_protocols.add(protocol)
        connection_was_reused.set(reused)
        return connection
