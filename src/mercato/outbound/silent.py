"""Kept connections are used again only while their servers have been silent."""

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace


class SilentConnector(aiohttp.TCPConnector):
    """A pool without the connections on which something came unasked.

    The client would read it as the answer to the next call: a farewell (408), or an answer that was sent twice.
    """

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if connection.protocol is not None and not connection.protocol.should_close:
                return connection
            connection.close()
        return None
