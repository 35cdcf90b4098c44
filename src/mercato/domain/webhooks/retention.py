"""How deliveries go: those that are kept too long, and those about customers who are to be forgotten."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, delete, literal_column, select

from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.model import DeliveryStatus
from mercato.kernel.clock import first_id
from mercato.kernel.db.compression import decompress
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.db.tables import deliveries, delivery_attempts, endpoints

MOST_NAMED: Final = 10_000
"""Ids in one statement: databases take some 32,000, and nobody counts how often an order is updated."""


async def prune(tx: Write, *, before: datetime, most: int = 500) -> int:
    """Delete at most `most` deliveries, with their attempts, that ended before then. Return how many."""
    old = await tx.all(
        select(deliveries.c.id)
        .where(
            # Ids begin with their time: the primary key finds what is old enough to look at.
            deliveries.c.id < first_id(before),
            deliveries.c.updated_at < before,
            deliveries.c.status != DeliveryStatus.PENDING,
        )
        .limit(most)
        # Held, so that none is sent again between this look and the deletion.
        .with_for_update(skip_locked=True)
    )
    await _delete(tx, deliveries.c.id.in_([row.id for row in old]))
    return len(old)


async def delete_of_orders(tx: Write, order_ids: Sequence[UUID]) -> None:
    """Delete all that was sent, or is to be sent, about the orders: their customers are to be forgotten."""
    await _delete(tx, deliveries.c.order_id.in_(order_ids))


async def delete_of_partner(tx: Write, partner_id: UUID, *, most: int) -> int:
    """Delete at most `most` deliveries to a partner that goes, and what is known of its endpoints."""
    await tx.execute(delete(endpoints).where(endpoints.c.partner_id == partner_id))
    found = await tx.all(select(deliveries.c.id).where(deliveries.c.partner_id == partner_id).limit(most))
    await _delete(tx, deliveries.c.id.in_([row.id for row in found]))
    return len(found)


async def list_validations(tx: Read, *, after: UUID | None, most: int) -> list[tuple[UUID, bytes]]:
    """Return id and body of the validations in the log, by id: there is no order yet that they could be found by."""
    query = select(deliveries.c.id, deliveries.c.body).where(
        # As the index says it, which these are found by.
        deliveries.c.status != literal_column(f"'{DeliveryStatus.SUCCEEDED.value}'"),
        deliveries.c.type == EventType.ORDER_VALIDATE,
    )
    if after is not None:
        query = query.where(deliveries.c.id > after)
    rows = await tx.all(query.order_by(deliveries.c.id).limit(most))
    return [(row.id, decompress(row.body)) for row in rows]


async def delete_validations(tx: Write, ids: Sequence[UUID]) -> None:
    """Delete validations from the log: their customers are to be forgotten."""
    await _delete(tx, deliveries.c.id.in_(ids))


async def _delete(tx: Write, which: ColumnElement[bool]) -> None:
    # First the deliveries: who records an attempt holds its delivery, and is waited for, or finds it gone.
    rows = (await tx.execute(delete(deliveries).where(which).returning(deliveries.c.id))).all()
    gone = [row.id for row in rows]
    for first in range(0, len(gone), MOST_NAMED):
        its = gone[first : first + MOST_NAMED]
        await tx.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(its)))
