"""An order checked against what its store sells and allows: its price, and every reason why it can't be placed."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.domain.carts.faults import AS_SENT
from mercato.domain.carts.lines import check_bounds
from mercato.domain.carts.model import LineItem, PricedLineItem
from mercato.domain.carts.pricing import Priced, price
from mercato.domain.catalog.model import CompiledCatalog
from mercato.domain.catalog.money import scaled, shown
from mercato.domain.orders.amounts import Sums, read_tip, read_total
from mercato.domain.orders.model import CommerceCart, CommerceLine, CommerceModifierGroup
from mercato.domain.orders.payment import fault_of
from mercato.domain.orders.request import (
    TIME_REQUIRED,
    DeliveryAddress,
    DeliveryFulfillment,
    Fulfillment,
    OrderCore,
    PlaceAmounts,
    PlaceOrderRequest,
    ScheduleType,
)
from mercato.domain.stores.model import StoreRow
from mercato.domain.stores.storefront import availability_of
from mercato.kernel import errors
from mercato.kernel.clock import MakeId, rfc3339, zone
from mercato.kernel.errors import OrderError, ValidationFailed
from mercato.kernel.wire import parse_instant
from mercato.kernel.wire.decode import refusal
from mercato.kernel.wire.walk import FieldFault

MOST_REASONS: Final = 100

LAST_YEAR: Final = 9998
"""The last year that an order can be scheduled for: later instants have no local time in every time zone."""

_ADDRESS: Final = "/fulfillment/address"


class ParsedOrder(Struct, frozen=True):
    """What a request asks for. `at`: the instant it is checked for; amounts in minor units."""

    at: datetime
    fulfillment: Fulfillment
    tip: int
    total: int | None


class Review(Struct, frozen=True, kw_only=True):
    """What the checks found. `at`: the instant they were made for. `sums`: None if something has no price.

    `lines` are the cart's as they were sent; `total` is what the request says it costs, in minor units.
    """

    at: datetime
    currency: str
    lines: tuple[LineItem, ...]
    fulfillment: Fulfillment
    cart: CommerceCart
    sums: Sums | None
    reasons: tuple[OrderError, ...]
    total: int | None = None


def review(
    order: OrderCore | PlaceOrderRequest,
    *,
    store: StoreRow,
    catalog: CompiledCatalog,
    now: datetime,
    new_id: MakeId,
) -> Review:
    """Return the order, priced and checked by the store's current set, which is `catalog`.

    Raises InvalidRequest or ValidationFailed for all that is wrong with the request itself, at once.
    """
    lines = order.cart.line_items
    check_bounds(lines)
    parsed, faults = parse(order, catalog.currency, catalog.scale, now)
    sold_out = frozenset(store.unavailable_at(parsed.at))
    priced = price(lines, catalog=catalog, sold_out=sold_out, new_id=new_id)
    sums = None
    if priced.total is not None:
        sums = Sums(currency=catalog.currency, scale=catalog.scale, sub_total=priced.total, tip=parsed.tip)
    faults += _out_of_range(priced, sums)
    if faults:
        raise refusal(faults)
    reasons = _reasons(lines, priced, sums, store=store, catalog=catalog, parsed=parsed)
    return Review(
        at=parsed.at,
        currency=catalog.currency,
        lines=tuple(lines),
        fulfillment=parsed.fulfillment,
        cart=CommerceCart(
            catalog_set_id=store.catalog_set_id,
            line_items=_order_lines(priced.lines, catalog),
            store_id=store.id,
            amounts=priced.amounts,
        ),
        sums=sums,
        reasons=tuple(islice(reasons, MOST_REASONS)),
        total=parsed.total,
    )


# --- what the request asks for --------------------------------------------------------------------


def parse(
    order: OrderCore | PlaceOrderRequest, currency: str, scale: int, now: datetime
) -> tuple[ParsedOrder, list[FieldFault]]:
    """Return what the request asks for and every fault of it; a faulty member counts as not sent.

    `currency` is the store's, and `scale` its decimals.
    """
    faults: list[FieldFault] = []
    at = _parse_time(order.fulfillment, now, faults)
    amounts, tip, total = order.amounts, 0, None
    if amounts is not None:
        if amounts.currency not in (None, currency):
            sent = shown(amounts.currency or "")
            message = f"The store sells in {currency}, not in {sent}. Send {currency}, or leave currency out."
            faults.append(FieldFault("/amounts/currency", message, form=False))
        try:
            tip = read_tip(amounts.tip, scale)
        except ValidationFailed as fault:
            faults += _found(fault.errors)
        try:
            total = read_total(amounts.total if isinstance(amounts, PlaceAmounts) else None, scale)
        except ValidationFailed as fault:
            faults += _found(fault.errors)
    if isinstance(order, PlaceOrderRequest) and (unfit := fault_of(order.payment)) is not None:
        faults.append(FieldFault("/payment", unfit, form=True))
    scheduled = order.fulfillment.schedule_type is ScheduleType.SCHEDULED
    return ParsedOrder(at, normalised(order.fulfillment, at if scheduled else None), tip, total), faults


def normalised(fulfillment: Fulfillment, at: datetime | None) -> Fulfillment:
    """Return the fulfilment with its instant in our form, and the street of an address as `address1`."""
    scheduled = at and rfc3339(at)
    if not isinstance(fulfillment, DeliveryFulfillment) or fulfillment.address is None:
        return replace(fulfillment, scheduled_time=scheduled)
    address, street = fulfillment.address, fulfillment.address.street
    own = address.address1
    if not (own or "").strip() and street is not UNSET and (street or "").strip():
        own = street
    return replace(
        fulfillment, scheduled_time=scheduled, address=replace(address, address1=own, street=UNSET)
    )


def _parse_time(fulfillment: Fulfillment, now: datetime, faults: list[FieldFault]) -> datetime:
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
    faults.append(FieldFault("/fulfillment/scheduledTime", fault or "", form=False))
    return now


def _out_of_range(priced: Priced, sums: Sums | None) -> list[FieldFault]:
    """Return the amounts that can't be written down; the tip's share in it only when the cart alone has none."""
    if priced.overflows or sums is None or not sums.tip:
        return _found(overflow.error() for overflow in priced.overflows)
    try:
        sums.check_range()
    except ValidationFailed as fault:
        return _found(fault.errors)
    return []


def _found(faults: Iterable[OrderError]) -> list[FieldFault]:
    return [FieldFault(fault.pointer, fault.message, form=False) for fault in faults]


# --- why it can't be placed -----------------------------------------------------------------------


def _reasons(
    lines: Sequence[LineItem],
    priced: Priced,
    sums: Sums | None,
    *,
    store: StoreRow,
    catalog: CompiledCatalog,
    parsed: ParsedOrder,
) -> Iterator[OrderError]:
    """Yield every reason against the order: its content, then the store, then how it is handed over."""
    if not lines:
        yield _reason(errors.CartEmpty, "The cart has no line items.", "/cart/lineItems")
    yield from (fault.error() for fault in priced.faults)
    local = parsed.at.astimezone(zone(store.timezone))
    is_open = catalog.is_open(local)
    if not is_open or store.paused_at(parsed.at):
        closed = availability_of(store, catalog, parsed.at)
        scheduled = parsed.fulfillment.schedule_type is ScheduleType.SCHEDULED
        at = "/fulfillment/scheduledTime" if scheduled else None
        yield _reason(errors.StoreClosed, closed.detail, at)
    if is_open:
        # Outside all hours nothing more is said of single items.
        yield from _unsold(lines, priced, catalog=catalog, local=local)
    yield from _mode(parsed.fulfillment, store)
    if lines and sums is not None:
        yield from _too_little(sums, store)
    if isinstance(parsed.fulfillment, DeliveryFulfillment):
        yield from _incomplete(parsed.fulfillment.address or DeliveryAddress())


def _unsold(
    lines: Sequence[LineItem], priced: Priced, *, catalog: CompiledCatalog, local: datetime
) -> Iterator[OrderError]:
    """Yield the items that no catalog offers at that time, which is the store's."""
    unavailable = {fault.path for fault in priced.faults if fault.code == errors.ItemUnavailable.code}
    for index, line in enumerate(lines):
        item = catalog.items.get(line.item_id.int)
        if item is not None and not catalog.is_sold(item, local) and (index,) not in unavailable:
            name = item.name or line.item_id
            message = f"{name} is not on offer on {local:%A} at {local:%H:%M:%S}, the store's time."
            yield _reason(errors.ItemUnavailable, message, AS_SENT.pointer((index,)))


def _mode(fulfillment: Fulfillment, store: StoreRow) -> Iterator[OrderError]:
    delivery = isinstance(fulfillment, DeliveryFulfillment)
    if not (store.delivery_allowed if delivery else store.pickup_allowed):
        message = "The store does not deliver." if delivery else "The store has no pickup."
        yield _reason(ValidationFailed, message, "/fulfillment/mode")


def _too_little(sums: Sums, store: StoreRow) -> Iterator[OrderError]:
    """Yield what the order costs too little for. A minimum in another currency than the catalog's says nothing."""
    if sums.total < 0:
        message = f"The order comes to {scaled(sums.total, sums.scale)} {sums.currency}: less than nothing."
        yield _reason(ValidationFailed, message, "/cart/lineItems")
    least = store.minimum_order_amount
    if least is None or store.minimum_order_currency != sums.currency or sums.sub_total >= least:
        return
    message = (
        f"The store takes orders from {scaled(least, sums.scale)} {sums.currency} on; "
        f"the cart comes to {scaled(sums.sub_total, sums.scale)}."
    )
    yield _reason(errors.OrderBelowMinimum, message, "/cart/lineItems")


def _incomplete(address: DeliveryAddress) -> Iterator[OrderError]:
    needed = (
        ("address1", "street", address.address1),
        ("city", "city", address.city),
        ("postalCode", "postal code", address.postal_code),
    )
    for member, name, text in needed:
        if not (text or "").strip():
            message = f"A delivery needs the {name} of its address: {member}."
            yield _reason(errors.AddressInvalid, message, f"{_ADDRESS}/{member}")


def _reason(kind: type[errors.Problem], message: str, at: str | None) -> OrderError:
    return OrderError(code=kind.code, message=message, pointer=at)


# --- the cart, priced -----------------------------------------------------------------------------


def _order_lines(lines: Sequence[PricedLineItem], catalog: CompiledCatalog) -> tuple[CommerceLine, ...]:
    """Return the lines with the names of their items, and the ids of the merchant's document."""
    made = []
    for line in lines:
        groups = []
        for group in line.modifier_groups:
            group_id = group.modifier_group_id
            known = catalog.groups.get(group_id.int)
            written = None if known is None else known.document_id
            groups.append(
                CommerceModifierGroup(
                    modifier_group_id=group_id,
                    partner_modifier_group_id=str(group_id) if written is None else written,
                    line_items=_order_lines(group.line_items, catalog),
                )
            )
        item = catalog.items.get(line.item_id.int)
        written = None if item is None else item.document_id
        made.append(
            CommerceLine(
                item_id=line.item_id,
                partner_item_id=str(line.item_id) if written is None else written,
                line_item_id=line.line_item_id,
                quantity=line.quantity,
                modifier_groups=tuple(groups),
                name=UNSET if item is None else item.name or UNSET,
                amounts=line.amounts,
                unavailable=line.unavailable,
            )
        )
    return tuple(made)
