"""Taxes and fees of stores that aren't called."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("stores", sa.Column("charges", sa.Text()))
