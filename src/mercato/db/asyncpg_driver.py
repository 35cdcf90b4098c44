"""asyncpg's connection, which gives up on a network that is silent. Imported only where there is a PostgreSQL.

A statement's own time-out is the server's: it ends nothing when the server, or the way to it, has gone without a
word. asyncpg's `command_timeout` asks the server to cancel first, through the same silent network.
"""

import asyncio
import socket
from typing import Any, Final

import asyncpg

from mercato.db.errors import UnusableUrl

KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds until an idle connection is asked whether it still is one, between two questions, and how many."""

UNACKNOWLEDGED_MS: Final = 30_000
"""How long sent bytes may stay unacknowledged, where the system can be told (Linux)."""


class Connection(asyncpg.Connection):  # type: ignore[misc]  # it comes without types
    """A connection that ends itself when `unwatch` has not been called so many seconds after `watch`.

    Whoever waits for it then hears that it was lost, at once, and the pool takes another.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._watch: asyncio.TimerHandle | None = None

    def watch(self, seconds: float) -> None:
        self.unwatch()
        self._watch = self._loop.call_later(seconds, self.terminate)

    def is_usable(self) -> bool:
        """Tell whether it is open and in no transaction, as far as is known here.

        One whose BEGIN has failed counts as in a transaction to asyncpg: what it is told to begin and to commit from
        then on is a savepoint.
        """
        return not self.is_closed() and not self.is_in_transaction() and self._top_xact is None

    def unwatch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


async def connect(*, patience: float, **options: Any) -> Connection:
    """Return a connection that is watched already: a pool has a few things to ask before it gives it away."""
    try:
        connection: Connection = await asyncpg.connect(connection_class=Connection, **options)
    except asyncpg.ClientConfigurationError as error:
        raise UnusableUrl(f"The address of the database cannot be used: {error}.") from None
    connection.watch(patience)
    keep_alive(connection)
    return connection


def keep_alive(connection: Any) -> None:
    """Notice a peer that has gone without a word, while nothing is sent as well."""
    given = connection._transport.get_extra_info("socket")  # noqa: SLF001  # asyncpg has no other way to it
    if given is None or given.family == socket.AF_UNIX:
        return
    # uvloop's socket is for looking at alone; its duplicate is the same connection and can be told.
    with given.dup() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (*KEEPALIVE.items(), ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS)):
            option = getattr(socket, name, None)
            if option is not None:
                peer.setsockopt(socket.IPPROTO_TCP, option, value)
