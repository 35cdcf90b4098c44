"""The webhooks that partners receive, for the OpenAPI document."""

from functools import cache
from types import new_class
from typing import Any, Final, Literal

from mercato.domain.events import EVENTS, Event
from mercato.domain.orders.validation.replies import REFUSALS
from mercato.domain.orders.wire import StoreRefusal
from mercato.http.openapi.schemas import schema_of
from mercato.kernel.wire import Instant, Wire

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
        "requestBody": {"required": True, "content": _json(envelope(event))},
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


@cache
def envelope(event: Event) -> type[Wire]:
    """Return the type of the event's body, which only describes: the code that sends an event creates its body."""
    members = {
        "type": Literal[tuple(str(kind) for kind in event.types)],
        "timestamp": Instant,
        "data": event.data,
    }

    def fill(namespace: dict[str, Any]) -> None:
        namespace |= {"__doc__": event.meaning, "__annotations__": members}

    return new_class(event.envelope, (Wire,), {}, fill)


def _json(kind: type[Wire]) -> dict[str, Any]:
    return {"application/json": {"schema": schema_of(kind)}}


def types() -> tuple[list[Any], list[Any]]:
    """Return the types of the events, and those of their replies."""
    replies: list[Any] = [event.reply for event in EVENTS if event.reply is not None]
    return [envelope(event) for event in EVENTS], [*replies, StoreRefusal]
