"""A server that follows the primary, and is read from only while it is known to be hardly behind.

Every quarter of a second the primary says how far its log has come, and the replica how far it has replayed it. What
the replica has replayed of the log up to an instant is everything that was committed by then: so it is known as of
which instant its rows are, whatever it and the network do. Without such an answer the primary is asked instead.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, Final

import structlog
from sqlalchemy import text

from mercato.kernel.db.postgresql import Connection, Sessions

log = structlog.get_logger("mercato.db")

Connections = Callable[[], AbstractAsyncContextManager[Connection]]

MOST_BEHIND: Final = 0.8
"""Seconds: a write is to be seen everywhere within one, the time of a statement included."""

EVERY: Final = 0.25
"""Seconds between questions how far each has come."""

ANSWER_SECONDS: Final = 2.0
"""How long the answer may take."""

_REMEMBERED: Final = 20

# The same cluster, and the same database of it: a replica has its primary's numbers. Whoever follows nobody is
# good only as the very server that the primary is.
_POSITION: Final = text("""
    SELECT (SELECT system_identifier FROM pg_control_system())
           || ':' || (SELECT oid FROM pg_database WHERE datname = current_database()) AS of,
           CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE pg_postmaster_start_time()::text END AS who,
           pg_wal_lsn_diff(
               CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, '0/0'
           )::bigint AS position
""")


class Replica:
    """The replica beside a primary. `primary` gives one of the primary's connections."""

    def __init__(self, sessions: Sessions, primary: Connections) -> None:
        self._sessions = sessions
        self._primary = primary
        # When the primary's log had come how far.
        self._positions: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        self._as_of = float("-inf")
        self._complained = False

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """Give one of the replica's connections. Raises what the database raises."""
        return self._sessions.connection()

    def is_fresh(self) -> bool:
        """Return whether its rows are at most MOST_BEHIND seconds old."""
        return monotonic() - self._as_of <= MOST_BEHIND

    def distrust(self, error: Exception) -> None:
        """Leave it alone until it has answered again."""
        self._as_of = float("-inf")
        self._complain(f"the replica does not answer: {type(error).__name__}")

    async def run(self) -> None:
        """Ask both how far they have come, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self.check()
            except Exception as error:  # noqa: BLE001  # told once; the primary is asked meanwhile
                self.distrust(error)
            await asyncio.sleep(EVERY)

    async def check(self) -> bool:
        """Ask both once. Return whether it is a replica of this database. Raises what the database raises."""
        began = monotonic()
        at_primary = await _position(self._primary)
        self._positions.append((began, at_primary.position))
        here = await _position(self._sessions.connection)
        if here.of != at_primary.of or here.who not in {"replica", at_primary.who} or here.position is None:
            self._as_of = float("-inf")
            self._complain("MERCATO_DATABASE_REPLICA_URL is no replica of this database: it is not read from")
            return False
        replayed = [at for at, position in self._positions if position <= here.position]
        self._as_of = max(replayed, default=float("-inf"))
        if self._complained and self.is_fresh():
            self._complained = False
            log.info("the replica is read from again")
        return True

    async def close(self) -> None:
        await self._sessions.close()

    def _complain(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            log.warning(what)


async def _position(connections: Connections) -> Any:
    async with connections() as connection:
        return (await connection.execute(_POSITION)).first()
