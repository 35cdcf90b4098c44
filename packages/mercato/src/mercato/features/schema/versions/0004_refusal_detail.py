"""The detail in the answer to a refused request."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("refused_requests", sa.Column("detail", sa.Text()))
