"""Stores whose last calls failed, and the partners in trouble that operators have been told about."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "failing_stores",
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("failing_since", sa.BigInteger(), nullable=False),
        sa.Column("failed_at", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("store_id", name="pk_failing_stores"),
    )
    op.create_index("ix_failing_stores_partner_id", "failing_stores", ["partner_id"])
    op.create_table(
        "failing_partners",
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partner_id", name="pk_failing_partners"),
    )
