"""Placed orders: read and list them, update their status, adjust what they cost, and list their history."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mercato.features.orders import idempotency, queries, spending
from mercato.features.orders.by_hand import end_waiting
from mercato.features.orders.cancellation_calls import end_calls, is_store_called
from mercato.features.orders.errors import OrderNotFound
from mercato.features.orders.idempotency import KeyedRequest, Pinned, PlacedOrder
from mercato.features.orders.lifecycle import (
    CANCELLED,
    PROGRESS,
    Lifecycle,
    OrderAdjusted,
    OrderCancellationRefused,
    OrderCancelledByOperator,
    OrderCancelledByStorefront,
    OrderChange,
)
from mercato.features.orders.queries import HistoryEntry
from mercato.features.orders.record import OrderRow, StoredAdjustment, StoredCancellation, commerce_order_of
from mercato.features.orders.rules import (
    Progress,
    change_progress,
    change_seen,
    check_adjustment,
    decide_cancellation,
)
from mercato.features.partners.agents import find_agent_names
from mercato.features.partners.model import Caller, Surface
from mercato.features.webhooks.queries import OrderAttempt, list_attempts_of_order
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.errors import InvalidCursor
from mercato.platform.jobs import Done, Handler, Handlers, Job, JobOutcome, enqueue
from mercato.platform.telemetry.context import set_partner
from mercato_contract.clock import Clock, MakeId
from mercato_contract.decoding.decode import read_cursor
from mercato_contract.money import to_text
from mercato_contract.orders import (
    Actor,
    AdjustOrderRequest,
    CancellationStatus,
    MarketfrontOrderPage,
    MarketfrontOrdersQuery,
    OrderPage,
    OrdersFilter,
    OrdersQuery,
    OrderState,
    OrderStatus,
    OrderStatusResponse,
    OrderStatusUpdate,
    OrderTimeline,
    TimelineEntry,
)
from mercato_contract.pages import parse_cursor
from mercato_contract.refusals import Problem
from mercato_contract.wire import as_json, parse_instant, redacted, rfc3339

_PROGRESS: Final = tuple(name for name in Progress.__struct_fields__ if name != "is_erased")
"""The columns of an order that say how far it is."""

MAX_ENTRIES: Final = 500
"""Entries of one timeline, the oldest first. Only the merchant's updates have no limit of their own."""


ATTEMPT: Final = "webhook.attempt"
"""The type of a timeline's entry for a call."""

_SENTENCES: Final = {
    "unanswered": "The store hasn't answered yet. The order is sent to it again.",
    "accepted": "The store accepted the order.",
    "pending": "A person at the store accepts or refuses the order.",
}

_ACCEPTED_ALONE: Final = "The service accepted the order: nobody is called about the store's orders."
"""What entries without details say."""

_NAMES: Final = {
    "cancelReason": "reason",
    "refusal": "the store's reason",
    "estimatedReadyAt": "ready at",
    "estimatedDeliveryAt": "delivered at",
    "errors": "reason",
    "storeNotified": "store notified",
    "partnerOrderId": "the store's number",
}
"""Members of an entry in words."""


CANCELLED_KIND: Final = "order.cancelled"
"""The job that records an operator's cancellation."""


class CancelledJob(Struct, frozen=True):
    """The payload of a `CANCELLED_KIND` job."""

    order_id: UUID


class Orders(Struct, frozen=True):
    """Placed orders, for their merchant or their storefront."""

    db: Database
    clock: Clock
    lifecycle: Lifecycle

    def handlers(self) -> Handlers:
        return {CANCELLED_KIND: Handler(fn=self.record_cancelled, payload=CancelledJob)}

    async def get(self, caller: Caller, order_id: UUID) -> OrderRow:
        """Return the caller's order. Raises OrderNotFound."""
        async with self.db.read() as tx:
            return await queries.get_own_order(tx, caller, order_id)

    async def get_with_changes(
        self, caller: Caller, order_id: UUID
    ) -> tuple[OrderRow, Sequence[TimelineEntry]]:
        """Return the caller's order, and its changes of that moment as `list_changes` does. Raises OrderNotFound."""
        async with self.db.read() as tx:
            row, history = await queries.get_own_order_with_history(tx, caller, order_id, limit=MAX_ENTRIES)
        return row, _changes_in(history)

    async def update(
        self,
        caller: Caller,
        order_id: UUID,
        request: OrderStatusUpdate,
        *,
        seen: OrderStatus | None = None,
    ) -> OrderStatusResponse:
        """Update the merchant's order. The same update again changes nothing.

        With `seen` it is the decision of a person who saw the open order with this status: the first decision counts.
        Raises OrderNotFound, ValidationFailed, OrderClosed, InvalidStatusTransition, Conflict.
        """
        [outcome] = await self.update_many(caller, [(order_id, request)], seen=seen)
        if isinstance(outcome, Problem):
            raise outcome
        return outcome

    async def update_many(
        self,
        caller: Caller,
        updates: Sequence[tuple[UUID, OrderStatusUpdate]],
        *,
        seen: OrderStatus | None = None,
    ) -> list[OrderStatusResponse | Problem]:
        """Update the merchant's orders in one transaction; return each outcome, in their order.

        A refused update changes nothing, and the others happen. Updates of one order are applied one after the other.
        Problems are OrderNotFound, ValidationFailed, OrderClosed, InvalidStatusTransition, Conflict.
        """
        outcomes: dict[int, OrderStatusResponse | Problem] = {}
        left = dict(enumerate(updates))
        async with self.db.write() as tx:
            rows = await queries.lock_own_orders(tx, caller, [order_id for order_id, _ in updates])
            if len(rows) < len(updates):
                # An order may have several, so that what it cost is given back in a later step than another's.
                await spending.lock(tx, rows.values())
            # After the wait for the locks: other changes of the orders came first.
            now = self.clock()
            while left:
                # The first update that is left of each order: `apply_all` takes different orders.
                turn = {order_id: index for index, (order_id, _) in reversed(left.items())}
                changes: list[tuple[OrderRow, OrderChange]] = []
                for order_id, index in turn.items():
                    _, request = left.pop(index)
                    try:
                        changes += _changes(rows.get(order_id), order_id, request, now, seen)
                    except Problem as problem:
                        outcomes[index] = problem
                for row in await self._apply_all(tx, changes):
                    rows[row.id] = row
                    await audit(tx, "order", row.id, detail={"state": row.state, "status": row.status})
                for order_id, index in turn.items():
                    if index not in outcomes:
                        outcomes[index] = _status_of(rows[order_id])
        return [outcomes[index] for index in range(len(updates))]

    async def cancel(self, order_id: UUID, *, reason: str) -> OrderRow:
        """Cancel whichever partner's order for the operator, and notify both sides. The same again changes nothing.

        A job logs and counts it. Raises OrderClosed, and ValidationFailed without a reason.
        """
        request = OrderStatusUpdate(state=OrderState.CANCELLED, cancel_reason=reason)
        async with self.db.write() as tx:
            row = await queries.get_order(tx, order_id, lock=True)
            progress = change_progress(_progress(row), request, self.clock())
            if progress is not None:
                url = await queries.find_webhook_url(tx, row)
                change = OrderCancelledByOperator(
                    at=progress.at, progress=progress, tells_store=True, webhook_url=url
                )
                [row] = await self._apply_all(tx, [(row, change)])
                await enqueue(tx, CANCELLED_KIND, CancelledJob(order_id=row.id))
                detail = {"state": row.state, "cancelReason": row.cancel_reason}
                await audit(tx, "order", row.id, partner_id=row.partner_id, detail=detail)
        return row

    async def record_cancelled(self, job: Job[CancelledJob]) -> JobOutcome:
        """Log and count an order that an operator cancelled: the process of a command has neither log nor metrics."""
        async with self.db.read() as tx:
            row = await queries.get_order(tx, job.payload.order_id)
        set_partner(partner_id=row.partner_id, store_id=row.store_id, traceparent=row.traceparent)
        self.lifecycle.record(CANCELLED, row, Actor.SERVICE)
        return Done()

    async def _apply_all(self, tx: Write, changes: Sequence[tuple[OrderRow, OrderChange]]) -> list[OrderRow]:
        told: list[tuple[OrderRow, OrderChange]] = []
        for row, change in changes:
            after = change.apply_to(row)
            if isinstance(change, OrderCancelledByStorefront | OrderCancellationRefused):
                await end_calls(tx, change.cancellation, now=change.at)
            if after.answer is not row.answer:
                await end_waiting(tx, row, delivered=change.actor is Actor.MERCHANT, now=change.at)
            told.append((row, await _with_notice(tx, row, change, after)))
        applied = await self.lifecycle.apply_all(tx, told)
        if applied:
            processes.crash_point("order.moved")
        return applied

    async def timeline(self, caller: Caller, order_id: UUID) -> OrderTimeline:
        """Return the history of the caller's order with every webhook attempt. Raises OrderNotFound."""
        async with self.db.read() as tx:
            row = await queries.get_own_order(tx, caller, order_id)
            entries = await list_timeline(tx, row, reader=caller.surface)
        return OrderTimeline(order_id=order_id, entries=entries)


async def list_timeline(tx: Read, row: OrderRow, *, reader: Surface | None = None) -> list[TimelineEntry]:
    """Return all that happened to the order, oldest first: for one side, or for the operator.

    The merchant doesn't see which of the storefront's agents placed it.
    """
    changes = await list_changes(tx, row)
    attempts = await list_attempts_of_order(tx, row.id, limit=MAX_ENTRIES)
    placed: dict[str, Any] = {"total": row.amounts.total, "currency": row.currency}
    if row.agent_id is not None and reader is not Surface.COMMERCE:
        # Deleted with its storefront.
        placed["agent"] = (await find_agent_names(tx, [row.agent_id])).get(row.agent_id, "deleted")
    entries = [
        TimelineEntry(at=rfc3339(row.created_at), type="placed", actor=Actor.STOREFRONT, detail=placed),
        *(_attempt_entry(attempt, reader) for attempt in attempts),
        *changes,
    ]
    return sorted(entries, key=attrgetter("at"))


async def list_changes(tx: Read, row: OrderRow) -> list[TimelineEntry]:
    """Return how the order changed, oldest first: its timeline without its placing and without calls."""
    return _changes_in(await queries.list_history(tx, row.id, limit=MAX_ENTRIES))


def _changes_in(history: Sequence[HistoryEntry]) -> list[TimelineEntry]:
    entries = [
        TimelineEntry(
            at=rfc3339(entry.at),
            type=entry.type,
            actor=entry.actor,
            detail=msgspec.json.decode(entry.detail),
        )
        for entry in history
    ]
    return sorted(entries, key=attrgetter("at"))


def _changes(
    row: OrderRow | None,
    order_id: UUID,
    request: OrderStatusUpdate,
    now: datetime,
    seen: OrderStatus | None,
) -> list[tuple[OrderRow, OrderChange]]:
    """Return the order with its change, or nothing if it is as requested already. Raises what `update_many` lists."""
    if row is None:
        raise OrderNotFound(order_id)
    if request.cancellation is not None:
        decided = decide_cancellation(row, request, now)
        return [] if decided is None else [(row, _decision(decided))]
    current = _progress(row)
    progress = (
        change_progress(current, request, now)
        if seen is None
        else change_seen(current, request, now, seen=seen)
    )
    if progress is None:
        return []
    return [(row, PROGRESS[progress.after.state](at=progress.at, progress=progress))]


async def _with_notice(tx: Read, row: OrderRow, change: OrderChange, after: OrderRow) -> OrderChange:
    """Return the change, which tells the store if it is called about a cancellation that another system has decided.

    It may refuse in the same moment, and would prepare an order that is cancelled.
    """
    if change.tells_store or not is_store_called(row) or after.state is not OrderState.CANCELLED:
        return change
    return replace(change, tells_store=True, webhook_url=await queries.find_webhook_url(tx, row))


def _decision(decided: StoredCancellation) -> OrderChange:
    """Return what happens to an order whose merchant has decided about its cancellation."""
    if decided.status is CancellationStatus.ACCEPTED:
        return OrderCancelledByStorefront(at=decided.at, cancellation=decided)
    return OrderCancellationRefused(at=decided.at, cancellation=decided, actor=Actor.MERCHANT)


def _status_of(row: OrderRow) -> OrderStatusResponse:
    return OrderStatusResponse(
        order_id=row.id, state=row.state, status=row.status, updated_at=rfc3339(row.updated_at)
    )


def _progress(row: OrderRow) -> Progress:
    members = {name: getattr(row, name) for name in _PROGRESS}
    return Progress(**members, is_erased=row.client_context is None)


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
        if attempt.warning is not None:
            detail["warning"] = attempt.warning
    return TimelineEntry(at=rfc3339(attempt.at), type=ATTEMPT, actor=Actor.SERVICE, detail=detail)


# --- timelines in words, for people -------------------------------------------------------------


INSTANTS: Final = frozenset({"estimatedReadyAt", "estimatedDeliveryAt"})
"""Members of an entry that are instants."""


def describe(entry: TimelineEntry, *, show_instant: Callable[[str], str] = str) -> str:
    """Return the detail of an entry in words. `show_instant` turns RFC 3339 into what its reader reads times in."""
    detail = entry.detail
    if entry.type == "placed":
        by = f", placed by agent {detail['agent']}" if "agent" in detail else ""
        return f"{detail['total']} {detail['currency']}{by}"
    if entry.type == "accepted" and entry.actor == Actor.SERVICE and not detail:
        return _ACCEPTED_ALONE
    if entry.type in _SENTENCES and not detail:
        return _SENTENCES[entry.type]
    if entry.type == ATTEMPT:
        answer = "no answer" if detail["status"] is None else f"HTTP {detail['status']}"
        said = detail.get("error") or detail.get("warning")
        reason = f": {said}" if said else ""
        call = f"{detail['event']} to the {detail['to']}, attempt {detail['number']}"
        return f"{call}: {answer}, {detail['ms']} ms{reason}"
    return ", ".join(
        f"{_NAMES.get(name, name)}: {show_instant(str(value)) if name in INSTANTS and value else _value(value)}"
        for name, value in detail.items()
    )


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_value(item) for item in value)
    if isinstance(value, dict):
        return " ".join(_value(item) for item in value.values() if item is not None)
    return str(value)


# --- adjustments ----------------------------------------------------------------------------------

LEASE: Final = timedelta(seconds=5)
"""How long a request holds its key. It is over with its transaction, so nobody sees the claim of another."""


@redacted("secrets")
class Adjustments(Struct, frozen=True, kw_only=True):
    """Changes what orders cost, for their merchants: once for each key, and only so far as the order's sums allow.

    What an order was placed for never changes. Adjustments are added to it, never changed or removed, and what it costs
    now is computed from all of them. The adjustment, its event, its entry in the history and the answer that is pinned
    to the key are one transaction under the order's lock: after a crash at any instant, all are there or none.
    """

    db: Database
    clock: Clock
    new_id: MakeId
    lifecycle: Lifecycle
    secrets: Sequence[bytes]

    async def adjust(
        self, caller: Caller, order_id: UUID, request: AdjustOrderRequest, *, key: str
    ) -> PlacedOrder:
        """Return the adjusted order for its merchant, or what is pinned to the key.

        Raises OrderNotFound, ValidationFailed, Conflict, OrderClosed: the key stays free.
        """
        subject = b"adjust" + order_id.bytes
        keyed = KeyedRequest(
            partner_id=caller.partner_id,
            key=key,
            secrets=self.secrets,
            sent=lambda: subject + as_json(request),
            meaning=subject + idempotency.meaning_of(request),
            lease=LEASE,
        )
        async with self.db.write() as tx:
            order = await queries.get_own_order(tx, caller, order_id, lock=True)
            now = self.clock()
            claim = await idempotency.claim(tx, keyed, now=now, order_id=order_id)
            if isinstance(claim, Pinned):
                assert isinstance(claim.outcome, PlacedOrder), "no refusal of this request is pinned"
                return claim.outcome
            # A key without its answer adjusted the order before its customer was erased, and the answer with it.
            if not claim.joins:
                adjustment = StoredAdjustment(
                    id=self.new_id(),
                    type=request.type,
                    amount=check_adjustment(order, request),
                    # What is written of a customer who is erased already wouldn't be erased any more.
                    reason=None if order.client_context is None else request.reason,
                    line_item_ids=tuple(dict.fromkeys(request.line_item_ids or ())),
                    at=now,
                )
                detail = {"adjustment": adjustment.type, "amount": to_text(adjustment.amount, order.currency)}
                await audit(tx, "order", order.id, detail=detail)
                change = OrderAdjusted(at=now, adjustment=adjustment, currency=order.currency)
                order = await self.lifecycle.apply(tx, order, change)
            outcome = PlacedOrder(order.id, as_json(commerce_order_of(order)))
            await idempotency.pin(tx, claim, outcome, order_content=order.content)
            processes.crash_point("adjustment.written")
        processes.crash_point("adjustment.stored")
        return outcome


# --- lists ----------------------------------------------------------------------------------------


async def list_commerce_orders(db: Database, caller: Caller, query: OrdersQuery) -> OrderPage:
    """Return a page of the orders of the merchant's stores, newest first. Raises ValidationFailed."""
    async with db.read() as tx:
        rows, cursor = await _page(tx, caller, query, before=read_cursor(query.cursor))
    return OrderPage(orders=[commerce_order_of(row) for row in rows], next_cursor=cursor)


async def list_marketfront_orders(
    db: Database, caller: Caller, query: MarketfrontOrdersQuery
) -> MarketfrontOrderPage:
    """Return a page of the orders that the storefront placed, newest first. Raises ValidationFailed, InvalidCursor."""
    async with db.read() as tx:
        before = None if query.cursor is None else await _own_cursor(tx, caller, query.cursor)
        rows, cursor = await _page(tx, caller, query, before=before)
    return MarketfrontOrderPage(orders=[row.storefront_order for row in rows], next_cursor=cursor)


async def _own_cursor(tx: Read, caller: Caller, text: str) -> UUID:
    """Return the order that the cursor names. Raises InvalidCursor unless it is one of the caller's."""
    before = parse_cursor(text)
    # Orders are never deleted, so a cursor that was given out stays good.
    if before is None or not await queries.is_own_order(tx, caller, before):
        raise InvalidCursor
    return before


async def _page(
    tx: Read, caller: Caller, query: OrdersFilter, *, before: UUID | None
) -> tuple[Sequence[OrderRow], str | None]:
    return await queries.list_orders(
        tx,
        caller,
        store_id=query.store_id,
        state=None if query.state is None else OrderState(query.state.lower()),
        since=None if query.since is None else parse_instant(query.since),
        before=before,
        limit=query.limit,
    )
