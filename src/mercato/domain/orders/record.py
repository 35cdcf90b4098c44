"""An order as it is stored, and how both sides read it."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mercato.domain.orders.model import (
    Amounts,
    CommerceCart,
    CommerceLine,
    CommerceOrder,
    Order,
    OrderCart,
    OrderLine,
    OrderModifierGroup,
    OrderState,
    OrderStatus,
)
from mercato.domain.orders.request import ClientContext, Customer, Fulfillment
from mercato.domain.orders.wire import CancelledData, OrderEventData, OrderTold, PlaceData
from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.model import envelope
from mercato.kernel.clock import rfc3339
from mercato.kernel.errors import OrderError
from mercato.kernel.wire import Wire


class StoreAnswer(StrEnum):
    """What the store said to the placement. `given_up`: nothing, and the order was cancelled for it."""

    WAITING = "waiting"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    GIVEN_UP = "given_up"


class OrderContent(Wire, frozen=True):
    """What was ordered, and what it costs: what stays of an order for good, and never changes."""

    cart: CommerceCart
    amounts: Amounts


class OrderRow(Struct, frozen=True, kw_only=True):
    """An order: `partner_id` is the merchant's, `storefront_id` the partner's that placed it.

    `content` is an OrderContent as JSON, byte for byte as it is stored: other bodies are compressed with it.
    `total` in minor units. `sequence` counts the events sent to the storefront, `entries` the history.
    """

    id: UUID
    partner_id: UUID
    storefront_id: UUID
    store_id: UUID
    partner_store_id: str
    state: OrderState
    status: OrderStatus
    answer: StoreAnswer
    errors: tuple[OrderError, ...]
    partner_order_id: str | None
    estimated_ready_at: datetime | None
    cancel_reason: str | None
    currency: str
    total: int
    content: bytes
    cart: CommerceCart
    amounts: Amounts
    fulfillment: Fulfillment
    customer: Customer | None
    client_context: ClientContext | None
    token_id: UUID | None
    sequence: int
    entries: int
    traceparent: str
    created_at: datetime
    updated_at: datetime


def storefront_cart(cart: CommerceCart) -> OrderCart:
    """Return the cart as its storefront reads it: without the ids of the merchant's document."""
    return OrderCart(
        catalog_set_id=cart.catalog_set_id,
        line_items=_storefront_lines(cart.line_items),
        store_id=cart.store_id,
        amounts=cart.amounts,
    )


def _storefront_lines(lines: tuple[CommerceLine, ...]) -> tuple[OrderLine, ...]:
    return tuple(
        [
            OrderLine(
                item_id=line.item_id,
                modifier_groups=tuple(
                    [
                        OrderModifierGroup(
                            modifier_group_id=group.modifier_group_id,
                            line_items=_storefront_lines(group.line_items),
                        )
                        for group in line.modifier_groups
                    ]
                ),
                quantity=line.quantity,
                line_item_id=line.line_item_id,
                name=line.name,
                amounts=line.amounts,
                unavailable=line.unavailable,
            )
            for line in lines
        ]
    )


def order_of(row: OrderRow) -> Order:
    """Return the order as its storefront reads it."""
    return Order(cart=storefront_cart(row.cart), **_members(row))


def commerce_order_of(row: OrderRow) -> CommerceOrder:
    """Return the order as its merchant reads it."""
    return CommerceOrder(cart=row.cart, **_members(row))


def _members(row: OrderRow) -> dict[str, Any]:
    """Return what both sides read alike."""
    return {
        **_ids(row),
        "state": row.state,
        "status": row.status,
        "partner_order_id": row.partner_order_id,
        "estimated_ready_at": row.estimated_ready_at and rfc3339(row.estimated_ready_at),
        "cancel_reason": row.cancel_reason,
        "client_context": row.client_context or UNSET,
        "fulfillment": row.fulfillment,
        "amounts": row.amounts,
        "customer": row.customer or UNSET,
        "errors": row.errors,
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
    }


# --- what webhooks say of it ----------------------------------------------------------------------


def place_body(row: OrderRow, *, payment: msgspec.Raw | UnsetType, now: datetime) -> bytes:
    """Return the body of a place call, the same for every attempt."""
    has_payment = payment is not UNSET and bytes(payment).strip() != b"null"
    data = PlaceData(**_ids(row), order=_stored(row), payment=payment if has_payment else UNSET)
    return envelope(EventType.ORDER_PLACE, occurred_at=now, data=data)


def cancelled_data(row: OrderRow) -> CancelledData:
    """Return what a store is told of an order that is cancelled."""
    return CancelledData(**_ids(row), cancel_reason=row.cancel_reason, order=_stored(row))


def event_data(row: OrderRow) -> OrderEventData:
    """Return what a storefront is told of an order that is there, or has changed."""
    return OrderEventData(**_ids(row), sequence=row.sequence, order=order_of(row))


def _ids(row: OrderRow) -> dict[str, Any]:
    return {"order_id": row.id, "store_id": row.store_id, "partner_store_id": row.partner_store_id}


def _stored(row: OrderRow) -> OrderTold:
    return OrderTold(
        cart=row.cart,
        client_context=row.client_context or UNSET,
        fulfillment=row.fulfillment,
        amounts=row.amounts,
        customer=row.customer or UNSET,
    )
