"""How an order moves on, and who may move it: the tables that the service, the simulators and the certifier read."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from mercato.domain.orders.model import (
    OrderState,
    OrderStatus,
    OrderStatusUpdate,
    find_member,
    state_fault,
    status_fault,
)
from mercato.kernel import errors
from mercato.kernel.wire import parse_instant
from mercato.kernel.wire.checks import refuse


class Actor(StrEnum):
    """Who did something to an order."""

    STOREFRONT = "storefront"
    STORE = "store"
    MERCHANT = "merchant"
    SERVICE = "service"


STATUS_TRANSITIONS: Final[Mapping[OrderStatus, tuple[OrderStatus, ...]]] = {
    status: tuple(OrderStatus)[place + 1 :] for place, status in enumerate(OrderStatus)
}
"""A merchant moves the status of an open order forward, in the order in which they are defined, and may skip some."""

STATE_TRANSITIONS: Final[Mapping[OrderState, Mapping[OrderState, frozenset[Actor]]]] = {
    OrderState.OPEN: {
        OrderState.COMPLETED: frozenset({Actor.MERCHANT}),
        # A store refuses the placement; the service gives up on a store that never answers.
        OrderState.CANCELLED: frozenset({Actor.MERCHANT, Actor.STORE, Actor.SERVICE}),
    },
    OrderState.COMPLETED: {},
    OrderState.CANCELLED: {},
}
"""A state closes once: from state, to state, and who may do it."""

PICKUP_PATH: Final = (OrderStatus.CONFIRMED, OrderStatus.PREPARING, OrderStatus.READY)
"""The statuses of an order that its customer fetches, one after the other, until it is completed."""


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
    """Return the merchant's change, None when everything is so already.

    Raises ValidationFailed for every fault of the update, OrderClosed, InvalidStatusTransition.
    """
    wanted = _read(update)
    after = _moved(current, wanted) if STATE_TRANSITIONS[current.state] else _closed(current, wanted)
    return None if after == current else Change(before=current, after=after, at=now)


def _moved(current: Progress, wanted: _Wanted) -> Progress:
    """Return where an open order goes: status first, then state."""
    status, state = wanted.status or current.status, wanted.state or current.state
    if status is not current.status and status not in STATUS_TRANSITIONS[current.status]:
        raise errors.InvalidStatusTransition(
            f"The order is {current.status.value} already; its status can't go back to {status.value}."
        )
    return Progress(
        state=state,
        status=status,
        estimated_ready_at=wanted.ready_at or current.estimated_ready_at,
        cancel_reason=wanted.reason if state is OrderState.CANCELLED else None,
    )


def _closed(current: Progress, wanted: _Wanted) -> Progress:
    """Return the closed order as it is, if the update repeats its closing. Raises OrderClosed."""
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
    asks = (update.status, update.state, update.estimated_ready_at) != (None, None, None)
    ready_fault = "estimatedReadyAt must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."
    refuse(
        [
            ("", None if asks else "Send status, state or estimatedReadyAt: there is nothing to change."),
            ("/status", None if update.status is None else status_fault(update.status)),
            ("/state", None if update.state is None else state_fault(update.state)),
            (
                "/estimatedReadyAt",
                ready_fault if update.estimated_ready_at is not None and ready_at is None else None,
            ),
            ("/cancelReason", "cancelReason is required with cancelled." if cancels and not reason else None),
        ]
    )
    return _Wanted(status, state, ready_at, reason or None)
