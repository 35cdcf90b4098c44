"""The registry of webhooks: which types there are, what each carries, who receives it, and what a store replies."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mercato_contract.catalogs import CatalogFault, PartnerWarning, RunStatus
from mercato_contract.orders import CommerceOrder, Order
from mercato_contract.placements import (
    NO_CONTEXT,
    Amounts,
    CommerceCart,
    Customer,
    ErasableContext,
    Fulfillment,
)
from mercato_contract.stores import OrderHandling
from mercato_contract.wire import Instant, Wire, as_json, redacted, rfc3339


class Envelope(Wire):
    """The body of every webhook, as Standard Webhooks has it: what happened, when, and to what."""

    type: str
    timestamp: Instant
    data: msgspec.Raw


class EndpointKind(StrEnum):
    """Which address: a store's, or the one for a storefront's order events."""

    WEBHOOK_URL = "webhookUrl"
    EVENT_URL = "eventUrl"


class EndpointChangedData(Wire, kw_only=True):
    """The data of `endpoint.changed`. Addresses are origins (scheme, host, port): the rest may grant access."""

    endpoint: EndpointKind
    store_id: Annotated[UUID, Meta(description="Present for `webhookUrl`.")] | UnsetType = UNSET
    partner_store_id: Annotated[str, Meta(description="Present for `webhookUrl`.")] | UnsetType = UNSET
    previous_origin: str | None
    origin: str | None
    token_sent: Annotated[
        bool, Meta(description="Whether calls to the new origin carry your Authorization token.")
    ]


class EventType(StrEnum):
    """The `type` of a webhook's envelope."""

    ORDER_VALIDATE = "order.validate"
    ORDER_PLACE = "order.place"
    ORDER_CANCEL = "order.cancel"
    ORDER_CANCELLED = "order.cancelled"
    ORDER_CREATED = "order.created"
    ORDER_UPDATED = "order.updated"
    ORDER_ADJUSTED = "order.adjusted"
    CATALOG_SYNC_SUCCEEDED = "catalog.sync.succeeded"
    CATALOG_SYNC_FAILED = "catalog.sync.failed"
    ENDPOINT_CHANGED = "endpoint.changed"
    PARTNER_FAILING = "partner.failing"
    ENDPOINT_DISABLED = "endpoint.disabled"
    PING = "ping"


SUFFIXES: Final[Mapping[str, str]] = {
    EventType.ORDER_VALIDATE: "validate",
    EventType.ORDER_PLACE: "place",
    EventType.ORDER_CANCEL: "cancel",
    EventType.ORDER_CANCELLED: "order-cancelled",
    EventType.CATALOG_SYNC_SUCCEEDED: "catalog-sync",
    EventType.CATALOG_SYNC_FAILED: "catalog-sync",
    EventType.ENDPOINT_CHANGED: "endpoint-changed",
}
"""The path of each type below a `webhookUrl`. An event URL is called as it is."""


STORE_CALLS: Final[Mapping[str, str]] = {
    EventType.ORDER_VALIDATE: (
        "A validation is not sent again: its cart may have changed, and no request waits for the answer. "
        "The next validation of the storefront calls the store again."
    ),
    EventType.ORDER_PLACE: (
        "The service itself sends an order again for 10 minutes while the store has not answered, "
        "and then cancels it. See its state: GET /v1/commerce/orders/{orderId}."
    ),
    EventType.ORDER_CANCEL: (
        "The service itself asks again for 10 minutes while the store has not answered, and then lets the order go on. "
        "See its cancellation: GET /v1/commerce/orders/{orderId}."
    ),
}
"""Types of calls to stores that a request waits for, each with the reason why it can't be redelivered."""


NOT_IN_FEEDS: Final = frozenset({*STORE_CALLS, EventType.PING})
"""Types that aren't events: calls that a request waits for, and tests of an endpoint. No endpoint can ask for them."""


class PingData(Wire):
    """The data of `ping`."""

    endpoint_id: UUID


class PartnerFailingData(Wire, kw_only=True):
    """The data of `partner.failing`: what of the partner's has been failing, and since when the first of it."""

    partner_id: UUID
    partner: str
    since: Instant
    stores: Annotated[int, Meta(description="Stores whose last calls failed.")]
    addresses: Annotated[int, Meta(description="Addresses of its events that have failed for an hour.")]
    store_ids: Annotated[tuple[UUID, ...], Meta(description="At most 20 of the stores.")]


class EndpointDisabledData(Wire, kw_only=True):
    """The data of `endpoint.disabled`. The origin is the address without what may grant access to it."""

    partner_id: UUID
    partner: str | None
    origin: str | None
    reason: str


class CatalogSyncWebhookData(Wire):
    """The data of a `catalog.sync.…` event: the same errors and warnings as the status resource.

    `rolledBackFrom` is the set that the store served before it switched back to an earlier one.
    """

    catalog_ingest_id: UUID
    store_id: UUID
    status: RunStatus
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...] = ()
    rolled_back_from: UUID | UnsetType = UNSET


Money = Annotated[str | float, Meta(description="A decimal string, or a number, in the order's currency.")]


class WebhookOrder(Wire, kw_only=True):
    """An OrderCore for stores: priced, with names and the merchant's own ids on its lines."""

    cart: CommerceCart
    client_context: ErasableContext = NO_CONTEXT
    fulfillment: Fulfillment
    note: str | None = None
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


class OrderCancelData(_AboutOrder, kw_only=True):
    """The data of `order.cancel`: a storefront asks whether the store lets it cancel the order."""

    cancellation_id: UUID
    partner_order_id: str | None
    reason: str
    message: str | None


class OrderCancelledData(_AboutOrder, kw_only=True):
    """The data of `order.cancelled`."""

    cancel_reason: str | None
    order: WebhookOrder


class OrderEventData(_AboutOrder, kw_only=True):
    """The data of `order.created`, `order.updated` and `order.adjusted`; `sequence` counts per order from 1."""

    sequence: int
    order: Order


class MerchantOrderData(_AboutOrder, kw_only=True):
    """The data of `order.created`, `order.updated` and `order.cancelled` for the merchant of a store that isn't called.

    With `manual`, a person accepts or refuses the order while its status is `pending`. `cancelReason` is present in
    `order.cancelled` alone.
    """

    order_handling: OrderHandling
    cancel_reason: str | UnsetType | None = UNSET
    order: CommerceOrder


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


class CancelReply(Wire):
    """The store's reply to `order.cancel`."""

    accepted: bool
    reason: (
        Annotated[str, Meta(description="Why not, for the storefront, with `accepted` false.")]
        | UnsetType
        | None
    ) = UNSET


class StoreRefusal(Wire):
    """The store's rejection: `errors`, or a problem with `errorCode` and `detail`."""

    errors: list[StoreOrderError] | UnsetType | None = UNSET
    error_code: str | UnsetType | None = UNSET
    detail: str | UnsetType | None = UNSET


Payload: TypeAlias = (
    OrderValidateData
    | OrderPlaceData
    | OrderCancelData
    | OrderCancelledData
    | CatalogSyncWebhookData
    | OrderEventData
    | MerchantOrderData
    | EndpointChangedData
    | PartnerFailingData
    | EndpointDisabledData
    | PingData
)


class Event(Struct, frozen=True, kw_only=True):
    """A webhook: its types, receiver, address and expected reply. `reply` None means any 2xx.

    `envelope` is the name of its body's schema, and `meaning` the schema's description. One that is `on_request` isn't
    sent to event URLs.
    """

    name: str
    summary: str
    description: str
    envelope: str
    meaning: str
    types: tuple[EventType, ...]
    data: type[Payload]
    to: Literal["Commerce", "Marketfront", "Operator"]
    reply: type[Wire] | None = None
    on_request: bool = False


EVENTS: Final = (
    Event(
        name="catalogSync",
        summary="Catalog sync",
        description="POST `{webhookUrl}/catalog-sync` when a catalog ingest run of a notification ends. Best effort: "
        "rely on Get Catalog Ingest Status. `webhook-id` is the run's id.",
        envelope="CatalogSyncWebhook",
        meaning="A catalog ingest run has ended. `timestamp` is when.",
        types=(EventType.CATALOG_SYNC_SUCCEEDED, EventType.CATALOG_SYNC_FAILED),
        data=CatalogSyncWebhookData,
        to="Commerce",
    ),
    Event(
        name="orderValidate",
        summary="Validate an order",
        description="POST `{webhookUrl}/validate`. Answer within 5 seconds: a customer waits.",
        envelope="OrderValidateWebhook",
        meaning="A storefront asks whether the store would accept an order.",
        types=(EventType.ORDER_VALIDATE,),
        data=OrderValidateData,
        to="Commerce",
        reply=ValidateReply,
    ),
    Event(
        name="orderPlace",
        summary="Place an order",
        description="POST `{webhookUrl}/place`. `webhook-id` is the order's id in every attempt: repeat your "
        "answer to one that you have seen.",
        envelope="OrderPlaceWebhook",
        meaning="A storefront has placed an order.",
        types=(EventType.ORDER_PLACE,),
        data=OrderPlaceData,
        to="Commerce",
        reply=PlaceReply,
    ),
    Event(
        name="orderCancel",
        summary="Cancel an order",
        description="POST `{webhookUrl}/cancel`. Answer within 15 seconds. `webhook-id` is the cancellation's id in "
        "every attempt: repeat your answer to one that you have seen. 400, 402, 409 and 422 are refusals, too.",
        envelope="OrderCancelWebhook",
        meaning="A storefront asks to cancel an order that the store has accepted.",
        types=(EventType.ORDER_CANCEL,),
        data=OrderCancelData,
        to="Commerce",
        reply=CancelReply,
    ),
    Event(
        name="orderCancelled",
        summary="Order cancelled",
        description="POST `{webhookUrl}/order-cancelled` for an order to which the store didn't reply within ten "
        "minutes, whether it got the order or not, for one that it refused after a call whose answer was lost, for "
        "one that the storefront cancelled before the store had answered, and for one that the network's operator "
        "cancelled.",
        envelope="OrderCancelledWebhook",
        meaning="An order that the store may have, or may still get, is cancelled.",
        types=(EventType.ORDER_CANCELLED,),
        data=OrderCancelledData,
        to="Commerce",
    ),
    Event(
        name="merchantOrder",
        summary="Order of a store that isn't called",
        description="In the merchant's feed, and for its webhook endpoints, of each order of a store whose "
        "`orderHandling` isn't `webhook`. No `webhookUrl` is called. With `manual`, accept the order with Update Order "
        "Status `confirmed`, or refuse it with `cancelled` and a reason, within the store's `acceptWithin` minutes.",
        envelope="MerchantOrderEvent",
        meaning="An order was placed, has changed or is cancelled, and nobody was called about it.",
        types=(EventType.ORDER_CREATED, EventType.ORDER_UPDATED, EventType.ORDER_CANCELLED),
        data=MerchantOrderData,
        to="Commerce",
    ),
    Event(
        name="orderEvent",
        summary="Order created or updated",
        description="POST to the storefront's event URL.",
        envelope="OrderEvent",
        meaning="An order was created or has changed. Ignore an event whose `data.sequence` is lower than one you "
        "have seen.",
        types=(EventType.ORDER_CREATED, EventType.ORDER_UPDATED),
        data=OrderEventData,
        to="Marketfront",
    ),
    Event(
        name="orderAdjusted",
        summary="Order adjusted",
        description="In the storefront's feed, and for its webhook endpoints; it isn't sent to event URLs.",
        envelope="OrderAdjustedEvent",
        meaning="The merchant has changed what an order costs after it was placed: `data.order.adjustments` has how.",
        types=(EventType.ORDER_ADJUSTED,),
        data=OrderEventData,
        to="Marketfront",
        on_request=True,
    ),
    Event(
        name="endpointChanged",
        summary="Endpoint changed",
        description="POST to your event URL, to the old one if it changed; without one, to "
        "`{webhookUrl}/endpoint-changed` of the previous webhookUrl. Sent when scheme, host or port of a webhookUrl or "
        "event URL change, whoever changed it.",
        envelope="EndpointChangedWebhook",
        meaning="An address at which the service calls you has another host now. If it wasn't you, revoke the key.",
        types=(EventType.ENDPOINT_CHANGED,),
        data=EndpointChangedData,
        to="Commerce",
    ),
    Event(
        name="partnerFailing",
        summary="Partner failing",
        description="POST to the endpoints of the network's operators. Sent once when a partner gets into trouble, and "
        "again only after it was out of it.",
        envelope="PartnerFailingWebhook",
        meaning="Calls to a partner's stores, or its events, fail. `timestamp` is when that was noticed.",
        types=(EventType.PARTNER_FAILING,),
        data=PartnerFailingData,
        to="Operator",
    ),
    Event(
        name="endpointDisabled",
        summary="Endpoint disabled",
        description="POST to the endpoints of the network's operators when an address of a partner's events is "
        "disabled: it answered 410, or failed for days.",
        envelope="EndpointDisabledWebhook",
        meaning="Nothing is sent to an address any more, until its partner or an operator enables it.",
        types=(EventType.ENDPOINT_DISABLED,),
        data=EndpointDisabledData,
        to="Operator",
    ),
    Event(
        name="ping",
        summary="Test a webhook endpoint",
        description="POST to the webhook endpoint that was tested. Answer with any 2xx.",
        envelope="PingWebhook",
        meaning="Somebody with a key of yours tests this endpoint. Nothing has happened.",
        types=(EventType.PING,),
        data=PingData,
        to="Commerce",
    ),
)


PAYLOADS: Final[Mapping[str, type[Payload]]] = {
    kind: event.data for event in EVENTS for kind in event.types if event.data is not MerchantOrderData
}
"""What each type carries, but for what merchants get of orders about which they aren't called."""


class _Handled(Wire):
    order_handling: str | UnsetType = UNSET


def find_payload(type_: str, data: bytes | msgspec.Raw) -> type[Payload] | None:
    """Return what an event of this type with this data, as JSON, carries; None if the type is unknown.

    Storefronts and merchants get different data about one thing: that of merchants names `orderHandling`.
    """
    if type_ in _MERCHANT_TYPES and msgspec.json.decode(data, type=_Handled).order_handling is not UNSET:
        return MerchantOrderData
    return PAYLOADS.get(type_)


_MERCHANT_TYPES: Final = frozenset(
    kind for event in EVENTS if event.data is MerchantOrderData for kind in event.types
)


ON_REQUEST: Final = frozenset(kind for event in EVENTS if event.on_request for kind in event.types)
"""Types that aren't sent to event URLs."""


SYNC_EVENTS: Final = {
    RunStatus.SUCCEEDED: EventType.CATALOG_SYNC_SUCCEEDED,
    RunStatus.FAILED: EventType.CATALOG_SYNC_FAILED,
}
"""The event of each end of a catalog run."""


def envelope(kind: str, *, occurred_at: datetime, data: object) -> bytes:
    """Return the body. The same bytes are stored, signed at every attempt, and sent."""
    return as_json(Envelope(type=kind, timestamp=rfc3339(occurred_at), data=msgspec.Raw(as_json(data))))
