"""The stored order, and its representations for the merchant, the storefront and their webhooks."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import asdict, replace

from mercato_contract.events import MerchantOrderData, OrderCancelledData, WebhookOrder
from mercato_contract.money import to_text
from mercato_contract.orders import (
    AdjustmentType,
    Cancellation,
    CancellationStatus,
    CommerceOrder,
    Courier,
    Order,
    OrderAdjustment,
    OrderAmounts,
    OrderState,
    OrderStatus,
)
from mercato_contract.placements import (
    NO_CONTEXT,
    Amounts,
    ClientContext,
    CommerceCart,
    CommerceLine,
    Customer,
    Fulfillment,
    OrderCart,
    OrderLine,
    OrderModifierGroup,
)
from mercato_contract.problems import OrderError
from mercato_contract.stores import OrderHandling
from mercato_contract.wire import Instant, Wire, as_json, rfc3339

_Order = TypeVar("_Order", Order, CommerceOrder)
_Cart = TypeVar("_Cart", OrderCart, CommerceCart)
_Line = TypeVar("_Line", OrderLine, CommerceLine)


class StoreAnswer(StrEnum):
    """The store's answer to the placement. `given_up`: it never answered, and the order was cancelled.

    While it is `waiting`, the store is called. While it is `pending`, a person decides.
    """

    WAITING = "waiting"
    PENDING = "pending"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    GIVEN_UP = "given_up"


class EntryDetail(Wire):
    """The details of an entry in an order's history: what it changed, or why."""

    status: OrderStatus | UnsetType = UNSET
    state: OrderState | UnsetType = UNSET
    estimated_ready_at: Instant | UnsetType = UNSET
    estimated_delivery_at: Instant | UnsetType = UNSET
    courier: str | UnsetType = UNSET
    cancel_reason: str | UnsetType = UNSET
    errors: tuple[OrderError, ...] | UnsetType = UNSET
    store_notified: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    refusal: str | UnsetType = UNSET
    partner_order_id: str | UnsetType = UNSET
    adjustment: AdjustmentType | UnsetType = UNSET
    amount: str | UnsetType = UNSET


class OrderContent(Wire, frozen=True):
    """The part of an order that never changes and is never erased."""

    cart: CommerceCart
    amounts: Amounts


class _EncodedContent(Wire):
    """The members of `OrderContent`, as they are stored."""

    cart: Raw
    amounts: Raw


_encoded_content: Final = msgspec.json.Decoder(_EncodedContent).decode


class Notes(Wire, frozen=True):
    """What the customer wrote: of the order, and of lines by their `lineItemId`. It is erased with the customer."""

    order: str | None
    lines: dict[UUID, str]


class StoredCancellation(Struct, frozen=True, kw_only=True):
    """The newest cancellation by the storefront. `id` is the `webhook-id` of its calls, and their delivery's id.

    `partner_order_id` is the order's at the time of the request: every attempt sends the same bytes. `refusal` is the
    store's reason.
    """

    id: UUID
    status: CancellationStatus
    reason: str
    message: str | None
    partner_order_id: str | None
    requested_at: datetime
    at: datetime
    give_up_at: datetime
    refusal: str | None = None


class StoredAdjustment(Struct, frozen=True, kw_only=True):
    """What the merchant changed of what the order costs: `amount` in minor units, as the merchant gave it."""

    id: UUID
    type: AdjustmentType
    amount: int
    reason: str | None
    line_item_ids: tuple[UUID, ...]
    at: datetime

    @property
    def difference(self) -> int:
        """The minor units by which it changes what the order costs."""
        return -self.amount if self.type is AdjustmentType.REFUND else self.amount


class OrderRow(Struct, frozen=True, kw_only=True, dict=True):
    """A stored order. `partner_id` is the merchant, `storefront_id` the partner that placed it.

    `content` is the stored OrderContent, byte for byte: other bodies are compressed with it. `total` is in minor
    units. `sequence` counts the events for the storefront, `entries` those of the history. `agent_id` is whose key
    placed it, if an agent's, and `agent_day` the ordinal number of the day on which that agent's spending counts it.
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
    cancellation: StoredCancellation | None = None
    notes: Notes | None = None
    courier: Courier | None = None
    estimated_delivery_at: datetime | None = None
    adjustments: tuple[StoredAdjustment, ...] | None = None
    handling: OrderHandling | None = None
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
    agent_id: UUID | None = None
    agent_day: int | None = None

    @property
    def total_after_adjustments(self) -> int:
        """What the order costs now, in minor units."""
        return self.total + sum(adjustment.difference for adjustment in self.adjustments or ())

    @property
    def is_pulled(self) -> bool:
        """Whether its store isn't called about it: its merchant reads it in the feed."""
        return self.handling in {OrderHandling.AUTOMATIC, OrderHandling.MANUAL}

    @property
    def storefront_order(self) -> Order:
        """The storefront's representation."""
        return _represent(Order, storefront_cart(self.cart), self)

    @cached_property
    def storefront_document(self) -> bytes:
        """The same as JSON, encoded once: the response and the event of a placement have the same."""
        return as_json(self.storefront_order)


def take_notes(cart: CommerceCart, note: str | None) -> Notes | None:
    """Return the notes of an order, or None if the customer wrote none."""
    lines: dict[UUID, str] = {}
    level: Sequence[CommerceLine] = cart.line_items
    while level:
        below: list[CommerceLine] = []
        for line in level:
            if line.note:
                lines[line.line_item_id] = line.note
            for group in line.modifier_groups:
                below += group.line_items
        level = below
    return Notes(order=note, lines=lines) if lines or note else None


def with_notes(cart: _Cart, notes: Notes | None) -> _Cart:
    """Return the cart with these notes on its lines, and no others."""
    return replace(cart, line_items=_with_notes(cart.line_items, {} if notes is None else notes.lines))


def _with_notes(lines: Sequence[_Line], notes: Mapping[UUID, str]) -> tuple[_Line, ...]:
    return tuple(
        replace(
            line,
            note=notes.get(line.line_item_id),
            modifier_groups=tuple(
                replace(group, line_items=_with_notes(group.line_items, notes))
                for group in line.modifier_groups
            ),
        )
        for line in lines
    )


def storefront_cart(cart: CommerceCart) -> OrderCart:
    """Return the cart without the ids of the merchant's document."""
    return OrderCart(
        catalog_set_id=cart.catalog_set_id,
        line_items=_storefront_lines(cart.line_items),
        store_id=cart.store_id,
        amounts=cart.amounts,
    )


def _storefront_lines(lines: Sequence[CommerceLine]) -> tuple[OrderLine, ...]:
    converted = []
    for line in lines:
        groups = []
        for group in line.modifier_groups:
            below = _storefront_lines(group.line_items)
            groups.append(OrderModifierGroup(group.modifier_group_id, below, group.name))
        converted.append(
            OrderLine(
                line.item_id,
                tuple(groups),
                line.quantity,
                line.line_item_id,
                line.name,
                line.amounts,
                line.unavailable,
                line.note,
                line.free_quantity,
            )
        )
    return tuple(converted)


def commerce_order_of(row: OrderRow) -> CommerceOrder:
    """Return the merchant's representation."""
    return _represent(CommerceOrder, row.cart, row)


def _represent(kind: Callable[..., _Order], cart: OrderCart | CommerceCart, row: OrderRow) -> _Order:
    after: str | UnsetType = UNSET
    if row.adjustments is not None:
        after = to_text(row.total_after_adjustments, row.currency)
    return kind(
        cart=cart,
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        state=row.state,
        status=row.status,
        partner_order_id=row.partner_order_id,
        estimated_ready_at=row.estimated_ready_at and rfc3339(row.estimated_ready_at),
        cancel_reason=row.cancel_reason,
        cancellation=None if row.cancellation is None else _cancellation(row.cancellation),
        courier=row.courier,
        estimated_delivery_at=row.estimated_delivery_at and rfc3339(row.estimated_delivery_at),
        client_context=row.client_context or NO_CONTEXT,
        fulfillment=row.fulfillment,
        note=None if row.notes is None else row.notes.order,
        amounts=order_amounts(row.amounts, after_adjustments=after),
        adjustments=() if row.adjustments is None else adjustments_of(row),
        customer=row.customer or UNSET,
        errors=row.errors,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def order_amounts(amounts: Amounts, *, after_adjustments: str | UnsetType = UNSET) -> OrderAmounts:
    """Return an order's amounts, with what it costs now if it was adjusted."""
    return OrderAmounts(**asdict(amounts), total_after_adjustments=after_adjustments)


def adjustments_of(row: OrderRow) -> tuple[OrderAdjustment, ...]:
    """Return the order's adjustments, oldest first."""
    return tuple(
        OrderAdjustment(
            adjustment_id=adjustment.id,
            type=adjustment.type,
            amount=to_text(adjustment.amount, row.currency),
            reason=adjustment.reason,
            line_item_ids=adjustment.line_item_ids,
            created_at=rfc3339(adjustment.at),
        )
        for adjustment in row.adjustments or ()
    )


def _cancellation(stored: StoredCancellation) -> Cancellation:
    return Cancellation(
        status=stored.status, reason=stored.reason, message=stored.message, at=rfc3339(stored.at)
    )


# --- what events carry -------------------------------------------------------------------------------


def cancelled_data(row: OrderRow) -> OrderCancelledData:
    """Return the data of `order.cancelled`, for the store."""
    return OrderCancelledData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        cancel_reason=row.cancel_reason,
        order=webhook_order(row),
    )


class EncodedEventData(Wire):
    """The members of `OrderEventData`, with an order that is JSON already."""

    order_id: UUID
    store_id: UUID
    partner_store_id: str
    sequence: int
    order: Raw


def event_data(row: OrderRow) -> EncodedEventData:
    """Return the data of an event about the order, for the storefront."""
    return EncodedEventData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        sequence=row.sequence,
        order=Raw(row.storefront_document),
    )


def merchant_data(row: OrderRow, *, cancelled: bool) -> MerchantOrderData:
    """Return the data of an event about a pulled order, for its merchant."""
    return MerchantOrderData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        order_handling=row.handling or OrderHandling.WEBHOOK,
        cancel_reason=row.cancel_reason if cancelled else UNSET,
        order=commerce_order_of(row),
    )


class EncodedWebhookOrder(Wire):
    """The members of `WebhookOrder`, with a cart and amounts that are JSON already."""

    cart: Raw
    client_context: ClientContext
    fulfillment: Fulfillment
    note: str | None
    amounts: Raw
    customer: Customer | UnsetType


class EncodedPlaceData(Wire):
    """The members of `OrderPlaceData`, without a payment."""

    order_id: UUID
    store_id: UUID
    partner_store_id: str
    order: EncodedWebhookOrder


def place_data(row: OrderRow) -> EncodedPlaceData:
    """Return the data of a place call without its payment. What is stored of the order isn't encoded once more."""
    content = _encoded_content(row.content)
    return EncodedPlaceData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        order=EncodedWebhookOrder(
            # The content has no notes.
            cart=content.cart if row.notes is None else Raw(as_json(row.cart)),
            client_context=row.client_context or NO_CONTEXT,
            fulfillment=row.fulfillment,
            note=None if row.notes is None else row.notes.order,
            amounts=content.amounts,
            customer=row.customer or UNSET,
        ),
    )


def webhook_order(row: OrderRow) -> WebhookOrder:
    """Return the order as its store gets it, without its payment."""
    return WebhookOrder(
        cart=row.cart,
        client_context=row.client_context or NO_CONTEXT,
        fulfillment=row.fulfillment,
        note=None if row.notes is None else row.notes.order,
        amounts=row.amounts,
        customer=row.customer or UNSET,
    )
