"""The document that a merchant writes: a CatalogSet as it is pulled or sent, and its JSON Schema for editors.

A CatalogSet as it is served is in `catalogs`. Unknown members are allowed everywhere, and null means absent.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mercato_contract.carts import MAX_QUANTITY
from mercato_contract.money import SCALES
from mercato_contract.wire import Wire

MAX_CATALOGS: Final = 1_000
"""Catalogs in one set: every section has a bit for each of them."""

MAX_GROUPS: Final = 500
"""Modifier groups of one item: every line of a cart is checked against all of its item's."""

MAX_WINDOWS: Final = 10_000
"""Windows of all catalogs together: every read of the store and every order goes through them."""

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

SCHEMA_PATH: Final = "/schemas/catalog-set.json"

DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

_REF: Final = "#/$defs/{name}"

Name = Annotated[str | UnsetType | None, Meta(description="What customers read.")]

Description = Annotated[str | UnsetType | None, Meta(description="More words for customers.")]

ImageUrl = Annotated[str | UnsetType | None, Meta(description="The address of a picture.")]

Ids = list[str] | UnsetType | None

Count = Annotated[int, Meta(ge=0, le=MAX_QUANTITY)]

Price = Annotated[str, Meta(pattern=r"^-?[0-9]+(\.[0-9]+)?$", examples=["12.50"])] | float

Time = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$", examples=["18:30:00"])]


class WindowDocument(Wire, kw_only=True):
    """A span of one day, in the store's time zone. One across midnight is two windows."""

    day_of_week: Annotated[str, Meta(extra_json_schema={"enum": list(DAYS)})]
    start: Annotated[Time, Meta(description="HH:mm:ss, local to the store.")]
    end: Annotated[Time, Meta(description="HH:mm:ss, local to the store. `00:00:00` is the end of the day.")]


class CatalogDocument(Wire, kw_only=True):
    """A menu: its sections, and when it is available."""

    catalog_id: Annotated[str | UnsetType | None, Meta(description="Its key, if it has one.")] = UNSET
    name: Name = UNSET
    description: Description = UNSET
    section_ids: Annotated[Ids, Meta(description="Ids of `sections`.")] = UNSET
    availability: Annotated[
        Annotated[list[WindowDocument], Meta(max_length=MAX_WINDOWS)] | UnsetType | None,
        Meta(description="When customers can order from it. Absent or null: always. An empty list: never."),
    ] = UNSET


class SectionDocument(Wire, kw_only=True):
    """Items under one heading, and sections within it."""

    section_id: Annotated[str | UnsetType | None, Meta(description="Its key, if it has one.")] = UNSET
    name: Name = UNSET
    description: Description = UNSET
    image_url: ImageUrl = UNSET
    item_ids: Annotated[Ids, Meta(description="Ids of `items`.")] = UNSET
    section_ids: Annotated[Ids, Meta(description="Ids of `sections` within this one.")] = UNSET


class ItemDocument(Wire, kw_only=True):
    """Something that is sold by itself, or as a choice of a modifier group."""

    item_id: Annotated[
        str | UnsetType | None, Meta(description="Its key. An id that isn't a UUID is replaced by one.")
    ] = UNSET
    name: Name = UNSET
    description: Description = UNSET
    image_url: ImageUrl = UNSET
    base_price: Annotated[
        Price | UnsetType | None,
        Meta(
            description="A decimal string with no more decimals than the currency has; many JSON libraries round "
            "numbers. Without a price it can't be sold by itself, and is free as a choice."
        ),
    ] = UNSET
    modifier_group_ids: Annotated[
        Annotated[list[str], Meta(max_length=MAX_GROUPS)] | UnsetType | None,
        Meta(description="Ids of `modifierGroups`."),
    ] = UNSET
    is_available: Annotated[bool | UnsetType | None, Meta(description="Absent or null: true.")] = UNSET
    tags: Annotated[list[Any] | UnsetType | None, Meta(description="Served as they are.")] = UNSET
    partner_item_id: Annotated[
        str | UnsetType | None, Meta(description="Your own id of the item: lines of orders carry it.")
    ] = UNSET
    maximum_quantity: Annotated[
        Count | UnsetType | None, Meta(description="Units of it in a cart. Absent or null: no limit.")
    ] = UNSET


class ModifierGroupDocument(Wire, kw_only=True):
    """Choices for an item. The bounds count units."""

    modifier_group_id: Annotated[
        str | UnsetType | None, Meta(description="Its key. An id that isn't a UUID is replaced by one.")
    ] = UNSET
    name: Name = UNSET
    minimum_allowed: Annotated[Count | UnsetType | None, Meta(description="Absent or null: 0.")] = UNSET
    maximum_allowed: Annotated[Count | UnsetType | None, Meta(description="Absent or null: no limit.")] = (
        UNSET
    )
    item_ids: Annotated[Ids, Meta(description="The choices: ids of `items`.")] = UNSET
    maximum_per_item: Annotated[
        Count | UnsetType | None, Meta(description="Units of one choice. Absent or null: no limit.")
    ] = UNSET
    free_quantity: Annotated[
        Count | UnsetType | None,
        Meta(description="So many of the cheapest units cost nothing. Absent or null: 0."),
    ] = UNSET
    price_overrides: Annotated[
        dict[str, Price] | UnsetType | None,
        Meta(description="Prices in this group, by the id of the item. Others have their basePrice."),
    ] = UNSET


class CatalogSetDocument(Wire, kw_only=True):
    """What a store sells. Only `items` is required.

    Sections, catalogs and modifier groups may also be lists. Members that aren't named here are served as they are.
    """

    currency: Annotated[
        Annotated[str, Meta(extra_json_schema={"enum": sorted(SCALES)})] | UnsetType | None,
        Meta(description="ISO 4217. Absent or null: the service's default."),
    ] = UNSET
    catalogs: Annotated[
        Annotated[dict[str, CatalogDocument], Meta(max_length=MAX_CATALOGS)]
        | Annotated[list[CatalogDocument], Meta(max_length=MAX_CATALOGS)]
        | UnsetType
        | None,
        Meta(description="Menus by id. Without any, every section is on sale whenever the store is open."),
    ] = UNSET
    sections: Annotated[
        dict[str, SectionDocument] | list[SectionDocument] | UnsetType | None, Meta(description="By id.")
    ] = UNSET
    items: Annotated[dict[str, ItemDocument], Meta(description="By id. It may be empty.")]
    modifier_groups: Annotated[
        dict[str, ModifierGroupDocument] | list[ModifierGroupDocument] | UnsetType | None,
        Meta(description="By id."),
    ] = UNSET
    catalog_set_id: Annotated[Any, Meta(description="Ignored: the service gives every set its own.")] = UNSET
    store_id: Annotated[Any, Meta(description="Ignored: the service knows the store.")] = UNSET


def catalog_set_schema(base_url: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a CatalogSetDocument, with its own address below this one.

    It refuses nothing that a run accepts. What it can't express, such as references, only lint and a run check.
    """
    _, named = msgspec.json.schema_components([CatalogSetDocument], ref_template=_REF)
    named = {name: _tidied(schema) for name, schema in named.items()}
    top = named.pop(CatalogSetDocument.__name__)
    top["title"] = "CatalogSet"
    top["properties"]["$schema"] = {"description": "This schema's address, for editors."}
    return {"$schema": DIALECT, "$id": f"{base_url}{SCHEMA_PATH}", **top, "$defs": named}


def _tidied(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with its docstring as a paragraph, and without an empty list of members."""
    words = " ".join(schema["description"].split())
    return {name: value for name, value in schema.items() if value != []} | {"description": words}
