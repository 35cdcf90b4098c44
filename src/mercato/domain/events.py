"""The registry of webhooks: which types there are, what each carries as its `data`, and who receives it."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from mercato.domain.catalog.wire import CatalogSyncWebhookData
from mercato.domain.orders.wire import (
    OrderCancelledData,
    OrderEventData,
    OrderPlaceData,
    OrderValidateData,
    PlaceReply,
    ValidateReply,
)
from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.wire import EndpointChangedData
from mercato.kernel.wire import Wire

Payload: TypeAlias = (
    OrderValidateData
    | OrderPlaceData
    | OrderCancelledData
    | CatalogSyncWebhookData
    | OrderEventData
    | EndpointChangedData
)


class Event(Struct, frozen=True, kw_only=True):
    """A webhook: its types, receiver, address and expected reply. `reply` None means any 2xx.

    `envelope` is the name of its body's schema, and `meaning` the schema's description.
    """

    name: str
    summary: str
    description: str
    envelope: str
    meaning: str
    types: tuple[EventType, ...]
    data: type[Payload]
    to: Literal["Commerce", "Marketfront"]
    reply: type[Wire] | None = None


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
        name="orderCancelled",
        summary="Order cancelled",
        description="POST `{webhookUrl}/order-cancelled` for an order to which the store didn't reply within ten "
        "minutes, whether it got the order or not, and for one that the network's operator cancelled.",
        envelope="OrderCancelledWebhook",
        meaning="An order to which the store never replied is cancelled.",
        types=(EventType.ORDER_CANCELLED,),
        data=OrderCancelledData,
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
)

PAYLOADS: Final[Mapping[str, type[Payload]]] = {kind: event.data for event in EVENTS for kind in event.types}
"""What each type carries."""
