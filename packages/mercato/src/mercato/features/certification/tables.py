"""The newest certification reports that a partner uploaded."""

from sqlalchemy import Boolean, Column, Index, Integer, Table, Text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant

certification_reports = Table(
    "certification_reports",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    # Of the public key that signed it, and whether that was this installation's when it was uploaded.
    Column("fingerprint", Text, nullable=False),
    Column("trusted", Boolean, nullable=False),
    # JSON
    Column("report", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
)
Index("ix_certification_reports_partner_id", certification_reports.c.partner_id, certification_reports.c.id)
