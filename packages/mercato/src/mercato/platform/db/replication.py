"""How safe a commit is if the server dies: whether it waits for a replica, and how far each replica is."""

import asyncio
from typing import Final

import structlog
from sqlalchemy import text

from mercato.platform.db.engine import Database, Read
from mercato.platform.db.errors import is_unavailable
from mercato.platform.db.url import hosts_of, is_postgresql
from mercato.platform.telemetry.metrics import ReplicaLag, Replication

log = structlog.get_logger("mercato.db")

READ_SECONDS: Final = 2.0
"""How long the figures may take."""

# At the levels `local` and `off` a commit waits for no replica, whatever their names are.
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
