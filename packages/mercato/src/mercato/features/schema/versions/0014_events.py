"""The events feed and the changes of stores; storefronts see every store as a new one."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

STORES = """
INSERT INTO store_changes (store_id, position, at, is_gone, profile, status, catalog, items)
SELECT id, place, updated_at, {false}, place, place, place, place
FROM (
  SELECT stores.id, stores.updated_at, row_number() OVER (ORDER BY stores.id) AS place
  FROM stores JOIN partners ON partners.id = stores.partner_id
  WHERE partners.suspended_at IS NULL
) AS numbered
"""

SEQUENCER = """
INSERT INTO sequencer (id, last, events_deleted_to, stores_deleted_to)
SELECT 1, count(*), 0, 0 FROM stores
"""


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Uuid()),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    of_order = sa.text("order_id IS NOT NULL")
    op.create_index(
        "ix_events_order_id", "events", ["order_id"], sqlite_where=of_order, postgresql_where=of_order
    )
    op.create_table(
        "new_events",
        sa.Column("number", SERIAL, nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("surface", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Uuid()),
        sa.PrimaryKeyConstraint("number", name="pk_new_events"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "event_positions",
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("surface", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("store_id", sa.Uuid()),
        sa.Column("store_sequence", sa.Integer()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partner_id", "surface", "position", name="pk_event_positions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_event_positions_position", "event_positions", ["position"])
    op.create_table(
        "store_sequences",
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("surface", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("partner_id", "surface", "store_id", name="pk_store_sequences"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "new_store_changes",
        sa.Column("number", SERIAL, nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("kinds", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_new_store_changes"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "store_changes",
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("is_gone", sa.Boolean(), nullable=False),
        sa.Column("profile", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("catalog", sa.BigInteger(), nullable=False),
        sa.Column("items", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("store_id", name="pk_store_changes"),
    )
    op.create_index("uq_store_changes_position", "store_changes", ["position"], unique=True)
    op.create_table(
        "sequencer",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("events_deleted_to", sa.BigInteger(), nullable=False),
        sa.Column("stores_deleted_to", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sequencer"),
    )
    op.execute(STORES.format(false="false" if op.get_bind().dialect.name == "postgresql" else "0"))
    op.execute(SEQUENCER)
