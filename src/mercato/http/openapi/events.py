"""The webhooks that partners receive, for the OpenAPI document.

The envelopes here only describe: the code that sends an event creates its body.
"""

from typing import Any, Final, Literal

from msgspec import Struct

from mercato.domain.catalog.wire import CatalogSyncWebhookData
from mercato.domain.orders.validation.replies import REFUSALS
from mercato.domain.orders.wire import (
    CancelledData,
    OrderEventData,
    PlaceData,
    PlaceReply,
    StoreRefusal,
    ValidateData,
    ValidateReply,
)
from mercato.domain.webhooks.wire import EndpointChangedData
from mercato.http.openapi.schemas import schema_of
from mercato.kernel.wire import Instant, Wire


class CatalogSyncWebhook(Wire):
    """A catalog ingest run has ended. `timestamp` is when."""

    type: Literal["catalog.sync.succeeded", "catalog.sync.failed"]
    timestamp: Instant
    data: CatalogSyncWebhookData


class OrderValidateWebhook(Wire):
    """A storefront asks whether the store would accept an order."""

    type: Literal["order.validate"]
    timestamp: Instant
    data: ValidateData


class OrderPlaceWebhook(Wire):
    """A storefront has placed an order."""

    type: Literal["order.place"]
    timestamp: Instant
    data: PlaceData


class OrderCancelledWebhook(Wire):
    """An order to which the store never replied is cancelled."""

    type: Literal["order.cancelled"]
    timestamp: Instant
    data: CancelledData


class OrderEvent(Wire):
    """An order was created or has changed. Ignore an event whose `data.sequence` is lower than one you have seen."""

    type: Literal["order.created", "order.updated"]
    timestamp: Instant
    data: OrderEventData


class EndpointChangedWebhook(Wire):
    """An address at which the service calls you has another host now. If it wasn't you, revoke the key."""

    type: Literal["endpoint.changed"]
    timestamp: Instant
    data: EndpointChangedData


class Event(Struct, frozen=True, kw_only=True):
    """A webhook: its receiver, address and expected reply. `reply` None means any 2xx."""

    name: str
    summary: str
    description: str
    body: type[Wire]
    to: Literal["Commerce", "Marketfront"]
    reply: type[Wire] | None = None


EVENTS: Final = (
    Event(
        name="catalogSync",
        summary="Catalog sync",
        description="POST `{webhookUrl}/catalog-sync` when a catalog ingest run of a notification ends. Best effort: "
        "rely on Get Catalog Ingest Status. `webhook-id` is the run's id.",
        body=CatalogSyncWebhook,
        to="Commerce",
    ),
    Event(
        name="orderValidate",
        summary="Validate an order",
        description="POST `{webhookUrl}/validate`. Answer within 5 seconds: a customer waits.",
        body=OrderValidateWebhook,
        to="Commerce",
        reply=ValidateReply,
    ),
    Event(
        name="orderPlace",
        summary="Place an order",
        description="POST `{webhookUrl}/place`. `webhook-id` is the order's id in every attempt: repeat your "
        "answer to one that you have seen.",
        body=OrderPlaceWebhook,
        to="Commerce",
        reply=PlaceReply,
    ),
    Event(
        name="orderCancelled",
        summary="Order cancelled",
        description="POST `{webhookUrl}/order-cancelled` for an order to which the store didn't reply within ten "
        "minutes, whether it got the order or not, and for one that the network's operator cancelled.",
        body=OrderCancelledWebhook,
        to="Commerce",
    ),
    Event(
        name="orderEvent",
        summary="Order created or updated",
        description="POST to the storefront's event URL.",
        body=OrderEvent,
        to="Marketfront",
    ),
    Event(
        name="endpointChanged",
        summary="Endpoint changed",
        description="POST to your event URL, to the old one if it changed; without one, to "
        "`{webhookUrl}/endpoint-changed` of the previous webhookUrl. Sent when scheme, host or port of a webhookUrl or "
        "event URL change, whoever changed it.",
        body=EndpointChangedWebhook,
        to="Commerce",
    ),
)


_HEADERS: Final = {
    "webhook-id": "The same in all attempts: remember the ids that you have seen.",
    "webhook-timestamp": "Unix seconds of this attempt.",
    "webhook-signature": "`v1,` and the base64 HMAC-SHA256 of `id.timestamp.body` (Standard Webhooks); several, "
    "separated by spaces, while a secret rotates.",
    "Idempotency-Key": "The same as `webhook-id`.",
    "traceparent": "The trace of the cause (W3C Trace Context).",
    "Authorization": "`Bearer` and the `webhookToken` of the store, if it has one.",
}

_OPTIONAL: Final = frozenset({"Authorization"})


def webhooks() -> dict[str, Any]:
    """Return the `webhooks` of the document."""
    return {event.name: {"post": _operation(event)} for event in EVENTS}


def _operation(event: Event) -> dict[str, Any]:
    headers = [name for name in _HEADERS if event.to == "Commerce" or name != "Authorization"]
    return {
        "operationId": event.name + "Webhook",
        "tags": ["Events"],
        "summary": event.summary,
        "description": event.description,
        "security": [],
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": name not in _OPTIONAL,
                "description": _HEADERS[name],
                "schema": {"type": "string"},
            }
            for name in headers
        ],
        "requestBody": {"required": True, "content": _json(event.body)},
        "responses": _responses(event),
    }


def _responses(event: Event) -> dict[str, Any]:
    if event.reply is None:
        return {
            "2XX": {"description": "Received. After any other answer the webhook is sent again, for days."}
        }
    refusal: dict[str, Any] = {"description": "A refusal with its reasons.", "content": _json(StoreRefusal)}
    return {
        "2XX": {"description": "Accepted or refused.", "content": _json(event.reply)},
        **{str(status.value): refusal for status in sorted(REFUSALS)},
        "default": {"description": "The storefront gets STORE_UNREACHABLE and may try again."},
    }


def _json(kind: type[Wire]) -> dict[str, Any]:
    return {"application/json": {"schema": schema_of(kind)}}


def types() -> tuple[list[Any], list[Any]]:
    """Return the types of the events, and those of their replies."""
    replies: list[Any] = [event.reply for event in EVENTS if event.reply is not None]
    return [event.body for event in EVENTS], [*replies, StoreRefusal]
