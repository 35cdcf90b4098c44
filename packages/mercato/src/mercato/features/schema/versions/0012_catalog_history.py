"""When each CatalogSet was served, documents that were sent, and scheduled switches."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    for name, kind in (
        ("run_id", sa.Uuid()),
        ("period_id", sa.Uuid()),
        ("activated_at", sa.BigInteger()),
        ("rolled_back_from", sa.Uuid()),
        ("needed_until", sa.BigInteger()),
    ):
        op.add_column("catalog_sets", sa.Column(name, kind))
    op.add_column("catalog_runs", sa.Column("activate_at", sa.BigInteger()))
    op.create_table(
        "catalog_periods",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("set_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid()),
        sa.Column("rolled_back_from", sa.Uuid()),
        sa.Column("activated_at", sa.BigInteger(), nullable=False),
        sa.Column("superseded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_catalog_periods"),
    )
    op.create_index("ix_catalog_periods_owner_id", "catalog_periods", ["owner_id", "id"])
    op.create_index("ix_catalog_periods_superseded_at", "catalog_periods", ["superseded_at"])
    op.create_table(
        "catalog_uploads",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "place", name="pk_catalog_uploads"),
    )
    op.create_index("ix_catalog_uploads_partner_id", "catalog_uploads", ["partner_id"])
