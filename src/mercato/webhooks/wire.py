"""Deliveries as a partner sees them. Never a header that was sent, nor a secret."""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from mercato.webhooks.model import DeliveryStatus
from mercato.wire import Instant, Wire
from mercato.wire.cursor import PAGE, PageLimit


class WebhookDelivery(Wire, frozen=True):
    """One event on its way to one address."""

    id: UUID
    type: Annotated[str, Meta(description="The event's type, for example `catalog.sync.succeeded`.")]
    webhook_id: Annotated[
        UUID, Meta(description="The `webhook-id` header: the same at every attempt and redelivery.")
    ]
    url: Annotated[str, Meta(description="The address called, suffix and query included.")]
    store_id: UUID | None
    order_id: Annotated[UUID | None, Meta(description="The order that it is about, if it is about one.")]
    status: DeliveryStatus
    attempts: Annotated[int, Meta(description="Attempts made so far, redeliveries included.")]
    next_attempt_at: Annotated[
        Instant | None, Meta(description="When it is tried next; null when it is done.")
    ]
    error: Annotated[str | None, Meta(description="Why it has not arrived; null when nothing went wrong.")]
    endpoint_disabled: Annotated[
        str | None, Meta(description="Why this address is called no more; null while it is called.")
    ]
    created_at: Instant
    updated_at: Instant


class DeliveryAttempt(Wire, frozen=True):
    """One call, and what came of it."""

    number: int
    at: Instant
    status: Annotated[int | None, Meta(description="The HTTP status; null when no reply arrived.")]
    ms: Annotated[int, Meta(description="Milliseconds from the start of the call to its end.")]
    error: Annotated[str | None, Meta(description="Why it is no success; null for 2xx.")]
    reply: Annotated[str | None, Meta(description="The first 1 KiB of the reply's body.")]


class WebhookDeliveryDetail(WebhookDelivery, frozen=True):
    """A delivery with its body and every attempt."""

    attempt_log: Annotated[list[DeliveryAttempt], Meta(description="The attempts, first to last.")]
    body: Annotated[msgspec.Raw, Meta(description="The JSON that is sent, byte for byte.")]


class WebhookDeliveryPage(Wire, frozen=True):
    """Deliveries, newest first."""

    deliveries: list[WebhookDelivery]
    next_cursor: str | None


class WebhookDeliveryQuery(Wire, frozen=True):
    """What to list."""

    status: DeliveryStatus | None = None
    type: str | None = None
    store_id: UUID | None = None
    order_id: UUID | None = None
    limit: PageLimit = PAGE
    cursor: str | None = None
