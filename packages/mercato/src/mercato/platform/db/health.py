"""The database's health: whether it can be written, how safe a commit is, and figures for operators."""

import asyncio
import shutil
from datetime import datetime
from pathlib import Path
from sqlite3 import sqlite_version
from time import monotonic
from typing import Final

import structlog
from msgspec import Struct
from sqlalchemy import delete, insert, select, text

from mercato.platform.db.engine import Database, Read
from mercato.platform.db.errors import DatabaseUnavailable, connection_errors, is_unavailable
from mercato.platform.db.tables import write_probes
from mercato.platform.db.types import now_ms
from mercato.platform.db.url import hosts_of, is_postgresql, sqlite_path
from mercato.platform.telemetry.metrics import ReplicaLag, Replication
from mercato_contract.clock import from_ms, new_id

READY_SECONDS: Final = 2.0
"""How long a read may take until the database counts as away."""

PROBE_INTERVAL: Final = 1.0
"""Seconds for which the result of a write is reused: frequent checks cost no more writes."""

PROBE_SECONDS: Final = 5.0
"""How long one write may take, its wait for other writers included."""

FILLER: Final = bytes(8 * 1024)
"""More than a page of SQLite, so that the write fails on a full disk."""


class WriteProbe:
    """Commits a small row on request, at most once a second: a full disk and a read-only server still read."""

    def __init__(
        self, db: Database, *, interval: float = PROBE_INTERVAL, seconds: float = PROBE_SECONDS
    ) -> None:
        self._db = db
        self._interval = interval
        self._seconds = seconds
        self._probing = asyncio.Lock()
        self._until = 0.0
        self._failure: str | None = None

    async def check_ready(self) -> None:
        """Return if the database answers and can be written. Raises DatabaseUnavailable."""
        try:
            async with asyncio.timeout(READY_SECONDS), self._db.read() as tx:
                await tx.scalar(text("SELECT 1"))
        except TimeoutError:
            raise DatabaseUnavailable("the database did not answer in time") from None
        await self.check()

    async def check(self) -> None:
        """Return if the last write succeeded. Raises DatabaseUnavailable."""
        async with self._probing:
            if monotonic() >= self._until:
                self._failure = await self._write()
                self._until = monotonic() + self._interval
        if self._failure is not None:
            raise DatabaseUnavailable(self._failure)

    async def _write(self) -> str | None:
        """Return why a row cannot be written, or None."""
        row_id = new_id()
        try:
            async with asyncio.timeout(self._seconds), self._db.write() as tx:
                await tx.execute(insert(write_probes).values(id=row_id, filler=FILLER))
                await tx.execute(delete(write_probes).where(write_probes.c.id != row_id))
        except TimeoutError:
            return "a write to the database did not end in time"
        except DatabaseUnavailable as error:
            return str(error)
        except connection_errors() as error:
            return f"the database cannot be written: {error}"
        return None


class Server(Struct, frozen=True, kw_only=True):
    """A PostgreSQL server with its open connections and the most that it accepts."""

    version: str
    connections: int
    max_connections: int


class Files(Struct, frozen=True, kw_only=True):
    """An embedded database: bytes of the file, of its write-ahead log, and free on the disk."""

    version: str
    file: int
    log: int
    free: int


async def find_server(tx: Read) -> Server:
    """Return the figures of a PostgreSQL server."""
    row = await tx.first(_SERVER)
    assert row is not None
    return Server(version=row.version, connections=row.connections, max_connections=row.max_connections)


async def find_incarnation(tx: Read) -> str | None:
    """Return what differs after a restart or a failover of PostgreSQL; None for SQLite, where nothing differs."""
    return None if tx.dialect == "sqlite" else str(await tx.scalar(_INCARNATION))


async def find_files(tx: Read) -> Files:
    """Return the sizes of SQLite's files."""
    path = sqlite_path(tx.database.url)
    return Files(
        version=sqlite_version,
        file=_size(path),
        log=_size(path.with_name(path.name + "-wal")),
        free=shutil.disk_usage(path.parent).free,
    )


async def find_clock(tx: Read) -> datetime:
    """Return the present instant by the clock that due jobs and leases go by."""
    return from_ms(await tx.scalar(select(now_ms())))


async def count_listeners(tx: Read) -> int:
    """Return how many sessions of this schema listen for notifications of PostgreSQL."""
    return int(await tx.scalar(_LISTENERS))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


_SERVER: Final = text(
    "SELECT current_setting('server_version') AS version, (SELECT count(*) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend') AS connections,"
    " current_setting('max_connections')::int AS max_connections"
)
# The log's timeline is a part of its files' names. A replica has none, so the function isn't called there.
_INCARNATION: Final = text(
    "SELECT pg_postmaster_start_time()::text || CASE WHEN pg_is_in_recovery() THEN '' "
    "ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
)
_LISTENERS: Final = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = CAST('mercato listen ' || current_schema() AS name)"
)


# --- replication: whether a commit waits for a replica, and how far each is -----------------------


log = structlog.get_logger("mercato.db")

READ_SECONDS: Final = 2.0
"""How long the figures may take."""

# At the levels `local` and `off` a commit waits for no replica, even if some are named.
_SYNCHRONOUS: Final = text("""
    SELECT current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') NOT IN ('off', 'local')
""")

# Without the rights of pg_monitor every column but the first is null. A backup streams, too, and is no replica.
_REPLICAS: Final = text("""
    SELECT coalesce(application_name, 'pid ' || pid) AS name, sync_state IN ('sync', 'quorum') AS is_synchronous,
        pg_wal_lsn_diff(
            CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, replay_lsn
        )::bigint AS bytes,
        extract(epoch FROM replay_lag)::float AS seconds
    FROM pg_stat_replication WHERE coalesce(state, 'streaming') IN ('startup', 'catchup', 'streaming')
    ORDER BY 1
""")


async def find_replication(tx: Read) -> Replication:
    """Return how commits on PostgreSQL reach its replicas."""
    is_synchronous = bool(await tx.scalar(_SYNCHRONOUS))
    replicas = [
        ReplicaLag(
            name=row.name,
            is_synchronous=bool(row.is_synchronous),
            bytes=row.bytes,
            # A replica that has replayed everything has no age.
            seconds=0.0 if row.bytes == 0 else row.seconds,
        )
        for row in await tx.all(_REPLICAS)
    ]
    return Replication(hosts=len(hosts_of(tx.database.url)), is_synchronous=is_synchronous, replicas=replicas)


async def measure_replication(database: Database) -> Replication | None:
    """Return the figures for the metrics; None on SQLite, or if the database doesn't answer in time."""
    if database.dialect != "postgresql":
        return None
    try:
        async with asyncio.timeout(READ_SECONDS), database.read() as tx:
            return await find_replication(tx)
    except Exception as error:
        if not isinstance(error, TimeoutError) and not is_unavailable(error):
            raise
        return None


async def warn_of_asynchronous_commits(url: str) -> None:
    """Log a warning if several hosts are given and a failover between them may lose what was acknowledged."""
    if not is_postgresql(url) or len(hosts_of(url)) <= 1:
        return
    async with Database.open(url, pool_size=1) as database:
        found = await measure_replication(database)
    if found is not None and not found.is_synchronous:
        log.warning(
            "commits wait for no replica: a failover may lose what was acknowledged", hosts=found.hosts
        )
