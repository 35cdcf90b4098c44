"""The metadata of all tables, and the tables of the platform: jobs, the audit trail, the change feed, and a probe.

Each feature has its own in `tables.py`, registered in the same metadata.
"""

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, Table, Text, text

from mercato.platform.db.types import Id, Instant, Serial

# Constraints have predictable names, which migrations and error messages use.
metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# Background jobs, enqueued in the transaction that makes them necessary.
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

# No foreign keys: a row outlives its subject.
audit = Table(
    "audit",
    metadata,
    # UUIDv7 of the instant, so the ids are in the order of the changes.
    Column("id", Id, primary_key=True),
    Column("at", Instant, nullable=False),
    # `key:<id>`, `cli:<user>`, one of both after `console:`, or `service`.
    Column("actor", Text, nullable=False),
    Column("surface", Text),
    Column("partner_id", Id),
    # An operation's id, a command, or a job's kind.
    Column("action", Text, nullable=False),
    Column("subject_type", Text, nullable=False),
    Column("subject_id", Text),
    Column("request_id", Text),
    # A JSON object: names of what changed, never secrets or customers' data.
    Column("detail", Text, nullable=False),
    # Short rows, stored in the primary key; else SQLite has a second index.
    sqlite_with_rowid=False,
)
Index("ix_audit_partner_id", audit.c.partner_id, audit.c.id)
Index("ix_audit_action", audit.c.action, audit.c.id)

# Entries that the caches of all processes must drop. Rows are kept for minutes.
changes = Table(
    "changes",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_autoincrement=True,
)

# One row, replaced by each probe.
write_probes = Table(
    "write_probes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("filler", LargeBinary, nullable=False),
)
