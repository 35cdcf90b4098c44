"""The customer's notes of an order and its lines."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("orders", sa.Column("notes", sa.Text()))
