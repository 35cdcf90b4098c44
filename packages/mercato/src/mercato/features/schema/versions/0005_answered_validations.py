"""A table of the validations in the delivery log that a store answered."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "answered_validations",
        sa.Column("delivery_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("accepted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("delivery_id", name="pk_answered_validations"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_answered_validations_partner_id",
        "answered_validations",
        ["partner_id", "accepted", "delivery_id"],
    )
