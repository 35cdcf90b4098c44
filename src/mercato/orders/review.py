"""An order held against what its store sells and allows: its price, and every reason why it can't be had."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec import UNSET, Struct

from mercato import errors
from mercato.carts.faults import AS_SENT
from mercato.carts.lines import check_bounds
from mercato.carts.model import LineItem, PricedLineItem
from mercato.carts.pricing import Priced, price
from mercato.catalog.model import CompiledCatalog
from mercato.catalog.money import scaled
from mercato.clock import MakeId, zone
from mercato.errors import OrderError, ValidationFailed
from mercato.orders.amounts import Sums
from mercato.orders.asked import Asked, read
from mercato.orders.model import OrderCart, OrderLine, OrderModifierGroup
from mercato.orders.request import (
    DeliveryAddress,
    DeliveryFulfillment,
    Fulfillment,
    OrderCore,
    PlaceOrderRequest,
    ScheduleType,
)
from mercato.stores.model import StoreRow
from mercato.stores.storefront import AvailabilityReason, availability_of, reason_at
from mercato.wire.decode import refusal
from mercato.wire.walk import Found

MOST_REASONS: Final = 100

_ADDRESS: Final = "/fulfillment/address"


class Review(Struct, frozen=True, kw_only=True):
    """What came of the checks. `at`: the instant they were made for. `sums`: None if something has no price.

    `lines` are the cart's as they were sent; `total` is what the request says it costs, in minor units.
    """

    at: datetime
    currency: str
    lines: tuple[LineItem, ...]
    fulfillment: Fulfillment
    cart: OrderCart
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
    asked, faults = read(order, catalog.currency, catalog.scale, now)
    sold_out = frozenset(store.unavailable_at(asked.at))
    priced = price(lines, catalog=catalog, sold_out=sold_out, new_id=new_id)
    sums = _sums(priced, catalog, asked.tip)
    faults += [Found(fault.pointer, fault.message, form=False) for fault in _out_of_range(priced, sums)]
    if faults:
        raise refusal(faults)
    reasons = _reasons(lines, priced, sums, store=store, catalog=catalog, asked=asked)
    return Review(
        at=asked.at,
        currency=catalog.currency,
        lines=tuple(lines),
        fulfillment=asked.fulfillment,
        cart=OrderCart(
            catalog_set_id=store.catalog_set_id,
            line_items=_order_lines(priced.lines, catalog),
            store_id=store.id,
            amounts=priced.amounts,
        ),
        sums=sums,
        reasons=tuple(islice(reasons, MOST_REASONS)),
        total=asked.total,
    )


def _sums(priced: Priced, catalog: CompiledCatalog, tip: int) -> Sums | None:
    if priced.total is None:
        return None
    return Sums(currency=catalog.currency, scale=catalog.scale, sub_total=priced.total, tip=tip)


def _out_of_range(priced: Priced, sums: Sums | None) -> Sequence[OrderError]:
    """Return the amounts that can't be written down; the tip's share in it only when the cart alone has none."""
    if priced.overflows or sums is None:
        return [fault.error() for fault in priced.overflows]
    try:
        sums.check_range()
    except ValidationFailed as fault:
        return fault.errors
    return ()


# --- why it can't be had --------------------------------------------------------------------------


def _reasons(
    lines: Sequence[LineItem],
    priced: Priced,
    sums: Sums | None,
    *,
    store: StoreRow,
    catalog: CompiledCatalog,
    asked: Asked,
) -> Iterator[OrderError]:
    """Yield every reason against the order: its content, then the store, then how it is handed over."""
    if not lines:
        yield _reason(errors.CartEmpty, "The cart has no line items.", "/cart/lineItems")
    yield from (fault.error() for fault in priced.faults)
    if reason_at(store, catalog, asked.at) is not AvailabilityReason.OPEN:
        closed = availability_of(store, catalog, asked.at)
        scheduled = asked.fulfillment.schedule_type is ScheduleType.SCHEDULED
        at = "/fulfillment/scheduledTime" if scheduled else None
        yield _reason(errors.StoreClosed, closed.detail, at)
    yield from _unsold(lines, priced, store=store, catalog=catalog, at=asked.at)
    yield from _mode(asked.fulfillment, store)
    if lines and sums is not None:
        yield from _too_little(sums, store)
    if isinstance(asked.fulfillment, DeliveryFulfillment):
        yield from _incomplete(asked.fulfillment.address or DeliveryAddress())


def _unsold(
    lines: Sequence[LineItem], priced: Priced, *, store: StoreRow, catalog: CompiledCatalog, at: datetime
) -> Iterator[OrderError]:
    """Yield the items that no catalog offers at that time; nothing when none is on offer at all."""
    local = at.astimezone(zone(store.timezone))
    if not catalog.is_open(local):
        return
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


# --- the cart as it is answered -------------------------------------------------------------------


def _order_lines(lines: Sequence[PricedLineItem], catalog: CompiledCatalog) -> tuple[OrderLine, ...]:
    """Return the lines with the names of their items."""
    named = []
    for line in lines:
        groups = []
        for group in line.modifier_groups:
            below = _order_lines(group.line_items, catalog)
            groups.append(OrderModifierGroup(modifier_group_id=group.modifier_group_id, line_items=below))
        item = catalog.items.get(line.item_id.int)
        order_line = OrderLine(
            item_id=line.item_id,
            line_item_id=line.line_item_id,
            quantity=line.quantity,
            modifier_groups=tuple(groups),
            name=UNSET if item is None else item.name or UNSET,
            amounts=line.amounts,
            unavailable=line.unavailable,
        )
        named.append(order_line)
    return tuple(named)
