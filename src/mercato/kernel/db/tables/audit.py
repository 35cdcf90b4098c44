"""Who changed what."""

from sqlalchemy import Column, Index, Table, Text

from mercato.kernel.db.tables.base import metadata
from mercato.kernel.db.types import Id, Instant

# No foreign keys: a row outlives what it is about.
audit = Table(
    "audit",
    metadata,
    # UUIDv7 of the instant, so that the order of the ids is the order of what happened.
    Column("id", Id, primary_key=True),
    Column("at", Instant, nullable=False),
    # `key:<id>`, `cli:<user>` or `service`.
    Column("actor", Text, nullable=False),
    Column("surface", Text),
    Column("partner_id", Id),
    # An operation's id, a command, or a job's kind.
    Column("action", Text, nullable=False),
    Column("subject_type", Text, nullable=False),
    Column("subject_id", Text),
    Column("request_id", Text),
    # A JSON object: names of what changed, never secrets, never customers' data.
    Column("detail", Text, nullable=False),
    # Short rows, which the primary key holds by itself; else SQLite has an index of it besides.
    sqlite_with_rowid=False,
)
Index("ix_audit_partner_id", audit.c.partner_id, audit.c.id)
Index("ix_audit_action", audit.c.action, audit.c.id)
