"""Orders with their history, the submissions to their stores, and idempotency keys."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text, text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant

orders = Table(
    "orders",
    metadata,
    Column("id", Id, primary_key=True),
    # The merchant who owns the store, and the storefront that placed the order.
    Column("partner_id", Id, nullable=False),
    Column("storefront_id", Id, nullable=False),
    Column("store_id", Id, nullable=False),
    Column("partner_store_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("status", Text, nullable=False),
    # The store's answer to the placement: waiting, accepted, refused, or given up.
    Column("answer", Text, nullable=False),
    # The store's reasons for a refusal, as `OrderError`s.
    Column("errors", Text, nullable=False),
    Column("partner_order_id", Text),
    Column("estimated_ready_at", Instant),
    Column("cancel_reason", Text),
    Column("currency", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    # Cart and amounts as JSON, compressed (`features.compression`). It must never change: the bodies of the order's
    # deliveries and its reply are compressed with it as their base.
    Column("content", LargeBinary, nullable=False),
    # The customer's data, which is removed when the customer is erased.
    Column("fulfillment", Text, nullable=False),
    Column("customer", Text),
    Column("client_context", Text),
    # The id of the validation's token: each can be used once.
    Column("token_id", Id),
    # Numbers of events sent to the storefront and of history entries.
    Column("sequence", Integer, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("traceparent", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    # The newest cancellation by the storefront, as a `StoredCancellation`.
    Column("cancellation", Text),
    # The customer's notes, as `Notes`. They are erased with the customer, so `content` doesn't have them.
    Column("notes", Text),
    # Who brings the order, as a `Courier`: a person's data, erased with the customer's.
    Column("courier", Text),
    Column("estimated_delivery_at", Instant),
    # What the merchant changed of what the order costs, as `StoredAdjustment`s; NULL until the first.
    Column("adjustments", Text),
    # Who accepts it, by what its store said when it was placed; NULL: its webhook.
    Column("handling", Text),
    # The agent whose key placed it, and the day (its ordinal number) on which that agent's spending counts it.
    Column("agent_id", Id),
    Column("agent_day", Integer),
    # What reports read of `content`, as a `Sold`: in a tenth of the time. NULL: placed by an earlier release.
    Column("sold", Text),
)
Index("ix_orders_partner_id", orders.c.partner_id, orders.c.id)
Index("ix_orders_store_id", orders.c.store_id, orders.c.id)
Index("ix_orders_partner_state", orders.c.partner_id, orders.c.state, orders.c.id)
# For operators, who list the orders of all partners.
Index("ix_orders_state", orders.c.state, orders.c.id)
Index("ix_orders_storefront_id", orders.c.storefront_id, orders.c.id)
Index("ix_orders_storefront_state", orders.c.storefront_id, orders.c.state, orders.c.id)
# Every order has a client context until its customer is erased.
_with_customer = text("client_context IS NOT NULL")
Index(
    "ix_orders_with_customer",
    orders.c.created_at,
    orders.c.id,
    sqlite_where=_with_customer,
    postgresql_where=_with_customer,
)
_by_agent = text("agent_id IS NOT NULL")
Index(
    "ix_orders_agent_id",
    orders.c.agent_id,
    orders.c.id,
    sqlite_where=_by_agent,
    postgresql_where=_by_agent,
)
# Open orders about which no store is called: a partner may have ever so many others.
_on_board = text("handling IS NOT NULL AND state = 'open'")
Index(
    "ix_orders_on_board",
    orders.c.partner_id,
    orders.c.id,
    sqlite_where=_on_board,
    postgresql_where=_on_board,
)
_with_token = text("token_id IS NOT NULL")
orders_one_for_each_token = Index(
    "uq_orders_token_id",
    orders.c.token_id,
    unique=True,
    sqlite_where=_with_token,
    postgresql_where=_with_token,
)

# Where the previous release keeps the request that the store gets, sealed until the store has answered. Now a delivery
# holds it; the next release drops the table.
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
    # Short rows, stored in the primary key; else SQLite has a second index.
    sqlite_with_rowid=False,
)

# What people find an order by, hashed (`features.orders.search`). `kind` tells what: several kinds may have one key.
order_search = Table(
    "order_search",
    metadata,
    Column("order_id", Id, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
Index("ix_order_search_key", order_search.c.key, order_search.c.order_id)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request", LargeBinary, nullable=False),
    Column("order_id", Id),
    # Until when the claim holds, and the number of claims: the fencing token of the request that has it.
    Column("claimed_until", Instant, nullable=False),
    Column("claims", Integer, nullable=False),
    # The final outcome: the JSON of an Order or ProblemDetail, from which the answer is repeated byte for byte.
    # It is compressed with the order as its base.
    Column("status", Integer),
    Column("media_type", Text),
    Column("body", LargeBinary),
    Column("created_at", Instant, nullable=False),
    # A keyed hash of what the request means. `request` says whether the key is free; earlier releases had the hash of
    # its bytes there, at first alone.
    Column("meaning", LargeBinary),
)
Index("ix_idempotency_keys_created_at", idempotency_keys.c.created_at)
