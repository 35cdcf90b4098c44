"""An order as it is stored, and how both sides read it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import UNSET

from mercato.errors import OrderError
from mercato.orders.model import (
    Amounts,
    ClientContext,
    Customer,
    Fulfillment,
    Order,
    OrderCart,
    OrderState,
    OrderStatus,
)
from mercato.wire import instant


class StoreAnswer(StrEnum):
    """What the store said to the placement. `given_up`: nothing, and the order was cancelled for it."""

    WAITING = "waiting"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    GIVEN_UP = "given_up"


class Actor(StrEnum):
    """Who did something to an order."""

    STOREFRONT = "storefront"
    STORE = "store"
    MERCHANT = "merchant"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """An order: `partner_id` is the merchant's, `storefront_id` the partner's that placed it.

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
    cart: OrderCart
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


def order_of(row: OrderRow) -> Order:
    """Return the order as both sides read it."""
    return Order(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        state=row.state,
        status=row.status,
        partner_order_id=row.partner_order_id,
        estimated_ready_at=instant(row.estimated_ready_at),
        cancel_reason=row.cancel_reason,
        cart=row.cart,
        client_context=row.client_context or UNSET,
        fulfillment=row.fulfillment,
        amounts=row.amounts,
        customer=row.customer or UNSET,
        errors=row.errors,
        created_at=instant(row.created_at) or "",
        updated_at=instant(row.updated_at) or "",
    )
