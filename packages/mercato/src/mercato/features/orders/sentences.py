"""An order in words: what is happening to it now and since when, and how far it has come.

`sentence_of` is a function of its argument alone: the same order at the same instant always gives the same words.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from mercato.features.orders.lifecycle import CANCELLED_BY_OPERATOR, STORE_UNREACHABLE
from mercato.features.orders.record import OrderRow, StoreAnswer, StoredCancellation
from mercato.features.orders.rules import NOT_ACCEPTED
from mercato_contract.clock import local_time
from mercato_contract.orders import Actor, CancellationStatus, OrderState, OrderStatus, TimelineEntry
from mercato_contract.placements import PickupFulfillment
from mercato_contract.problems import OrderError
from mercato_contract.stores import OrderHandling
from mercato_contract.texts import count_of

MAX_REASON: Final = 200
"""Characters of a partner's reason in the sentence; the timeline has all of it."""

CANCELLED_BY_STORE: Final = "CANCELLED_BY_STORE"
CANCELLED_BY_CUSTOMER: Final = "CANCELLED_BY_CUSTOMER"
"""The cancelReason of an order that a merchant, or a storefront, cancels in the console without another."""

SAYS_WHO: Final = frozenset({CANCELLED_BY_OPERATOR, CANCELLED_BY_STORE, CANCELLED_BY_CUSTOMER})
"""Reasons that say no more than who cancelled the order."""

_CODE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", re.ASCII)

_JUST_NOW: Final = timedelta(seconds=45)
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_MAX_MINUTES: Final = 90
_MAX_HOURS: Final = 36


def number_of(row: OrderRow) -> str:
    """Return the store's number of the order, or the beginning of its id."""
    return row.partner_order_id or str(row.id)[:8]


class OrderFacts(Struct, frozen=True, kw_only=True):
    """What the sentence is made of. `status_at` is when the status or the state last changed.

    `closed_by` is who completed or cancelled the order, `refused_by` who refused to cancel it last. `timezone` is the
    one that the page shows times in.
    """

    state: OrderState
    status: OrderStatus
    answer: StoreAnswer
    store: str
    now: datetime
    placed_at: datetime
    accepted_at: datetime | None = None
    accepted_by: Actor | None = None
    status_at: datetime | None = None
    closed_by: Actor | None = None
    refused_by: Actor | None = None
    promised_for: datetime | None = None
    timezone: str = "UTC"
    is_pickup: bool = True
    errors: Sequence[OrderError] = ()
    cancel_reason: str | None = None
    cancellation: StoredCancellation | None = None


def facts_of(
    row: OrderRow, entries: Sequence[TimelineEntry], *, store: str, timezone: str, now: datetime
) -> OrderFacts:
    """Return what the sentence about an order is made of: its row, and its changes, oldest first.

    `entries` may have the rest of its timeline as well.
    """
    accepted = last = refused = None
    for entry in entries:
        if accepted is None and _has_begun(row, entry):
            accepted = entry
        if _changes_status(entry):
            last = entry
        if entry.type == "cancellation.refused":
            refused = entry
    return OrderFacts(
        state=row.state,
        status=row.status,
        answer=row.answer,
        store=store,
        now=now,
        placed_at=row.created_at,
        accepted_at=None if accepted is None else datetime.fromisoformat(accepted.at),
        accepted_by=None if accepted is None else Actor(accepted.actor),
        status_at=None if last is None else datetime.fromisoformat(last.at),
        closed_by=None if last is None or row.state is OrderState.OPEN else Actor(last.actor),
        refused_by=None if refused is None else Actor(refused.actor),
        promised_for=row.estimated_ready_at,
        timezone=timezone,
        is_pickup=isinstance(row.fulfillment, PickupFulfillment),
        errors=row.errors,
        cancel_reason=row.cancel_reason,
        cancellation=row.cancellation,
    )


def _has_begun(row: OrderRow, entry: TimelineEntry) -> bool:
    """Return whether the store has the order from this entry on. A person accepts it by its status."""
    if entry.type == "updated" and entry.actor == Actor.MERCHANT:
        return row.handling is not OrderHandling.MANUAL or "status" in entry.detail
    return entry.type == "accepted"


def _changes_status(entry: TimelineEntry) -> bool:
    closes = entry.type in {"completed", "cancelled", "refused"}
    return closes or entry.type == "accepted" or (entry.type == "updated" and "status" in entry.detail)


# --- the sentence ---------------------------------------------------------------------------------


def sentence_of(order: OrderFacts) -> str:
    """Return what is happening now and since when, in one or two sentences."""
    match order.state:
        case OrderState.CANCELLED:
            return _cancelled(order)
        case OrderState.COMPLETED:
            return _completed(order)
        case OrderState.OPEN:
            return " ".join((_open(order), *_cancelling(order)))


def _open(order: OrderFacts) -> str:
    if order.answer is not StoreAnswer.ACCEPTED:
        placed = f"Placed {ago(order.placed_at, order.now)}"
        if order.answer is StoreAnswer.PENDING:
            return f"{placed}; nobody at {order.store} has accepted it yet."
        return f"{placed}; {order.store} hasn't answered yet, and the service keeps trying."
    since = "" if order.status_at is None else f" {ago(order.status_at, order.now)}"
    match order.status:
        case OrderStatus.PENDING:
            begun = order.accepted_at or order.placed_at
            by, more = order.store, ""
            if order.accepted_by is Actor.SERVICE:
                by, more = "the service", f" Nobody is called about orders of {order.store}."
            return f"Accepted {ago(begun, order.now)} by {by}{_promise(order)}; not started yet.{more}"
        case OrderStatus.CONFIRMED:
            return f"Confirmed{since} by {order.store}{_promise(order)}; not started yet."
        case OrderStatus.PREPARING:
            return f"In preparation at {order.store}, begun{since or ' earlier'}{_promise(order)}."
        case OrderStatus.READY if order.is_pickup:
            return f"Ready{since}; waiting to be picked up at {order.store}."
        case OrderStatus.READY:
            return f"Ready{since} at {order.store}; not on its way yet."
        case OrderStatus.IN_TRANSIT:
            return f"Left {order.store}{since} and is on its way{_promise(order)}."


def _completed(order: OrderFacts) -> str:
    if order.status_at is None:
        return f"Completed by {order.store}."
    age = order.status_at - order.placed_at
    took = "less than a minute" if age < timedelta(minutes=1) else span(age)
    return f"Completed {ago(order.status_at, order.now)} by {order.store}, {took} after it was placed."


def _cancelled(order: OrderFacts) -> str:
    when = "" if order.status_at is None else f" {ago(order.status_at, order.now)}"
    if order.answer is StoreAnswer.REFUSED:
        reason = order.errors[0].message if order.errors else order.cancel_reason
        return f"Refused{when} by {order.store}{_reason(reason)}"
    if order.cancel_reason == STORE_UNREACHABLE:
        return f"Cancelled{when} because {order.store} never answered."
    if order.cancel_reason == NOT_ACCEPTED:
        return f"Cancelled{when} because nobody at {order.store} accepted it in time."
    actors = {
        Actor.STOREFRONT: "the storefront",
        Actor.MERCHANT: order.store,
        Actor.STORE: order.store,
        Actor.SERVICE: "an operator",
    }
    by = "" if order.closed_by is None else f" by {actors[order.closed_by]}"
    reason = None if order.cancel_reason in SAYS_WHO else order.cancel_reason
    return f"Cancelled{when}{by}{_reason(reason)}"


def _cancelling(order: OrderFacts) -> Iterator[str]:
    """Yield what became of the storefront's wish to cancel an order that goes on."""
    wish = order.cancellation
    if wish is None:
        return
    match wish.status:
        case CancellationStatus.REQUESTED:
            requested = ago(wish.requested_at, order.now)
            yield f"The storefront asked to cancel it {requested}; the store hasn't answered yet."
        case CancellationStatus.REFUSED:
            # Where no store is called, the service itself refused, and the reason says so.
            refused = (
                "Its cancellation was refused"
                if Actor.SERVICE in {order.refused_by, order.accepted_by}
                else "The store refused to cancel it"
            )
            yield f"{refused} {ago(wish.at, order.now)}{_reason(wish.refusal)}"
        case CancellationStatus.UNANSWERED:
            yield "The storefront asked to cancel it, but the store never answered: it goes on."
        case CancellationStatus.ACCEPTED:
            return


def _promise(order: OrderFacts) -> str:
    if order.promised_for is None:
        return ""
    at, now = (local_time(one, order.timezone) for one in (order.promised_for, order.now))
    day = "" if at.date() == now.date() else f" on {at.day} {at:%B}"
    late = order.now - order.promised_for
    too_late = f" and {span(late)} late" if late >= _MINUTE else ""
    return f", promised for {at:%H:%M}{day}{too_late}"


def _reason(reason: str | None) -> str:
    if not reason:
        return "."
    words = readable(reason)
    short = words if len(words) <= MAX_REASON else words[: MAX_REASON - 1] + "…"
    return f": {short.rstrip('.')}."


def readable(reason: str) -> str:
    """Return a code, such as CHANGED_MIND, as words, and other texts as they are."""
    return reason.replace("_", " ").lower() if _CODE.fullmatch(reason) else reason


def ago(at: datetime, now: datetime) -> str:
    """Return how long ago an instant was, as people say it."""
    return "just now" if now - at < _JUST_NOW else f"{span(now - at)} ago"


def span(length: timedelta) -> str:
    """Return a duration in minutes, hours or days."""
    minutes = max(1, round(length / _MINUTE))
    if minutes <= _MAX_MINUTES:
        return count_of(minutes, "minute")
    hours = round(length / _HOUR)
    if hours <= _MAX_HOURS:
        return count_of(hours, "hour")
    return count_of(round(length / _DAY), "day")


# --- progress -------------------------------------------------------------------------------------


class Step(Struct, frozen=True):
    """A step of an order, and when it was reached; None if it wasn't reached yet, or was skipped."""

    name: str
    at: str | None


_STEPS: Final = {OrderStatus.PREPARING: "Preparing", OrderStatus.READY: "Ready"}
_ENDS: Final = {OrderState.OPEN: "Done", OrderState.COMPLETED: "Done", OrderState.CANCELLED: "Cancelled"}


def progress_of(row: OrderRow, entries: Sequence[TimelineEntry]) -> list[Step]:
    """Return the steps of an order in their order."""

    def first(*statuses: OrderStatus) -> str | None:
        values = {status.value for status in statuses}
        return next((entry.at for entry in entries if entry.detail.get("status") in values), None)

    placed = next((entry.at for entry in entries if entry.type == "placed"), None)
    accepted = next((entry.at for entry in entries if _has_begun(row, entry)), None)
    ended = next((one.at for one in entries if one.type in {"completed", "cancelled", "refused"}), None)
    return [
        Step("Placed", placed),
        Step("Accepted", accepted),
        *(Step(name, first(status)) for status, name in _STEPS.items()),
        Step(_ENDS[row.state], ended),
    ]
