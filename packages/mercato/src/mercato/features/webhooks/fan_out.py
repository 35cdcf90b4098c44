"""Enqueues a delivery for every webhook endpoint that asks for an event, when the event gets its position.

Whoever causes an event doesn't wait for it, however many endpoints there are.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import BigInteger, and_, bindparam, select, tuple_

from mercato.features.events.sequencer import WrittenEvent
from mercato.features.events.tables import event_positions
from mercato.features.partners.model import Surface
from mercato.features.partners.tables import webhook_endpoints
from mercato.features.webhooks.attempts import Due, enqueue_attempt
from mercato.features.webhooks.endpoints import disabled_error
from mercato.features.webhooks.model import DeliverJob, partition_of
from mercato.features.webhooks.partner_endpoints import asks_for
from mercato.features.webhooks.queries import NewDelivery, insert_deliveries
from mercato.features.webhooks.tables import endpoints as failing
from mercato.platform.clock import new_id
from mercato.platform.db.engine import Write
from mercato.platform.db.statements import prepared
from mercato.platform.telemetry import tracing
from mercato_contract.webhooks import DeliveryStatus

_e, _p = webhook_endpoints.c, event_positions.c
_ENDPOINTS: Final = prepared(
    select(_e.partner_id, _e.surface, _e.id, _e.url, _e.types, _e.store_ids, failing.c.disabled_reason)
    .join(failing, and_(failing.c.partner_id == _e.partner_id, failing.c.url == _e.url), isouter=True)
    .where(
        # Nobody else assigns positions meanwhile: these are the ones of this transaction.
        tuple_(_e.partner_id, _e.surface).in_(
            select(_p.partner_id, _p.surface).where(_p.position > bindparam("after", type_=BigInteger))
        ),
        _e.enabled,
    )
    .order_by(_e.id)
)
"""The enabled endpoints of all feeds that have got events."""


class _Endpoint(NamedTuple):
    partner_id: UUID
    surface: str
    id: UUID
    url: str
    types: str | None
    store_ids: str | None
    disabled_reason: str | None


async def fan_out(tx: Write, written: Sequence[WrittenEvent], after: int, now: datetime) -> int:
    """Enqueue what these new events send to webhook endpoints, in their order; return how many deliveries.

    `after` is the position before theirs. One job is enqueued for each endpoint and partition, whose run sends all that
    is due. An endpoint that is disabled after failures gets failed deliveries, so that they can be redelivered.
    """
    endpoints: defaultdict[tuple[UUID, str], list[_Endpoint]] = defaultdict(list)
    for row in await tx.all(_ENDPOINTS, {"after": after}):
        endpoints[row.partner_id, row.surface].append(_Endpoint(*row))
    pairs = [
        (event, event.type, endpoint)
        for event in written
        for endpoint in endpoints.get((event.partner_id, event.surface), ())
        if event.type is not None
        and asks_for(endpoint.types, event.type, endpoint.store_ids, event.store_id)
    ]
    jobs: dict[tuple[UUID, int], Due | None] = {}
    deliveries: list[NewDelivery] = []
    # In the order of the ids, because deliveries of one job are sent in it.
    for delivery_id, (event, type_, endpoint) in zip(sorted(new_id() for _ in pairs), pairs, strict=True):
        partition, due = partition_of(event.order_id or event.event_id), None
        if endpoint.disabled_reason is None:
            key = endpoint.id, partition
            if key not in jobs:
                job = DeliverJob(partner_id=event.partner_id, url=endpoint.url, partition=partition)
                jobs[key] = await enqueue_attempt(tx, job, delivery_id)
            due = jobs[key]
        deliveries.append(_delivery(event, type_, endpoint, delivery_id, partition, due, now=now))
    if deliveries:
        await insert_deliveries(tx, deliveries)
    return len(deliveries)


def _delivery(
    event: WrittenEvent,
    type_: str,
    endpoint: _Endpoint,
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
        partner_id=event.partner_id,
        surface=Surface(event.surface),
        store_id=event.store_id,
        order_id=event.order_id,
        type=type_,
        webhook_id=event.event_id,
        url=endpoint.url,
        body=b"",
        traceparent=event.traceparent or tracing.new_trace(),
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
