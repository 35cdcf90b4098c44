"""An order as it is stored, and how both sides read it."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import UNSET, Struct

from mercato.catalog.money import decimal_to_minor, get_scale
from mercato.errors import OrderError
from mercato.orders.amounts import Detail, Extras, Sums
from mercato.orders.model import (
    AmountDetail,
    Amounts,
    CommerceCart,
    CommerceOrder,
    Order,
    OrderState,
    OrderStatus,
)
from mercato.orders.partner_ids import without_partner_ids
from mercato.orders.request import ClientContext, Customer, Fulfillment
from mercato.wire import Wire, instant


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


def order_of(row: OrderRow) -> Order:
    """Return the order as its storefront reads it."""
    return Order(cart=without_partner_ids(row.cart), **_members(row))


def commerce_order_of(row: OrderRow) -> CommerceOrder:
    """Return the order as its merchant reads it."""
    return CommerceOrder(cart=row.cart, **_members(row))


def _members(row: OrderRow) -> dict[str, Any]:
    """Return what both sides read alike."""
    return {
        "order_id": row.id,
        "store_id": row.store_id,
        "partner_store_id": row.partner_store_id,
        "state": row.state,
        "status": row.status,
        "partner_order_id": row.partner_order_id,
        "estimated_ready_at": instant(row.estimated_ready_at),
        "cancel_reason": row.cancel_reason,
        "client_context": row.client_context or UNSET,
        "fulfillment": row.fulfillment,
        "amounts": row.amounts,
        "customer": row.customer or UNSET,
        "errors": row.errors,
        "created_at": instant(row.created_at) or "",
        "updated_at": instant(row.updated_at) or "",
    }


def sums_of(amounts: Amounts) -> Sums:
    """Return the amounts of a stored order as integers again."""
    scale = get_scale(amounts.currency)

    def details(listed: tuple[AmountDetail, ...]) -> tuple[Detail, ...]:
        return tuple(Detail(decimal_to_minor(one.amount, scale), one.description) for one in listed)

    return Sums(
        currency=amounts.currency,
        scale=scale,
        sub_total=decimal_to_minor(amounts.sub_total, scale),
        extras=Extras(
            fees=details(amounts.fees_description),
            taxes=details(amounts.taxes_description),
            promotions=details(amounts.promotions_description),
            adjustments=details(amounts.adjustments_description),
        ),
        tip=decimal_to_minor(amounts.tip, scale),
    )
