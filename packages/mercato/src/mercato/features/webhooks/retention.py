"""Deletes deliveries: old ones, a partner's, and those about customers who must be forgotten."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Row, delete, literal_column, select

from mercato.features.compression import decompress
from mercato.features.partners.tables import webhook_endpoints
from mercato.features.webhooks.tables import answered_validations, deliveries, delivery_attempts, endpoints
from mercato.platform.clock import first_id
from mercato.platform.db.engine import Read, Write
from mercato_contract.events import EventType
from mercato_contract.webhooks import DeliveryStatus

MAX_IDS: Final = 10_000
"""Ids in one statement: databases take about 32,000, and an order may have any number of updates."""


async def prune(tx: Write, *, before: datetime, limit: int = 500) -> int:
    """Delete at most `limit` deliveries that ended before then, with their attempts. Return how many."""
    old = await tx.all(
        select(deliveries.c.id)
        .where(
            # Ids begin with their time: the primary key finds the rows that are old enough.
            deliveries.c.id < first_id(before),
            deliveries.c.updated_at < before,
            deliveries.c.status != DeliveryStatus.PENDING,
        )
        .limit(limit)
        # Locked, so that none is sent again between this query and the deletion.
        .with_for_update(skip_locked=True)
    )
    await _delete(tx, deliveries.c.id.in_([row.id for row in old]))
    return len(old)


async def delete_of_orders(tx: Write, order_ids: Sequence[UUID]) -> None:
    """Delete all deliveries about the orders, sent or not: their customers must be forgotten.

    The call that places an order stays until its store has answered: the store must get the order, or its end.
    """
    await _delete(tx, deliveries.c.order_id.in_(order_ids) & deliveries.c.give_up_at.is_(None))


async def delete_store_call(tx: Write, delivery_id: UUID) -> None:
    """Delete the record of a call that has ended, and whose customer was erased meanwhile."""
    await _delete(tx, deliveries.c.id == delivery_id)


async def delete_of_partner(tx: Write, partner_id: UUID, *, limit: int) -> int:
    """Delete at most `limit` deliveries to the partner, and all its endpoints. Return how many deliveries."""
    await tx.execute(delete(endpoints).where(endpoints.c.partner_id == partner_id))
    await tx.execute(delete(webhook_endpoints).where(webhook_endpoints.c.partner_id == partner_id))
    found = await tx.all(select(deliveries.c.id).where(deliveries.c.partner_id == partner_id).limit(limit))
    await _delete(tx, deliveries.c.id.in_([row.id for row in found]))
    return len(found)


async def prune_validations(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` recorded validations from before then, which name customers. Return how many."""
    rows = await _list_validations(tx, deliveries.c.id < first_id(before), limit=limit)
    await delete_validations(tx, [row.id for row in rows])
    return len(rows)


async def list_validations(tx: Read, *, after: UUID | None, limit: int) -> list[tuple[UUID, bytes]]:
    """Return id and body of the recorded validations, by id: they have no order to be found by."""
    rest = () if after is None else (deliveries.c.id > after,)
    return [(row.id, decompress(row.body)) for row in await _list_validations(tx, *rest, limit=limit)]


async def _list_validations(tx: Read, *which: ColumnElement[bool], limit: int) -> list[Row[Any]]:
    columns = select(deliveries.c.id, deliveries.c.body).where(*which)
    failed = columns.where(
        # The condition of the partial index that finds them.
        deliveries.c.status != literal_column(f"'{DeliveryStatus.SUCCEEDED.value}'"),
        deliveries.c.type == EventType.ORDER_VALIDATE,
    )
    answered = columns.join(answered_validations, answered_validations.c.delivery_id == deliveries.c.id)
    found: list[Row[Any]] = []
    for query in (failed, answered):
        found += await tx.all(query.order_by(deliveries.c.id).limit(limit))
    return sorted(found, key=lambda row: row.id)[:limit]


async def delete_validations(tx: Write, ids: Sequence[UUID]) -> None:
    """Delete recorded validations: their customers must be forgotten."""
    await _delete(tx, deliveries.c.id.in_(ids))


async def _delete(tx: Write, which: ColumnElement[bool]) -> None:
    # Deliveries first: a sender that records an attempt locks its delivery. This waits for it, or it finds none.
    rows = (await tx.execute(delete(deliveries).where(which).returning(deliveries.c.id))).all()
    deleted = [row.id for row in rows]
    for first in range(0, len(deleted), MAX_IDS):
        batch = deleted[first : first + MAX_IDS]
        await tx.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(batch)))
        await tx.execute(delete(answered_validations).where(answered_validations.c.delivery_id.in_(batch)))
