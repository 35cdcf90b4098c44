"""Which encryption key the processes of a database share, before anything is sealed with it.

The first process that starts, or makes a partner, writes its row. What is sealed already says so, too.
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.create_table(
        "key_checks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_key_checks"),
    )
