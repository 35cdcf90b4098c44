"""Agents of storefronts, what they spend in a day, and which of them placed an order.

The index of orders is built while the table is locked against writing; no order that is there has an agent.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("currency", sa.Text()),
        sa.Column("maximum_order", sa.BigInteger()),
        sa.Column("maximum_day", sa.BigInteger()),
        sa.Column("approval", sa.Text(), nullable=False),
        sa.Column("approval_above", sa.BigInteger()),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sa.ForeignKeyConstraint(["partner_id"], ["partners.id"], name="fk_agents_partner_id"),
    )
    op.create_index("ix_agents_partner_id", "agents", ["partner_id", "id"])
    op.create_table(
        "agent_spending",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "day", "currency", name="pk_agent_spending"),
        sqlite_with_rowid=False,
    )
    op.add_column("api_keys", sa.Column("agent_id", sa.Uuid()))
    op.add_column("orders", sa.Column("agent_id", sa.Uuid()))
    op.add_column("orders", sa.Column("agent_day", sa.Integer()))
    by_agent = sa.text("agent_id IS NOT NULL")
    op.create_index(
        "ix_orders_agent_id",
        "orders",
        ["agent_id", "id"],
        sqlite_where=by_agent,
        postgresql_where=by_agent,
    )
