"""The version of a stored card's shape, so that cards of an earlier shape are found and rewritten.

Every card has the first shape. The index is built while the table is locked against writing: changes of stores wait.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("store_cards", sa.Column("version", sa.Integer(), server_default="1", nullable=False))
    op.create_index("ix_store_cards_version", "store_cards", ["version"])
