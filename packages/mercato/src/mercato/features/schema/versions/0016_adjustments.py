"""What merchants change of what an order costs, after it was placed."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("orders", sa.Column("adjustments", sa.Text()))
