"""The representations of orders for merchants and storefronts, their states, and the requests that update them."""

from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato.domain.carts.model import Amount, CartAmounts, LineItemAmounts, Quantity
from mercato.domain.orders.request import ClientContext, Customer, DateTime, Fulfillment
from mercato.kernel.errors import OrderError
from mercato.kernel.wire import Instant, Wire, redacted
from mercato.kernel.wire.checks import validator

E = TypeVar("E", bound=StrEnum)


class AmountDetail(Wire):
    """One entry of an amount's description."""

    amount: Amount
    description: str


class Amounts(Wire, kw_only=True):
    """An order's amounts: `total` = subTotal + fees - promotions + taxes + adjustments + tip.

    Each list sums to its amount.
    """

    currency: str
    sub_total: Amount
    adjustments: Amount
    adjustments_description: tuple[AmountDetail, ...]
    fees: Amount
    fees_description: tuple[AmountDetail, ...]
    promotions: Amount
    promotions_description: tuple[AmountDetail, ...]
    taxes: Amount
    taxes_description: tuple[AmountDetail, ...]
    tip: Amount
    tip_description: tuple[AmountDetail, ...]
    total: Amount


PartnerId = Annotated[
    str,
    Meta(
        description="Its id in the merchant's document, that of the CatalogSet that the order was placed from."
    ),
]


class OrderLine(Wire, gc=False):
    """A line of an order: `name` from the store's CatalogSet, `amounts` on top-level lines."""

    item_id: UUID
    modifier_groups: tuple["OrderModifierGroup", ...]
    quantity: Quantity
    line_item_id: UUID
    name: str | UnsetType = UNSET
    amounts: LineItemAmounts | UnsetType = UNSET
    unavailable: bool | UnsetType = UNSET


class OrderModifierGroup(Wire, gc=False):
    """The choices from one modifier group."""

    modifier_group_id: UUID
    line_items: tuple[OrderLine, ...]


class OrderCart(Wire):
    """The priced cart of an order."""

    catalog_set_id: UUID
    line_items: tuple[OrderLine, ...]
    store_id: UUID
    amounts: CartAmounts | UnsetType = UNSET


class CommerceLine(Wire, gc=False):
    """A line of an order, for its merchant."""

    item_id: UUID
    partner_item_id: PartnerId
    modifier_groups: tuple["CommerceModifierGroup", ...]
    quantity: Quantity
    line_item_id: UUID
    name: str | UnsetType = UNSET
    amounts: LineItemAmounts | UnsetType = UNSET
    unavailable: bool | UnsetType = UNSET


class CommerceModifierGroup(Wire, gc=False):
    """The choices from one modifier group, for the merchant of the order."""

    modifier_group_id: UUID
    partner_modifier_group_id: PartnerId
    line_items: tuple[CommerceLine, ...]


class CommerceCart(Wire):
    """The priced cart of an order, for its merchant: with the ids of the merchant's document."""

    catalog_set_id: UUID
    line_items: tuple[CommerceLine, ...]
    store_id: UUID
    amounts: CartAmounts | UnsetType = UNSET


class CheckedOrder(Wire, kw_only=True):
    """A validated order. `amounts` are absent if something in the cart has no price."""

    cart: OrderCart
    client_context: ClientContext
    fulfillment: Fulfillment
    amounts: Amounts | UnsetType = UNSET
    customer: Customer | UnsetType = UNSET
    estimated_ready_at: Instant | UnsetType = UNSET
    errors: tuple[OrderError, ...] = ()


@redacted("validated_order_token")
class ValidateOrderResponse(Wire):
    """Whether the order can be placed, and the token that places it, once and within fifteen minutes."""

    is_valid: bool
    validated_order_token: str | None
    order: CheckedOrder


class OrderState(StrEnum):
    """Whether an order is still being fulfilled."""

    OPEN = "open"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class OrderStatus(StrEnum):
    """The progress of an order."""

    PENDING = "pending"
    CONFIRMED = "confirmed"
    PREPARING = "preparing"
    READY = "ready"
    IN_TRANSIT = "inTransit"


_SETTABLE: Final = tuple(status for status in OrderStatus if status is not OrderStatus.PENDING)


def find_member(kind: type[E], text: str | None) -> E | None:
    """Return the member with this value, in any letter case."""
    wanted = None if text is None else text.lower()
    return next((one for one in kind if one.value.lower() == wanted), None)


def status_fault(text: str) -> str | None:
    """Return why an update can't set this status, or None."""
    status = find_member(OrderStatus, text)
    if status in _SETTABLE:
        return None
    known = ", ".join(one.value for one in _SETTABLE)
    if status is OrderStatus.PENDING:
        return f"An order is pending only until its first update. status must be one of {known}."
    return f"status must be one of {known}."


def state_fault(text: str) -> str | None:
    """Return why the text isn't a state, or None."""
    known = ", ".join(one.value for one in OrderState)
    return None if find_member(OrderState, text) is not None else f"state must be one of {known}."


class _PlacedOrder(Wire, kw_only=True):
    order_id: UUID
    store_id: UUID
    partner_store_id: str
    state: OrderState
    status: OrderStatus
    partner_order_id: str | None
    estimated_ready_at: Instant | None
    cancel_reason: str | None
    client_context: ClientContext | UnsetType = UNSET
    fulfillment: Fulfillment
    amounts: Amounts
    customer: Customer | UnsetType = UNSET
    errors: tuple[OrderError, ...] = ()
    created_at: Instant
    updated_at: Instant


class Order(_PlacedOrder, kw_only=True):
    """A placed order, without its payment."""

    cart: OrderCart


class CommerceOrder(_PlacedOrder, kw_only=True):
    """A placed order for its merchant, without its payment."""

    cart: CommerceCart


class OrderPage(Wire):
    """A page of orders, newest first."""

    orders: list[CommerceOrder]
    next_cursor: str | None


class OrderStatusUpdate(Wire):
    """A new status, state or estimatedReadyAt; at least one of them."""

    status: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=64,
                description="`confirmed`, `preparing`, `ready` or `inTransit`, in any letter case; never backward.",
                extra=validator(status_fault),
            ),
        ]
        | None
    ) = None
    state: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=64,
                description="`completed` or `cancelled`, in any letter case; `cancelled` needs a `cancelReason`.",
                extra=validator(state_fault),
            ),
        ]
        | None
    ) = None
    estimated_ready_at: DateTime | None = None
    cancel_reason: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class OrderStatusResponse(Wire):
    """The order's state and status after an update."""

    order_id: UUID
    state: OrderState
    status: OrderStatus
    updated_at: Instant


class TimelineEntry(Wire, kw_only=True):
    """One event of an order: when, which, by whom, and its details."""

    at: Instant
    type: str
    actor: str
    detail: dict[str, Any]


class OrderTimeline(Wire):
    """All events of an order, oldest first."""

    order_id: UUID
    entries: list[TimelineEntry]
