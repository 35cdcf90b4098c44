"""The SQL of webhooks but for the sender's (`attempts`): deliveries, and the endpoints in trouble."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    bindparam,
    exists,
    insert,
    literal,
    literal_column,
    select,
    text,
    update,
)

from mercato.domain.partners.model import Caller, Surface
from mercato.domain.webhooks.attempts import BASE, ITS_ENDPOINT, ITS_ORDER
from mercato.domain.webhooks.model import DeliveryStatus
from mercato.kernel.db.compression import decompress
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.db.statements import prepared, prepared_insert
from mercato.kernel.db.tables import deliveries, delivery_attempts, endpoints, orders

Attempts = Sequence[Row[Any]]

_INSERT_DELIVERY = prepared_insert(deliveries)
_ABSENT: dict[str, Any] = dict.fromkeys(deliveries.c.keys()) | {
    "attempts": 0,
    "round": 0,
    "attempts_before_round": 0,
    "faults": 0,
}
_others = deliveries.alias("other")
_INSERT_FIRST = prepared(
    insert(deliveries).from_select(
        list(deliveries.c.keys()),
        select(*(bindparam(column.name, type_=column.type) for column in deliveries.c)).where(
            ~exists().where(
                _others.c.order_id == bindparam("order_id", type_=deliveries.c.order_id.type),
                _others.c.type == bindparam("type", type_=deliveries.c.type.type),
            )
        ),
    )
)
_OF_ORDER = prepared(
    select(deliveries.c.id)
    .where(deliveries.c.order_id == bindparam("its_order"), deliveries.c.type == bindparam("its_type"))
    .order_by(deliveries.c.id)
    .limit(literal_column("1"))
)


async def insert_delivery(tx: Write, **columns: Any) -> bool:
    """Write a delivery; True."""
    tx.defer(_INSERT_DELIVERY, _ABSENT | columns)
    return True


async def insert_first(tx: Write, **columns: Any) -> bool:
    """Write a delivery if there is none of its type about its order; return whether it was written."""
    return (await tx.execute(_INSERT_FIRST, _ABSENT | columns)).rowcount == 1


# --- questions that others ask ---------------------------------------------------------------------------


async def move_recorded(tx: Write, delivery_id: UUID, *, more: int, columns: Mapping[str, Any]) -> int | None:
    """Count attempts that were made besides, and return how many there are now; None without a delivery."""
    moved = await tx.execute(
        update(deliveries)
        .where(deliveries.c.id == delivery_id)
        .values(attempts=deliveries.c.attempts + more, **columns)
        .returning(deliveries.c.attempts)
    )
    total: int | None = moved.scalar()
    return total


async def find_of_order(tx: Read, order_id: UUID, type_: str) -> UUID | None:
    """Return the first delivery of the type about the order."""
    found: UUID | None = await tx.scalar(_OF_ORDER, {"its_order": order_id, "its_type": type_})
    return found


# --- for the partner ------------------------------------------------------------------------------------


_TIMED = 7
"""The version of UUIDs that begin with their time."""

_SLACK_MS = 1_000
"""Milliseconds by which a delivery's id may be older than its webhook-id: both are made in one request."""

_LOOKED_THROUGH = 1_000
_COPIES = 5


def with_body(query: Select[Any]) -> Select[Any]:
    """Return the query of deliveries with what `body_of` needs of each."""
    return query.add_columns(deliveries.c.body, BASE).join(orders, ITS_ORDER, isouter=True)


def body_of(row: Row[Any]) -> bytes:
    """Return the bytes of a delivery that are signed and sent."""
    return decompress(row.body, base=row.base)


def without_bodies(*columns: ColumnElement[Any]) -> Select[Any]:
    """Return the query of deliveries as they are listed, with whether the endpoint is disabled, and further columns."""
    shown = [column for column in deliveries.c if column.name != "body"]
    return select(*shown, endpoints.c.disabled_reason, *columns).join(endpoints, ITS_ENDPOINT, isouter=True)


def ids_of_webhook(webhook_id: UUID, *which: ColumnElement[bool], most: int) -> Select[Any]:
    """Return the query of the newest such deliveries with the webhook-id.

    There is no index of webhook-ids. But those of version 7 say when they were made, and a delivery follows
    soon: of those made since then only the first are looked through.
    """
    since = UUID(int=max(0, (webhook_id.int >> 80) - _SLACK_MS) << 80)
    made = (
        select(deliveries.c.id, deliveries.c.webhook_id)
        .where(*which, deliveries.c.id >= since, literal(webhook_id.version == _TIMED))
        .order_by(deliveries.c.id)
        .limit(_LOOKED_THROUGH)
        .subquery()
    )
    return select(made.c.id).where(made.c.webhook_id == webhook_id).order_by(made.c.id.desc()).limit(most)


def _shown(caller: Caller) -> Select[Any]:
    return without_bodies().where(*_own(caller))


def _own(caller: Caller) -> tuple[ColumnElement[bool], ...]:
    return deliveries.c.partner_id == caller.partner_id, deliveries.c.surface == caller.surface


async def list_rows(
    tx: Read,
    caller: Caller,
    *,
    status: DeliveryStatus | None,
    type_: str | None,
    store_id: UUID | None,
    order_id: UUID | None,
    before: UUID | None,
    most: int,
) -> Sequence[Row[Any]]:
    """Return at most `most` of the caller's deliveries, newest first."""
    statement = _shown(caller)
    if status is not None:
        statement = statement.where(deliveries.c.status == status)
    if status in {DeliveryStatus.PENDING, DeliveryStatus.FAILED}:
        # Said in the index's own words, without a parameter, so that both planners may use it.
        statement = statement.where(text("deliveries.status <> 'succeeded'"))
    if type_ is not None:
        statement = statement.where(deliveries.c.type == type_)
    if store_id is not None:
        statement = statement.where(deliveries.c.store_id == store_id)
    if order_id is not None:
        statement = statement.where(deliveries.c.order_id == order_id)
    if before is not None:
        statement = statement.where(deliveries.c.id < before)
    return await tx.all(statement.order_by(deliveries.c.id.desc()).limit(most))


async def find_row(tx: Read, caller: Caller, delivery_id: UUID) -> Row[Any] | None:
    """Return the caller's delivery with its body."""
    return await tx.first(with_body(_shown(caller)).where(deliveries.c.id == delivery_id))


async def find_any_row(tx: Read, delivery_id: UUID) -> Row[Any] | None:
    """Return a delivery of whichever partner with its body, for operators."""
    return await tx.first(with_body(without_bodies()).where(deliveries.c.id == delivery_id))


async def list_sent(tx: Read, caller: Caller, webhook_id: UUID) -> Sequence[Row[Any]]:
    """Return the caller's newest deliveries with the webhook-id, bodies included: a handful at most."""
    its = ids_of_webhook(webhook_id, *_own(caller), most=_COPIES)
    return await tx.all(
        with_body(_shown(caller)).where(deliveries.c.id.in_(its)).order_by(deliveries.c.id.desc())
    )


async def list_attempts(tx: Read, delivery_id: UUID) -> Attempts:
    """Return every attempt, first to last: each redelivery adds a handful."""
    return await tx.all(
        select(delivery_attempts)
        .where(delivery_attempts.c.delivery_id == delivery_id)
        .order_by(delivery_attempts.c.number)
    )


async def move_to_next_round(tx: Write, row: Row[Any], due: Mapping[str, object], *, now: datetime) -> bool:
    """Make the delivery due with its job, its schedule begun anew; False when it has moved since it was read."""
    moved = await tx.execute(
        update(deliveries)
        .where(
            deliveries.c.id == row.id,
            deliveries.c.round == row.round,
            deliveries.c.attempts == row.attempts,
            deliveries.c.status == row.status,
        )
        .values(
            status=DeliveryStatus.PENDING,
            error=None,
            round=row.round + 1,
            attempts_before_round=row.attempts,
            next_attempt_at=now,
            faults=0,
            updated_at=now,
            **due,
        )
    )
    return moved.rowcount == 1


# --- for the timeline of an order --------------------------------------------------------------------------


class OrderAttempt(Struct, frozen=True):
    """One attempt: `surface` is whose it was, `status` the reply's, `error` None when it succeeded."""

    delivery_id: UUID
    surface: Surface
    type: str
    number: int
    at: datetime
    status: int | None
    ms: int
    error: str | None


async def list_attempts_of_order(tx: Read, order_id: UUID, *, limit: int) -> list[OrderAttempt]:
    """Return the attempts of the order's deliveries, oldest first."""
    rows = await tx.all(
        select(
            deliveries.c.id,
            deliveries.c.surface,
            deliveries.c.type,
            delivery_attempts.c.number,
            delivery_attempts.c.at,
            delivery_attempts.c.status,
            delivery_attempts.c.ms,
            delivery_attempts.c.error,
        )
        .join(delivery_attempts, delivery_attempts.c.delivery_id == deliveries.c.id)
        .where(deliveries.c.order_id == order_id)
        .order_by(delivery_attempts.c.at, deliveries.c.id, delivery_attempts.c.number)
        .limit(limit)
    )
    return [OrderAttempt(row[0], Surface(row[1]), *row[2:]) for row in rows]
