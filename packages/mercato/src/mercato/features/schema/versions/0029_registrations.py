"""Stores that people are registering in the console."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.create_table(
        "store_registrations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("menu", sa.Text()),
        sa.Column("document", sa.LargeBinary()),
        sa.Column("onboarding_id", sa.Uuid()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_store_registrations"),
    )
    op.create_index("ix_store_registrations_partner_id", "store_registrations", ["partner_id", "id"])
    op.create_index("ix_store_registrations_onboarding_id", "store_registrations", ["onboarding_id"])
