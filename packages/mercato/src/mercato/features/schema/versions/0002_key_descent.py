"""Which key made a key, until when its replacements last, and the site of a passkey."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("parent_key_id", sa.Uuid()))
    op.add_column("api_keys", sa.Column("latest_expiry", sa.BigInteger()))
    op.add_column("console_passkeys", sa.Column("rp_id", sa.Text()))
    op.add_column("console_passkeys", sa.Column("origin", sa.Text()))
