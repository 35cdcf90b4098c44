"""The requests of Validate order and Place order, and what Validate answers: the cart and amounts of an order."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mercato_contract.carts import (
    DECIMAL,
    Amount,
    Cart,
    CartAmounts,
    FreeQuantity,
    LineItemAmounts,
    Note,
    Quantity,
)
from mercato_contract.money import is_negative
from mercato_contract.problems import OrderError
from mercato_contract.stores import FulfillmentMode
from mercato_contract.wire import Instant, Objection, Wire, in_words, redacted, validator

MAX_BYTES: Final = 64 * 1024
"""Bytes of a request. An order with the maximum number of lines and all amounts of its cart has 45 KB."""


NOT_AN_OBJECT: Final = "payment must be an object."


TIP_NEGATIVE: Final = "tip must not be negative."


TIME_REQUIRED: Final = "scheduledTime is required with SCHEDULED."


Decimal = Annotated[
    str,
    Meta(
        pattern=DECIMAL,
        max_length=64,
        description="Decimal in the currency's own scale.",
        extra=in_words("a decimal number like 12.50"),
    ),
]


Text255 = Annotated[str, Meta(max_length=255)]


Name = Annotated[str, Meta(max_length=256)]


Text1000 = Annotated[str, Meta(max_length=1000)]


DateTime = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]


def _payment_fault(sent: object) -> Objection | None:
    return None if isinstance(sent, dict) else Objection(NOT_AN_OBJECT, form=True)


Payment = Annotated[
    msgspec.Raw,
    Meta(
        extra_json_schema={"anyOf": [{"type": "object"}, {"type": "null"}]},
        description="For the store, byte for byte. The service doesn't keep it.",
        extra=validator(_payment_fault),
    ),
]


class ScheduleType(StrEnum):
    """Whether an order is for now or for a later time."""

    ASAP = "ASAP"
    SCHEDULED = "SCHEDULED"


class DeliveryType(StrEnum):
    """How a delivery is handed over."""

    DOOR_TO_DOOR = "DOOR_TO_DOOR"
    LEAVE_AT_DOOR = "LEAVE_AT_DOOR"


class LatLong(Wire):
    """A place on earth, in degrees."""

    lat: Annotated[float, Meta(ge=-90, le=90)]
    lng: Annotated[float, Meta(ge=-180, le=180)]


class DeliveryAddress(Wire):
    """The address of a delivery. Every member may be absent or null; `street` means the same as `address1`."""

    address1: Text255 | None = None
    address2: Text255 | None = None
    city: Text255 | None = None
    coordinates: LatLong | None = None
    postal_code: Text255 | None = None
    state: Text255 | None = None
    street: Text255 | UnsetType | None = UNSET


class PickupFulfillment(Wire, tag_field="mode", tag=FulfillmentMode.PICKUP.value):
    """The customer picks the order up."""

    schedule_type: ScheduleType
    scheduled_time: DateTime | None = None


class DeliveryFulfillment(Wire, tag_field="mode", tag=FulfillmentMode.DELIVERY_BY_MERCHANT.value):
    """The merchant delivers the order."""

    schedule_type: ScheduleType
    delivery_type: DeliveryType
    address: DeliveryAddress | None = None
    instructions: Text1000 | None = None
    scheduled_time: DateTime | None = None


Fulfillment = PickupFulfillment | DeliveryFulfillment


def mode_of(fulfillment: Fulfillment) -> FulfillmentMode:
    """Return how the order reaches its customer."""
    is_delivery = isinstance(fulfillment, DeliveryFulfillment)
    return FulfillmentMode.DELIVERY_BY_MERCHANT if is_delivery else FulfillmentMode.PICKUP


def _schedule_fault(sent: Mapping[str, object]) -> Objection | None:
    if sent.get("scheduleType") != ScheduleType.SCHEDULED.value or sent.get("scheduledTime") is not None:
        return None
    return Objection(TIME_REQUIRED, below="/scheduledTime")


class ClientContext(Wire):
    """The customer's device."""

    ip: Annotated[str, Meta(max_length=64)]
    user_agent: Text1000


NO_CONTEXT: Final = ClientContext(ip="", user_agent="")
"""The device of an erased customer: every order has one."""


ErasableContext = Annotated[
    ClientContext, Meta(description="Its texts are empty once the order's customer is erased.")
]


class Customer(Wire):
    """The person who orders."""

    email: Text255
    first_name: Name
    last_name: Name
    phone: Text255
    partner_user_id: Text255 | None = None


def _tip_fault(text: str) -> str | None:
    return TIP_NEGATIVE if is_negative(text) else None


Tip = Annotated[Decimal, Meta(extra=validator(_tip_fault))]


Currency = Annotated[str, Meta(description="ISO 4217. If given, it must be the store's.")]


class ValidateAmounts(Wire):
    """Of the amounts of an order to validate, the tip is read; the currency, if given, must be right."""

    currency: Currency | None = None
    tip: Tip | None = None


class PlaceAmounts(ValidateAmounts):
    """Of the amounts of an order that is placed, the tip is read; currency and total, if given, must be right."""

    total: Decimal | None = None


class OrderCore(Wire, kw_only=True):
    """An order to be validated."""

    cart: Cart
    client_context: ClientContext
    fulfillment: Annotated[Fulfillment, Meta(extra=validator(_schedule_fault))]
    amounts: ValidateAmounts | None = None
    customer: Customer | None = None
    note: Note | UnsetType | None = UNSET


@redacted("validated_order_token", "payment")
class PlaceOrderRequest(Wire, kw_only=True):
    """An order to be placed, with the token of its validation, if there was one."""

    cart: Cart
    client_context: ClientContext
    fulfillment: Annotated[Fulfillment, Meta(extra=validator(_schedule_fault))]
    amounts: PlaceAmounts | None = None
    customer: Customer | None = None
    note: Note | UnsetType | None = UNSET
    validated_order_token: Annotated[str, Meta(max_length=65_536)] | None = None
    payment: Payment | UnsetType = UNSET


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


GroupName = Annotated[str, Meta(description="From the store's CatalogSet.")]


class OrderLine(Wire, gc=False):
    """A line of an order: `name` from the store's CatalogSet, `amounts` unless something in it is `unavailable`.

    Amounts of a modifier are for one unit of the line above it: that line's `unitPrice` is its item's own price and the
    `total` of its modifiers. An order of an earlier release has none on its modifiers.
    """

    item_id: UUID
    modifier_groups: tuple["OrderModifierGroup", ...]
    quantity: Quantity
    line_item_id: UUID
    name: str | UnsetType = UNSET
    amounts: LineItemAmounts | UnsetType = UNSET
    unavailable: bool | UnsetType = UNSET
    note: str | None = None
    free_quantity: FreeQuantity | UnsetType = UNSET


class OrderModifierGroup(Wire, gc=False):
    """The choices from one modifier group."""

    modifier_group_id: UUID
    line_items: tuple[OrderLine, ...]
    name: GroupName | UnsetType = UNSET


class OrderCart(Wire):
    """The priced cart of an order."""

    catalog_set_id: UUID
    line_items: tuple[OrderLine, ...]
    store_id: UUID
    amounts: CartAmounts | UnsetType = UNSET


class CommerceLine(Wire, gc=False):
    """A line of an order, for its merchant: an OrderLine with the id of the merchant's document."""

    item_id: UUID
    partner_item_id: PartnerId
    modifier_groups: tuple["CommerceModifierGroup", ...]
    quantity: Quantity
    line_item_id: UUID
    name: str | UnsetType = UNSET
    amounts: LineItemAmounts | UnsetType = UNSET
    unavailable: bool | UnsetType = UNSET
    note: str | None = None
    free_quantity: FreeQuantity | UnsetType = UNSET


class CommerceModifierGroup(Wire, gc=False):
    """The choices from one modifier group, for the merchant of the order."""

    modifier_group_id: UUID
    partner_modifier_group_id: PartnerId
    line_items: tuple[CommerceLine, ...]
    name: GroupName | UnsetType = UNSET


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
    note: str | None = None
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
