"""Background jobs, enqueued in the transaction that makes them necessary."""

from sqlalchemy import Column, Index, Integer, Table, Text, text

from mercato.platform.db.tables.base import metadata
from mercato.platform.db.types import Instant, Serial

# A row is `waiting` (not due yet), `ready`, `running` or `dead`; a finished job is deleted.
jobs = Table(
    "jobs",
    metadata,
    # Assigned by the database, so the order within a key doesn't depend on a process's clock.
    Column("id", Serial, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("ordering_key", Text, nullable=False),
    Column("group_key", Text, nullable=False),
    Column("dedup", Text),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("run_at", Instant, nullable=False),
    # When it was enqueued, or returned to the queue for another attempt.
    Column("enqueued_at", Instant, nullable=False),
    # Every claim adds one: it is the fencing token of the worker that made the claim.
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    # Runs that raised or timed out, and runs whose worker was lost.
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("losses", Integer, nullable=False, server_default=text("0")),
    Column("worker", Text),
    Column("lease_until", Instant),
    Column("error", Text),
    sqlite_autoincrement=True,
)

_running, _ready, _waiting = text("state = 'running'"), text("state = 'ready'"), text("state = 'waiting'")
_pending = text("dedup IS NOT NULL AND state <> 'dead'")
_dead = text("state = 'dead'")

jobs_one_running_per_key = Index(
    "uq_jobs_ordering_key_running",
    jobs.c.ordering_key,
    unique=True,
    sqlite_where=_running,
    postgresql_where=_running,
)
jobs_dedup = Index(
    "uq_jobs_dedup", jobs.c.kind, jobs.c.dedup, unique=True, sqlite_where=_pending, postgresql_where=_pending
)
Index(
    "ix_jobs_ready",
    jobs.c.kind,
    jobs.c.group_key,
    jobs.c.ordering_key,
    jobs.c.id,
    sqlite_where=_ready,
    postgresql_where=_ready,
)
Index("ix_jobs_running", jobs.c.kind, jobs.c.group_key, sqlite_where=_running, postgresql_where=_running)
Index("ix_jobs_waiting", jobs.c.run_at, sqlite_where=_waiting, postgresql_where=_waiting)
Index(
    "ix_jobs_waiting_ordering_key",
    jobs.c.ordering_key,
    jobs.c.id,
    sqlite_where=_waiting,
    postgresql_where=_waiting,
)
Index("ix_jobs_dead", jobs.c.run_at, sqlite_where=_dead, postgresql_where=_dead)
Index("ix_jobs_dead_kind", jobs.c.kind, jobs.c.run_at, sqlite_where=_dead, postgresql_where=_dead)
