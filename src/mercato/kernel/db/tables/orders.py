"""Orders, what happened to them, what waits for a store's answer, and the keys under which they were placed."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text, text

from mercato.kernel.db.tables.base import metadata
from mercato.kernel.db.types import Id, Instant

orders = Table(
    "orders",
    metadata,
    Column("id", Id, primary_key=True),
    # The merchant, whose store it is, and the storefront that placed it.
    Column("partner_id", Id, nullable=False),
    Column("storefront_id", Id, nullable=False),
    Column("store_id", Id, nullable=False),
    Column("partner_store_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("status", Text, nullable=False),
    # What the store said to the placement: waiting, accepted, refused, or given up.
    Column("answer", Text, nullable=False),
    # Why the store refused, as reasons of an order.
    Column("errors", Text, nullable=False),
    Column("partner_order_id", Text),
    Column("estimated_ready_at", Instant),
    Column("cancel_reason", Text),
    Column("currency", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    # Cart and amounts as JSON, compressed (`db.compression`). It never changes: the bodies of the order's deliveries
    # and its reply are compressed with it as their base, and can't be read without it.
    Column("content", LargeBinary, nullable=False),
    # Who ordered, from where and where to: what is taken out when a customer is forgotten.
    Column("fulfillment", Text, nullable=False),
    Column("customer", Text),
    Column("client_context", Text),
    # Of the validation that it was placed with; each can be used once.
    Column("token_id", Id),
    # Events sent to the storefront, and entries of the history.
    Column("sequence", Integer, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("traceparent", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
Index("ix_orders_partner_id", orders.c.partner_id, orders.c.id)
Index("ix_orders_store_id", orders.c.store_id, orders.c.id)
Index("ix_orders_partner_state", orders.c.partner_id, orders.c.state, orders.c.id)
Index("ix_orders_storefront_id", orders.c.storefront_id, orders.c.id)
# Every order has a client context until its customer is forgotten.
_of_somebody = text("client_context IS NOT NULL")
Index(
    "ix_orders_of_somebody",
    orders.c.created_at,
    orders.c.id,
    sqlite_where=_of_somebody,
    postgresql_where=_of_somebody,
)
_with_token = text("token_id IS NOT NULL")
orders_one_for_each_token = Index(
    "uq_orders_token_id",
    orders.c.token_id,
    unique=True,
    sqlite_where=_with_token,
    postgresql_where=_with_token,
)

# What the store is told, kept sealed (it may hold a card's token) until the store has answered.
order_submissions = Table(
    "order_submissions",
    metadata,
    Column("order_id", Id, primary_key=True),
    Column("url", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("give_up_at", Instant, nullable=False),
)

order_history = Table(
    "order_history",
    metadata,
    Column("order_id", Id, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("detail", Text, nullable=False),
    # Short rows, which the primary key holds by itself; else SQLite has an index of it besides.
    sqlite_with_rowid=False,
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request", LargeBinary, nullable=False),
    Column("order_id", Id),
    # Until then somebody works on the request; the number tells whose work it is.
    Column("claimed_until", Instant, nullable=False),
    Column("claims", Integer, nullable=False),
    # The reply, once it is final: sent again byte for byte. Its body is compressed, with the order as its base.
    Column("status", Integer),
    Column("media_type", Text),
    Column("body", LargeBinary),
    Column("created_at", Instant, nullable=False),
)
Index("ix_idempotency_keys_created_at", idempotency_keys.c.created_at)
