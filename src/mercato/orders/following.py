"""Following an order: reads for both sides, the merchant's updates, and everything that happened to it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import Row

from mercato import crash, errors
from mercato.clock import Clock
from mercato.db.audit import audit
from mercato.db.engine import Database, Write
from mercato.orders import progress, queries
from mercato.orders.changes import Changes
from mercato.orders.model import (
    OrderPage,
    OrderState,
    OrderStatusResponse,
    OrderStatusUpdate,
    OrderTimeline,
    TimelineEntry,
)
from mercato.orders.progress import Progress
from mercato.orders.record import Actor, OrderRow, StoreAnswer, commerce_order_of
from mercato.orders.submission import end_record
from mercato.partners.model import Caller, Surface
from mercato.webhooks.log import OrderAttempt, list_attempts_of_order
from mercato.wire import instant
from mercato.wire.cursor import page_of

MOST_ENTRIES: Final = 500
"""Entries of one timeline, the oldest first; the merchant's updates are all that has no bound of its own."""


class Orders(Struct, frozen=True):
    """Placed orders, for the side that asks."""

    db: Database
    clock: Clock
    changes: Changes

    async def get(self, caller: Caller, order_id: UUID) -> OrderRow:
        """Return the caller's order. Raises OrderNotFound."""
        async with self.db.read() as tx:
            row = await queries.find_order(tx, caller, order_id)
        if row is None:
            raise errors.OrderNotFound(order_id)
        return row

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
        """Move the merchant's order on. The same again changes nothing.

        Raises OrderNotFound, ValidationFailed, OrderClosed, InvalidStatusTransition.
        """
        async with self.db.write() as tx:
            row = await queries.find_order(tx, caller, order_id, lock=True)
            if row is None:
                raise errors.OrderNotFound(order_id)
            # The clock is read once the order is held: who was waited for came first.
            change = progress.change(_progress(row), request, self.clock())
            if change is not None:
                row = await self._move(tx, row, change)
                crash.point("order.moved")
                await audit(tx, "order", row.id, detail={"state": row.state, "status": row.status})
        return OrderStatusResponse(
            order_id=row.id, state=row.state, status=row.status, updated_at=instant(row.updated_at) or ""
        )

    async def _move(self, tx: Write, row: OrderRow, change: progress.Change) -> OrderRow:
        after = change.after
        values: dict[str, Any] = {
            "state": after.state,
            "status": after.status,
            "estimated_ready_at": after.estimated_ready_at,
            "cancel_reason": after.cancel_reason,
        }
        if row.answer is StoreAnswer.WAITING:
            # Who moves an order on has it: nothing needs to be sent any more.
            values["answer"] = StoreAnswer.ACCEPTED
            await queries.delete_submission(tx, row.id)
            await end_record(tx, row.id, delivered=True, now=change.at)
        return await self.changes.change(
            tx,
            row,
            actor=Actor.MERCHANT,
            entry="updated" if after.state is OrderState.OPEN else after.state.value,
            now=change.at,
            detail=_said(change),
            **values,
        )

    async def timeline(self, caller: Caller, order_id: UUID) -> OrderTimeline:
        """Return all that happened to the caller's order, every webhook attempt included. Raises OrderNotFound."""
        async with self.db.read() as tx:
            row = await queries.find_order(tx, caller, order_id)
            if row is None:
                raise errors.OrderNotFound(order_id)
            history = await queries.list_entries(tx, order_id, limit=MOST_ENTRIES)
            attempts = await list_attempts_of_order(tx, order_id, limit=MOST_ENTRIES)
        return OrderTimeline(order_id=order_id, entries=_entries(row, history, attempts, caller))


def _progress(row: OrderRow) -> Progress:
    return Progress(
        state=row.state,
        status=row.status,
        estimated_ready_at=row.estimated_ready_at,
        cancel_reason=row.cancel_reason,
    )


def _said(change: progress.Change) -> dict[str, Any]:
    """Return what of the order changed."""
    before, after = change.before, change.after
    members: list[tuple[str, Any, Any]] = [
        ("status", before.status, after.status),
        ("state", before.state, after.state),
        ("estimatedReadyAt", before.estimated_ready_at, after.estimated_ready_at),
        ("cancelReason", before.cancel_reason, after.cancel_reason),
    ]
    return {
        name: instant(now) if isinstance(now, datetime) else now
        for name, was, now in members
        if was != now and now is not None
    }


def _entries(
    row: OrderRow, history: Sequence[Row[Any]], attempts: Sequence[OrderAttempt], caller: Caller
) -> list[TimelineEntry]:
    """Return both, oldest first; what happened at one instant stands in the order in which it must have."""
    total = {"total": row.amounts.total, "currency": row.currency}
    placed = (
        row.created_at,
        TimelineEntry(at=instant(row.created_at) or "", type="placed", actor=Actor.STOREFRONT, detail=total),
    )
    told = [(one.at, _attempted(one, caller)) for one in attempts]
    happened = [
        (
            one.at,
            TimelineEntry(
                at=instant(one.at) or "",
                type=one.type,
                actor=one.actor,
                detail=msgspec.json.decode(one.detail),
            ),
        )
        for one in history
    ]
    return [entry for _, entry in sorted([placed, *told, *happened], key=lambda pair: pair[0])]


def _attempted(one: OrderAttempt, caller: Caller) -> TimelineEntry:
    """Return an attempt: its own partner can look the delivery up, the other side sees that it was made."""
    own = one.surface is caller.surface
    detail: dict[str, Any] = {
        "event": one.type,
        "to": "store" if one.surface is Surface.COMMERCE else "storefront",
        "number": one.number,
        "status": one.status,
        "ms": one.ms,
        "succeeded": one.error is None,
    }
    if own:
        detail |= {"deliveryId": one.delivery_id, "error": one.error}
    return TimelineEntry(at=instant(one.at) or "", type="webhook.attempt", actor=Actor.SERVICE, detail=detail)
