"""Who owns a catalog, its immutable sets, and the runs that fetch them."""

from sqlalchemy import Boolean, Column, Index, LargeBinary, Table, Text, text

from mercato.kernel.db.tables.base import metadata
from mercato.kernel.db.types import Id, Instant

# An owner is an onboarding, and the store it becomes: both ids are given at registration.
catalog_owners = Table(
    "catalog_owners",
    metadata,
    Column("id", Id, primary_key=True),
    Column("store_id", Id, nullable=False, unique=True),
    Column("partner_id", Id, nullable=False),
    Column("current_set_id", Id),
    # A closed owner takes no set any more: its onboarding was cancelled.
    Column("closed_at", Instant),
)

catalog_sets = Table(
    "catalog_sets",
    metadata,
    Column("id", Id, primary_key=True),
    Column("owner_id", Id, nullable=False),
    Column("store_id", Id, nullable=False),
    Column("partner_id", Id, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("currency", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("source_url", Text, nullable=False),
    Column("source_etag", Text),
    Column("created_at", Instant, nullable=False),
    Column("superseded_at", Instant),
)
Index("ix_catalog_sets_owner_id", catalog_sets.c.owner_id)
_superseded = text("superseded_at IS NOT NULL")
Index(
    "ix_catalog_sets_superseded_at",
    catalog_sets.c.superseded_at,
    sqlite_where=_superseded,
    postgresql_where=_superseded,
)

# The bytes of a set, one row for each coding and one for what pricing reads, apart from the row above:
# a look at a set's facts must not drag its megabytes along.
catalog_bodies = Table(
    "catalog_bodies",
    metadata,
    Column("set_id", Id, primary_key=True),
    Column("coding", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

catalog_runs = Table(
    "catalog_runs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("owner_id", Id, nullable=False),
    Column("store_id", Id, nullable=False),
    Column("partner_id", Id, nullable=False),
    # Tells the onboarding's own pulls, which make no event and no history, from those a partner asked for.
    Column("notified", Boolean, nullable=False),
    Column("callback_url", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("errors", Text, nullable=False),
    Column("warnings", Text, nullable=False),
    Column("set_id", Id),
    Column("traceparent", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
Index("ix_catalog_runs_owner_id", catalog_runs.c.owner_id, catalog_runs.c.id)
Index("ix_catalog_runs_updated_at", catalog_runs.c.updated_at)
