"""What caches in other processes must forget, kept for minutes."""

from sqlalchemy import Column, Table, Text

from mercato.kernel.db.tables.base import metadata
from mercato.kernel.db.types import Instant, Serial

changes = Table(
    "changes",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_autoincrement=True,
)
