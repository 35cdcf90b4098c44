"""Orders that were quoted, until they are placed."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.create_table(
        "quotes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid(), nullable=False),
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary()),
        sa.Column("payment", sa.LargeBinary()),
        sa.Column("approval", sa.LargeBinary()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger()),
        sa.Column("order_id", sa.Uuid()),
        sa.PrimaryKeyConstraint("id", name="pk_quotes"),
    )
    op.create_index("ix_quotes_partner_id", "quotes", ["partner_id", "id"])
    op.create_index("ix_quotes_created_at", "quotes", ["created_at"])
    with_content, with_approval = sa.text("content IS NOT NULL"), sa.text("approval IS NOT NULL")
    op.create_index(
        "ix_quotes_with_content",
        "quotes",
        ["expires_at", "id"],
        sqlite_where=with_content,
        postgresql_where=with_content,
    )
    op.create_index(
        "uq_quotes_approval",
        "quotes",
        ["approval"],
        unique=True,
        sqlite_where=with_approval,
        postgresql_where=with_approval,
    )
