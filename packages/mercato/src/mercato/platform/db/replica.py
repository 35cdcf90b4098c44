"""A streaming replica of the primary, which is read only while its lag is known to be small.

Every quarter of a second we ask the primary for its position in the log, and the replica for the position that it has
replayed. A replica that has replayed a position has every commit up to the instant when the primary was there, so the
age of its rows is known without trusting the replica or the network. Without an answer the primary is read.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, Final

import structlog
from sqlalchemy import text

from mercato.platform.db.postgresql import Connection, Sessions
from mercato.platform.db.statements import R

log = structlog.get_logger("mercato.db")

Connections = Callable[[], AbstractAsyncContextManager[Connection]]

MAX_LAG: Final = 0.8
"""Seconds: a write must be visible everywhere within one, the time of a statement included."""

INTERVAL: Final = 0.25
"""Seconds between two checks."""

CHECK_SECONDS: Final = 2.0
"""How long a check may take."""

_POSITIONS: Final = 20
"""Positions of the primary that are kept: those of five seconds."""

# A replica has the system identifier and the database oid of its primary, follows its timeline, and is read in the same
# schema. A server that isn't in recovery is accepted only if it is the primary itself.
#
# A replica that was ahead when another server became the primary stays behind on the old timeline, with commits that
# were lost, and its position is beyond the new primary's for a while. Its timeline is that of what it receives, which
# only pg_monitor sees; else that of its last restartpoint, which is minutes late after a failover.
_POSITION: Final = text("""
    SELECT (SELECT system_identifier FROM pg_control_system())
           || ':' || (SELECT oid FROM pg_database WHERE datname = current_database())
           || ':' || current_schema() || ':' ||
           CASE WHEN pg_is_in_recovery() THEN coalesce(
               (SELECT received_tli FROM pg_stat_wal_receiver), (SELECT timeline_id FROM pg_control_checkpoint())
           ) ELSE CAST(('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32) AS integer) END AS database,
           CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE pg_postmaster_start_time()::text END AS server,
           pg_wal_lsn_diff(
               CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, '0/0'
           )::bigint AS position
""")


class Replica:
    """The replica beside a primary. `primary` gives one of the primary's connections."""

    def __init__(self, sessions: Sessions, primary: Connections) -> None:
        self._sessions = sessions
        self._primary = primary
        # Instants with the primary's position in its log.
        self._positions: deque[tuple[float, int]] = deque(maxlen=_POSITIONS)
        self._as_of = float("-inf")
        self._warned = False

    def reading(self, begin: Callable[[Connection], R]) -> AbstractAsyncContextManager[R]:
        """Yield what `begin` makes of one of the replica's connections. Raises what the database raises."""
        return self._sessions.reading(begin)

    def is_fresh(self) -> bool:
        """Return whether its rows are at most MAX_LAG seconds old."""
        return monotonic() - self._as_of <= MAX_LAG

    def distrust(self, error: Exception) -> None:
        """Don't read it until a check succeeds."""
        self._as_of = float("-inf")
        self._warn("the replica does not answer: the primary is read", error=type(error).__name__)

    async def run(self) -> None:
        """Check the replica's lag, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self.check()
            except Exception as error:  # noqa: BLE001  # logged once; the primary is read meanwhile
                self.distrust(error)
            await asyncio.sleep(INTERVAL)

    async def check(self) -> bool:
        """Measure the lag once. Return whether it is a replica of this database. Raises what the database raises."""
        began = monotonic()
        primary = await _position(self._primary)
        self._positions.append((began, primary.position))
        replica = await _position(self._sessions.connection)
        is_ours = replica.database == primary.database and replica.server in {"replica", primary.server}
        if not is_ours or replica.position is None:
            self._as_of = float("-inf")
            self._warn("MERCATO_DATABASE_REPLICA_URL isn't a replica of this database: the primary is read")
            return False
        replayed = [at for at, position in self._positions if position <= replica.position]
        self._as_of = max(replayed, default=float("-inf"))
        if self._warned and self.is_fresh():
            self._warned = False
            log.info("the replica is read again")
        return True

    async def close(self) -> None:
        await self._sessions.close()

    def _warn(self, message: str, **details: str) -> None:
        """Log the first of several failed checks."""
        if not self._warned:
            self._warned = True
            log.warning(message, **details)


async def _position(connections: Connections) -> Any:
    async with connections() as connection:
        return (await connection.execute(_POSITION)).first()
