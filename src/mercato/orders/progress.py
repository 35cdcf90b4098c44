"""How an order goes on: a status only forward, a state that closes once."""

from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mercato import errors
from mercato.orders.model import (
    OrderState,
    OrderStatus,
    OrderStatusUpdate,
    find_member,
    state_fault,
    status_fault,
)
from mercato.wire import parse_instant
from mercato.wire.checks import refuse

_RANK: Final = {status: rank for rank, status in enumerate(OrderStatus)}
_CONTROL: Final = frozenset(map(chr, range(32)))


class Progress(Struct, frozen=True, kw_only=True):
    """Where an order is."""

    state: OrderState = OrderState.OPEN
    status: OrderStatus = OrderStatus.PENDING
    estimated_ready_at: datetime | None = None
    cancel_reason: str | None = None


class Change(Struct, frozen=True, kw_only=True):
    """Where an update brings an order, and when."""

    before: Progress
    after: Progress
    at: datetime


class _Wanted(Struct, frozen=True):
    status: OrderStatus | None
    state: OrderState | None
    ready_at: datetime | None
    reason: str | None


def change(current: Progress, update: OrderStatusUpdate, now: datetime) -> Change | None:
    """Return the change, None when everything is so already.

    Raises ValidationFailed for every fault of the update, OrderClosed, InvalidStatusTransition.
    """
    wanted = _read(update)
    after = _closed(current, wanted) if current.state is not OrderState.OPEN else _moved(current, wanted)
    return None if after == current else Change(before=current, after=after, at=now)


def _moved(current: Progress, wanted: _Wanted) -> Progress:
    """Return where an open order goes: status first, then state."""
    after = current
    if wanted.status is not None:
        if _RANK[wanted.status] < _RANK[current.status]:
            raise errors.InvalidStatusTransition(
                f"The order is {current.status.value} already; its status can't go back to {wanted.status.value}."
            )
        after = replace(after, status=wanted.status)
    if wanted.ready_at is not None:
        after = replace(after, estimated_ready_at=wanted.ready_at)
    if wanted.state is not None:
        reason = wanted.reason if wanted.state is OrderState.CANCELLED else None
        after = replace(after, state=wanted.state, cancel_reason=reason)
    return after


def _closed(current: Progress, wanted: _Wanted) -> Progress:
    """Return the closed order as it is, if the update is its closing told again. Raises OrderClosed."""
    again = (
        wanted.state is current.state
        and wanted.status in (None, current.status)
        and wanted.ready_at in (None, current.estimated_ready_at)
    )
    if not again:
        raise errors.OrderClosed(f"The order is {current.state.value}: nothing of it changes any more.")
    return current


def _read(update: OrderStatusUpdate) -> _Wanted:
    """Return what the update asks for. Raises ValidationFailed."""
    status, state = find_member(OrderStatus, update.status), find_member(OrderState, update.state)
    ready_at = None if update.estimated_ready_at is None else parse_instant(update.estimated_ready_at)
    reason = (update.cancel_reason or "").strip()
    cancels = state is OrderState.CANCELLED
    refuse(
        [
            (
                "",
                None
                if _asks(update)
                else "Send status, state or estimatedReadyAt: there is nothing to change.",
            ),
            ("/status", None if update.status is None else status_fault(update.status)),
            ("/state", None if update.state is None else state_fault(update.state)),
            ("/estimatedReadyAt", _ready_fault(update.estimated_ready_at, ready_at)),
            ("/cancelReason", "cancelReason is required with cancelled." if cancels and not reason else None),
        ]
    )
    return _Wanted(status, state, ready_at, reason or None)


def _asks(update: OrderStatusUpdate) -> bool:
    return not (update.status is None and update.state is None and update.estimated_ready_at is None)


def _ready_fault(text: str | None, at: datetime | None) -> str | None:
    if text is None or at is not None:
        return None
    return "estimatedReadyAt must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."
