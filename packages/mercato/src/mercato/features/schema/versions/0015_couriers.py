"""Who brings an order, and when."""

import sqlalchemy as sa
from alembic import op

from mercato.platform.db.types import Instant

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("orders", sa.Column("courier", sa.Text()))
    op.add_column("orders", sa.Column("estimated_delivery_at", Instant()))
