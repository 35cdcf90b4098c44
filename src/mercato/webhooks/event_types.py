"""The types of webhooks. `mercato.events` says what each carries."""

from enum import StrEnum


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
