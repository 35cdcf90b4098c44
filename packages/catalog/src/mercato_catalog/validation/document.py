"""A catalog document as read: frozen rows to check, price and compile, beside the members to serve.

The served members keep unknown ones, in their order, and share texts and numbers with the rows.
"""

from collections.abc import Iterable
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, Final, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from mercato_catalog.validation.findings import quote, shorten
from mercato_contract.json_values import escape
from mercato_contract.texts import is_blank
from mercato_contract.wire import as_json

Members = dict[str, Any]
"""An object's members as JSON values. A number that isn't an integer is its text (`msgspec.Raw`): no digit is lost."""

Price = Any
"""A price as written, of any type: `Prices` reads it."""

Values = Annotated[Any, "a list"]
"""A list of any values: the one that is served, not a copy."""


class Row(Struct, frozen=True, gc=False, rename="camel"):
    """The members of an entity that have a meaning; null is the same as absent."""

    name: str | None = None


class CatalogRow(Row, frozen=True):
    description: str | None = None
    section_ids: list[str] | None = None
    availability: Values = None


class SectionRow(Row, frozen=True):
    description: str | None = None
    image_url: str | None = None
    item_ids: list[str] | None = None
    section_ids: list[str] | None = None


class ItemRow(Row, frozen=True):
    description: str | None = None
    image_url: str | None = None
    base_price: Price = None
    modifier_group_ids: list[str] | None = None
    is_available: bool | None = None
    tags: Values = None
    partner_item_id: str | None = None
    maximum_quantity: int | None = None


class GroupRow(Row, frozen=True):
    minimum_allowed: int | None = None
    maximum_allowed: int | None = None
    item_ids: list[str] | None = None
    maximum_per_item: int | None = None
    free_quantity: int | None = None
    price_overrides: dict[str, Price] | None = None


R = TypeVar("R", bound=Row)


class Form(Enum):
    """The type of a member: in a row, in words for messages, and as the types of its JSON value."""

    TEXT = str | None, "a string", str
    FLAG = bool | None, "true or false", bool
    WHOLE = int | None, "a whole number", int
    LIST = Values, "a list", list
    IDS = list[str] | None, "a list of strings", list
    PRICE = Price, "a decimal string or a number", str, int, msgspec.Raw
    PRICES = dict[str, Price] | None, "an object of prices", dict

    def __init__(self, annotation: Any, words: str, *types: type) -> None:
        self.annotation = annotation
        self.words = words
        self.types = frozenset((*types, type(None)))


_FORMS: Final = {form.annotation: form for form in Form}


class TableSchema(Struct, Generic[R], frozen=True, eq=False):
    """One of the four tables: its member, the noun for messages, and the member with an entity's own id."""

    member: str
    noun: str
    own_id: str
    row: type[R]
    rows: type[list[R]]
    forms: dict[str, Form]
    """The form of each member of a row."""
    fields: dict[str, str]
    """The name of each member's field in a row."""
    is_addressed: bool
    """Whether carts refer to its entities by UUID, so that other ids are replaced."""


def _schema(
    member: str, noun: str, own_id: str, row: type[R], rows: type[list[R]], *, is_addressed: bool = False
) -> TableSchema[R]:
    fields = structs.fields(row)
    forms = {field.encode_name: _FORMS[field.type] for field in fields}
    names = {field.encode_name: field.name for field in fields}
    return TableSchema(member, noun, own_id, row, rows, forms, names, is_addressed)


CATALOGS: Final = _schema("catalogs", "catalog", "catalogId", CatalogRow, list[CatalogRow])
SECTIONS: Final = _schema("sections", "section", "sectionId", SectionRow, list[SectionRow])
ITEMS: Final = _schema("items", "item", "itemId", ItemRow, list[ItemRow], is_addressed=True)
GROUPS: Final = _schema(
    "modifierGroups", "modifier group", "modifierGroupId", GroupRow, list[GroupRow], is_addressed=True
)


class Table(Struct, Generic[R]):
    """One table of the document, in its order, by the ids that are served.

    `members` are served, `rows` are for checks. `member_names` are those of all entities. `steps` are the pointer steps
    of entities, and `document_ids` their ids in the document, where these aren't the served ids.
    """

    schema: TableSchema[R]
    members: dict[str, Members]
    member_names: set[str]
    steps: dict[str, str] = {}
    document_ids: dict[str, str] = {}
    packed_ids: bytes | None = None
    """The ids' bytes, where they are known."""
    is_readable: bool = True
    rows: list[R] = []
    text: bytes | None = None
    name_list: list[str] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def entries(self) -> Iterable[tuple[str, R]]:
        """Return the rows with their served ids."""
        return zip(self.members, self.rows, strict=True)

    def names(self) -> list[str]:
        """Return the names of all entities, empty for those without one."""
        if self.name_list is None:
            self.name_list = [row.name or "" for row in self.rows]
        return self.name_list

    def column(self, member: str) -> Iterable[Any]:
        """Return one member of all rows, in order."""
        return map(attrgetter(self.schema.fields[member]), self.rows)

    def values(self, member: str) -> dict[str, Any]:
        """Return the member's non-empty values by served id."""
        if member not in self.member_names:
            return {}
        return {key: value for key, value in zip(self.members, self.column(member), strict=True) if value}

    def change(self, served: str, member: str, value: Any) -> None:
        """Serve another value of a member."""
        self.members[served][member] = value
        self.text = None

    def write(self) -> bytes:
        """Return the served members as JSON, encoded again only after a change."""
        if self.text is None:
            self.text = as_json(self.members)
        return self.text

    def pointer(self, served: str) -> str:
        """Return the entity's pointer into the document as fetched."""
        return f"/{self.schema.member}/{escape(self.steps.get(served, served))}"

    def label(self, served: str) -> str:
        """Return the entity for a message: its name, and its id in the document."""
        name, own = self.members[served].get("name"), shorten(self.document_ids.get(served, served))
        return f"{quote(name)} ({own})" if isinstance(name, str) and not is_blank(name) else own


class Source(Struct):
    """A readable document. A table that is absent or null is empty."""

    onboarding_id: UUID
    top: Members
    currency: str
    scale: int
    catalogs: Table[CatalogRow]
    sections: Table[SectionRow]
    items: Table[ItemRow]
    groups: Table[GroupRow]

    @property
    def tables(self) -> tuple[Table[CatalogRow], Table[SectionRow], Table[ItemRow], Table[GroupRow]]:
        return self.catalogs, self.sections, self.items, self.groups
