"""Quotes, and what a person decided about them."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table, Text, text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant

quotes = Table(
    "quotes",
    metadata,
    # Also the id of the token with which the order is placed, so an order is found by it when the quote is deleted.
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    Column("key_id", Id, nullable=False),
    Column("store_id", Id, nullable=False),
    # What the key was told that the order costs, in minor units.
    Column("currency", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    # quoted, pending (a person is asked), declined, or placed.
    Column("state", Text, nullable=False),
    # The order as a `QuoteContent`, sealed: NULL once it is placed, declined or expired, or its customer is erased.
    Column("content", LargeBinary),
    # The payment of the request that a person is asked about, sealed and erased likewise.
    Column("payment", LargeBinary),
    # The SHA-256 of the secret in the address of the approval page.
    Column("approval", LargeBinary),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("decided_at", Instant),
    # The order, which may be refused: one that isn't has the quote's id as its token's.
    Column("order_id", Id),
)
Index("ix_quotes_partner_id", quotes.c.partner_id, quotes.c.id)
Index("ix_quotes_created_at", quotes.c.created_at)
_with_content = text("content IS NOT NULL")
Index(
    "ix_quotes_with_content",
    quotes.c.expires_at,
    quotes.c.id,
    sqlite_where=_with_content,
    postgresql_where=_with_content,
)
_with_approval = text("approval IS NOT NULL")
Index(
    "uq_quotes_approval",
    quotes.c.approval,
    unique=True,
    sqlite_where=_with_approval,
    postgresql_where=_with_approval,
)
