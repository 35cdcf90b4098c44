"""What is odd about a usable answer of a store."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("delivery_attempts", sa.Column("warning", sa.Text()))
