"""A delivery holds the call that places its order until the store has answered, with the payment sealed.

`order_submissions` stays for the previous release, and for orders that it has stored.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("give_up_at", sa.BigInteger()))
    op.add_column("deliveries", sa.Column("payment", sa.LargeBinary()))
    unanswered = sa.text("give_up_at IS NOT NULL")
    op.create_index(
        "ix_deliveries_unanswered",
        "deliveries",
        ["created_at"],
        sqlite_where=unanswered,
        postgresql_where=unanswered,
    )
