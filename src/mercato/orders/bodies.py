"""What stores and storefronts are told about an order, as the bytes and data of webhooks."""

from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from mercato.catalog.model import CompiledCatalog
from mercato.orders.amounts import wire
from mercato.orders.partner_ids import with_partner_ids
from mercato.orders.record import OrderRow, order_of
from mercato.orders.request import OrderCore, PlaceOrderRequest
from mercato.orders.review import Review
from mercato.orders.wire import CancelledData, OrderEventData, OrderTold, PlaceData, ValidateData
from mercato.stores.model import StoreRow
from mercato.webhooks.event_types import EventType
from mercato.webhooks.model import envelope


def validate_body(
    store: StoreRow,
    order: OrderCore | PlaceOrderRequest,
    found: Review,
    *,
    catalog: CompiledCatalog,
    now: datetime,
) -> bytes:
    """Return the body of a validate call for an order that has a price."""
    assert found.sums is not None, "an order without a price has reasons against it"
    data = ValidateData(
        store_id=store.id,
        partner_store_id=store.partner_store_id,
        order=OrderTold(
            cart=with_partner_ids(found.cart, catalog),
            client_context=order.client_context,
            fulfillment=found.fulfillment,
            amounts=wire(found.sums),
            customer=order.customer or UNSET,
        ),
    )
    return envelope(EventType.ORDER_VALIDATE, occurred_at=now, data=data)


def place_body(row: OrderRow, *, payment: msgspec.Raw | UnsetType, now: datetime) -> bytes:
    """Return the body of a place call, the same for every attempt."""
    data = PlaceData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        order=_stored(row),
        payment=UNSET if payment is UNSET or bytes(payment).strip() == b"null" else payment,
    )
    return envelope(EventType.ORDER_PLACE, occurred_at=now, data=data)


def cancelled_data(row: OrderRow) -> CancelledData:
    """Return what a store is told of an order that is cancelled."""
    return CancelledData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        cancel_reason=row.cancel_reason,
        order=_stored(row),
    )


def event_data(row: OrderRow) -> OrderEventData:
    """Return what a storefront is told of an order that is there, or has changed."""
    return OrderEventData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        sequence=row.sequence,
        order=order_of(row),
    )


def _stored(row: OrderRow) -> OrderTold:
    return OrderTold(
        cart=row.cart,
        client_context=row.client_context or UNSET,
        fulfillment=row.fulfillment,
        amounts=row.amounts,
        customer=row.customer or UNSET,
    )
