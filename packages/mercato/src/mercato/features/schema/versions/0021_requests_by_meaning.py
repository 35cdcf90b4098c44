"""What the request of an idempotency key means, beside what was sent."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("idempotency_keys", sa.Column("meaning", sa.LargeBinary()))
