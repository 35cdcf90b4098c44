"""A table of what people find an order by, and an index of the merchants' own ids of stores.

A background job fills the table with the orders that are there.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "order_search",
        sa.Column("order_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("order_id", "kind", name="pk_order_search"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_order_search_key", "order_search", ["key", "order_id"])
    op.create_index("ix_stores_own_id", "stores", ["partner_store_id"])
