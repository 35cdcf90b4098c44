"""A CatalogSet document as it was read: four tables, by column what means something here, by row what is served.

A column is checked, priced and compiled at the speed of C; a row keeps what is unknown, to be served unchanged.
Both hold the same values, and a member that no entity has costs nothing.
"""

from enum import Enum
from itertools import chain
from typing import Any, Final
from uuid import UUID

import msgspec

from mercato.catalog.findings import clipped, escape, quoted

Members = dict[str, Any]
"""An object's members as JSON values. A number that is no integer is its text (`msgspec.Raw`): no digit is lost."""


class Form(Enum):
    """What a member that means something must be: words for messages, and the types its values may have."""

    TEXT = "a string", str
    FLAG = "true or false", bool
    WHOLE = "a whole number", int
    LIST = "a list", list
    IDS = "a list of strings", list
    PRICE = "a decimal string or a number", str, int, msgspec.Raw
    PRICES = "an object of prices", dict

    def __init__(self, words: str, *types: type) -> None:
        self.words = words
        self.types = frozenset((*types, type(None)))


class Kind(msgspec.Struct, frozen=True):
    """One of the four dictionaries: its member, the noun for messages, and where an entity's own id stands."""

    member: str
    noun: str
    own_id: str
    addressed: bool
    """Carts name its entities by UUID, so ids that are none are replaced."""
    forms: dict[str, Form]


_TEXTS: Final = dict.fromkeys(("name", "description", "imageUrl"), Form.TEXT)

CATALOGS: Final = Kind(
    "catalogs",
    "catalog",
    "catalogId",
    addressed=False,
    forms={"name": Form.TEXT, "description": Form.TEXT, "sectionIds": Form.IDS, "availability": Form.LIST},
)
SECTIONS: Final = Kind(
    "sections",
    "section",
    "sectionId",
    addressed=False,
    forms=_TEXTS | {"itemIds": Form.IDS, "sectionIds": Form.IDS},
)
ITEMS: Final = Kind(
    "items",
    "item",
    "itemId",
    addressed=True,
    forms=_TEXTS
    | {
        "basePrice": Form.PRICE,
        "modifierGroupIds": Form.IDS,
        "isAvailable": Form.FLAG,
        "tags": Form.LIST,
        "partnerItemId": Form.TEXT,
        "maximumQuantity": Form.WHOLE,
    },
)
GROUPS: Final = Kind(
    "modifierGroups",
    "modifier group",
    "modifierGroupId",
    addressed=True,
    forms={
        "name": Form.TEXT,
        "minimumAllowed": Form.WHOLE,
        "maximumAllowed": Form.WHOLE,
        "itemIds": Form.IDS,
        "maximumPerItem": Form.WHOLE,
        "freeQuantity": Form.WHOLE,
        "priceOverrides": Form.PRICES,
    },
)


class AddedIds(msgspec.Struct, frozen=True):
    """The own ids put into entities that lacked them: how many members, and how many bytes of JSON they are."""

    count: int = 0
    size: int = 0


class Table:
    """One dictionary (or list) of the document, in document order."""

    def __init__(
        self,
        kind: Kind,
        members: dict[str, Members],
        *,
        used: set[str] | None = None,
        steps: dict[str, str] | None = None,
        written: dict[str, str] | None = None,
        own_ids: AddedIds = AddedIds(),  # noqa: B008  # immutable
        readable: bool = True,
    ) -> None:
        """`members` by served id; `used` are the names of all their members; `steps` say where an entity stands,
        `written` how its id is written, when that is not its served id; `own_ids` what was added to the members.
        """
        self.used: set[str] = set().union(*members.values()) if used is None else used
        self.kind = kind
        self.members = members
        self.own_ids = own_ids
        self.readable = readable
        self._steps = steps or {}
        self._written = written or {}
        self._columns: dict[str, list[Any]] = {}
        self._distinct: dict[str, int] = {}
        self._names: list[str] | None = None
        self._nothing: list[Any] = [None] * len(members)
        self._text: bytes | None = None

    def __len__(self) -> int:
        return len(self.members)

    def has(self, name: str) -> bool:
        """Tell whether some entity has the member."""
        return name in self._columns

    def column(self, name: str) -> list[Any]:
        """Return one member of all entities, None where it is absent, null or unusable."""
        return self._columns.get(name, self._nothing)

    def names(self) -> list[str]:
        """Return the names of all entities, empty where there is none."""
        if self._names is None:
            names = self.column("name")
            self._names = [name or "" for name in names] if None in names else names
        return self._names

    def put(self, name: str, column: list[Any]) -> None:
        """Set a column."""
        self._columns[name] = column
        self._distinct.pop(name, None)

    def each_names_one_of(self, target: "Table", name: str) -> bool:
        """Tell whether all ids of a column of lists are in the other table, and none of them is there twice.

        Each is looked up once, by taking it out of a copy: a set of the ids themselves would cost twice that.
        """
        lists = list(filter(None, self.column(name)))
        count = sum(map(len, lists))
        if not len(target) // 2 <= count <= len(target):
            return False  # it may well be so, but a copy would cost more
        rest = set(target.members)
        rest.difference_update(*lists)
        if len(target) - len(rest) < count:
            return False
        self._distinct[name] = count
        return True

    def listed(self, name: str) -> tuple[int, set[str]]:
        """Return how many ids a column of lists holds, and the distinct ones."""
        ids = list(chain.from_iterable(filter(None, self.column(name))))
        distinct = set(ids)
        self._distinct[name] = len(distinct)
        return len(ids), distinct

    def distinct(self, name: str) -> int:
        """Return how many distinct ids a column of lists holds."""
        if name not in self._distinct:
            self.listed(name)
        return self._distinct[name]

    def rows_with(self, name: str) -> list[tuple[str, Any]]:
        """Return served id and value of the entities that have the member, and not empty."""
        if name not in self._columns:
            return []
        return [(key, value) for key, value in zip(self.members, self._columns[name], strict=True) if value]

    def change(self, served: str, name: str, value: Any) -> None:
        """Put another value into an entity's members."""
        self.members[served][name] = value
        self._text = None

    def write(self) -> bytes:
        """Return the members as JSON, made once for as long as nothing in them changes."""
        if self._text is None:
            self._text = msgspec.json.encode(self.members)
        return self._text

    def document_ids(self) -> list[str | None] | None:
        """Return each entity's id as the document writes it, None where it is the served id; None if all are."""
        written = [None if text == served else text for served, text in self._written.items()]
        return written if any(text is not None for text in written) else None

    def pointer(self, served: str) -> str:
        """Return where the entity stands in the document as fetched."""
        return f"/{self.kind.member}/{escape(self._steps.get(served, served))}"

    def said(self, served: str) -> str:
        """Return the entity for a message: its name, and its id as the document has it."""
        name, own = self.members[served].get("name"), clipped(self._written.get(served, served))
        return f"{quoted(name)} ({own})" if name and isinstance(name, str) else own


class Source(msgspec.Struct):
    """A document that could be read. A table that is absent or null is empty."""

    onboarding_id: UUID
    top: Members
    currency: str
    scale: int
    catalogs: Table
    sections: Table
    items: Table
    groups: Table

    def write(self) -> list[bytes]:
        """Return what was read as JSON, in pieces: the tables that are served as they were read, and the rest."""
        pieces = []
        rest: dict[str, Any] = dict(self.top)
        for table in self.tables:
            if rest.get(table.kind.member) is table.members:
                rest[table.kind.member] = msgspec.Raw()
                pieces.append(table.write())
        return [*pieces, msgspec.json.encode(rest)]

    @property
    def tables(self) -> tuple[Table, Table, Table, Table]:
        return self.catalogs, self.sections, self.items, self.groups
