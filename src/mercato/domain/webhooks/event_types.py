"""The types of webhooks. `mercato.domain.events` says what each carries."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class EventType(StrEnum):
    """The `type` of a webhook's envelope."""

    ORDER_VALIDATE = "order.validate"
    ORDER_PLACE = "order.place"
    ORDER_CANCELLED = "order.cancelled"
    ORDER_CREATED = "order.created"
    ORDER_UPDATED = "order.updated"
    CATALOG_SYNC_SUCCEEDED = "catalog.sync.succeeded"
    CATALOG_SYNC_FAILED = "catalog.sync.failed"
    ENDPOINT_CHANGED = "endpoint.changed"


STORE_CALLS: Final[Mapping[str, str]] = {
    EventType.ORDER_VALIDATE: (
        "A validation is not sent again: the cart it was about has gone on since, and nobody waits for the answer. "
        "The next validation of the storefront calls the store anew."
    ),
    EventType.ORDER_PLACE: (
        "An order is sent again by the service itself, for 10 minutes while the store has not answered, "
        "and cancelled after that; see how the order stands with GET /v1/commerce/orders/{orderId}."
    ),
}
"""Types of calls that are only recorded here, each with why it can't be redelivered."""
