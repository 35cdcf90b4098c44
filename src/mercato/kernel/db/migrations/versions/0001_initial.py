"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("surface", sa.Text(), nullable=True),
        sa.Column("partner_id", sa.Uuid(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject_type", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_audit_action", "audit", ["action", "id"], unique=False)
    op.create_index("ix_audit_partner_id", "audit", ["partner_id", "id"], unique=False)
    op.create_table(
        "catalog_bodies",
        sa.Column("set_id", sa.Uuid(), nullable=False),
        sa.Column("coding", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("set_id", "coding", name=op.f("pk_catalog_bodies")),
    )
    op.create_table(
        "catalog_owners",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("current_set_id", sa.Uuid(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalog_owners")),
        sa.UniqueConstraint("store_id", name=op.f("uq_catalog_owners_store_id")),
    )
    op.create_table(
        "catalog_runs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("notified", sa.Boolean(), nullable=False),
        sa.Column("callback_url", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("errors", sa.Text(), nullable=False),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("set_id", sa.Uuid(), nullable=True),
        sa.Column("traceparent", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalog_runs")),
    )
    op.create_index("ix_catalog_runs_owner_id", "catalog_runs", ["owner_id", "id"], unique=False)
    op.create_index("ix_catalog_runs_updated_at", "catalog_runs", ["updated_at"], unique=False)
    op.create_table(
        "catalog_sets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("source_url", sa.Text(), nullable=False),
        sa.Column("source_etag", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("superseded_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalog_sets")),
    )
    op.create_index("ix_catalog_sets_owner_id", "catalog_sets", ["owner_id"], unique=False)
    op.create_index(
        "ix_catalog_sets_superseded_at",
        "catalog_sets",
        ["superseded_at"],
        unique=False,
        sqlite_where=sa.text("superseded_at IS NOT NULL"),
        postgresql_where=sa.text("superseded_at IS NOT NULL"),
    )
    op.create_table(
        "changes",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_changes")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("surface", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=True),
        sa.Column("order_id", sa.Uuid(), nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("webhook_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("traceparent", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("attempts_before_round", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("faults", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["partner_id", "url", "partition", "due_at", "job_id"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_index(
        "ix_deliveries_not_delivered",
        "deliveries",
        ["partner_id", "surface", "status", "id"],
        unique=False,
        sqlite_where=sa.text("status <> 'succeeded'"),
        postgresql_where=sa.text("status <> 'succeeded'"),
    )
    op.create_index(
        "ix_deliveries_order_id",
        "deliveries",
        ["order_id", "id"],
        unique=False,
        sqlite_where=sa.text("order_id IS NOT NULL"),
        postgresql_where=sa.text("order_id IS NOT NULL"),
    )
    op.create_index("ix_deliveries_partner_id", "deliveries", ["partner_id", "surface", "id"], unique=False)
    op.create_index(
        "ix_deliveries_store_id", "deliveries", ["partner_id", "surface", "store_id", "id"], unique=False
    )
    op.create_table(
        "delivery_attempts",
        sa.Column("delivery_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("ms", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("reply", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("delivery_id", "number", name=op.f("pk_delivery_attempts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "endpoints",
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("failing_since", sa.BigInteger(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("partner_id", "url", name=op.f("pk_endpoints")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("order_id", sa.Uuid(), nullable=True),
        sa.Column("claimed_until", sa.BigInteger(), nullable=False),
        sa.Column("claims", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("media_type", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partner_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("ordering_key", sa.Text(), nullable=False),
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("dedup", sa.Text(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("run_at", sa.BigInteger(), nullable=False),
        sa.Column("enqueued_at", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("losses", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_jobs_dead",
        "jobs",
        ["run_at"],
        unique=False,
        sqlite_where=sa.text("state = 'dead'"),
        postgresql_where=sa.text("state = 'dead'"),
    )
    op.create_index(
        "ix_jobs_ready",
        "jobs",
        ["kind", "group_key", "ordering_key", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'ready'"),
        postgresql_where=sa.text("state = 'ready'"),
    )
    op.create_index(
        "ix_jobs_running",
        "jobs",
        ["kind", "group_key"],
        unique=False,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index(
        "ix_jobs_waiting",
        "jobs",
        ["run_at"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_index(
        "ix_jobs_waiting_ordering_key",
        "jobs",
        ["ordering_key", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_index(
        "uq_jobs_dedup",
        "jobs",
        ["kind", "dedup"],
        unique=True,
        sqlite_where=sa.text("dedup IS NOT NULL AND state <> 'dead'"),
        postgresql_where=sa.text("dedup IS NOT NULL AND state <> 'dead'"),
    )
    op.create_index(
        "uq_jobs_ordering_key_running",
        "jobs",
        ["ordering_key"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "onboardings",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("partner_store_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("latitude", sa.Double(), nullable=True),
        sa.Column("longitude", sa.Double(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("timezone_given", sa.Boolean(), nullable=False),
        sa.Column("catalog_callback_url", sa.Text(), nullable=False),
        sa.Column("webhook_url", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("activated_at", sa.BigInteger(), nullable=True),
        sa.Column("cancelled_at", sa.BigInteger(), nullable=True),
        sa.Column("holds_name", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_onboardings")),
        sa.UniqueConstraint("store_id", name=op.f("uq_onboardings_store_id")),
    )
    op.create_index("ix_onboardings_partner_id", "onboardings", ["partner_id", "id"], unique=False)
    op.create_index(
        "uq_onboardings_partner_store_id",
        "onboardings",
        ["partner_id", "partner_store_id"],
        unique=True,
        sqlite_where=sa.text("holds_name"),
        postgresql_where=sa.text("holds_name"),
    )
    op.create_table(
        "opening_hours",
        sa.Column("key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("spans", sa.LargeBinary(), nullable=False),
        sa.Column("stores", sa.Integer(), nullable=False),
        sa.Column("pickup", sa.Integer(), nullable=False),
        sa.Column("delivery", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_opening_hours")),
    )
    op.create_table(
        "order_history",
        sa.Column("order_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("order_id", "number", name=op.f("pk_order_history")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "order_submissions",
        sa.Column("order_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("give_up_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_order_submissions")),
    )
    op.create_table(
        "orders",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("storefront_id", sa.Uuid(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("partner_store_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("errors", sa.Text(), nullable=False),
        sa.Column("partner_order_id", sa.Text(), nullable=True),
        sa.Column("estimated_ready_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_reason", sa.Text(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("fulfillment", sa.Text(), nullable=False),
        sa.Column("customer", sa.Text(), nullable=True),
        sa.Column("client_context", sa.Text(), nullable=True),
        sa.Column("token_id", sa.Uuid(), nullable=True),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("traceparent", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orders")),
    )
    op.create_index(
        "ix_orders_of_somebody",
        "orders",
        ["created_at", "id"],
        unique=False,
        sqlite_where=sa.text("client_context IS NOT NULL"),
        postgresql_where=sa.text("client_context IS NOT NULL"),
    )
    op.create_index("ix_orders_partner_id", "orders", ["partner_id", "id"], unique=False)
    op.create_index("ix_orders_partner_state", "orders", ["partner_id", "state", "id"], unique=False)
    op.create_index("ix_orders_store_id", "orders", ["store_id", "id"], unique=False)
    op.create_index("ix_orders_storefront_id", "orders", ["storefront_id", "id"], unique=False)
    op.create_index(
        "uq_orders_token_id",
        "orders",
        ["token_id"],
        unique=True,
        sqlite_where=sa.text("token_id IS NOT NULL"),
        postgresql_where=sa.text("token_id IS NOT NULL"),
    )
    op.create_table(
        "partners",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("event_url", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("suspended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partners")),
    )
    op.create_index("uq_partners_name", "partners", ["name"], unique=True)
    op.create_table(
        "sold_out_items",
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("store_id", "item_id", name=op.f("pk_sold_out_items")),
    )
    op.create_table(
        "store_cards",
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("card", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_store_cards")),
    )
    op.create_table(
        "store_search",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("name_key", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("cell", sa.BigInteger(), nullable=True),
        sa.Column("x", sa.Double(), nullable=True),
        sa.Column("y", sa.Double(), nullable=True),
        sa.Column("z", sa.Double(), nullable=True),
        sa.Column("pickup", sa.Boolean(), nullable=False),
        sa.Column("delivery", sa.Boolean(), nullable=False),
        sa.Column("hours_key", sa.BigInteger(), nullable=False),
        sa.Column("paused_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_store_search")),
        sa.UniqueConstraint("store_id", name=op.f("uq_store_search_store_id")),
    )
    op.create_index(
        "ix_store_search_cell",
        "store_search",
        ["cell", "x", "y", "z", "pickup", "delivery", "hours_key", "paused_until", "number"],
        unique=False,
    )
    op.create_index(
        "ix_store_search_name_key",
        "store_search",
        ["name_key", "number", "pickup", "delivery", "hours_key", "paused_until"],
        unique=False,
    )
    op.create_index(
        "ix_store_search_paused",
        "store_search",
        ["hours_key", "paused_until", "pickup", "delivery"],
        unique=False,
        sqlite_where=sa.text("paused_until > 0"),
        postgresql_where=sa.text("paused_until > 0"),
    )
    op.create_table(
        "stored_bytes",
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partner_id", "day", name=op.f("pk_stored_bytes")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "stores",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("onboarding_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("partner_store_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("latitude", sa.Double(), nullable=True),
        sa.Column("longitude", sa.Double(), nullable=True),
        sa.Column("phone", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("timezone_given", sa.Boolean(), nullable=False),
        sa.Column("logo_url", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("webhook_url", sa.Text(), nullable=True),
        sa.Column("categories", sa.Text(), nullable=False),
        sa.Column("delivery_allowed", sa.Boolean(), nullable=False),
        sa.Column("pickup_allowed", sa.Boolean(), nullable=False),
        sa.Column("minimum_order_amount", sa.BigInteger(), nullable=True),
        sa.Column("minimum_order_currency", sa.Text(), nullable=True),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("resume_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stores")),
        sa.UniqueConstraint("onboarding_id", name=op.f("uq_stores_onboarding_id")),
    )
    op.create_index("ix_stores_partner_id", "stores", ["partner_id", "id"], unique=False)
    op.create_index("ix_stores_partner_store_id", "stores", ["partner_id", "partner_store_id"], unique=False)
    op.create_table(
        "write_probes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("filler", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_write_probes")),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("surface", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["partner_id"], ["partners.id"], name=op.f("fk_api_keys_partner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("hash", name=op.f("uq_api_keys_hash")),
    )
    op.create_index("ix_api_keys_partner_id", "api_keys", ["partner_id", "id"], unique=False)
    op.create_index("ix_api_keys_prefix", "api_keys", ["prefix"], unique=False)
    op.create_table(
        "signing_secrets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["partner_id"], ["partners.id"], name=op.f("fk_signing_secrets_partner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signing_secrets")),
    )
    op.create_index("ix_signing_secrets_partner_id", "signing_secrets", ["partner_id"], unique=False)
    op.create_table(
        "webhook_tokens",
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("token", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["partner_id"], ["partners.id"], name=op.f("fk_webhook_tokens_partner_id")),
        sa.PrimaryKeyConstraint("partner_id", "origin", name=op.f("pk_webhook_tokens")),
    )
    words = {
        "sqlite": (
            "CREATE VIRTUAL TABLE store_words\n        USING fts5(words, detail=none, columnsize=0, prefix='2 3', tokenize='ascii')",
        ),
        "postgresql": (
            "ALTER TABLE store_search ADD COLUMN words tsvector",
            "ALTER TABLE store_search ALTER COLUMN words SET STORAGE EXTERNAL",
            "CREATE INDEX ix_store_search_words ON store_search USING gin (words) WITH (fastupdate = off)",
        ),
    }
    for statement in words[op.get_bind().dialect.name]:
        op.execute(statement)
