"""The newest cancellation of an order by its storefront."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("orders", sa.Column("cancellation", sa.Text()))
