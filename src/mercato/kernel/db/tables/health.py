"""What is written only to see whether it can be."""

from sqlalchemy import Column, LargeBinary, Table

from mercato.kernel.db.tables.base import metadata
from mercato.kernel.db.types import Id

# One row, replaced by each probe.
write_probes = Table(
    "write_probes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("filler", LargeBinary, nullable=False),
)
