"""An index by which a storefront lists its orders of one state.

It is built while the table is locked against writing: orders wait.
"""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_index("ix_orders_storefront_state", "orders", ["storefront_id", "state", "id"])
