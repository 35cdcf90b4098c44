"""Deliveries, their attempts, and failing endpoints."""

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
from mercato.platform.db.types import Id, Instant, id_end

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    Column("surface", Text, nullable=False),
    Column("store_id", Id),
    # The order of the event, if it has one.
    Column("order_id", Id),
    Column("type", Text, nullable=False),
    Column("webhook_id", Id, nullable=False),
    Column("url", Text, nullable=False),
    # The bytes that every attempt signs and sends, compressed, with the order's content as the base if there is one;
    # empty if they are those of the event with this webhook-id.
    Column("body", LargeBinary, nullable=False),
    Column("traceparent", Text, nullable=False),
    # The ordering key is the endpoint (partner and URL) and a partition, which follows from the event's subject.
    Column("partition", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("attempts", Integer, nullable=False),
    # A redelivery starts a new round: the schedule starts again, and attempts of earlier rounds no longer count.
    Column("round", Integer, nullable=False),
    Column("attempts_before_round", Integer, nullable=False),
    Column("next_attempt_at", Instant),
    # While another attempt is scheduled: when its job is due, by the database's clock, and the job's number.
    Column("due_at", Instant),
    Column("job_id", BigInteger),
    # Consecutive failures of ours to make or to record an attempt.
    Column("faults", Integer, nullable=False, server_default=text("0")),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    # Of the call that places an order, until its store has answered: when to give up, and the payment, sealed, that
    # the body lacks. A card's token is nowhere else.
    Column("give_up_at", Instant),
    Column("payment", LargeBinary),
    # The partner's webhook endpoint; null for an event URL or a store's webhook URL.
    Column("endpoint_id", Id),
)
Index("ix_deliveries_partner_id", deliveries.c.partner_id, deliveries.c.surface, deliveries.c.id)
Index("ix_deliveries_id_end", id_end(deliveries.c.id))
Index(
    "ix_deliveries_store_id",
    deliveries.c.partner_id,
    deliveries.c.surface,
    deliveries.c.store_id,
    deliveries.c.id,
)
_due = text("due_at IS NOT NULL")
Index(
    "ix_deliveries_due",
    deliveries.c.partner_id,
    deliveries.c.url,
    deliveries.c.partition,
    deliveries.c.due_at,
    deliveries.c.job_id,
    sqlite_where=_due,
    postgresql_where=_due,
)
_of_order = text("order_id IS NOT NULL")
Index(
    "ix_deliveries_order_id",
    deliveries.c.order_id,
    # SQLite takes the index of which most columns are given, and would take the partner's.
    deliveries.c.partner_id,
    deliveries.c.surface,
    deliveries.c.id,
    sqlite_where=_of_order,
    postgresql_where=_of_order,
)
_unanswered = text("give_up_at IS NOT NULL")
Index(
    "ix_deliveries_unanswered",
    deliveries.c.created_at,
    sqlite_where=_unanswered,
    postgresql_where=_unanswered,
)
_not_delivered = text("status <> 'succeeded'")
# Failed deliveries are what people search for, among a hundred times as many that have succeeded.
Index(
    "ix_deliveries_not_delivered",
    deliveries.c.partner_id,
    deliveries.c.surface,
    deliveries.c.status,
    deliveries.c.id,
    sqlite_where=_not_delivered,
    postgresql_where=_not_delivered,
)

delivery_attempts = Table(
    "delivery_attempts",
    metadata,
    Column("delivery_id", Id, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("status", Integer),
    Column("ms", Integer, nullable=False),
    Column("error", Text),
    Column("reply", Text),
    # What is odd about a usable answer.
    Column("warning", Text),
    # Short rows, stored in the primary key; else SQLite has a second index.
    sqlite_with_rowid=False,
)

# The deliveries that record validations which a store answered: they have no order to be found by, and of a partner's
# only the last ones are kept.
answered_validations = Table(
    "answered_validations",
    metadata,
    Column("delivery_id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    Column("accepted", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
Index(
    "ix_answered_validations_partner_id",
    answered_validations.c.partner_id,
    answered_validations.c.accepted,
    answered_validations.c.delivery_id,
)

# Only endpoints that fail or are disabled have a row: a success or enabling them removes it.
failing_endpoints = Table(
    "endpoints",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("url", Text, primary_key=True),
    Column("failing_since", Instant, nullable=False),
    Column("disabled_at", Instant),
    Column("disabled_reason", Text),
)

# Only stores whose last call failed have a row: a success removes it. `store_health` says which are in trouble.
failing_stores = Table(
    "failing_stores",
    metadata,
    Column("store_id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    # When the first of the calls in a row that failed was made, and the last one.
    Column("failing_since", Instant, nullable=False),
    Column("failed_at", Instant, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("error", Text),
)
Index("ix_failing_stores_partner_id", failing_stores.c.partner_id)

# Partners that are in trouble, as operators were last told.
failing_partners = Table(
    "failing_partners",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("since", Instant, nullable=False),
)

# What is read of the stores, a feature above this one: where each is called.
stores = table(
    "stores",
    column("id", Id),
    column("partner_id", Id),
    column("webhook_url", Text),
    column("order_handling", Text),
    column("created_at", Instant),
    column("updated_at", Instant),
)
