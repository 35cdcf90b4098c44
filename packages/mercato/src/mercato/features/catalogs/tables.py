"""Catalog owners, their immutable CatalogSets, and the runs that pull them."""

from sqlalchemy import Boolean, Column, Index, LargeBinary, Table, Text, column, table, text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant

# An owner is an onboarding and the store that it becomes: both ids are assigned at registration.
catalog_owners = Table(
    "catalog_owners",
    metadata,
    Column("id", Id, primary_key=True),
    Column("store_id", Id, nullable=False, unique=True),
    Column("partner_id", Id, nullable=False),
    Column("current_set_id", Id),
    # A closed owner gets no more sets: its onboarding was cancelled.
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

# The bytes of a set, one row for each coding and one for the compiled form. `catalog_sets` is read without them.
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
    # False for an onboarding's own pull, which has neither event nor history; true for one that a partner requested.
    Column("notified", Boolean, nullable=False),
    Column("callback_url", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("errors", Text, nullable=False),
    Column("warnings", Text, nullable=False),
    # What the refused document has at each error: compressed texts, for the console.
    Column("excerpts", LargeBinary),
    Column("set_id", Id),
    Column("traceparent", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
Index("ix_catalog_runs_owner_id", catalog_runs.c.owner_id, catalog_runs.c.id)
Index("ix_catalog_runs_partner_id", catalog_runs.c.partner_id, catalog_runs.c.id)
_failed = text("status = 'failed'")
Index(
    "ix_catalog_runs_failed",
    catalog_runs.c.partner_id,
    catalog_runs.c.id,
    sqlite_where=_failed,
    postgresql_where=_failed,
)
Index("ix_catalog_runs_updated_at", catalog_runs.c.updated_at)

# What is read of the stores, a feature above this one: their names, for lists.
stores = table("stores", column("id", Id), column("name", Text))
