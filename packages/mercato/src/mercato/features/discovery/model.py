"""Store discovery on the wire: the request, the response and the stored card."""

from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from mercato_contract.catalogs import AvailabilityWindow
from mercato_contract.stores import FulfillmentMode, PostalAddress
from mercato_contract.wire import Wire


class EncodedDiscoverResponse(Wire):
    """A DiscoverResponse whose stores are already encoded."""

    stores: list[msgspec.Raw]
    total_count: int
    has_more: bool


class Card(Wire, kw_only=True):
    """A DiscoveredStore without its status, sold-out items and distance."""

    store_id: UUID
    catalog_set_id: UUID
    name: str
    description: str | UnsetType = UNSET
    phone: str | UnsetType = UNSET
    logo_url: str | UnsetType = UNSET
    timezone: str
    address: PostalAddress
    availability: tuple[AvailabilityWindow, ...]
    categories: tuple[str, ...]
    fulfillment_types: tuple[FulfillmentMode, ...]
    minimum_order_amount: str | UnsetType = UNSET
