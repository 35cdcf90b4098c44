"""Tables of the kernel itself: the audit trail, the change feed, and the probe for a writable database."""

from sqlalchemy import Column, Index, LargeBinary, Table, Text

from mercato.platform.db.tables.base import metadata
from mercato.platform.db.types import Id, Instant, Serial

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
