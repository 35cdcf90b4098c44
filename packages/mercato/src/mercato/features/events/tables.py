"""Events and changed stores: first as they were written, then with the position that readers follow."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    column,
    table,
    text,
)

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant, Serial

events = Table(
    "events",
    metadata,
    # The `webhook-id` of its deliveries.
    Column("id", Id, primary_key=True),
    Column("type", Text, nullable=False),
    # The order of the event, if it has one: the body is compressed with the order's content.
    Column("order_id", Id),
    # The envelope, byte for byte what deliveries sign.
    Column("body", LargeBinary, nullable=False),
)
_of_order = text("order_id IS NOT NULL")
Index("ix_events_order_id", events.c.order_id, sqlite_where=_of_order, postgresql_where=_of_order)

# Events that have no position yet, in the order in which they were written.
new_events = Table(
    "new_events",
    metadata,
    Column("number", Serial, primary_key=True),
    Column("event_id", Id, nullable=False),
    Column("partner_id", Id, nullable=False),
    Column("surface", Text, nullable=False),
    Column("store_id", Id),
    # Of what caused the event; null if an earlier release wrote it.
    Column("traceparent", Text),
    sqlite_autoincrement=True,
)

event_positions = Table(
    "event_positions",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("surface", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Id, nullable=False),
    Column("store_id", Id),
    # Counts the store's events for the partner from 1, without a gap.
    Column("store_sequence", Integer),
    # When it was given its position: retention goes by it, since an id may be much older than its event.
    Column("at", Instant, nullable=False),
    # Short rows, stored in the primary key; else SQLite has a second index.
    sqlite_with_rowid=False,
)
# Retention deletes by position, for all partners together.
Index("ix_event_positions_position", event_positions.c.position)

store_sequences = Table(
    "store_sequences",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("surface", Text, primary_key=True),
    Column("store_id", Id, primary_key=True),
    Column("last", Integer, nullable=False),
    sqlite_with_rowid=False,
)

new_store_changes = Table(
    "new_store_changes",
    metadata,
    Column("number", Serial, primary_key=True),
    Column("store_id", Id, nullable=False),
    Column("kinds", Text, nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_autoincrement=True,
)

# One row a store, however often it changes: the position of the newest change of each kind.
store_changes = Table(
    "store_changes",
    metadata,
    Column("store_id", Id, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("at", Instant, nullable=False),
    Column("is_gone", Boolean, nullable=False),
    Column("profile", BigInteger, nullable=False),
    Column("status", BigInteger, nullable=False),
    Column("catalog", BigInteger, nullable=False),
    Column("items", BigInteger, nullable=False),
)
Index("uq_store_changes_position", store_changes.c.position, unique=True)

STATE_ID: Final = 1

# One row, with this id. The process that assigns positions locks it, so that they are committed in their order.
sequencer = Table(
    "sequencer",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    # The greatest positions that retention has deleted: a cursor before them may have missed something.
    Column("events_deleted_to", BigInteger, nullable=False),
    Column("stores_deleted_to", BigInteger, nullable=False),
)

# What is read of the orders, a feature above this one: the base that bodies about an order are compressed with.
orders = table("orders", column("id", Id), column("content", LargeBinary))
