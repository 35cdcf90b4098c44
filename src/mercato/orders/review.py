"""An order held against what its store sells and allows: its price, and every reason why it can't be had."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, cast
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from mercato import errors
from mercato.carts.answer import Ids, amounts_of, cart_amounts
from mercato.carts.known import Reading
from mercato.carts.model import CartModifierGroup, LineItem, LineItemAmounts
from mercato.carts.places import CART, check_bounds, in_cart, pointer
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
    places = in_cart(lines)
    check_bounds(lines, places)
    asked, faults = read(order, catalog.currency, catalog.scale, now)
    sold_out = frozenset(store.unavailable_at(asked.at))
    priced = price(lines, places=places, whole=CART, catalog=catalog, sold_out=sold_out)
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
        cart=_cart(lines, priced, store=store, catalog=catalog, new_id=new_id),
        sums=sums,
        reasons=tuple(islice(reasons, MOST_REASONS)),
        total=asked.total,
    )


def _sums(priced: Priced, catalog: CompiledCatalog, tip: int) -> Sums | None:
    if None in priced.units:
        return None
    return Sums(currency=catalog.currency, scale=catalog.scale, sub_total=priced.total, tip=tip)


def _out_of_range(priced: Priced, sums: Sums | None) -> Sequence[OrderError]:
    """Return the amounts that can't be written down; the tip's share in it only when the cart alone has none."""
    if priced.overflows or sums is None:
        return priced.overflows
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
    yield from priced.faults
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
    told = {fault.pointer for fault in priced.faults if fault.code == errors.ItemUnavailable.code}
    for line, place in zip(lines, in_cart(lines), strict=True):
        item = catalog.items.get(line.item_id.int)
        if item is not None and not catalog.is_sold(item, local) and (where := pointer(place)) not in told:
            name = item.name or line.item_id
            message = f"{name} is not on offer on {local:%A} at {local:%H:%M:%S}, the store's time."
            yield _reason(errors.ItemUnavailable, message, where)


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


def _cart(
    lines: Sequence[LineItem], priced: Priced, *, store: StoreRow, catalog: CompiledCatalog, new_id: MakeId
) -> OrderCart:
    write = _Writer(priced.unavailable, catalog, new_id).top
    return OrderCart(
        catalog_set_id=store.catalog_set_id,
        line_items=tuple(
            write(line, unit, reading, scale=catalog.scale, as_sent=as_sent)
            for line, unit, reading, as_sent in zip(
                lines, priced.units, priced.readings, priced.as_sent, strict=True
            )
        ),
        store_id=store.id,
        amounts=cart_amounts(priced, catalog),
    )


class _Writer:
    """Writes lines as `carts.answer` does, with their names."""

    def __init__(self, unavailable: frozenset[int], catalog: CompiledCatalog, new_id: MakeId) -> None:
        self._unavailable = unavailable
        self._items = catalog.items
        self._id = Ids(new_id).give

    def top(
        self, line: LineItem, unit: int | None, reading: Reading | None, *, scale: int, as_sent: bool
    ) -> OrderLine:
        """Return a line of the cart itself."""
        written = None if reading is None else reading.written.get(OrderLine)
        if written is None:
            written = self.line(line, amounts_of(unit, line.quantity, scale), as_sent=as_sent)
            if reading is not None:
                reading.written[OrderLine] = written
        return cast("OrderLine", written)

    def line(
        self, line: LineItem, amounts: LineItemAmounts | UnsetType = UNSET, *, as_sent: bool = False
    ) -> OrderLine:
        item = self._items.get(line.item_id.int)
        write = self._group_as_sent if as_sent else self._group
        return OrderLine(
            item_id=line.item_id,
            line_item_id=self._id(line.line_item_id),
            quantity=line.quantity,
            modifier_groups=tuple(map(write, line.modifier_groups)) if line.modifier_groups else (),
            name=UNSET if item is None else item.name or UNSET,
            amounts=amounts,
            unavailable=True if id(line) in self._unavailable else UNSET,
        )

    def _group(self, group: CartModifierGroup) -> OrderModifierGroup:
        return OrderModifierGroup(
            modifier_group_id=group.modifier_group_id, line_items=tuple(map(self.line, group.line_items))
        )

    def _group_as_sent(self, group: CartModifierGroup) -> OrderModifierGroup:
        """Return a group whose choices have ids of their own, and nothing below them."""
        items = self._items
        choices = [
            OrderLine(
                item_id=choice.item_id,
                line_item_id=cast("UUID", choice.line_item_id),
                quantity=choice.quantity,
                modifier_groups=(),
                name=items[choice.item_id.int].name or UNSET,
            )
            for choice in group.line_items
        ]
        return OrderModifierGroup(modifier_group_id=group.modifier_group_id, line_items=tuple(choices))
