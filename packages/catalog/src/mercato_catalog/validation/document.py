"""A catalog document as read: frozen rows to check, price and compile, beside the members to serve.

The served members keep unknown ones, in their order, and share texts and numbers with the rows.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, Final, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from mercato_catalog.validation.findings import Findings, Rule, quote, shorten
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


MAX_NAMES: Final = 500
"""Unknown names of one table that are checked; a document with more isn't misspelled."""

MAX_COMPARED: Final = 50
"""Names that are compared letter by letter: half a millisecond for ten of them."""

MAX_NEAR: Final = 10
"""Misnamed members of one table that are warned of."""

MAX_NAME: Final = 40
"""Characters of a name that may be a misspelling; the longest known one has 16."""

CLOSE: Final = 0.86
"""The least similarity of two names, by difflib's ratio: one letter in eight may differ."""

_SHARED_ALIASES: Final = {"image": "imageUrl", "photo": "imageUrl", "picture": "imageUrl", "title": "name"}
_TOP_MEMBERS: Final = (
    "currency",
    "catalogSetId",
    "storeId",
    *(schema.member for schema in (CATALOGS, SECTIONS, ITEMS, GROUPS)),
)
_TOP_ALIASES: Final = {
    "menus": "catalogs",
    "categories": "sections",
    "products": "items",
    "modifiers": "modifierGroups",
    "optiongroups": "modifierGroups",
    "currencycode": "currency",
}
_ALIASES: Final[dict[str, dict[str, str]]] = {
    CATALOGS.member: _SHARED_ALIASES
    | {"sections": "sectionIds", "categories": "sectionIds"}
    | dict.fromkeys(("hours", "openinghours", "schedule", "windows"), "availability"),
    SECTIONS.member: _SHARED_ALIASES
    | dict.fromkeys(("items", "products"), "itemIds")
    | dict.fromkeys(("sections", "subsections", "children"), "sectionIds"),
    ITEMS.member: _SHARED_ALIASES
    | dict.fromkeys(("price", "unitprice", "amount", "cost"), "basePrice")
    | dict.fromkeys(("modifiergroups", "modifiers", "optiongroups"), "modifierGroupIds")
    | dict.fromkeys(("available", "instock"), "isAvailable")
    | {"maxquantity": "maximumQuantity"},
    GROUPS.member: _SHARED_ALIASES
    | dict.fromkeys(("items", "options", "choices", "modifiers"), "itemIds")
    | dict.fromkeys(("min", "minimum", "minquantity", "minallowed"), "minimumAllowed")
    | dict.fromkeys(("max", "maximum", "maxquantity", "maxallowed"), "maximumAllowed")
    | {"maxperitem": "maximumPerItem", "prices": "priceOverrides", "overrides": "priceOverrides"},
}
"""Names of members in other formats, folded, by table."""


def warn_near_misses(source: Source, findings: Findings) -> None:
    """Warn of members whose names are close to a known one that is missing."""
    for name, meant in _find_close(set(source.top), _TOP_MEMBERS, _TOP_ALIASES):
        if source.top.get(meant) is None:
            findings.warn(Rule.MISNAMED_MEMBER, _message("The document", name, meant), f"/{escape(name)}")
    for table in source.tables:
        _warn_table(table, findings)


def _warn_table(table: Table[Any], findings: Findings) -> None:
    schema = table.schema
    for name, meant in _find_close(
        table.member_names, (*schema.forms, schema.own_id, "partnerItemId"), _ALIASES[schema.member]
    ):
        rows = [key for key, row in table.members.items() if name in row and row.get(meant) is None]
        if rows:
            subject = f"The {schema.noun} {table.label(rows[0])}"
            others = f" {len(rows):,} {schema.member} have it." if len(rows) > 1 else ""
            pointer = f"{table.pointer(rows[0])}/{escape(name)}"
            findings.warn(
                Rule.MISNAMED_MEMBER, _message(subject, name, meant) + others, pointer, of=schema.member
            )


def _find_close(used: set[str], known: tuple[str, ...], meant: dict[str, str]) -> list[tuple[str, str]]:
    """Return unknown names with the known ones that they are close to, in order."""
    unknown = [name for name in used.difference(known) if len(name) <= MAX_NAME]
    if len(unknown) > MAX_NAMES:
        return []
    folded = {_fold(name): name for name in known}
    found = []
    for number, name in enumerate(sorted(unknown)):
        plain = _fold(name)
        close = meant.get(plain) or folded.get(plain)
        if close is None and number < MAX_COMPARED:
            close = next(
                (folded[match] for match in get_close_matches(plain, folded, n=1, cutoff=CLOSE)), None
            )
        if close is not None:
            found.append((name, close))
    return found[:MAX_NEAR]


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _message(subject: str, name: str, meant: str) -> str:
    return f"{subject} has the member {shorten(name)}, which isn't known here. Did you mean {meant}?"
