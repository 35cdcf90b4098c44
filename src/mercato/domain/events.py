"""The type of each webhook's `data`."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from mercato.domain.catalog.wire import CatalogSyncWebhookData
from mercato.domain.orders.wire import CancelledData, OrderEventData, PlaceData, ValidateData
from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.wire import EndpointChangedData

Payload: TypeAlias = (
    ValidateData | PlaceData | CancelledData | CatalogSyncWebhookData | OrderEventData | EndpointChangedData
)

PAYLOADS: Final[Mapping[str, type[Payload]]] = {
    EventType.ORDER_VALIDATE: ValidateData,
    EventType.ORDER_PLACE: PlaceData,
    EventType.ORDER_CANCELLED: CancelledData,
    EventType.ORDER_CREATED: OrderEventData,
    EventType.ORDER_UPDATED: OrderEventData,
    EventType.CATALOG_SYNC_SUCCEEDED: CatalogSyncWebhookData,
    EventType.CATALOG_SYNC_FAILED: CatalogSyncWebhookData,
    EventType.ENDPOINT_CHANGED: EndpointChangedData,
}
