"""Indexes of the last digits of ids, as lists show them, of partners, stores, catalog runs and deliveries.

They are built while the tables are locked against writing: deliveries wait. PostgreSQL takes an index of an expression
only once it knows how rare its values are.
"""

from alembic import op

revision = "0024"
down_revision = "0023"

_TABLES = ("partners", "stores", "catalog_runs", "deliveries")


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    end = "right(CAST(id AS TEXT), 8)" if is_postgresql else "substr(id, 25)"
    for table in _TABLES:
        op.execute(f"CREATE INDEX ix_{table}_id_end ON {table} ({end})")
        if is_postgresql:
            op.execute(f"ANALYZE {table}")
