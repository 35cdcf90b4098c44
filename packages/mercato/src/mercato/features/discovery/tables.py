"""The search index of storefronts: each live store with its words, its card, and the opening hours of all stores."""

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

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Serial

# Narrow on purpose: a search for a common word reads many rows.
store_search = Table(
    "store_search",
    metadata,
    Column("number", Serial, primary_key=True),
    Column("store_id", Id, nullable=False, unique=True),
    # Ordered by bytes on both databases.
    Column("name_key", Text().with_variant(Text(collation="C"), "postgresql"), nullable=False),
    # The location as a grid cell and as a point on the unit sphere, which saves trigonometry. Null if unknown.
    Column("cell", BigInteger),
    Column("x", Double),
    Column("y", Double),
    Column("z", Double),
    Column("pickup", Boolean, nullable=False),
    Column("delivery", Boolean, nullable=False),
    Column("hours_key", BigInteger, nullable=False),
    # Milliseconds since 1970: 0 if the store isn't paused, the largest number if it is paused until further notice.
    Column("paused_until", BigInteger, nullable=False),
)
_s = store_search.c
_filters = (_s.pickup, _s.delivery, _s.hours_key, _s.paused_until)
# Covering indexes: neither a search nor its count reads the table.
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

# A store as JSON for storefronts, without the members that depend on the present time.
store_cards = Table(
    "store_cards",
    metadata,
    Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("store_id", Id, nullable=False),
    Column("card", LargeBinary, nullable=False),
    # The version of the card's shape. Cards of an earlier version are rewritten in the background.
    Column("version", Integer, nullable=False, server_default="1"),
)
Index("ix_store_cards_version", store_cards.c.version)

# The distinct opening hours with their numbers of stores, which a count of all open stores adds up.
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

FIRST: Final = 65_536
"""Stores of PostgreSQL's second index of words: those with the lowest numbers, which come first."""

WORDS_DDL: Final = {
    "sqlite": (
        # Words are normalised before, so the simplest tokenizer suffices; positions and sizes are not used.
        """CREATE VIRTUAL TABLE store_words
        USING fts5(words, detail=none, columnsize=0, prefix='2 3', tokenize='ascii')""",
        # The distinct words of that index; it stores no data.
        "CREATE VIRTUAL TABLE store_words_vocabulary USING fts5vocab(store_words, instance)",
    ),
    "postgresql": (
        "ALTER TABLE store_search ADD COLUMN words tsvector",
        # Long values are stored outside of the row, rather than compressed inside.
        "ALTER TABLE store_search ALTER COLUMN words SET STORAGE EXTERNAL",
        # No list of pending entries: every search would read all of it.
        "CREATE INDEX ix_store_search_words ON store_search USING gin (words) WITH (fastupdate = off)",
        # The same of the first stores: a search for a common word reads no more.
        f"""CREATE INDEX ix_store_search_words_first ON store_search USING gin (words) WITH (fastupdate = off)
        WHERE number + 0 <= {FIRST}""",
    ),
}
"""The full-text index, which SQLAlchemy can't describe: a virtual table of SQLite, a column of PostgreSQL."""

WORDS_COLUMN: Final = {"sqlite": ("store_words", "words"), "postgresql": ("store_search", "words")}
"""The table and the column of the full-text index."""

store_words = table("store_words", column("rowid", BigInteger), column("words", Text))
"""SQLite's virtual table."""


@event.listens_for(metadata, "after_create")
def _create_words(_metadata: MetaData, connection: Connection, **_options: object) -> None:
    for statement in WORDS_DDL[connection.dialect.name]:
        connection.execute(text(statement))
