"""The outbox: an event for a partner's feed and the job that sends it, in the transaction that causes the event.

Webhook endpoints get their deliveries when the event gets its position, so the request that causes the event doesn't
wait for them.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import BigInteger, bindparam, select, tuple_

from mercato.features.events.log import Event, append
from mercato.features.events.sequencer import WrittenEvent
from mercato.features.events.tables import event_positions
from mercato.features.partners import accounts
from mercato.features.partners.model import AccountError, Surface
from mercato.features.partners.queries import lock_partner
from mercato.features.partners.tables import webhook_endpoints
from mercato.features.webhooks import endpoint_health
from mercato.features.webhooks.attempts import (
    Due,
    NewDelivery,
    enqueue_attempt,
    insert_deliveries,
    insert_delivery,
)
from mercato.features.webhooks.model import DeliverJob, partition_of
from mercato.features.webhooks.tables import failing_endpoints
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared
from mercato.platform.telemetry import tracing
from mercato_contract import clock
from mercato_contract.clock import MakeId
from mercato_contract.events import (
    NOT_IN_FEEDS,
    ON_REQUEST,
    SUFFIXES,
    EndpointChangedData,
    EndpointKind,
    EventType,
    envelope,
)
from mercato_contract.signing import target
from mercato_contract.webhooks import DeliveryStatus
from mercato_outbound.guard import ANY_ADDRESS, AddressPolicy, origin_of


class Recipient(Struct, frozen=True):
    """Who gets an event, and where: at a webhookUrl (Commerce), an event URL (Marketfront), or in the feed alone."""

    partner_id: UUID
    surface: Surface
    base_url: str | None

    def url(self, event_type: EventType) -> str | None:
        """Return where events of that type go; None if nowhere: some types only go to endpoints that ask for them."""
        if event_type in ON_REQUEST:
            return None
        if self.base_url is None or self.surface is Surface.MARKETFRONT:
            return self.base_url
        return target(self.base_url, SUFFIXES[event_type])


class NewEvent(Struct, frozen=True, kw_only=True):
    """What happened, and to which order or store. `order_content` is the content of the order as it is stored."""

    delivery_id: UUID
    webhook_id: UUID
    type: EventType
    data: object
    traceparent: str
    store_id: UUID | None = None
    order_id: UUID | None = None
    order_content: bytes = b""


async def push(tx: Write, event: NewEvent, *, to: Recipient, now: datetime) -> None:
    """Add an event that happens `now` to its feed, and enqueue its first attempt, in the caller's transaction."""
    await push_all(tx, [(event, to)], now=now)


async def push_all(tx: Write, events: Sequence[tuple[NewEvent, Recipient]], *, now: datetime) -> None:
    """Add events that happen `now` to their feeds, and enqueue their first attempts, in the caller's transaction.

    Without an address there is nothing to send. The body is compressed with the order's content, so that content isn't
    stored twice. Deliveries about one order to one address are sent one after the other in the order of their pushes;
    one that waits for a retry blocks no other. While the address is disabled the delivery is stored as failed, so
    that it can be redelivered.
    """
    reasons: dict[tuple[UUID, str], str | None] = {}
    written: list[NewDelivery] = []
    for event, to in events:
        url = to.url(event.type)
        if url is None:
            continue
        partition = partition_of(event.order_id or event.webhook_id)
        if (to.partner_id, url) not in reasons:
            reasons[to.partner_id, url] = await endpoint_health.find_disabled_reason(tx, to.partner_id, url)
        disabled = reasons[to.partner_id, url]
        due = None
        if disabled is None:
            job = DeliverJob(partner_id=to.partner_id, url=url, partition=partition)
            due = await enqueue_attempt(tx, job, event.delivery_id)
        written.append(_delivery(event, to, url, partition, disabled, due, now=now))
    # Read and enqueue before anything is deferred, so that deferred statements stay together.
    for event, to in events:
        append(tx, _event(event, to, now))
    for delivery in written:
        insert_delivery(tx, delivery)


def _event(event: NewEvent, to: Recipient, now: datetime) -> Event:
    return Event(
        id=event.webhook_id,
        partner_id=to.partner_id,
        surface=to.surface,
        type=event.type,
        body=envelope(event.type, occurred_at=now, data=event.data),
        store_id=event.store_id,
        order_id=event.order_id,
        order_content=event.order_content,
        traceparent=event.traceparent,
    )


def _delivery(
    event: NewEvent,
    to: Recipient,
    url: str,
    partition: int,
    disabled: str | None,
    due: Due | None,
    *,
    now: datetime,
) -> NewDelivery:
    """Return the delivery of an event, whose body is the event's."""
    return NewDelivery(
        id=event.delivery_id,
        partner_id=to.partner_id,
        surface=to.surface,
        store_id=event.store_id,
        order_id=event.order_id,
        type=event.type,
        webhook_id=event.webhook_id,
        url=url,
        body=b"",
        traceparent=event.traceparent,
        partition=partition,
        created_at=now,
        updated_at=now,
        status=DeliveryStatus.PENDING if disabled is None else DeliveryStatus.FAILED,
        error=None if disabled is None else endpoint_health.disabled_error(disabled),
        next_attempt_at=now if disabled is None else None,
        due_at=None if due is None else due.at,
        job_id=None if due is None else due.job_id,
    )


async def announce_change(
    tx: Write,
    data: EndpointChangedData,
    *,
    partner_id: UUID,
    event_url: str | None,
    webhook_url: str | None,
    now: datetime,
    new_id: MakeId,
    trace: str,
) -> None:
    """Push `endpoint.changed` to the event URL, or without one to the webhookUrl that was in force until now."""
    event_id = new_id()
    event = NewEvent(
        delivery_id=event_id,
        webhook_id=event_id,
        type=EventType.ENDPOINT_CHANGED,
        data=data,
        traceparent=trace,
        store_id=data.store_id if isinstance(data.store_id, UUID) else None,
    )
    surface = Surface.COMMERCE if event_url is None else Surface.MARKETFRONT
    await push(tx, event, to=Recipient(partner_id, surface, event_url or webhook_url), now=now)


def origin_changed(before: str | None, after: str | None) -> bool:
    """Return whether two URLs differ in scheme, host or port; None is no URL."""
    if before is None or after is None:
        return before is not after
    return before != after and (origin_of(before) != origin_of(after) or origin_of(after) is None)


async def change_event_url(
    tx: Write,
    partner_id: UUID,
    url: str | None,
    *,
    now: datetime,
    new_id: MakeId,
    policy: AddressPolicy = ANY_ADDRESS,
) -> None:
    """Set where the partner's order events go, and announce a new origin where they went until now.

    `policy` says which addresses may be called. Raises AccountError, also for the URL of a webhook endpoint: it would
    get each event twice, signed with two secrets.
    """
    # As a new endpoint does, which must not be the event URL either. Of two changes at once the second one announces
    # what the first one set.
    await lock_partner(tx, partner_id)
    partner = await accounts.get_partner(tx, partner_id)
    its_endpoint = select(_e.id).where(
        _e.partner_id == partner.id, _e.surface == Surface.MARKETFRONT, _e.url == url
    )
    if url is not None and url != partner.event_url and await tx.scalar(its_endpoint) is not None:
        raise AccountError(
            f"{partner.name} has a webhook endpoint with this URL already, which gets the same events. Delete that one "
            "first, or use another URL."
        )
    await accounts.set_event_url(tx, partner.id, url, policy=policy)
    if partner.event_url is None or not origin_changed(partner.event_url, url):
        return
    data = EndpointChangedData(
        endpoint=EndpointKind.EVENT_URL,
        previous_origin=origin_of(partner.event_url),
        origin=None if url is None else origin_of(url),
        token_sent=False,
    )
    await announce_change(
        tx,
        data,
        partner_id=partner.id,
        event_url=partner.event_url,
        webhook_url=None,
        now=now,
        new_id=new_id,
        trace=tracing.new_trace(),
    )


# --- to webhook endpoints ---------------------------------------------------------------------------------

_e, _p = webhook_endpoints.c, event_positions.c
_ENDPOINTS: Final = prepared(
    select(
        _e.partner_id, _e.surface, _e.id, _e.url, _e.types, _e.store_ids, failing_endpoints.c.disabled_reason
    )
    .join(failing_endpoints, endpoint_health.OF_ENDPOINT, isouter=True)
    .where(
        # No other process assigns positions meanwhile: these are this transaction's.
        tuple_(_e.partner_id, _e.surface).in_(
            select(_p.partner_id, _p.surface).where(_p.position > bindparam("after", type_=BigInteger))
        ),
        _e.enabled,
    )
    .order_by(_e.id)
)
"""The enabled endpoints of all feeds that have got events."""


_ENDPOINTS_OF: Final = (
    select(_e.types, _e.store_ids, failing_endpoints.c.disabled_reason)
    .join(failing_endpoints, endpoint_health.OF_ENDPOINT, isouter=True)
    .where(
        _e.partner_id == bindparam("where_partner_id"), _e.surface == bindparam("where_surface"), _e.enabled
    )
)


class _Subscriber(NamedTuple):
    partner_id: UUID
    surface: str
    id: UUID
    url: str
    types: str | None
    store_ids: str | None
    disabled_reason: str | None


async def fan_out(tx: Write, written: Sequence[WrittenEvent], after: int, now: datetime) -> None:
    """Enqueue what these new events send to webhook endpoints, in their order.

    `after` is the position before theirs. One job is enqueued for each endpoint and partition, whose run sends all that
    is due. An endpoint that is disabled after failures gets failed deliveries, so that they can be redelivered.
    """
    subscribers: defaultdict[tuple[UUID, str], list[_Subscriber]] = defaultdict(list)
    for row in await tx.all(_ENDPOINTS, {"after": after}):
        subscribers[row.partner_id, row.surface].append(_Subscriber(*row))
    pairs = [
        (event, event.type, endpoint)
        for event in written
        for endpoint in subscribers.get((event.partner_id, event.surface), ())
        if event.type is not None
        and _asks_for(endpoint.types, event.type, endpoint.store_ids, event.store_id)
    ]
    jobs: dict[tuple[UUID, int], Due | None] = {}
    deliveries: list[NewDelivery] = []
    # In the order of the ids, because deliveries of one job are sent in it.
    for delivery_id, (event, type_, endpoint) in zip(
        sorted(clock.new_id() for _ in pairs), pairs, strict=True
    ):
        partition, due = partition_of(event.order_id or event.event_id), None
        if endpoint.disabled_reason is None:
            key = endpoint.id, partition
            if key not in jobs:
                job = DeliverJob(partner_id=event.partner_id, url=endpoint.url, partition=partition)
                jobs[key] = await enqueue_attempt(tx, job, delivery_id)
            due = jobs[key]
        deliveries.append(_fanned_out(event, type_, endpoint, delivery_id, partition, due, now=now))
    if deliveries:
        await insert_deliveries(tx, deliveries)


def _fanned_out(
    event: WrittenEvent,
    type_: str,
    endpoint: _Subscriber,
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
        error=None if reason is None else endpoint_health.disabled_error(reason),
        next_attempt_at=None if due is None else now,
        due_at=None if due is None else due.at,
        job_id=None if due is None else due.job_id,
        endpoint_id=endpoint.id,
    )


async def is_pushed(
    tx: Read,
    event_type: EventType,
    *,
    partner_id: UUID,
    surface: Surface,
    base_url: str | None,
    store_id: UUID,
) -> bool:
    """Return whether such an event is sent anywhere: to the partner's own URL, or to a webhook endpoint.

    Addresses that are disabled don't count. Without any, the event is in the partner's feed alone.
    """
    url = Recipient(partner_id, surface, base_url).url(event_type)
    if url is not None and await endpoint_health.find_disabled_reason(tx, partner_id, url) is None:
        return True
    found = await tx.all(_ENDPOINTS_OF, {"where_partner_id": partner_id, "where_surface": surface.value})
    return any(
        row.disabled_reason is None and _asks_for(row.types, event_type, row.store_ids, store_id)
        for row in found
    )


def _asks_for(types: str | None, type_: str, store_ids: str | None, store_id: UUID | None) -> bool:
    """Return whether an endpoint of these columns asks for an event."""
    if type_ in NOT_IN_FEEDS or (
        types is not None and type_ not in msgspec.json.decode(types, type=list[str])
    ):
        return False
    return store_ids is None or (store_id is not None and str(store_id) in store_ids)
