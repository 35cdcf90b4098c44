"""The people of an account, with passkeys of their own."""

import sqlalchemy as sa
from alembic import op

from mercato.platform.db.types import Instant

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("console_sessions", sa.Column("person_id", sa.Uuid()))
    op.create_table(
        "console_people",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid()),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("key_id", sa.Uuid()),
        sa.Column("invitation_hash", sa.LargeBinary(), nullable=False),
        sa.Column("invitation_expires_at", Instant(), nullable=False),
        sa.Column("joined_at", Instant()),
        sa.PrimaryKeyConstraint("id", name="pk_console_people"),
        sa.UniqueConstraint("invitation_hash", name="uq_console_people_invitation_hash"),
    )
    op.create_index("uq_console_people_partner_id", "console_people", ["partner_id", "name"], unique=True)
    operators = sa.text("partner_id IS NULL")
    op.create_index(
        "uq_console_people_name",
        "console_people",
        ["name"],
        unique=True,
        sqlite_where=operators,
        postgresql_where=operators,
    )
    op.create_table(
        "console_person_passkeys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("person_id", sa.Uuid(), nullable=False),
        sa.Column("partner_id", sa.Uuid()),
        sa.Column("credential_id", sa.LargeBinary(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("sign_count", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("used_at", Instant()),
        sa.Column("rp_id", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_console_person_passkeys"),
        sa.UniqueConstraint("credential_id", name="uq_console_person_passkeys_credential_id"),
    )
    op.create_index("ix_console_person_passkeys_person_id", "console_person_passkeys", ["person_id"])
    op.create_index("ix_console_person_passkeys_partner_id", "console_person_passkeys", ["partner_id"])
