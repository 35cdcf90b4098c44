"""The data of order webhooks, and the replies of stores.

The replies are declared here for clients and the OpenAPI document. `validation.replies` reads each member by itself.
"""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mercato.domain.orders.model import Amounts, CommerceCart, Order
from mercato.domain.orders.request import ClientContext, Customer, Fulfillment
from mercato.kernel.wire import Instant, Wire, redacted

Money = Annotated[str | float, Meta(description="A decimal string, or a number, in the order's currency.")]


class WebhookOrder(Wire, kw_only=True):
    """An OrderCore for stores: priced, with names and the merchant's own ids on its lines."""

    cart: CommerceCart
    client_context: ClientContext | UnsetType = UNSET
    fulfillment: Fulfillment
    amounts: Amounts
    customer: Customer | UnsetType = UNSET


class OrderValidateData(Wire, kw_only=True):
    """The data of `order.validate`."""

    store_id: UUID
    partner_store_id: str
    order: WebhookOrder


class _AboutOrder(Wire, kw_only=True):
    order_id: UUID
    store_id: UUID
    partner_store_id: str


@redacted("payment")
class OrderPlaceData(_AboutOrder, kw_only=True):
    """The data of `order.place`. The payment is byte for byte the storefront's."""

    order: WebhookOrder
    payment: msgspec.Raw | UnsetType = UNSET


class OrderCancelledData(_AboutOrder, kw_only=True):
    """The data of `order.cancelled`."""

    cancel_reason: str | None
    order: WebhookOrder


class OrderEventData(_AboutOrder, kw_only=True):
    """The data of `order.created` and `order.updated`; `sequence` counts per order from 1."""

    sequence: int
    order: Order


class StoreAmountDetail(Wire):
    """One entry of an amount's description."""

    amount: Money
    description: str


class StoreReplyAmounts(Wire):
    """The amounts that the store sets. Those that it doesn't return stay."""

    fees: Money | UnsetType = UNSET
    fees_description: list[StoreAmountDetail] | UnsetType = UNSET
    taxes: Money | UnsetType = UNSET
    taxes_description: list[StoreAmountDetail] | UnsetType = UNSET
    promotions: Money | UnsetType = UNSET
    promotions_description: list[StoreAmountDetail] | UnsetType = UNSET
    adjustments: Money | UnsetType = UNSET
    adjustments_description: list[StoreAmountDetail] | UnsetType = UNSET
    sub_total: (
        Annotated[Money, Meta(description="One that differs from ours is ITEM_PRICE_CHANGED.")] | UnsetType
    ) = UNSET
    total: Annotated[Money, Meta(description="If given, the sum of all amounts.")] | UnsetType = UNSET


class StoreOrderError(Wire):
    """An error of the order: one of our codes if one fits, and a message for the customer."""

    code: str
    message: str | UnsetType | None = UNSET
    pointer: Annotated[str, Meta(description="Where in `data.order` (RFC 6901).")] | UnsetType | None = UNSET


class ValidateReply(Wire):
    """The store's reply to `order.validate`."""

    is_valid: (
        Annotated[bool, Meta(description="If absent, the order is accepted unless there are `errors`.")]
        | UnsetType
    ) = UNSET
    amounts: StoreReplyAmounts | UnsetType | None = UNSET
    errors: list[StoreOrderError] | UnsetType | None = UNSET
    estimated_ready_at: Instant | UnsetType | None = UNSET


class PlaceReply(Wire):
    """The store's reply to `order.place`. An empty object accepts the order."""

    accepted: (
        Annotated[bool, Meta(description="If absent, the order is accepted unless there are `errors`.")]
        | UnsetType
    ) = UNSET
    partner_order_id: Annotated[str, Meta(max_length=255)] | UnsetType | None = UNSET
    estimated_ready_at: Instant | UnsetType | None = UNSET
    errors: list[StoreOrderError] | UnsetType | None = UNSET


class StoreRefusal(Wire):
    """The store's rejection: `errors`, or a problem with `errorCode` and `detail`."""

    errors: list[StoreOrderError] | UnsetType | None = UNSET
    error_code: str | UnsetType | None = UNSET
    detail: str | UnsetType | None = UNSET
