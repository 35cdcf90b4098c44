"""Catalog owners, their immutable CatalogSets, when each was served, and the runs that bring them."""

from sqlalchemy import Boolean, Column, Index, Integer, LargeBinary, Table, Text, column, table, text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant, id_end

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
    # The run that a partner requested and that made the set; null for an onboarding's.
    Column("run_id", Id),
    # The period in which it is served, or was last. A set with a run and without a period was never served. A set of
    # an earlier release has neither: it was served from the instant at which it was created.
    Column("period_id", Id),
    Column("activated_at", Instant),
    Column("rolled_back_from", Id),
    # The instant until which a scheduled activation needs the set.
    Column("needed_until", Instant),
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

# Past periods of sets that are served again or were deleted; the last period of any other set is in its row.
catalog_periods = Table(
    "catalog_periods",
    metadata,
    Column("id", Id, primary_key=True),
    Column("owner_id", Id, nullable=False),
    Column("set_id", Id, nullable=False),
    Column("run_id", Id),
    Column("rolled_back_from", Id),
    Column("activated_at", Instant, nullable=False),
    Column("superseded_at", Instant, nullable=False),
)
Index("ix_catalog_periods_owner_id", catalog_periods.c.owner_id, catalog_periods.c.id)
Index("ix_catalog_periods_superseded_at", catalog_periods.c.superseded_at)

# Documents that partners sent, compressed and in pieces, from the 202 until their runs have read them.
catalog_uploads = Table(
    "catalog_uploads",
    metadata,
    Column("run_id", Id, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("partner_id", Id, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
Index("ix_catalog_uploads_partner_id", catalog_uploads.c.partner_id)

catalog_runs = Table(
    "catalog_runs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("owner_id", Id, nullable=False),
    Column("store_id", Id, nullable=False),
    Column("partner_id", Id, nullable=False),
    # False for an onboarding's own pull, which has neither event nor history; true for one that a partner requested.
    Column("notified", Boolean, nullable=False),
    # Empty for a run without a pull: its document was sent, or it switched back to an earlier set.
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
    # The instant of a scheduled switch. Such a run is `processing` with its set until then.
    Column("activate_at", Instant),
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
Index("ix_catalog_runs_id_end", id_end(catalog_runs.c.id))

# What is read of the stores, a feature above this one: their names, for lists.
stores = table("stores", column("id", Id), column("name", Text))
