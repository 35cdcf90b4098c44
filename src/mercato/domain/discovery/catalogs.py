"""The served CatalogSet as types, for the OpenAPI document: its bytes are encoded at ingest."""

from typing import Annotated, Any
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato.domain.carts.model import Amount
from mercato.domain.stores.storefront import AvailabilityWindow
from mercato.kernel.wire import Wire

Text = str | UnsetType | None


class CatalogSet(Wire, kw_only=True):
    """What a store sells: four dictionaries by id, with every reference resolved.

    Members that are not named here are served as the merchant sent them.
    """

    catalog_set_id: UUID
    store_id: UUID
    currency: (
        Annotated[str, Meta(description="ISO 4217; absent means the service's default.")] | UnsetType | None
    ) = UNSET
    catalogs: dict[str, "CatalogEntry"]
    sections: dict[str, "CatalogSection"] | UnsetType | None = UNSET
    items: dict[str, "CatalogItem"]
    modifier_groups: dict[str, "CatalogModifierGroup"] | UnsetType | None = UNSET


class CatalogEntry(Wire, kw_only=True):
    """A catalog: its sections, and when they are available."""

    catalog_id: str
    name: Text = UNSET
    description: Text = UNSET
    section_ids: list[str] | UnsetType | None = UNSET
    availability: Annotated[
        list[AvailabilityWindow], Meta(description="In the store's time zone; an empty list means never.")
    ]


class CatalogSection(Wire, kw_only=True):
    """Items under one heading, and sections within it."""

    section_id: str
    name: Text = UNSET
    description: Text = UNSET
    image_url: Text = UNSET
    item_ids: list[str] | UnsetType | None = UNSET
    section_ids: list[str] | UnsetType | None = UNSET


class CatalogItem(Wire, kw_only=True):
    """Something that is sold by itself or as a modifier. Without `basePrice` it is only a modifier."""

    item_id: str
    name: Text = UNSET
    description: Text = UNSET
    image_url: Text = UNSET
    base_price: Amount | UnsetType | None = UNSET
    modifier_group_ids: list[str] | UnsetType | None = UNSET
    is_available: Annotated[bool, Meta(description="Absent or null is true.")] | UnsetType | None = UNSET
    tags: list[Any] | UnsetType | None = UNSET
    partner_item_id: Annotated[str, Meta(description="The merchant's own id.")] | UnsetType | None = UNSET
    maximum_quantity: int | UnsetType | None = UNSET


class CatalogModifierGroup(Wire, kw_only=True):
    """Choices for an item. The bounds count units."""

    modifier_group_id: str
    name: Text = UNSET
    minimum_allowed: Annotated[int, Meta(description="Absent or null is 0.")] | UnsetType | None = UNSET
    maximum_allowed: Annotated[int, Meta(description="Absent or null is no limit.")] | UnsetType | None = (
        UNSET
    )
    item_ids: list[str] | UnsetType | None = UNSET
    maximum_per_item: Annotated[int, Meta(description="Units of one choice.")] | UnsetType | None = UNSET
    free_quantity: (
        Annotated[int, Meta(description="The number of cheapest units that cost nothing.")] | UnsetType | None
    ) = UNSET
    price_overrides: (
        Annotated[dict[str, Amount | None], Meta(description="Prices in this group, by item.")]
        | UnsetType
        | None
    ) = UNSET
