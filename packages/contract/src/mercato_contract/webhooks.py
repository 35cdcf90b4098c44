"""Deliveries, and the signature debugger. Never a sent header or a secret."""

from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from mercato_contract.pages import PAGE, Cursor, PageLimit
from mercato_contract.stores import AnsweredUri, Uri
from mercato_contract.wire import MAX_ENTRIES, Instant, Wire, redacted


class DeliveryStatus(StrEnum):
    """`pending`: an attempt is due or running. `succeeded` and `failed` are final until a redelivery."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


MAX_BODY: Final = 128 * 1024
"""Bytes of a body. The service's own webhooks are shorter; the debugger hashes a body about a hundred times."""


MAX_HEADERS: Final = 100


MAX_SECRETS: Final = 5


class WebhookDelivery(Wire, frozen=True):
    """One event and the address that it is sent to."""

    delivery_id: UUID
    id: Annotated[
        UUID,
        Meta(
            description="The same as `deliveryId`; use that.",
            extra_json_schema={"deprecated": True},
        ),
    ]
    type: Annotated[str, Meta(description="The event's type, for example `catalog.sync.succeeded`.")]
    webhook_id: Annotated[
        UUID, Meta(description="The `webhook-id` header: the same at every attempt and redelivery.")
    ]
    url: Annotated[str, Meta(description="The address called, suffix and query included.")]
    store_id: UUID | None
    order_id: Annotated[
        UUID | None, Meta(description="The order that the event is about; null if there is none.")
    ]
    status: DeliveryStatus
    attempts: Annotated[int, Meta(description="Attempts so far, including redeliveries.")]
    next_attempt_at: Annotated[
        Instant | None, Meta(description="When the next attempt is due; null when the delivery is final.")
    ]
    error: Annotated[str | None, Meta(description="Why it was not delivered; null if nothing failed.")]
    endpoint_disabled: Annotated[
        str | None, Meta(description="Why the address is disabled; null if it is enabled.")
    ]
    created_at: Instant
    updated_at: Instant
    endpoint_id: Annotated[
        UUID | None,
        Meta(description="The webhook endpoint; null for an event URL or a store's webhook URL."),
    ]


class DeliveryAttempt(Wire, frozen=True):
    """One call and its result."""

    number: int
    at: Instant
    status: Annotated[int | None, Meta(description="The HTTP status; null when no reply arrived.")]
    ms: Annotated[int, Meta(description="Milliseconds from the start of the call to its end.")]
    error: Annotated[str | None, Meta(description="Why the attempt failed; null for 2xx.")]
    reply: Annotated[
        str | None,
        Meta(description="The first 1 KiB of the reply's body; null when the call carried a payment."),
    ]
    warning: Annotated[
        str | None,
        Meta(
            description="What is odd about an answer that counts; null if nothing is. For example, an answer that "
            "accepts an order only because it has no member that is read."
        ),
    ] = None


class WebhookDeliveryDetail(WebhookDelivery, frozen=True):
    """A delivery with its body and every attempt."""

    attempt_log: Annotated[list[DeliveryAttempt], Meta(description="The attempts, first to last.")]
    body: Annotated[msgspec.Raw, Meta(description="The JSON that is sent, byte for byte.")]


class WebhookDeliveryPage(Wire, frozen=True):
    """Deliveries, newest first."""

    deliveries: list[WebhookDelivery]
    next_cursor: str | None


class WebhookDeliveryQuery(Wire, frozen=True):
    """Which deliveries to list."""

    status: Annotated[DeliveryStatus | None, Meta(description="Only deliveries with this status.")] = None
    type: Annotated[str, Meta(description="Only deliveries of this type.")] | None = None
    store_id: Annotated[UUID, Meta(description="Only deliveries about this store.")] | None = None
    order_id: Annotated[UUID, Meta(description="Only deliveries about this order.")] | None = None
    endpoint_id: Annotated[UUID, Meta(description="Only deliveries to this webhook endpoint.")] | None = None
    limit: PageLimit = PAGE
    cursor: Cursor | None = None


@redacted("headers", "body", "secrets")
class ExplainSignatureRequest(Wire):
    """A webhook as it was received: its headers, and its body as text or in base64."""

    headers: Annotated[
        dict[Annotated[str, Meta(max_length=256)], Annotated[str, Meta(max_length=8192)]],
        Meta(
            max_length=MAX_HEADERS,
            description="All received headers, or the three that begin with `webhook-`; at most 100.",
        ),
    ]
    body: (
        Annotated[str, Meta(max_length=MAX_BODY, description="The body as text; `bodyBase64` loses nothing.")]
        | None
    ) = None
    body_base64: (
        Annotated[str, Meta(max_length=MAX_BODY * 4 // 3 + 4, description="The bytes of the body in base64.")]
        | None
    ) = None
    secrets: (
        Annotated[
            list[Annotated[str, Meta(max_length=512)]],
            Meta(
                max_length=MAX_SECRETS,
                description="The signing secrets to verify with, the newest first. Without any, the account's own.",
            ),
        ]
        | None
    ) = None
    delivery_id: (
        Annotated[
            UUID,
            Meta(
                description="The id or `webhook-id` of a delivery to the account, to compare with what was sent. "
                "Without it, the delivery with this webhook's `webhook-id` is used."
            ),
        ]
        | None
    ) = None
    received_at: Annotated[Instant, Meta(description="When it was received; without it, now.")] | None = None
    computed_signature: (
        Annotated[
            str,
            Meta(
                max_length=512, description="The signature that your own code computed, to find its mistake."
            ),
        ]
        | None
    ) = None


# --- redelivering many ----------------------------------------------------------------------------


MAX_REDELIVERIES: Final = 100_000
"""Deliveries that one request may send again."""


class RedeliveryStatus(StrEnum):
    """Which deliveries to send again: those that failed, or those that were accepted."""

    FAILED = "failed"
    SUCCEEDED = "succeeded"


class RedeliverRequest(Wire):
    """Which deliveries to send again: all conditions hold."""

    since: Annotated[Instant, Meta(max_length=64, description="Deliveries made at this instant or later.")]
    until: (
        Annotated[Instant, Meta(max_length=64, description="And before this one; else until now.")] | None
    ) = None
    types: (
        Annotated[
            list[Annotated[str, Meta(max_length=64)]],
            Meta(min_length=1, max_length=MAX_ENTRIES, description="Only events of these types."),
        ]
        | None
    ) = None
    store_id: Annotated[UUID, Meta(description="Only deliveries about this store.")] | None = None
    endpoint_id: Annotated[UUID, Meta(description="Only deliveries to this endpoint.")] | None = None
    status: (
        Annotated[
            RedeliveryStatus,
            Meta(description="Without it, every delivery; one that waits for a retry waits no longer."),
        ]
        | None
    ) = None


class RedeliverAccepted(Wire):
    """How many deliveries are sent again, in the background."""

    count: int


# --- webhook endpoints ----------------------------------------------------------------------------


MAX_ENDPOINTS: Final = 10
"""Webhook endpoints of one account on each surface."""


MAX_ENDPOINT_HEADERS: Final = 20


MAX_HEADER_VALUE: Final = 1_024


MAX_ENDPOINT_STORES: Final = 1_000


OVERLAP_HOURS: Final = 24


MAX_OVERLAP_HOURS: Final = 90 * 24


HIDDEN_VALUE: Final = "***"
"""What an answer has in place of a header's value. Sent back, it keeps the value."""


class WebhookEndpointKind(StrEnum):
    """`endpoint`: made and changed here. `eventUrl`, `webhookUrl`: the account's or a store's, listed only."""

    ENDPOINT = "endpoint"
    EVENT_URL = "eventUrl"
    WEBHOOK_URL = "webhookUrl"


@redacted("headers")
class WebhookEndpointRequest(Wire):
    """An address for events. A change replaces all members, except that the headers stay if they are left out."""

    url: Uri
    types: (
        Annotated[
            list[Annotated[str, Meta(max_length=64)]],
            Meta(
                min_length=1,
                max_length=MAX_ENTRIES,
                description="The types of events that are sent. Without it, every event, new types included.",
            ),
        ]
        | None
    ) = None
    store_ids: (
        Annotated[
            list[UUID],
            Meta(
                min_length=1,
                max_length=MAX_ENDPOINT_STORES,
                description="Only events about these stores. Without it, about every store and about none.",
            ),
        ]
        | None
    ) = None
    description: Annotated[str, Meta(max_length=200)] | None = None
    headers: (
        Annotated[
            dict[
                Annotated[str, Meta(min_length=1, max_length=64)],
                Annotated[str, Meta(max_length=MAX_HEADER_VALUE)],
            ],
            Meta(
                max_length=MAX_ENDPOINT_HEADERS,
                description="Headers that every call has besides the service's own. Values are stored encrypted and "
                "never shown again.",
            ),
        ]
        | None
    ) = None
    enabled: Annotated[bool, Meta(description="Whether events are sent; true if it is left out.")] | None = (
        None
    )


@redacted("headers")
class WebhookEndpoint(Wire):
    """An address for events. `endpointId` is the account's id for its event URL, the store's for a webhook URL."""

    endpoint_id: UUID
    kind: WebhookEndpointKind
    url: AnsweredUri
    types: Annotated[list[str] | None, Meta(description="The types that are sent; null is every event.")]
    store_ids: Annotated[list[UUID] | None, Meta(description="The stores whose events are sent; null: all.")]
    description: str | None
    headers: Annotated[
        dict[str, str], Meta(description="The headers that every call has, each with `***` for its value.")
    ]
    enabled: Annotated[bool, Meta(description="Whether events are sent.")]
    disabled_reason: Annotated[
        str | None,
        Meta(
            description="Why the service disabled it; null if it didn't. A change with `enabled` undoes it."
        ),
    ]
    created_at: Instant
    updated_at: Instant


@redacted("secret", "headers")
class WebhookEndpointWithSecret(WebhookEndpoint):
    """An endpoint and its new signing secret, which is never shown again."""

    secret: Annotated[str, Meta(description="Verifies the signatures of this endpoint's webhooks.")]


class WebhookEndpointPage(Wire):
    """The addresses that events are sent to, the oldest first."""

    endpoints: list[WebhookEndpoint]
    next_cursor: str | None


class RotateEndpointSecretRequest(Wire):
    """How long the previous secret signs beside the new one."""

    overlap_hours: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=MAX_OVERLAP_HOURS,
                description=f"Hours that both sign, {OVERLAP_HOURS} if it is left out; 0 if the old one has leaked.",
            ),
        ]
        | None
    ) = None
