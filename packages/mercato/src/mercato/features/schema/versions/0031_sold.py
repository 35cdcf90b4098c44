"""What reports read of an order's content. Orders that are there are read from their content, as before."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.add_column("orders", sa.Column("sold", sa.Text()))
