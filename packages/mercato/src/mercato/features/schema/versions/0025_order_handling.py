"""Who accepts a store's orders and within which time, and who accepts an order."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    for table in ("onboardings", "stores"):
        op.add_column(table, sa.Column("order_handling", sa.Text()))
        op.add_column(table, sa.Column("accept_within", sa.Integer()))
    op.add_column("orders", sa.Column("handling", sa.Text()))
