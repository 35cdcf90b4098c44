"""The allowed transitions of orders, for the service, the simulators and certification."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from mercato.features.orders.errors import InvalidStatusTransition, OrderClosed
from mercato.platform.wire.checks import refuse, uri_fault
from mercato_contract.orders import (
    STATE_TRANSITIONS,
    STATUS_TRANSITIONS,
    Courier,
    OrderState,
    OrderStatus,
    OrderStatusUpdate,
    find_member,
    state_fault,
    status_fault,
)
from mercato_contract.wire import parse_instant


class Progress(Struct, frozen=True, kw_only=True):
    """The state and status of an order."""

    state: OrderState = OrderState.OPEN
    status: OrderStatus = OrderStatus.PENDING
    estimated_ready_at: datetime | None = None
    estimated_delivery_at: datetime | None = None
    courier: Courier | None = None
    cancel_reason: str | None = None


class Change(Struct, frozen=True, kw_only=True):
    """A change of an order's progress."""

    before: Progress
    after: Progress
    at: datetime


class _Update(Struct, frozen=True):
    status: OrderStatus | None
    state: OrderState | None
    ready_at: datetime | None
    delivery_at: datetime | None
    courier: Courier | None
    reason: str | None


_EMPTY_FAULT: Final = (
    "Send status, state, estimatedReadyAt, estimatedDeliveryAt or courier: the update changes nothing."
)
_INSTANT_FAULT: Final = "{} must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."
_COURIER_FAULT: Final = "courier needs a name, a phone or a trackingUrl. Leave it out to keep the courier."


def change(current: Progress, update: OrderStatusUpdate, now: datetime) -> Change | None:
    """Return the merchant's change, or None if the update changes nothing.

    Raises ValidationFailed for every fault of the update, OrderClosed, InvalidStatusTransition.
    """
    parsed = _parse(update)
    after = _moved(current, parsed) if STATE_TRANSITIONS[current.state] else _closed(current, parsed)
    return None if after == current else Change(before=current, after=after, at=now)


def _moved(current: Progress, update: _Update) -> Progress:
    """Return an open order's progress after the update: status first, then state."""
    status, state = update.status or current.status, update.state or current.state
    if status is not current.status and status not in STATUS_TRANSITIONS[current.status]:
        raise InvalidStatusTransition(
            f"The order is {current.status.value} already; its status can't go back to {status.value}."
        )
    return Progress(
        state=state,
        status=status,
        estimated_ready_at=update.ready_at or current.estimated_ready_at,
        estimated_delivery_at=update.delivery_at or current.estimated_delivery_at,
        courier=update.courier or current.courier,
        cancel_reason=update.reason if state is OrderState.CANCELLED else None,
    )


def _closed(current: Progress, update: _Update) -> Progress:
    """Return a closed order's progress if the update repeats it. Raises OrderClosed."""
    again = (
        update.state is current.state
        and update.status in (None, current.status)
        and update.ready_at in (None, current.estimated_ready_at)
        and update.delivery_at in (None, current.estimated_delivery_at)
        and update.courier in (None, current.courier)
    )
    if not again:
        raise OrderClosed(f"The order is {current.state.value} and can't change any more.")
    return current


def _parse(update: OrderStatusUpdate) -> _Update:
    """Return the parsed update. Raises ValidationFailed."""
    status, state = find_member(OrderStatus, update.status), find_member(OrderState, update.state)
    instants = {
        "estimatedReadyAt": update.estimated_ready_at,
        "estimatedDeliveryAt": update.estimated_delivery_at,
    }
    ready_at, delivery_at = (None if text is None else parse_instant(text) for text in instants.values())
    reason = (update.cancel_reason or "").strip()
    cancels = state is OrderState.CANCELLED
    courier = update.courier
    is_update = any(one is not None for one in (update.status, update.state, courier, *instants.values()))
    refuse(
        [
            (
                "",
                None if is_update else _EMPTY_FAULT,
            ),
            ("/status", None if update.status is None else status_fault(update.status)),
            ("/state", None if update.state is None else state_fault(update.state)),
            *(
                (f"/{name}", _INSTANT_FAULT.format(name))
                for name, text in instants.items()
                if text is not None and parse_instant(text) is None
            ),
            ("/courier", _COURIER_FAULT if courier == Courier() else None),
            ("/courier/trackingUrl", _tracking_fault(courier)),
            ("/cancelReason", "cancelReason is required with cancelled." if cancels and not reason else None),
        ]
    )
    return _Update(status, state, ready_at, delivery_at, courier, reason or None)


def _tracking_fault(courier: Courier | None) -> str | None:
    url = None if courier is None else courier.tracking_url
    return None if url is None else uri_fault(url, "trackingUrl")
