"""A partner's delivery log: calls to its stores, deliveries and their attempts, and redelivery."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from mercato.features.compression import compress
from mercato.features.partners.model import Caller, Surface
from mercato.features.webhooks import endpoint_health, queries
from mercato.features.webhooks.attempts import (
    NewDelivery,
    enqueue_attempt,
    insert_attempts,
    insert_delivery,
    insert_next_attempts,
)
from mercato.features.webhooks.endpoints import find_address
from mercato.features.webhooks.model import CallResult, DeliverJob, DeliveryNotFound, StoreCall, partition_of
from mercato.features.webhooks.queries import DeliveryFilter, DeliveryRow
from mercato.platform import errors
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Read, Write
from mercato_contract.decoding.decode import read_cursor
from mercato_contract.events import STORE_CALLS, SUFFIXES, EventType
from mercato_contract.signing import target
from mercato_contract.webhooks import (
    DeliveryAttempt,
    DeliveryStatus,
    WebhookDelivery,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
    WebhookDeliveryQuery,
)
from mercato_contract.wire import instant, redacted, rfc3339

_COPIED: Final = (
    "id",
    "type",
    "webhook_id",
    "url",
    "store_id",
    "order_id",
    "attempts",
    "error",
    "endpoint_id",
)

# --- calls to stores --------------------------------------------------------------------------------------


@redacted("body", "payment")
class CallRecord(Struct, frozen=True, kw_only=True):
    """A call to a store as its partner's log has it from `at` on.

    `body` is what the partner may read later: without the payment, and stored with its order's content as its base.
    A call that is written before it is made has `give_up_at`, and its payment, sealed, until it has ended.
    """

    id: UUID
    type: EventType
    call: StoreCall
    body: bytes
    status: DeliveryStatus
    at: datetime
    results: Sequence[CallResult] = ()
    order_id: UUID | None = None
    order_content: bytes = b""
    give_up_at: datetime | None = None
    payment: bytes | None = None


async def record_store_call(tx: Write, record: CallRecord) -> None:
    """Write a call to a store into its partner's log; the sender never sends it."""
    call = record.call
    attempts = [result for result in record.results if result.was_sent]
    delivery = NewDelivery(
        id=record.id,
        partner_id=call.partner_id,
        surface=Surface.COMMERCE,
        store_id=call.store_id,
        order_id=record.order_id,
        type=record.type,
        webhook_id=call.webhook_id,
        url=call.url,
        body=compress(record.body, base=record.order_content),
        traceparent=call.traceparent,
        partition=partition_of(record.order_id or call.webhook_id),
        status=record.status,
        error=_last_error(record.results, record.status),
        attempts=len(attempts),
        created_at=record.at,
        updated_at=record.at,
        give_up_at=record.give_up_at,
        payment=record.payment,
    )
    insert_delivery(tx, delivery)
    insert_attempts(tx, record.id, attempts)


async def update_store_call(
    tx: Write,
    delivery_id: UUID,
    results: Sequence[CallResult],
    *,
    status: DeliveryStatus | None,
    now: datetime,
) -> None:
    """Add attempts to a recorded call and set its status, unless that is None, as after the call's end.

    Does nothing if the delivery was pruned. The transaction must have locked the call's order, so that no other adds
    to it.
    """
    attempts = [result for result in results if result.was_sent]
    insert_next_attempts(tx, delivery_id, attempts)
    values: dict[str, object] = {"where_id": delivery_id, "added": len(attempts), "updated_at": now}
    if status is not None:
        values["status"] = status
        if results or status is DeliveryStatus.SUCCEEDED:
            values["error"] = _last_error(results, status)
    tx.defer(
        queries.update_of_call(
            has_status=status is not None,
            has_error="error" in values,
            # A call that has ended loses its payment.
            has_ended=status not in {None, DeliveryStatus.PENDING},
        ),
        values,
    )


def _last_error(results: Sequence[CallResult], status: DeliveryStatus | None) -> str | None:
    """Return the error of the last call, also if it was not sent."""
    return results[-1].error if results and status is not DeliveryStatus.SUCCEEDED else None


# --- for the partner --------------------------------------------------------------------------------------


async def list_deliveries(tx: Read, caller: Caller, query: WebhookDeliveryQuery) -> WebhookDeliveryPage:
    """Return a page of the caller's deliveries on this surface, newest first. Raises ValidationFailed."""
    criteria = DeliveryFilter(
        partner_id=caller.partner_id,
        surface=caller.surface,
        status=query.status,
        type=query.type,
        store_id=query.store_id,
        order_id=query.order_id,
        endpoint_id=query.endpoint_id,
        before=read_cursor(query.cursor),
    )
    page, next_cursor = await queries.search(tx, criteria, limit=query.limit)
    return WebhookDeliveryPage(deliveries=[_delivery(row) for row in page], next_cursor=next_cursor)


async def get_delivery(tx: Read, caller: Caller, delivery_id: UUID) -> WebhookDeliveryDetail:
    """Return a delivery of the caller's with its body and attempts. Raises DeliveryNotFound."""
    return await detail_of(tx, await _get_row(tx, caller, delivery_id))


async def detail_of(tx: Read, row: DeliveryRow) -> WebhookDeliveryDetail:
    """Return a row with its body and attempts."""
    return WebhookDeliveryDetail(
        **asdict(_delivery(row)),
        attempt_log=[
            DeliveryAttempt(**attempt._asdict() | {"at": rfc3339(attempt.at)})
            for attempt in await queries.list_attempts(tx, row.id)
        ],
        body=msgspec.Raw(queries.body_of(row)),
    )


async def redeliver(tx: Write, caller: Caller, delivery_id: UUID, *, now: datetime) -> WebhookDeliveryDetail:
    """Send a delivery of the caller's again at once, with the same id and body, and enable its endpoint.

    A delivery that is due or being sent stays as it is; one that waits for a retry waits no longer. A webhook endpoint
    is called at its present URL, as are an account's event URL and a store's webhookUrl. Return the delivery. Raises
    DeliveryNotFound, and Conflict for a call to a store and for an endpoint that was deleted or that its partner has
    disabled.
    """
    row = await _get_row(tx, caller, delivery_id)
    await send_again(tx, row, now=now)
    await audit(tx, "delivery", row.id, partner_id=row.partner_id, detail={"type": row.type})
    return await get_delivery(tx, caller, delivery_id)


async def send_again(tx: Write, row: DeliveryRow, *, now: datetime) -> None:
    """Begin a new round of a delivery, and enable its endpoint. Raises Conflict."""
    if row.type in STORE_CALLS:
        raise errors.Conflict(STORE_CALLS[row.type])
    url = (
        await queries.find_own_address(tx, row)
        if row.endpoint_id is None
        else await find_address(tx, row.endpoint_id)
    )
    is_due = (
        row.status == DeliveryStatus.PENDING
        and row.next_attempt_at is not None
        and row.next_attempt_at <= now
    )
    if is_due:
        # Its job looks for it at this address.
        url = row.url
    job = DeliverJob(partner_id=row.partner_id, url=url, partition=row.partition)
    round_ = row.round if is_due else row.round + 1
    due = await enqueue_attempt(tx, job, row.id, round=round_, attempts=row.attempts)
    # If nothing is updated, another transaction has begun a round or made an attempt: either is what was asked for.
    if due is not None and not is_due:
        await queries.start_next_round(tx, row, due, url=url, now=now)
    # After the delivery, in the sender's order: in the other order the two could deadlock.
    await endpoint_health.enable(tx, row.partner_id, url)


async def enable_endpoints_below(tx: Write, partner_id: UUID, base_url: str) -> bool:
    """Enable every endpoint of a `webhookUrl`. Return whether one was disabled."""
    suffixes = {suffix for type_, suffix in SUFFIXES.items() if type_ not in STORE_CALLS}
    enabled = [
        await endpoint_health.enable(tx, partner_id, target(base_url, suffix)) for suffix in sorted(suffixes)
    ]
    return any(enabled)


async def _get_row(tx: Read, caller: Caller, delivery_id: UUID) -> DeliveryRow:
    row = await queries.find_row(tx, caller.partner_id, caller.surface, delivery_id)
    if row is None:
        raise DeliveryNotFound(delivery_id)
    return row


def _delivery(row: DeliveryRow) -> WebhookDelivery:
    return WebhookDelivery(
        **{name: getattr(row, name) for name in _COPIED},
        delivery_id=row.id,
        status=DeliveryStatus(row.status),
        next_attempt_at=instant(row.next_attempt_at),
        endpoint_disabled=row.disabled_reason,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )
