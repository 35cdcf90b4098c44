"""Warnings about members of a store's registration and last update that are unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    for table in ("onboardings", "stores"):
        op.add_column(table, sa.Column("unknown_members", sa.Text()))
