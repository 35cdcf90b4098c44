"""Check an order against its store and current CatalogSet: its price, and every error that prevents it."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.features.orders.errors import (
    AddressInvalid,
    CartEmpty,
    OrderBelowMinimum,
    OrderTotalDifferent,
    StoreClosed,
)
from mercato.features.orders.store_messages import payment_fault
from mercato.features.stores.cache import Menus
from mercato.features.stores.model import StoreRow
from mercato.features.stores.views import availability_of
from mercato.platform.gazetteer import country_of
from mercato_catalog.carts.errors import CartFault, ItemUnavailable
from mercato_catalog.carts.lines import check_bounds, order_lines
from mercato_catalog.carts.pricing import Priced, price
from mercato_catalog.model import CompiledCatalog
from mercato_contract.addresses import missing_parts
from mercato_contract.amounts import Sums, fits
from mercato_contract.carts import LineItem
from mercato_contract.clock import Clock, MakeId, zone
from mercato_contract.decoding.decode import refusal
from mercato_contract.decoding.walk import FieldFault
from mercato_contract.money import MoneyError, decimal_to_minor, minor_to_decimal, quote
from mercato_contract.placements import (
    TIME_REQUIRED,
    TIP_NEGATIVE,
    CommerceCart,
    DeliveryAddress,
    DeliveryFulfillment,
    Fulfillment,
    OrderCore,
    PlaceAmounts,
    PlaceOrderRequest,
    ScheduleType,
)
from mercato_contract.problems import OrderError
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.texts import is_blank
from mercato_contract.wire import instant_fault, parse_instant, rfc3339

MAX_ORDER_ERRORS: Final = 100

MAX_DAYS_AHEAD: Final = 60
"""How far ahead an order can be scheduled: less than customers are kept (90 days), so that an order still has its
customer when it is due, and for some weeks after."""


class OrderCheck(Struct, frozen=True, kw_only=True):
    """An order with its price and errors, as of `at`, the instant that it is scheduled for.

    `lines` are the request's. `sums` is None if something has no price. `total` is the one that the request claims, in
    minor units.
    """

    store: StoreRow
    at: datetime
    currency: str
    lines: tuple[LineItem, ...]
    fulfillment: Fulfillment
    note: str | None
    cart: CommerceCart
    sums: Sums | None
    errors: tuple[OrderError, ...]
    total: int | None


class _ParsedOrder(Struct, frozen=True):
    """The request's values, a faulty one being absent; amounts in minor units."""

    at: datetime
    fulfillment: Fulfillment
    tip: int
    total: int | None


class OrderChecker(Struct, frozen=True):
    """Checks orders against their stores' current sets."""

    clock: Clock
    new_id: MakeId
    menus: Menus

    async def check(self, order: OrderCore | PlaceOrderRequest, *, in_force: bool) -> OrderCheck:
        """Return the order, priced and checked.

        With `in_force`, every change of the store that was committed before this call applies. Else another process may
        have changed the store: compare its version before acting on the result.
        Raises StoreNotFound, CatalogSetNotFound, InvalidRequest or ValidationFailed for faults of the request, and
        OrderTotalDifferent for a total in the currency of an earlier set.
        """
        cart = order.cart
        store, catalog = await self.menus.get(cart.store_id, cart.catalog_set_id, in_force=in_force)
        if cart.catalog_set_id != store.catalog_set_id and _has_bare_total(order):
            shown = await self.menus.compiled.get(cart.catalog_set_id)
            if shown.currency != catalog.currency:
                raise OrderTotalDifferent(
                    f"The cart is of a CatalogSet in {shown.currency}; the store sells in {catalog.currency} now. "
                    "Validate it again and show the customer the new total."
                )
        return check_order(order, store=store, catalog=catalog, now=self.clock(), new_id=self.new_id)


def _has_bare_total(order: OrderCore | PlaceOrderRequest) -> bool:
    """Return whether the order claims a total without its currency, which then is that of the cart's set."""
    amounts = order.amounts
    return isinstance(amounts, PlaceAmounts) and amounts.total is not None and amounts.currency is None


def check_order(
    order: OrderCore | PlaceOrderRequest,
    *,
    store: StoreRow,
    catalog: CompiledCatalog,
    now: datetime,
    new_id: MakeId,
) -> OrderCheck:
    """Price and check the order by the store's current set, which is `catalog`.

    Raises one InvalidRequest or ValidationFailed for all faults of the request itself.
    """
    lines = order.cart.line_items
    check_bounds(lines)
    parsed, faults = _parse(order, catalog.currency, catalog.scale, now)
    sold_out = frozenset(store.unavailable_at(parsed.at))
    priced = price(lines, catalog=catalog, sold_out=sold_out, new_id=new_id, itemized=True)
    sums = None
    if priced.total is not None:
        sums = Sums(currency=catalog.currency, scale=catalog.scale, sub_total=priced.total, tip=parsed.tip)
    for overflow in priced.overflows:
        error = overflow.error()
        faults.append(FieldFault(error.pointer, error.message, form=False))
    if sums is not None and sums.tip and not priced.overflows and not fits(sums.total):
        message = "The order's total is out of range with this tip."
        faults.append(FieldFault("/amounts/tip", message, form=False))
    if faults:
        raise refusal(faults)
    found = _find_errors(lines, priced, sums, store=store, catalog=catalog, parsed=parsed)
    return OrderCheck(
        store=store,
        at=parsed.at,
        currency=catalog.currency,
        lines=tuple(lines),
        fulfillment=parsed.fulfillment,
        note=order.note or None,
        cart=CommerceCart(
            catalog_set_id=store.catalog_set_id,
            line_items=order_lines(priced.lines, catalog),
            store_id=store.id,
            amounts=priced.amounts,
        ),
        sums=sums,
        errors=tuple(islice(found, MAX_ORDER_ERRORS)),
        total=parsed.total,
    )


# --- the request's values -------------------------------------------------------------------------


def _parse(
    order: OrderCore | PlaceOrderRequest, currency: str, scale: int, now: datetime
) -> tuple[_ParsedOrder, list[FieldFault]]:
    """Return the request's values and all its faults. `currency` and `scale` are the store's."""
    faults: list[FieldFault] = []
    at = _parse_time(order.fulfillment, now, faults)
    amounts, tip, total = order.amounts, 0, None
    if amounts is not None:
        if amounts.currency not in (None, currency):
            sent = quote(amounts.currency or "")
            message = f"The store sells in {currency}, not in {sent}. Send {currency}, or leave currency out."
            faults.append(FieldFault("/amounts/currency", message, form=False))
        tip = _parse_amount("tip", amounts.tip, scale, faults) or 0
        if tip < 0:
            faults.append(FieldFault("/amounts/tip", TIP_NEGATIVE, form=False))
            tip = 0
        if isinstance(amounts, PlaceAmounts):
            total = _parse_amount("total", amounts.total, scale, faults)
    if isinstance(order, PlaceOrderRequest) and (fault := payment_fault(order.payment)) is not None:
        faults.append(FieldFault("/payment", fault, form=True))
    scheduled = order.fulfillment.schedule_type is ScheduleType.SCHEDULED
    return _ParsedOrder(at, _normalized(order.fulfillment, at if scheduled else None), tip, total), faults


def _parse_amount(member: str, text: str | None, scale: int, faults: list[FieldFault]) -> int | None:
    """Return the amount in minor units."""
    try:
        return None if text is None else decimal_to_minor(text, scale)
    except MoneyError as fault:
        faults.append(FieldFault(f"/amounts/{member}", f"{member}: {fault}", form=False))
        return None


def _normalized(fulfillment: Fulfillment, at: datetime | None) -> Fulfillment:
    """Return the fulfillment with its instant in UTC, and the street of an address as `address1`."""
    return replace(with_address1(fulfillment), scheduled_time=at and rfc3339(at))


def sent_fulfillment(order: OrderCore | PlaceOrderRequest) -> Fulfillment:
    """Return the fulfillment of a request as a check returns it, even if its time has passed since."""
    text = order.fulfillment.scheduled_time
    is_scheduled = order.fulfillment.schedule_type is ScheduleType.SCHEDULED
    return _normalized(order.fulfillment, parse_instant(text) if is_scheduled and text else None)


def with_address1(fulfillment: Fulfillment) -> Fulfillment:
    """Return the fulfillment with the street of its address as `address1`."""
    if not isinstance(fulfillment, DeliveryFulfillment) or fulfillment.address is None:
        return fulfillment
    address, street = fulfillment.address, fulfillment.address.street
    address1 = address.address1
    if is_blank(address1 or "") and street is not UNSET and not is_blank(street or ""):
        address1 = street
    return replace(fulfillment, address=replace(address, address1=address1, street=UNSET))


def _parse_time(fulfillment: Fulfillment, now: datetime, faults: list[FieldFault]) -> datetime:
    """Return the instant that the order is for. A malformed time is a fault even if the order isn't scheduled."""
    text = fulfillment.scheduled_time
    at = None if text is None else parse_instant(text)
    if text is not None and at is None:
        fault = instant_fault("scheduledTime", text)
    elif fulfillment.schedule_type is not ScheduleType.SCHEDULED:
        return now
    elif at is None:
        fault = TIME_REQUIRED
    elif at <= now:
        fault = "scheduledTime must be in the future."
    elif at > now + timedelta(days=MAX_DAYS_AHEAD):
        fault = f"scheduledTime may be at most {MAX_DAYS_AHEAD} days ahead. Place the order later."
    else:
        return at
    faults.append(FieldFault("/fulfillment/scheduledTime", fault, form=False))
    return now


# --- errors ---------------------------------------------------------------------------------------


def _find_errors(
    lines: Sequence[LineItem],
    priced: Priced,
    sums: Sums | None,
    *,
    store: StoreRow,
    catalog: CompiledCatalog,
    parsed: _ParsedOrder,
) -> Iterator[OrderError]:
    """Yield every error: of the cart, then the store, then the fulfillment."""
    if not lines:
        yield _error(CartEmpty, "The cart has no line items.", "/cart/lineItems")
    for fault in priced.faults:
        yield fault.error()
    local = parsed.at.astimezone(zone(store.timezone))
    is_open = catalog.is_open(local)
    if not is_open or store.paused_at(parsed.at):
        closed = availability_of(store, catalog, parsed.at)
        scheduled = parsed.fulfillment.schedule_type is ScheduleType.SCHEDULED
        at = "/fulfillment/scheduledTime" if scheduled else None
        yield OrderError(
            code=StoreClosed.code,
            message=closed.detail,
            pointer=at,
            opens_at=closed.opens_at,
            closes_at=None,
        )
    if is_open:
        # Outside all hours STORE_CLOSED stands for every item.
        yield from _find_unsold(lines, priced, catalog=catalog, local=local)
    delivery = parsed.fulfillment if isinstance(parsed.fulfillment, DeliveryFulfillment) else None
    if delivery is not None and not store.delivery_allowed:
        yield _error(ValidationFailed, "The store does not deliver.", "/fulfillment/mode")
    if delivery is None and not store.pickup_allowed:
        yield _error(ValidationFailed, "The store has no pickup.", "/fulfillment/mode")
    if lines and sums is not None:
        yield from _find_minimum_errors(sums, store)
    if delivery is not None:
        yield from _find_address_errors(delivery.address or DeliveryAddress(), store)


def _find_unsold(
    lines: Sequence[LineItem], priced: Priced, *, catalog: CompiledCatalog, local: datetime
) -> Iterator[OrderError]:
    """Yield the items that no catalog offers at the store's local time."""
    for index, line in enumerate(lines):
        item = catalog.items.get(line.item_id.int)
        if item is None or catalog.is_sold(item, local):
            continue
        if not any(fault.path == (index,) and fault.code == ItemUnavailable.code for fault in priced.faults):
            name = item.name or line.item_id
            message = f"{name} is not on offer on {local:%A} at {local:%H:%M:%S}, the store's time."
            yield CartFault(ItemUnavailable.code, message, (index,), item_id=line.item_id).error()


def _find_minimum_errors(sums: Sums, store: StoreRow) -> Iterator[OrderError]:
    """Yield a negative total, and a cart below the minimum if that is in the catalog's currency."""
    total = sums.sub_total + sums.tip
    if total < 0:
        message = f"The order's total is negative: {minor_to_decimal(total, sums.scale)} {sums.currency}."
        yield _error(ValidationFailed, message, "/cart/lineItems")
    minimum = store.minimum_order_amount
    if minimum is None or store.minimum_order_currency != sums.currency or sums.sub_total >= minimum:
        return
    message = (
        f"The store's minimum order is {minor_to_decimal(minimum, sums.scale)} {sums.currency}; "
        f"the cart comes to {minor_to_decimal(sums.sub_total, sums.scale)}."
    )
    yield _error(OrderBelowMinimum, message, "/cart/lineItems")


def _find_address_errors(address: DeliveryAddress, store: StoreRow) -> Iterator[OrderError]:
    """Yield what the address lacks in the store's country: the merchant delivers there, and the address names none."""
    country = country_of(store.address.country or None, store.timezone)
    for part in missing_parts(address, country):
        message = f"A delivery needs the {part.name} of its address: {part.member}."
        yield _error(AddressInvalid, message, f"/fulfillment/address/{part.member}")


def _error(kind: type[Problem], message: str, at: str | None) -> OrderError:
    return OrderError(code=kind.code, message=message, pointer=at)
