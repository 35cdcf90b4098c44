"""A CatalogSet document as it was read: typed members to check and compile, raw ones to serve back unchanged.

Every entity is held twice: as a struct of the members that mean something here, and as its members' own bytes,
so that unknown members and the digits of every number survive. Both are keyed by the id that is served.
"""

from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import msgspec

from mercato.catalog.findings import escape

Raw = msgspec.Raw
Members = dict[str, Any]
"""An entity's members: their bytes as fetched (Raw), or the value that is served instead."""

NULL: Final = Raw(b"null")


class Window(msgspec.Struct, rename="camel", gc=False):
    day_of_week: str | None = None
    start: str | None = None
    end: str | None = None


class Entity(msgspec.Struct, rename="camel"):
    """What all four kinds have."""

    name: str | None = None
    description: str | None = None


class CatalogSource(Entity):
    catalog_id: str | None = None
    section_ids: tuple[str, ...] | None = None
    availability: tuple[Window, ...] | None = None


class SectionSource(Entity):
    section_id: str | None = None
    image_url: str | None = None
    item_ids: tuple[str, ...] | None = None
    section_ids: tuple[str, ...] | None = None


class ItemSource(Entity, gc=False):
    item_id: str | None = None
    image_url: str | None = None
    base_price: Raw = NULL
    modifier_group_ids: tuple[str, ...] | None = None
    is_available: bool | None = None
    tags: tuple[Raw, ...] | None = None
    partner_item_id: str | None = None
    maximum_quantity: int | None = None


class GroupSource(Entity):
    modifier_group_id: str | None = None
    minimum_allowed: int | None = None
    maximum_allowed: int | None = None
    item_ids: tuple[str, ...] | None = None
    maximum_per_item: int | None = None
    free_quantity: int | None = None
    price_overrides: dict[str, Raw] | None = None


E = TypeVar("E", bound=Entity)


class Kind(msgspec.Struct, Generic[E], frozen=True):
    """One of the four dictionaries: its member, the noun for messages, and where an entity's own id stands."""

    member: str
    noun: str
    own_id: str
    own_field: str
    entity: type[E]
    addressed: bool
    """Carts name its entities by UUID, so ids that are none are replaced."""


CATALOGS: Final = Kind("catalogs", "catalog", "catalogId", "catalog_id", CatalogSource, addressed=False)
SECTIONS: Final = Kind("sections", "section", "sectionId", "section_id", SectionSource, addressed=False)
ITEMS: Final = Kind("items", "item", "itemId", "item_id", ItemSource, addressed=True)
GROUPS: Final = Kind(
    "modifierGroups", "modifier group", "modifierGroupId", "modifier_group_id", GroupSource, addressed=True
)


class Table(Generic[E]):
    """One dictionary (or list) of the document, by served id, in document order."""

    def __init__(
        self,
        kind: Kind[E],
        entities: dict[str, E],
        members: dict[str, Members],
        *,
        steps: dict[str, str] | None = None,
        listed: bool = False,
        readable: bool = True,
        count: int = 0,
    ) -> None:
        self.kind = kind
        self.entities = entities
        self.members = members
        self.listed = listed
        self.readable = readable
        self.count = count
        self._steps = steps or {}

    def pointer(self, served: str) -> str:
        """Return where the entity stands in the document as fetched."""
        return f"/{self.kind.member}/{escape(self._steps.get(served, served))}"

    def said(self, served: str) -> str:
        """Return the entity's name for a message: as the document calls it."""
        name = self.entities[served].name
        own = getattr(self.entities[served], self.kind.own_field)
        step = own if own is not None else self._steps.get(served, served)
        return f'"{name}" ({step})' if name else str(step)


class Source(msgspec.Struct):
    """A document that could be read. A table that is absent or null is empty."""

    onboarding_id: UUID
    top: dict[str, Raw]
    currency: str
    scale: int
    catalogs: Table[CatalogSource]
    sections: Table[SectionSource]
    items: Table[ItemSource]
    groups: Table[GroupSource]
