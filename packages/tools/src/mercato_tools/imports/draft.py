"""A CatalogSet under construction from another format: what an ingest would refuse is fixed and reported."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID, uuid5

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from mercato_catalog.model import DAY_SECONDS, DAYS, Windows
from mercato_catalog.validation.document import CatalogRow, GroupRow, ItemRow, Row, SectionRow
from mercato_catalog.validation.findings import clean
from mercato_catalog.validation.references import MAX_UNITS, find_cycles
from mercato_contract.json_values import escape
from mercato_contract.money import MAX_MINOR, MIN_MINOR, minor_to_decimal
from mercato_contract.wire import Wire, WireMeta, as_json

MAX_LISTED: Final = 10_000
"""Losses that are listed; all are counted."""


class Shape(msgspec.Struct, metaclass=WireMeta, frozen=True, kw_only=True):
    """The base of a source format's structs: members as they are written there, all optional but ids."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the document doesn't say. `currency` overrides the document's, `default_currency` applies without one."""

    default_currency: str
    now: datetime
    currency: str | None = None
    language: str | None = None


class LossKind(StrEnum):
    """`dropped`: it isn't in the result; `approximated`: it is, in the nearest form there is."""

    DROPPED = "dropped"
    APPROXIMATED = "approximated"


class Loss(Wire):
    """One thing that the result doesn't say as the source did."""

    path: Annotated[str, Meta(description="RFC 6901 pointer into the source.")]
    kind: LossKind
    message: str


class Losses:
    """Collects losses, in the order found. Similar losses have the same message, so that they can be grouped."""

    def __init__(self) -> None:
        self.listed: list[Loss] = []
        self.count = 0

    def dropped(self, path: str, message: str) -> None:
        """Record what isn't in the result."""
        self._add(path, LossKind.DROPPED, message)

    def approximated(self, path: str, message: str) -> None:
        """Record what the result says in another way."""
        self._add(path, LossKind.APPROXIMATED, message)

    def _add(self, path: str, kind: LossKind, message: str) -> None:
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(Loss(path=clean(path), kind=kind, message=clean(message)))


def translate(texts: dict[str, str], at: str, options: ImportOptions, losses: Losses) -> str | None:
    """Return the text in the language of the options, or the first one; the others are losses."""
    if not texts:
        return None
    wanted = (options.language or "").replace("-", "_").lower()
    chosen = next(
        (name for name in texts if wanted and name.replace("-", "_").lower().startswith(wanted)),
        next(iter(texts)),
    )
    for name in texts:
        if name != chosen:
            losses.dropped(f"{at}/{escape(name)}", ONE_LANGUAGE)
    return texts[chosen] or None


ONE_LANGUAGE: Final = "Texts are kept in one language, which you can choose."


# --- opening hours --------------------------------------------------------------------------------

Window = dict[str, str]

_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?", re.ASCII)
_LAST_MINUTE: Final = DAY_SECONDS - 60


def windows(day: int, start: str, end: str, at: str, losses: Losses) -> Sequence[Window]:
    """Return the windows of a span that begins on a day (0 is Sunday): HH:MM or HH:MM:SS, also across midnight.

    Unreadable times are a loss.
    """
    first, last = _second(start), _second(end)
    if first is None or last is None or first == DAY_SECONDS:
        losses.dropped(at, "The hours aren't written as HH:MM.")
        return ()
    if _LAST_MINUTE <= last < DAY_SECONDS:
        losses.approximated(at, "An end in the last minute of a day is read as the end of the day.")
        last = DAY_SECONDS
    if first == last:
        losses.approximated(at, "Hours that end when they begin are read as 24 hours.")
    if first < (last or DAY_SECONDS):
        return (_window(day, first, last or DAY_SECONDS),)
    return _window(day, first, DAY_SECONDS), _window((day + 1) % len(DAYS), 0, last)


def windows_of(spans: Windows) -> list[Window]:
    """Return the windows of spans in seconds of the week, which begins on Sunday; one across midnight is several."""
    found = []
    for start, end in spans:
        for day in range(start // DAY_SECONDS, -(-end // DAY_SECONDS)):
            first, last = max(start - day * DAY_SECONDS, 0), min(end - day * DAY_SECONDS, DAY_SECONDS)
            found.append(_window(day, first, last))
    return found


def _window(day: int, start: int, end: int) -> Window:
    return {"dayOfWeek": DAYS[day], "start": _text(start), "end": _text(end % DAY_SECONDS)}


def _text(second: int) -> str:
    return f"{second // 3600:02}:{second % 3600 // 60:02}:{second % 60:02}"


def _second(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    found = hours * 3600 + minutes * 60 + seconds
    return found if minutes < 60 and seconds < 60 and found <= DAY_SECONDS else None  # noqa: PLR2004  # of a clock


NAMESPACE: Final = UUID("5a1f3c0e-7f0c-5d0b-9a55-3f0c4e6d2b10")
"""Ids are UUIDv5 of this, the format, the kind and the source's own id: the same at every import."""

_REST: Final = "rest"
MISSING: Final = "It refers to something that isn't in the document."
_TARGETS: Final = {"sectionIds": "sections", "itemIds": "items", "modifierGroupIds": "modifierGroups"}


class Ref(Struct, frozen=True):
    """A reference to an entity by the source's key, and its pointer in the source."""

    to: str
    at: str


def refs(keys: Sequence[str] | None, at: str) -> list[Ref]:
    """Return references to the keys of a list at that pointer."""
    return [Ref(key, f"{at}/{index}") for index, key in enumerate(keys or ())]


class Variant(Struct, frozen=True, kw_only=True):
    """One size of a product: its row with the price in minor units, and the groups that belong to it alone."""

    id: str
    at: str
    row: ItemRow
    groups: Sequence[Ref] = ()


class Category(Struct, frozen=True, kw_only=True):
    """A section. `parent` is the id of the category above it, None at the top."""

    id: str
    row: SectionRow
    parent: str | None
    at: str


class _Entity(Struct):
    row: Row
    refs: dict[str, list[Ref]]
    at: str


Table = dict[str, _Entity]


class Draft(Struct):
    """Takes entities by the source's keys, in any order; `finish` resolves their references. Prices in minor units."""

    source: str
    currency: str
    scale: int
    losses: Losses
    tables: dict[str, Table] = field(
        default_factory=lambda: {"catalogs": {}, "sections": {}, "items": {}, "modifierGroups": {}}
    )
    item_ids: dict[str, str] = field(default_factory=dict)
    """Ids of items that aren't derived, by their keys."""

    overrides: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    """What a choice costs in one group: group → item → price and place."""

    def item(self, key: str, row: ItemRow, groups: Sequence[Ref] = (), *, at: str) -> None:
        """Add an item or a choice."""
        row = replace(
            row,
            base_price=None if row.base_price is None else self._price(row.base_price, at),
            is_available=None if row.is_available is not False else False,
            maximum_quantity=self._units(row.maximum_quantity, at),
        )
        self._add("items", key, row, {"modifierGroupIds": list(groups)}, at)

    def group(self, key: str, row: GroupRow, choices: Sequence[Ref], *, at: str) -> None:
        """Add a modifier group. Counts are of units; None is no limit."""
        minimum, maximum = self._units(row.minimum_allowed, at) or 0, self._units(row.maximum_allowed, at)
        if maximum is not None and minimum > maximum:
            self.losses.approximated(at, "The minimum is above the maximum, so the minimum is used for both.")
            maximum = minimum
        row = replace(
            row,
            minimum_allowed=minimum or None,
            maximum_allowed=maximum,
            maximum_per_item=self._units(row.maximum_per_item, at),
            free_quantity=self._units(row.free_quantity, at) or None,
        )
        self._add("modifierGroups", key, row, {"itemIds": list(choices)}, at)

    def override(self, group: str, item: str, price: int, at: str) -> None:
        """Set what a choice costs in one group."""
        self.overrides.setdefault(group, {})[item] = (price, at)

    def section(
        self, key: str, row: SectionRow, items: Sequence[Ref], sections: Sequence[Ref] = (), *, at: str
    ) -> None:
        """Add a section."""
        self._add("sections", key, row, {"itemIds": list(items), "sectionIds": list(sections)}, at)

    def catalog(self, key: str, row: CatalogRow, sections: Sequence[Ref], *, at: str) -> None:
        """Add a catalog."""
        if row.availability is not None:
            windows = sorted(row.availability, key=lambda one: (DAYS.index(one["dayOfWeek"]), one["start"]))
            row = replace(row, availability=windows)
        self._add("catalogs", key, row, {"sectionIds": list(sections)}, at)

    def product(
        self, key: str, row: ItemRow, groups: Sequence[Ref], variants: Sequence[Variant], *, at: str
    ) -> None:
        """Add a product as an item at its lowest price; several variants are a group of which one must be chosen."""
        prices = [variant.row.base_price for variant in variants if variant.row.base_price is not None]
        lowest = min(prices, default=0)
        sizes = f"{key}:sizes"
        item = replace(
            row,
            base_price=lowest if prices else None,
            is_available=any(variant.row.is_available is not False for variant in variants),
        )
        if len(variants) <= 1:
            for only in variants:
                item = replace(item, partner_item_id=only.row.partner_item_id)
                groups = [*groups, *only.groups]
            self.item(key, item, groups, at=at)
            return
        self.losses.approximated(
            at, "Its sizes become choices of a group, each at its difference from the cheapest."
        )
        self.item(key, item, [Ref(sizes, at), *groups], at=at)
        for one in variants:
            price = one.row.base_price
            # Without a basePrice, so that no size can be bought for the difference.
            size = replace(
                one.row,
                name=one.row.name or row.name,
                base_price=None,
                is_available=one.row.is_available is not False and price is not None,
            )
            self.item(one.id, size, one.groups, at=one.at)
            self.override(sizes, one.id, (lowest if price is None else price) - lowest, one.at)
        choices = [Ref(variant.id, variant.at) for variant in variants]
        self.group(sizes, GroupRow(name=row.name, minimum_allowed=1, maximum_allowed=1), choices, at=at)

    def menu(
        self,
        categories: Sequence[Category],
        products: Mapping[str | None, Sequence[Ref]],
        *,
        name: str | None,
        at: str,
        listed_at: str,
    ) -> None:
        """Add one catalog of all categories. `products` are by category; those of None get a section of their own."""
        below: dict[str | None, list[Ref]] = {}
        for one in categories:
            below.setdefault(one.parent, []).append(Ref(one.id, one.at))
        for one in categories:
            self.section(one.id, one.row, products.get(one.id, ()), below.get(one.id, ()), at=one.at)
        top = below.get(None, [])
        if rest := products.get(None):
            self.losses.approximated(listed_at, "Products without a category get a section of their own.")
            self.section(_REST, SectionRow(name=name), rest, at=at)
            top = [*top, Ref(_REST, at)]
        self.catalog("catalog", CatalogRow(name=name), top, at=at)

    def check_currency(self, currency: str | None, at: str) -> None:
        """Report a price in another currency."""
        if currency is not None and currency != self.currency:
            self.losses.approximated(
                at, "The price is in another currency. Its amount is kept, in the catalog's."
            )

    def finish(self) -> bytes:
        """Return the CatalogSet as JSON, valid by the rules of an ingest."""
        self._break_cycles()
        document: dict[str, Any] = {"currency": self.currency}
        for name, table in self.tables.items():
            if table or name == "items":
                document[name] = {
                    self._id(name, key): self._members(name, key, one) for key, one in table.items()
                }
        return msgspec.json.format(as_json(document), indent=2) + b"\n"

    def _add(self, name: str, key: str, row: Row, references: dict[str, list[Ref]], at: str) -> None:
        known = self.tables[name].setdefault(key, _Entity(row, references, at))
        if (known.row, _keys(known.refs)) != (row, _keys(references)):
            self.losses.dropped(at, "An earlier entity has the same id and is kept.")

    def id_of_item(self, key: str) -> str:
        """Return the id of the item with the key."""
        return self._id("items", key)

    def _id(self, name: str, key: str) -> str:
        if name == "items" and key in self.item_ids:
            return self.item_ids[key]
        return str(uuid5(NAMESPACE, f"{self.source}:{name}:{key}".encode("utf-8", "replace").decode()))

    def _members(self, name: str, key: str, entity: _Entity) -> dict[str, Any]:
        members = msgspec.to_builtins(entity.row)
        for member, references in entity.refs.items():
            ids = [self._id(_TARGETS[member], id_) for id_ in self._resolve(member, references)]
            if ids or (name, member) in {("sections", "itemIds"), ("modifierGroups", "itemIds")}:
                members[member] = ids
        if name == "modifierGroups" and key in self.overrides:
            members["priceOverrides"] = self._overrides(key, entity)
        return {member: value for member, value in members.items() if value is not None}

    def _resolve(self, member: str, references: list[Ref]) -> Iterator[str]:
        table = self.tables[_TARGETS[member]]
        seen: set[str] = set()
        for one in references:
            if one.to not in table:
                self.losses.dropped(one.at, MISSING)
            elif one.to in seen:
                self.losses.dropped(one.at, "It is listed more than once.")
            else:
                seen.add(one.to)
                yield one.to

    def _overrides(self, key: str, entity: _Entity) -> dict[str, str]:
        offered = {ref.to for ref in entity.refs["itemIds"]}
        priced: dict[str, str] = {}
        for item, (price, at) in self.overrides[key].items():
            text = self._price(price, at)
            if item not in offered or item not in self.tables["items"]:
                self.losses.dropped(at, "The group doesn't offer the item that this price is for.")
            elif text is not None:
                priced[self._id("items", item)] = text
        return priced

    def _price(self, minor: int, at: str) -> str | None:
        if MIN_MINOR <= minor <= MAX_MINOR:
            return minor_to_decimal(minor, self.scale)
        self.losses.dropped(at, "The price is out of range.")
        return None

    def _units(self, count: int | None, at: str) -> int | None:
        if count is None or 0 <= count <= MAX_UNITS:
            return count
        self.losses.dropped(at, "A count is out of range.")
        return None

    def _break_cycles(self) -> None:
        """Remove the references that close a cycle."""
        graph = {
            (name, key): [
                (_TARGETS[member], item.to) for member, listed in entity.refs.items() for item in listed
            ]
            for name in ("sections", "items", "modifierGroups")
            for key, entity in self.tables[name].items()
        }
        for cycle in find_cycles(graph):
            target, (name, key) = cycle[0], cycle[-1]
            for member, listed in self.tables[name][key].refs.items():
                closing = [item for item in listed if (_TARGETS[member], item.to) == target]
                if closing:
                    self.losses.dropped(closing[0].at, "This reference closes a cycle.")
                    listed.remove(closing[0])


def _keys(references: dict[str, list[Ref]]) -> dict[str, list[str]]:
    return {member: [item.to for item in listed] for member, listed in references.items()}
