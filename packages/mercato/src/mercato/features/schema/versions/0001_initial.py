"""The schema of the first release. No database is older, and a new one is made from the tables: nothing to do."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    pass
