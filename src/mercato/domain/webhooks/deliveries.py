"""Deliveries from outside: pushed in the transaction that makes them necessary, read and sent again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Row

from mercato.domain.partners.model import Caller, Surface
from mercato.domain.webhooks import endpoints, queries
from mercato.domain.webhooks.attempts import enqueue_attempt, insert_calls
from mercato.domain.webhooks.event_types import STORE_CALLS, EventType
from mercato.domain.webhooks.model import (
    CallResult,
    DeliverJob,
    DeliveryStatus,
    envelope,
    error_after,
    partition_of,
    reached,
)
from mercato.domain.webhooks.wire import (
    DeliveryAttempt,
    WebhookDelivery,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
)
from mercato.kernel import errors
from mercato.kernel.db.audit import audit
from mercato.kernel.db.compression import compress
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.outbound.signing import target
from mercato.kernel.wire import instant
from mercato.kernel.wire.cursor import page_of, read_cursor

CATALOG_SYNC: Final = "catalog-sync"
ORDER_CANCELLED: Final = "order-cancelled"
ENDPOINT_CHANGED: Final = "endpoint-changed"

SUFFIXES: Final = (CATALOG_SYNC, ORDER_CANCELLED, ENDPOINT_CHANGED)
"""What is delivered durably below a `webhookUrl`; an event URL is called as it is, with the suffix ''."""


async def push(
    tx: Write,
    *,
    delivery_id: UUID,
    partner_id: UUID,
    surface: Surface,
    store_id: UUID | None,
    base_url: str,
    suffix: str,
    type: str,  # noqa: A002  # the envelope's own word
    webhook_id: UUID,
    data: object,
    occurred_at: datetime,
    traceparent: str,
    now: datetime,
    order_id: UUID | None = None,
    order_content: bytes = b"",
    subject: UUID | None = None,
) -> None:
    """Store an event for a partner, and its first attempt, in the caller's transaction.

    `data` is encoded here, once; of what it repeats of the order's content nothing is stored.
    Deliveries of one `subject` (default: the order, else the webhook-id) to
    one address are tried one after the other in the order of their pushes, though one that waits for a retry
    holds up none.
    While the address is disabled the delivery is recorded as failed, so that it can be redelivered.
    """
    url = target(base_url, suffix) if suffix else base_url
    partition = partition_of(subject or order_id or webhook_id)
    disabled = await endpoints.find_disabled_reason(tx, partner_id, url)
    due: dict[str, object] | None = None
    if disabled is None:
        job = DeliverJob(partner_id=partner_id, url=url, partition=partition)
        due = await enqueue_attempt(tx, job, delivery_id)
    await queries.insert_delivery(
        tx,
        id=delivery_id,
        partner_id=partner_id,
        surface=surface,
        store_id=store_id,
        order_id=order_id,
        type=type,
        webhook_id=webhook_id,
        url=url,
        body=compress(envelope(type, occurred_at=occurred_at, data=data), base=order_content),
        traceparent=traceparent,
        partition=partition,
        status=DeliveryStatus.PENDING if disabled is None else DeliveryStatus.FAILED,
        error=None if disabled is None else not_called(disabled),
        next_attempt_at=now if disabled is None else None,
        created_at=now,
        updated_at=now,
        **due or {},
    )


async def record_store_call(
    tx: Write,
    *,
    delivery_id: UUID,
    partner_id: UUID,
    store_id: UUID,
    order_id: UUID | None,
    type: str,  # noqa: A002  # the envelope's own word
    webhook_id: UUID,
    url: str,
    body: bytes,
    traceparent: str,
    attempts: Sequence[CallResult],
    status: DeliveryStatus,
    now: datetime,
    next_attempt_at: datetime | None = None,
    order_content: bytes = b"",
    once: bool = False,
) -> bool:
    """Write a question to a store (`order.validate`, `order.place`), which others ask, into its partner's log.

    `body` is what the partner may read again: without the payment. A pending one is ended by
    `update_store_call`; nothing here makes an attempt of it. With `once` nothing is written, and False returned, if
    there is one of the order and the type already; the transaction has to hold the order.
    """
    made = reached(attempts)
    insert = queries.insert_first if once else queries.insert_delivery
    written = await insert(
        tx,
        id=delivery_id,
        partner_id=partner_id,
        surface=Surface.COMMERCE,
        store_id=store_id,
        order_id=order_id,
        type=type,
        webhook_id=webhook_id,
        url=url,
        body=compress(body, base=order_content),
        traceparent=traceparent,
        partition=partition_of(order_id or webhook_id),
        status=status,
        error=error_after(attempts, status),
        attempts=len(made),
        next_attempt_at=next_attempt_at,
        created_at=now,
        updated_at=now,
    )
    if written:
        await insert_calls(tx, delivery_id, made, first=1)
    return written


async def update_store_call(
    tx: Write,
    delivery_id: UUID,
    attempts: Sequence[CallResult],
    *,
    status: DeliveryStatus,
    now: datetime,
    next_attempt_at: datetime | None = None,
) -> None:
    """Add attempts to a question that was recorded, and say how it stands now. Nothing if it was pruned."""
    made = reached(attempts)
    columns: dict[str, object] = {"status": status, "next_attempt_at": next_attempt_at, "updated_at": now}
    if attempts or status is DeliveryStatus.SUCCEEDED:
        columns["error"] = error_after(attempts, status)
    total = await queries.move_recorded(tx, delivery_id, more=len(made), columns=columns)
    if total is not None:
        await insert_calls(tx, delivery_id, made, first=total - len(made) + 1)


async def find_store_call(
    tx: Read,
    order_id: UUID,
    type: str = EventType.ORDER_PLACE,  # noqa: A002  # the envelope's own word
) -> UUID | None:
    """Return the delivery under which an order's question was recorded."""
    return await queries.find_of_order(tx, order_id, type)


def not_called(disabled_reason: str) -> str:
    """Return why a delivery to a disabled endpoint failed without an attempt."""
    return f"endpoint disabled: {disabled_reason}"


async def list_deliveries(
    tx: Read,
    caller: Caller,
    *,
    limit: int,
    status: DeliveryStatus | None = None,
    type: str | None = None,  # noqa: A002  # as in the query string
    store_id: UUID | None = None,
    order_id: UUID | None = None,
    cursor: str | None = None,
) -> WebhookDeliveryPage:
    """Return a page of the caller's deliveries on this surface, newest first. Raises ValidationFailed."""
    rows = await queries.list_rows(
        tx,
        caller,
        status=status,
        type_=type,
        store_id=store_id,
        order_id=order_id,
        before=read_cursor(cursor),
        most=limit + 1,
    )
    shown, next_cursor = page_of(rows, limit, lambda row: row.id)
    return WebhookDeliveryPage(
        deliveries=[WebhookDelivery(**_members(row)) for row in shown], next_cursor=next_cursor
    )


async def get_delivery(tx: Read, caller: Caller, delivery_id: UUID) -> WebhookDeliveryDetail:
    """Return a delivery of the caller's with its body and attempts. Raises DeliveryNotFound."""
    return await _detail(tx, await _get_row(tx, caller, delivery_id))


async def get_any_delivery(tx: Read, delivery_id: UUID) -> WebhookDeliveryDetail:
    """Return a delivery of whichever partner, for operators. Raises DeliveryNotFound."""
    row = await queries.find_any_row(tx, delivery_id)
    if row is None:
        raise errors.DeliveryNotFound(delivery_id)
    return await _detail(tx, row)


async def redeliver(tx: Write, caller: Caller, delivery_id: UUID, *, now: datetime) -> WebhookDeliveryDetail:
    """Send a delivery of the caller's again at once, with the same id and body, and enable its endpoint.

    One that is due already, or under way, is left alone; one that waits for a retry waits no longer.
    Return it as it is then. Raises DeliveryNotFound, and Conflict for a question to a store (`record_store_call`).
    """
    row = await _get_row(tx, caller, delivery_id)
    if row.type in STORE_CALLS:
        raise errors.Conflict(STORE_CALLS[row.type])
    under_way = row.status == DeliveryStatus.PENDING and row.next_attempt_at <= now
    job = DeliverJob(partner_id=row.partner_id, url=row.url, partition=row.partition)
    due = await enqueue_attempt(
        tx, job, row.id, round=row.round if under_way else row.round + 1, attempts=row.attempts
    )
    # Not moved: somebody else has begun a round or made an attempt in between, and either is what was asked for.
    if due is not None and not under_way:
        await queries.move_to_next_round(tx, row, due, now=now)
    # After the delivery, as a sender settles: in the other order the two could wait for each other.
    await endpoints.enable(tx, row.partner_id, row.url)
    await audit(tx, "delivery", row.id, partner_id=row.partner_id, detail={"type": row.type})
    return await get_delivery(tx, caller, delivery_id)


async def enable_endpoint(tx: Write, partner_id: UUID, url: str) -> bool:
    """Let an address (suffix and query included) be called again. Return whether it was disabled."""
    return await endpoints.enable(tx, partner_id, url)


async def enable_endpoints_below(tx: Write, partner_id: UUID, base_url: str) -> bool:
    """Let every endpoint of a `webhookUrl` be called again. Return whether one was disabled."""
    enabled = [await enable_endpoint(tx, partner_id, target(base_url, suffix)) for suffix in SUFFIXES]
    return any(enabled)


async def _get_row(tx: Read, caller: Caller, delivery_id: UUID) -> Row[Any]:
    row = await queries.find_row(tx, caller, delivery_id)
    if row is None:
        raise errors.DeliveryNotFound(delivery_id)
    return row


async def _detail(tx: Read, row: Row[Any]) -> WebhookDeliveryDetail:
    return WebhookDeliveryDetail(
        **_members(row),
        attempt_log=[_attempt(attempt) for attempt in await queries.list_attempts(tx, row.id)],
        body=msgspec.Raw(queries.body_of(row)),
    )


def _members(row: Row[Any]) -> dict[str, Any]:
    """Return the members that a delivery has in lists and by itself."""
    return {
        "delivery_id": row.id,
        "id": row.id,
        "type": row.type,
        "webhook_id": row.webhook_id,
        "url": row.url,
        "store_id": row.store_id,
        "order_id": row.order_id,
        "status": DeliveryStatus(row.status),
        "attempts": row.attempts,
        "next_attempt_at": instant(row.next_attempt_at),
        "error": row.error,
        "endpoint_disabled": row.disabled_reason,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
    }


def _attempt(row: Row[Any]) -> DeliveryAttempt:
    return DeliveryAttempt(
        number=row.number,
        at=instant(row.at) or "",
        status=row.status,
        ms=row.ms,
        error=row.error,
        reply=row.reply,
    )
