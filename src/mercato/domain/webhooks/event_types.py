"""The types of webhooks and their paths. `mercato.domain.events` has the payload of each."""

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


SUFFIXES: Final[Mapping[str, str]] = {
    EventType.ORDER_VALIDATE: "validate",
    EventType.ORDER_PLACE: "place",
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
}
"""Types of calls to stores that a request waits for, each with the reason why it can't be redelivered."""
