"""What a request for an order asks: when, how it is handed over, with which tip; and all that is wrong with that."""

from datetime import datetime
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.catalog.money import shown
from mercato.errors import ValidationFailed
from mercato.orders.amounts import read_tip, read_total
from mercato.orders.payment import fault_of
from mercato.orders.request import (
    TIME_REQUIRED,
    DeliveryAddress,
    DeliveryFulfillment,
    Fulfillment,
    OrderCore,
    PlaceAmounts,
    PlaceOrderRequest,
    ScheduleType,
)
from mercato.wire import instant, parse_instant
from mercato.wire.walk import Found

LAST_YEAR: Final = 9998
"""The last year that an order can be scheduled for: later instants have no local time in every time zone."""

_WHEN: Final = "/fulfillment/scheduledTime"


class Asked(Struct, frozen=True):
    """What a request asks, read. `at`: the instant it is to be checked for; amounts in minor units."""

    at: datetime
    fulfillment: Fulfillment
    tip: int
    total: int | None


def read(
    order: OrderCore | PlaceOrderRequest, currency: str, scale: int, now: datetime
) -> tuple[Asked, list[Found]]:
    """Return what is asked, and every fault of how it is asked; what is faulty counts as not asked.

    `currency` is the store's, and `scale` its decimals.
    """
    faults: list[Found] = []
    at = _instant(order.fulfillment, now, faults)
    amounts = order.amounts
    tip, total = 0, None
    sent = None if amounts is None else amounts.currency
    if sent is not None and sent != currency:
        message = (
            f"The store sells in {currency}, not in {shown(sent)}. Send {currency}, or leave currency out."
        )
        faults.append(Found("/amounts/currency", message, form=False))
    try:
        tip = read_tip(None if amounts is None else amounts.tip, scale)
    except ValidationFailed as fault:
        faults += found_in(fault)
    try:
        total = read_total(amounts.total if isinstance(amounts, PlaceAmounts) else None, scale)
    except ValidationFailed as fault:
        faults += found_in(fault)
    if isinstance(order, PlaceOrderRequest) and (unfit := fault_of(order.payment)) is not None:
        faults.append(Found("/payment", unfit, form=True))
    scheduled = order.fulfillment.schedule_type is ScheduleType.SCHEDULED
    fulfillment = normalised(order.fulfillment, at if scheduled else None)
    return Asked(at, fulfillment, tip, total), faults


def found_in(problem: ValidationFailed) -> list[Found]:
    """Return the faults that a refusal lists."""
    return [Found(fault.pointer, fault.message, form=False) for fault in problem.errors]


def normalised(fulfillment: Fulfillment, at: datetime | None) -> Fulfillment:
    """Return the fulfilment as it goes on: its instant in our form, and the street of an address as `address1`."""
    scheduled = instant(at)
    if isinstance(fulfillment, DeliveryFulfillment) and fulfillment.address is not None:
        return replace(fulfillment, scheduled_time=scheduled, address=_address(fulfillment.address))
    return replace(fulfillment, scheduled_time=scheduled)


def _address(address: DeliveryAddress) -> DeliveryAddress:
    own = address.address1
    if not (own or "").strip() and address.street is not UNSET and (address.street or "").strip():
        own = address.street
    return replace(address, address1=own, street=UNSET)


def _instant(fulfillment: Fulfillment, now: datetime, faults: list[Found]) -> datetime:
    """Return the instant an order is for, noting a time that can't be read in any case."""
    text = fulfillment.scheduled_time
    at = None if text is None else parse_instant(text)
    fault = None
    if text is not None and at is None:
        fault = "scheduledTime must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."
    elif fulfillment.schedule_type is not ScheduleType.SCHEDULED:
        return now
    elif at is None:
        fault = TIME_REQUIRED
    elif at <= now:
        fault = "scheduledTime must be in the future."
    elif at.year > LAST_YEAR:
        fault = f"scheduledTime must not be after the year {LAST_YEAR}."
    if fault is None and at is not None:
        return at
    faults.append(Found(_WHEN, fault or "", form=False))
    return now
