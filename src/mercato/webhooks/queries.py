"""The SQL of webhooks but for the sender's (`sending`): deliveries, and the endpoints in trouble."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Row,
    Select,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from mercato.db.compression import decompress
from mercato.db.engine import Read, Write
from mercato.db.statements import prepared, prepared_insert
from mercato.db.tables import deliveries, delivery_attempts, endpoints, orders
from mercato.partners.model import Caller
from mercato.webhooks.model import DeliveryStatus
from mercato.webhooks.sending import BASE, ITS_ENDPOINT, ITS_ORDER

Attempts = Sequence[Row[Any]]

_INSERT_DELIVERY = prepared_insert(deliveries)
_ABSENT: dict[str, Any] = dict.fromkeys(deliveries.c.keys()) | {
    "attempts": 0,
    "round": 0,
    "attempts_before_round": 0,
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
_ENDPOINT = (endpoints.c.partner_id == bindparam("its_partner"), endpoints.c.url == bindparam("its_url"))
_FORGET = prepared(delete(endpoints).where(*_ENDPOINT, endpoints.c.disabled_at.is_(None)))
_DISABLED = prepared(select(endpoints.c.disabled_reason).where(*_ENDPOINT))
_FAILING = prepared(select(endpoints.c.failing_since).where(*_ENDPOINT))


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


# --- endpoints ----------------------------------------------------------------------------------------


async def find_disabled_reason(tx: Read, partner_id: UUID, url: str) -> str | None:
    """Return why the endpoint is disabled, None while it is not."""
    reason: str | None = await tx.scalar(_DISABLED, {"its_partner": partner_id, "its_url": url})
    return reason


async def find_failing_since(tx: Read, partner_id: UUID, url: str) -> datetime | None:
    """Return when the endpoint's failures began, None if its last attempt succeeded."""
    since: datetime | None = await tx.scalar(_FAILING, {"its_partner": partner_id, "its_url": url})
    return since


async def insert_failing(tx: Write, partner_id: UUID, url: str, *, since: datetime) -> None:
    """Note that the endpoint fails; when that began stays as it was noted first."""
    # The two dialects' inserts are one statement under two names.
    make = postgresql.insert if tx.dialect == "postgresql" else sqlite.insert
    await tx.execute(
        make(endpoints)
        .values(partner_id=partner_id, url=url, failing_since=since)
        .on_conflict_do_nothing(index_elements=["partner_id", "url"])
    )


async def disable(tx: Write, partner_id: UUID, url: str, *, reason: str, now: datetime) -> bool:
    """Call the endpoint no more; the first reason stays. Return whether it was called until now."""
    result = await tx.execute(
        update(endpoints)
        .where(*_endpoint(partner_id, url), endpoints.c.disabled_at.is_(None))
        .values(disabled_at=now, disabled_reason=reason)
    )
    return result.rowcount == 1


async def forget_failures(tx: Write, working: Collection[tuple[UUID, str]]) -> None:
    """Note that endpoints work; a disabled one stays so, whatever a call in flight brought."""
    # In one order, so that two who note the same ones do not wait for each other.
    their = [{"its_partner": partner_id, "its_url": url} for partner_id, url in sorted(working)]
    await tx.execute(_FORGET, their if len(their) > 1 else their[0])


async def enable(tx: Write, partner_id: UUID, url: str) -> bool:
    """Forget everything against the endpoint. Return whether it was disabled."""
    removed = await tx.execute(
        delete(endpoints).where(*_endpoint(partner_id, url)).returning(endpoints.c.disabled_at)
    )
    row = removed.first()
    return row is not None and row.disabled_at is not None


def _endpoint(partner_id: UUID, url: str) -> tuple[Any, ...]:
    return endpoints.c.partner_id == partner_id, endpoints.c.url == url


# --- for the partner ------------------------------------------------------------------------------------


_TIMED = 7
"""The version of UUIDs that begin with their time."""

_LOOKED_THROUGH = 1_000
_COPIES = 5


def with_body(query: Select[Any]) -> Select[Any]:
    """Return the query of deliveries with what `body_of` needs of each."""
    return query.add_columns(deliveries.c.body, BASE).join(orders, ITS_ORDER, isouter=True)


def body_of(row: Row[Any]) -> bytes:
    """Return the bytes of a delivery that are signed and sent."""
    return decompress(row.body, base=row.base)


def _shown(caller: Caller) -> Select[Any]:
    columns = [column for column in deliveries.c if column.name != "body"]
    return (
        select(*columns, endpoints.c.disabled_reason)
        .join(endpoints, ITS_ENDPOINT, isouter=True)
        .where(deliveries.c.partner_id == caller.partner_id, deliveries.c.surface == caller.surface)
    )


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


async def list_sent(tx: Read, caller: Caller, webhook_id: UUID) -> Sequence[Row[Any]]:
    """Return the caller's newest deliveries with the webhook-id, bodies included: a handful at most.

    There is no index of webhook-ids. But they say when they were made, and a delivery follows soon: of those made
    since then only the first are looked through.
    """
    if webhook_id.version != _TIMED:
        return []
    made = (
        select(deliveries.c.id, deliveries.c.webhook_id)
        .where(
            deliveries.c.partner_id == caller.partner_id,
            deliveries.c.surface == caller.surface,
            deliveries.c.id >= UUID(bytes=webhook_id.bytes[:6] + bytes(10)),
        )
        .order_by(deliveries.c.id)
        .limit(_LOOKED_THROUGH)
        .subquery()
    )
    its = select(made.c.id).where(made.c.webhook_id == webhook_id).order_by(made.c.id.desc()).limit(_COPIES)
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


async def move_to_next_round(tx: Write, row: Row[Any], *, now: datetime) -> bool:
    """Make the delivery due at once, its schedule begun anew; False when it has moved since it was read."""
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
            updated_at=now,
        )
    )
    return moved.rowcount == 1
