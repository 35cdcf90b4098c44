"""Enqueues a delivery for every webhook endpoint that asks for an event, when the event gets its position.

Whoever causes an event doesn't wait for it, however many endpoints there are.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Text, and_, bindparam, literal_column, select

from mercato.features.events.tables import events
from mercato.features.partners.model import Surface
from mercato.features.partners.tables import webhook_endpoints
from mercato.features.webhooks.attempts import Due, enqueue_attempt
from mercato.features.webhooks.endpoints import disabled_error
from mercato.features.webhooks.model import DeliverJob, partition_of
from mercato.features.webhooks.partner_endpoints import asks_for
from mercato.features.webhooks.queries import NewDelivery, insert_deliveries
from mercato.features.webhooks.tables import endpoints as failing
from mercato.platform.clock import new_id
from mercato.platform.db.engine import AnyRow, Read, Write
from mercato.platform.db.statements import prepared
from mercato.platform.db.types import Id
from mercato.platform.telemetry import tracing
from mercato_contract.webhooks import DeliveryStatus

_e = webhook_endpoints.c
_ENDPOINTS: Final = prepared(
    select(_e.id, _e.partner_id, _e.surface, _e.url, _e.types, _e.store_ids, failing.c.disabled_reason)
    .join(failing, and_(failing.c.partner_id == _e.partner_id, failing.c.url == _e.url), isouter=True)
    .where(
        _e.partner_id == bindparam("where_partner", type_=Id),
        _e.surface == bindparam("where_surface", type_=Text),
        _e.enabled,
    )
    .order_by(_e.id)
)
_ANY_ENDPOINT: Final = prepared(select(_e.id).limit(literal_column("1")))


async def fan_out(tx: Write, written: Sequence[AnyRow], now: datetime) -> int:
    """Enqueue what these new events send to webhook endpoints, in their order; return how many deliveries.

    One job is enqueued for each endpoint and partition, whose run sends all that is due. An endpoint that is disabled
    after failures gets failed deliveries, so that they can be redelivered.
    """
    if await tx.scalar(_ANY_ENDPOINT) is None:
        return 0
    by_feed = await _list_endpoints(tx, {(row.partner_id, row.surface) for row in written})
    if not by_feed:
        return 0
    wanted = [row for row in written if (row.partner_id, row.surface) in by_feed]
    ids = [row.event_id for row in wanted]
    found = {
        row.id: row
        for row in await tx.all(
            select(events.c.id, events.c.type, events.c.order_id).where(events.c.id.in_(ids))
        )
    }
    pairs = [
        (row, found[row.event_id], endpoint)
        for row in wanted
        if row.event_id in found  # else its partner is being deleted
        for endpoint in by_feed[row.partner_id, row.surface]
        if asks_for(endpoint.types, found[row.event_id].type, endpoint.store_ids, row.store_id)
    ]
    jobs: dict[tuple[UUID, int], Due | None] = {}
    deliveries: list[NewDelivery] = []
    # In the order of the ids, because deliveries of one job are sent in it.
    for delivery_id, (row, event, endpoint) in zip(sorted(new_id() for _ in pairs), pairs, strict=True):
        partition, due = partition_of(event.order_id or event.id), None
        if endpoint.disabled_reason is None:
            key = endpoint.id, partition
            if key not in jobs:
                job = DeliverJob(partner_id=row.partner_id, url=endpoint.url, partition=partition)
                jobs[key] = await enqueue_attempt(tx, job, delivery_id)
            due = jobs[key]
        deliveries.append(_delivery(row, event, endpoint, delivery_id, partition, due, now=now))
    if deliveries:
        await insert_deliveries(tx, deliveries)
    return len(deliveries)


async def _list_endpoints(tx: Read, feeds: set[tuple[UUID, str]]) -> dict[tuple[UUID, str], Sequence[AnyRow]]:
    """Return the enabled endpoints of these feeds."""
    # One after the other: most transactions have events of one feed or two, and a prepared statement is cheap.
    found = {
        (partner_id, surface): await tx.all(
            _ENDPOINTS, {"where_partner": partner_id, "where_surface": surface}
        )
        for partner_id, surface in sorted(feeds)
    }
    return {feed: rows for feed, rows in found.items() if rows}


def _delivery(
    row: AnyRow,
    event: AnyRow,
    endpoint: AnyRow,
    delivery_id: UUID,
    partition: int,
    due: Due | None,
    *,
    now: datetime,
) -> NewDelivery:
    """Return the delivery of an event, whose body is the event's."""
    reason = endpoint.disabled_reason
    return NewDelivery(
        id=delivery_id,
        partner_id=row.partner_id,
        surface=Surface(row.surface),
        store_id=row.store_id,
        order_id=event.order_id,
        type=event.type,
        webhook_id=event.id,
        url=endpoint.url,
        body=b"",
        traceparent=row.traceparent or tracing.new_trace(),
        partition=partition,
        created_at=now,
        updated_at=now,
        status=DeliveryStatus.PENDING if due is not None else DeliveryStatus.FAILED,
        error=None if reason is None else disabled_error(reason),
        next_attempt_at=None if due is None else now,
        due_at=None if due is None else due.at,
        job_id=None if due is None else due.job_id,
        endpoint_id=endpoint.id,
    )
