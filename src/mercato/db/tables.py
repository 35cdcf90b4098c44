"""Every table of the service: one schema for SQLite and PostgreSQL."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from mercato.db.types import Id, Instant, Serial

# Names are given by rule, so that a migration and an error message can name what they mean.
metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# --- jobs: work to be done later, written in the transaction that makes it necessary ----------------

# A row is `waiting` (not due yet), `ready`, `running` or `dead`; a finished one is deleted.
jobs = Table(
    "jobs",
    metadata,
    # The database numbers the jobs, so that the order in a lane rests on no process's clock.
    Column("id", Serial, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("group_key", Text, nullable=False),
    Column("dedup", Text),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("run_at", Instant, nullable=False),
    Column("enqueued_at", Instant, nullable=False),
    # Every claim adds one: it is the fencing token of the worker that made the claim.
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    # Runs that raised or overran their time, and runs whose worker vanished.
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

jobs_one_running_per_lane = Index(
    "uq_jobs_lane_running", jobs.c.lane, unique=True, sqlite_where=_running, postgresql_where=_running
)
jobs_dedup = Index(
    "uq_jobs_dedup", jobs.c.kind, jobs.c.dedup, unique=True, sqlite_where=_pending, postgresql_where=_pending
)
Index(
    "ix_jobs_ready",
    jobs.c.kind,
    jobs.c.group_key,
    jobs.c.lane,
    jobs.c.id,
    sqlite_where=_ready,
    postgresql_where=_ready,
)
Index("ix_jobs_waiting", jobs.c.run_at, sqlite_where=_waiting, postgresql_where=_waiting)
Index("ix_jobs_waiting_lane", jobs.c.lane, jobs.c.id, sqlite_where=_waiting, postgresql_where=_waiting)
Index("ix_jobs_dead", jobs.c.run_at, sqlite_where=_dead, postgresql_where=_dead)

# --- end of jobs -------------------------------------------------------------------------------------

# --- catalog: who owns one, its immutable sets, and the runs that fetch them --------------------------

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
    Column("set_id", Id),
    Column("traceparent", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
Index("ix_catalog_runs_owner_id", catalog_runs.c.owner_id, catalog_runs.c.id)
Index("ix_catalog_runs_updated_at", catalog_runs.c.updated_at)

# --- stores: onboardings, the stores they become, and what is sold out ---------------------------------

onboardings = Table(
    "onboardings",
    metadata,
    Column("id", Id, primary_key=True),
    Column("store_id", Id, nullable=False, unique=True),
    Column("partner_id", Id, nullable=False),
    Column("partner_store_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("latitude", Double),
    Column("longitude", Double),
    Column("timezone", Text, nullable=False),
    Column("catalog_callback_url", Text, nullable=False),
    Column("webhook_url", Text),
    Column("created_at", Instant, nullable=False),
    Column("activated_at", Instant),
    Column("cancelled_at", Instant),
    # Holds the partnerStoreId: true from Register until a cancel, or until a new Register follows a failure.
    Column("holds_name", Boolean, nullable=False),
)
Index("ix_onboardings_partner_id", onboardings.c.partner_id, onboardings.c.id)
_holding = text("holds_name")
onboardings_one_for_each_name = Index(
    "uq_onboardings_partner_store_id",
    onboardings.c.partner_id,
    onboardings.c.partner_store_id,
    unique=True,
    sqlite_where=_holding,
    postgresql_where=_holding,
)

stores = Table(
    "stores",
    metadata,
    Column("id", Id, primary_key=True),
    Column("onboarding_id", Id, nullable=False, unique=True),
    Column("partner_id", Id, nullable=False),
    Column("partner_store_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("latitude", Double),
    Column("longitude", Double),
    Column("phone", Text),
    Column("timezone", Text, nullable=False),
    Column("logo_url", Text),
    Column("description", Text),
    Column("webhook_url", Text),
    Column("categories", Text, nullable=False),
    Column("delivery_allowed", Boolean, nullable=False),
    Column("pickup_allowed", Boolean, nullable=False),
    # Minor units of the currency beside it, so that a later catalog in another currency can't rescale it.
    Column("minimum_order_amount", BigInteger),
    Column("minimum_order_currency", Text),
    Column("paused", Boolean, nullable=False),
    Column("pause_reason", Text),
    Column("resume_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
Index("ix_stores_partner_id", stores.c.partner_id, stores.c.id)
Index("ix_stores_partner_store_id", stores.c.partner_id, stores.c.partner_store_id)

sold_out_items = Table(
    "sold_out_items",
    metadata,
    Column("store_id", Id, primary_key=True),
    Column("item_id", Id, primary_key=True),
    Column("until", Instant),
)

# --- webhooks: deliveries, their attempts, and the endpoints that are in trouble ------------------------

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    Column("surface", Text, nullable=False),
    Column("store_id", Id),
    Column("type", Text, nullable=False),
    Column("webhook_id", Id, nullable=False),
    Column("url", Text, nullable=False),
    # The bytes that are signed and sent, the same at every attempt.
    Column("body", LargeBinary, nullable=False),
    Column("traceparent", Text, nullable=False),
    # The lane of its jobs: the endpoint, divided by what the event is about.
    Column("lane", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("attempts", Integer, nullable=False),
    # A redelivery starts a new round: the schedule begins anew, and the job of an earlier round does nothing.
    Column("round", Integer, nullable=False),
    Column("attempts_before_round", Integer, nullable=False),
    Column("next_attempt_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
Index("ix_deliveries_partner_id", deliveries.c.partner_id, deliveries.c.surface, deliveries.c.id)
Index(
    "ix_deliveries_store_id",
    deliveries.c.partner_id,
    deliveries.c.surface,
    deliveries.c.store_id,
    deliveries.c.id,
)
_not_delivered = text("status <> 'succeeded'")
# What somebody looks for is what has gone wrong, among a hundred times as many that have not.
Index(
    "ix_deliveries_not_delivered",
    deliveries.c.partner_id,
    deliveries.c.surface,
    deliveries.c.status,
    deliveries.c.id,
    sqlite_where=_not_delivered,
    postgresql_where=_not_delivered,
)

delivery_attempts = Table(
    "delivery_attempts",
    metadata,
    Column("delivery_id", Id, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("status", Integer),
    Column("ms", Integer, nullable=False),
    Column("error", Text),
    Column("reply", Text),
)

# Only endpoints that are failing or disabled have a row: a success removes it, and so does enabling.
endpoints = Table(
    "endpoints",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("url", Text, primary_key=True),
    Column("failing_since", Instant, nullable=False),
    Column("disabled_at", Instant),
    Column("disabled_reason", Text),
)

# --- end of webhooks ----------------------------------------------------------------------------------

# --- partners: organisations, their keys and their secrets -------------------------------------------

partners = Table(
    "partners",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("limits", Text, nullable=False),
    # Sealed: the token that our webhooks carry to the partner.
    Column("webhook_token", LargeBinary),
    Column("event_url", Text),
    Column("created_at", Instant, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, ForeignKey("partners.id"), nullable=False),
    Column("surface", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    # SHA-256 of the key; the key itself is nowhere.
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("description", Text),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant),
)
Index("ix_api_keys_partner_id", api_keys.c.partner_id, api_keys.c.id)
Index("ix_api_keys_prefix", api_keys.c.prefix)

# At most two for each partner: the one in use and, during a rotation, the one before it.
signing_secrets = Table(
    "signing_secrets",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, ForeignKey("partners.id"), nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
)
Index("ix_signing_secrets_partner_id", signing_secrets.c.partner_id)

# --- changes: what caches in other processes must forget, kept for minutes ---------------------------

changes = Table(
    "changes",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_autoincrement=True,
)
