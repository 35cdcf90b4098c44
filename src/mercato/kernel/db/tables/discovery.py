"""What storefronts search: one row for each live store, its words, its answer, and when which stores are open."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    column,
    event,
    table,
    text,
)

from mercato.kernel.db.tables.base import metadata
from mercato.kernel.db.types import Id, Serial

# Narrow on purpose: a search for a common word looks at many rows.
store_search = Table(
    "store_search",
    metadata,
    Column("number", Serial, primary_key=True),
    Column("store_id", Id, nullable=False, unique=True),
    # Ordered by bytes on both databases.
    Column("name_key", Text().with_variant(Text(collation="C"), "postgresql"), nullable=False),
    # The place as a grid cell and as a point on the unit sphere: a distance takes no trigonometry. Null if unknown.
    Column("cell", BigInteger),
    Column("x", Double),
    Column("y", Double),
    Column("z", Double),
    Column("pickup", Boolean, nullable=False),
    Column("delivery", Boolean, nullable=False),
    Column("hours_key", BigInteger, nullable=False),
    # Milliseconds since 1970: 0 for a store that is not paused, the largest number for until further notice.
    Column("paused_until", BigInteger, nullable=False),
)
_s = store_search.c
_filters = (_s.pickup, _s.delivery, _s.hours_key, _s.paused_until)
# Both hold all that a search and its count look at, so that neither visits the table.
Index("ix_store_search_cell", _s.cell, _s.x, _s.y, _s.z, *_filters, _s.number)
Index("ix_store_search_name_key", _s.name_key, _s.number, *_filters)
_paused = text("paused_until > 0")
Index(
    "ix_store_search_paused",
    _s.hours_key,
    _s.paused_until,
    _s.pickup,
    _s.delivery,
    sqlite_where=_paused,
    postgresql_where=_paused,
)

# A store as storefronts see it, but for what depends on the hour: JSON, ready to be sent.
store_cards = Table(
    "store_cards",
    metadata,
    Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("store_id", Id, nullable=False),
    Column("card", LargeBinary, nullable=False),
)

# The distinct opening hours with how many stores have them: what a count of all open stores adds up.
opening_hours = Table(
    "opening_hours",
    metadata,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("timezone", Text, nullable=False),
    Column("spans", LargeBinary, nullable=False),
    Column("stores", Integer, nullable=False),
    Column("pickup", Integer, nullable=False),
    Column("delivery", Integer, nullable=False),
)

WORDS_DDL: Final = {
    "sqlite": (
        # Words come normalised, so the simplest tokenizer does; positions and sizes are never asked for.
        """CREATE VIRTUAL TABLE store_words
        USING fts5(words, detail=none, columnsize=0, prefix='2 3', tokenize='ascii')""",
    ),
    "postgresql": (
        "ALTER TABLE store_search ADD COLUMN words tsvector",
        # Out of the row whole where a row is long, rather than inside it compressed.
        "ALTER TABLE store_search ALTER COLUMN words SET STORAGE EXTERNAL",
        # No list of pending entries: every search would read all of it.
        "CREATE INDEX ix_store_search_words ON store_search USING gin (words) WITH (fastupdate = off)",
    ),
}
"""The full-text index, which SQLAlchemy has no words for: a virtual table here, a column and its index there."""

WORDS_OBJECTS: Final = ("store_words", "words", "ix_store_search_words")
"""Names (FTS5 has tables of its own below the first) that a comparison with the metadata leaves out."""

store_words = table("store_words", column("rowid", BigInteger), column("words", Text))
"""SQLite's virtual table."""


@event.listens_for(metadata, "after_create")
def _create_words(_metadata: MetaData, connection: Connection, **_options: object) -> None:
    for statement in WORDS_DDL[connection.dialect.name]:
        connection.execute(text(statement))
