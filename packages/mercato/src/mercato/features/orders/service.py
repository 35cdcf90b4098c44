"""Read placed orders, update their status, and list their history."""

from datetime import datetime
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from mercato.features.orders import queries, transitions
from mercato.features.orders.changes import CANCELLED, Changes
from mercato.features.orders.placement.submission import end_record
from mercato.features.orders.record import OrderRow, StoreAnswer, commerce_order_of
from mercato.features.orders.transitions import Progress
from mercato.features.partners.model import Caller, Surface
from mercato.features.webhooks.queries import OrderAttempt, list_attempts_of_order
from mercato.platform import crash
from mercato.platform.clock import Clock
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.jobs import Done, Job, Outcome, enqueue
from mercato.platform.telemetry.context import set_partner
from mercato.platform.wire.cursor import page_of
from mercato_contract.orders import (
    Actor,
    OrderPage,
    OrderState,
    OrderStatusResponse,
    OrderStatusUpdate,
    OrderTimeline,
    TimelineEntry,
)
from mercato_contract.wire import rfc3339

CANCELLED_KIND: Final = "order.cancelled"
"""The kind of job that records an operator's cancellation."""

MAX_ENTRIES: Final = 500
"""Entries of one timeline, the oldest first. Only the merchant's updates have no limit of their own."""

_MEMBERS: Final = {
    "status": "status",
    "state": "state",
    "estimated_ready_at": "estimatedReadyAt",
    "cancel_reason": "cancelReason",
}
"""The members of a Progress, with their names in a timeline."""


class CancelledJob(Struct, frozen=True):
    """The payload of a `CANCELLED_KIND` job."""

    order_id: UUID


class Orders(Struct, frozen=True):
    """Placed orders, for their merchant or their storefront."""

    db: Database
    clock: Clock
    changes: Changes

    async def get(self, caller: Caller, order_id: UUID) -> OrderRow:
        """Return the caller's order. Raises OrderNotFound."""
        async with self.db.read() as tx:
            return await queries.get_own_order(tx, caller, order_id)

    async def list(
        self,
        caller: Caller,
        *,
        store_id: UUID | None,
        state: OrderState | None,
        before: UUID | None,
        limit: int,
    ) -> OrderPage:
        """Return a page of the merchant's orders, newest first."""
        async with self.db.read() as tx:
            rows = await queries.list_orders(
                tx, caller, store_id=store_id, state=state, before=before, limit=limit + 1
            )
        page, cursor = page_of(rows, limit, lambda row: row.id)
        return OrderPage(orders=[commerce_order_of(row) for row in page], next_cursor=cursor)

    async def update(self, caller: Caller, order_id: UUID, request: OrderStatusUpdate) -> OrderStatusResponse:
        """Update the merchant's order. The same update again changes nothing.

        Raises OrderNotFound, ValidationFailed, OrderClosed, InvalidStatusTransition.
        """
        async with self.db.write() as tx:
            row = await queries.get_own_order(tx, caller, order_id, lock=True)
            # After the wait for the lock: other changes of the order came first.
            change = transitions.change(_progress(row), request, self.clock())
            if change is not None:
                row = await self._update(tx, row, change, actor=Actor.MERCHANT)
                crash.point("order.moved")
                await audit(tx, "order", row.id, detail={"state": row.state, "status": row.status})
        return OrderStatusResponse(
            order_id=row.id, state=row.state, status=row.status, updated_at=rfc3339(row.updated_at)
        )

    async def cancel(self, order_id: UUID, *, reason: str) -> OrderRow:
        """Cancel whichever partner's order for the operator, and notify both sides. The same again changes nothing.

        A worker logs and counts it: the process of a command has neither the service's log nor its metrics.
        Raises OrderClosed, and ValidationFailed without a reason.
        """
        request = OrderStatusUpdate(state=OrderState.CANCELLED, cancel_reason=reason)
        async with self.db.write() as tx:
            row = await queries.get_order(tx, order_id, lock=True)
            change = transitions.change(_progress(row), request, self.clock())
            if change is not None:
                url = await queries.find_webhook_url(tx, row.store_id)
                row = await self._update(tx, row, change, actor=Actor.SERVICE, records=False)
                await enqueue(tx, CANCELLED_KIND, CancelledJob(order_id=row.id))
                detail = {"state": row.state, "cancelReason": row.cancel_reason}
                await audit(tx, "order", row.id, partner_id=row.partner_id, detail=detail)
                if url is not None:
                    await self.changes.notify_store(tx, row, url=url, now=change.at)
        return row

    async def record_cancelled(self, job: Job[CancelledJob]) -> Outcome:
        """Log and count an order that an operator cancelled."""
        async with self.db.read() as tx:
            row = await queries.get_order(tx, job.payload.order_id)
        set_partner(partner_id=row.partner_id, store_id=row.store_id, traceparent=row.traceparent)
        self.changes.record(CANCELLED, row, Actor.SERVICE)
        return Done()

    async def _update(
        self, tx: Write, row: OrderRow, change: transitions.Change, *, actor: Actor, records: bool = True
    ) -> OrderRow:
        values = asdict(change.after)
        if row.answer is StoreAnswer.WAITING:
            # A merchant that updates an order has received it.
            has_it = actor is Actor.MERCHANT
            values["answer"] = StoreAnswer.ACCEPTED if has_it else StoreAnswer.GIVEN_UP
            await end_record(tx, row.id, delivered=has_it, now=change.at)
        state = change.after.state
        return await self.changes.change(
            tx,
            row,
            actor=actor,
            entry="updated" if state is OrderState.OPEN else state.value,
            now=change.at,
            records=records,
            detail=_detail(change),
            **values,
        )

    async def timeline(self, caller: Caller, order_id: UUID) -> OrderTimeline:
        """Return the history of the caller's order with every webhook attempt. Raises OrderNotFound."""
        async with self.db.read() as tx:
            row = await queries.get_own_order(tx, caller, order_id)
            entries = await list_timeline(tx, row, reader=caller.surface)
        return OrderTimeline(order_id=order_id, entries=entries)


async def list_timeline(tx: Read, row: OrderRow, *, reader: Surface | None = None) -> list[TimelineEntry]:
    """Return all that happened to the order, oldest first: for one side, or for the operator."""
    history = await queries.list_entries(tx, row.id, limit=MAX_ENTRIES)
    attempts = await list_attempts_of_order(tx, row.id, limit=MAX_ENTRIES)
    total = {"total": row.amounts.total, "currency": row.currency}
    entries = [
        TimelineEntry(at=rfc3339(row.created_at), type="placed", actor=Actor.STOREFRONT, detail=total),
        *(_attempt_entry(attempt, reader) for attempt in attempts),
        *(
            TimelineEntry(
                at=rfc3339(entry.at),
                type=entry.type,
                actor=entry.actor,
                detail=msgspec.json.decode(entry.detail),
            )
            for entry in history
        ),
    ]
    return sorted(entries, key=attrgetter("at"))


def _progress(row: OrderRow) -> Progress:
    return Progress(**{name: getattr(row, name) for name in _MEMBERS})


def _detail(change: transitions.Change) -> dict[str, Any]:
    """Return the changed members."""
    before, after = asdict(change.before), asdict(change.after)
    return {
        member: rfc3339(value) if isinstance(value, datetime) else value
        for name, member in _MEMBERS.items()
        if (value := after[name]) not in (None, before[name])
    }


def _attempt_entry(attempt: OrderAttempt, reader: Surface | None) -> TimelineEntry:
    """Return an attempt. Only the partner that it went to, and the operator, see the delivery's id and error."""
    detail: dict[str, Any] = {
        "event": attempt.type,
        "to": "store" if attempt.surface is Surface.COMMERCE else "storefront",
        "number": attempt.number,
        "status": attempt.status,
        "ms": attempt.ms,
        "succeeded": attempt.error is None,
    }
    if reader in {None, attempt.surface}:
        detail |= {"deliveryId": attempt.delivery_id, "error": attempt.error}
    return TimelineEntry(at=rfc3339(attempt.at), type="webhook.attempt", actor=Actor.SERVICE, detail=detail)
