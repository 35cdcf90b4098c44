"""What the scripted service makes of an order that it takes: what its store adds, and what is answered."""

from datetime import datetime, timedelta
from uuid import uuid4

import msgspec

from mercato import clock, errors
from mercato.certify.shop import Shop
from mercato.orders.amounts import Detail, Extras, Sums, wire
from mercato.orders.model import Order, OrderState, OrderStatus
from mercato.orders.request import PlaceOrderRequest
from mercato.orders.review import Review
from mercato.wire import instant


def agreed(sums: Sums) -> Sums:
    """Return the amounts with what the store adds: a tax that does not come out even, and a fee."""
    tax = sums.sub_total * 83 // 1000 + 1
    fee = 37 if sums.scale else 11
    extras = Extras(fees=(Detail(fee, "Bag"),), taxes=(Detail(tax, "Sales tax"),))
    return msgspec.structs.replace(sums, extras=extras)


def check_total(sums: Sums, total: int) -> None:
    """Refuse a total that is not the order's. Raises OrderTotalDifferent."""
    if sums.total != total:
        raise errors.OrderTotalDifferent(f"The order's total is {wire(sums).total} {sums.currency}.")


def order_of(shop: Shop, order: PlaceOrderRequest, found: Review, sums: Sums, now: datetime) -> Order:
    """Return an order that is taken now."""
    order_id = clock.new_id()
    return Order(
        order_id=order_id,
        store_id=shop.store.id,
        partner_store_id=shop.store.partner_store_id,
        state=OrderState.OPEN,
        status=OrderStatus.PENDING,
        partner_order_id=f"C-{str(uuid4())[:6]}",
        estimated_ready_at=instant(now + timedelta(minutes=20)),
        cancel_reason=None,
        cart=found.cart,
        client_context=order.client_context,
        fulfillment=found.fulfillment,
        amounts=wire(sums),
        customer=order.customer or msgspec.UNSET,
        created_at=instant(now) or "",
        updated_at=instant(now) or "",
    )
