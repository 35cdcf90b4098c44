"""An index of the open orders about which no store is called: what the board shows.

It is built while the table is locked against writing, and has few rows: an order leaves it when it is closed.
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    on_board = sa.text("handling IS NOT NULL AND state = 'open'")
    op.create_index(
        "ix_orders_on_board",
        "orders",
        ["partner_id", "id"],
        sqlite_where=on_board,
        postgresql_where=on_board,
    )
