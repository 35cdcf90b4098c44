"""A CatalogSet while it is put together from another format: whatever the linter would refuse is fixed and reported."""

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mercato.domain.catalog.imports.losses import Losses
from mercato.domain.catalog.model import DAYS
from mercato.domain.catalog.money import MAX_MINOR, MIN_MINOR, scaled
from mercato.domain.catalog.validation.checks import MAX_UNITS
from mercato.domain.catalog.validation.cycles import find_cycles
from mercato.domain.catalog.validation.document import CatalogRow, GroupRow, ItemRow, Row, SectionRow

NAMESPACE: Final = UUID("5a1f3c0e-7f0c-5d0b-9a55-3f0c4e6d2b10")
"""Ids are UUIDv5 of this, the format, the kind and the source's own id: the same at every import."""

_TARGETS: Final = {"sectionIds": "sections", "itemIds": "items", "modifierGroupIds": "modifierGroups"}


class Ref(Struct, frozen=True):
    """A reference to an entity by the source's key, and where the source makes it."""

    to: str
    at: str


def refs(keys: Sequence[str] | None, at: str) -> list[Ref]:
    """Return references to the keys of a list at that place."""
    return [Ref(key, f"{at}/{index}") for index, key in enumerate(keys or ())]


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
    overrides: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    """What a choice costs in one group: group → item → price and place."""

    def item(self, key: str, row: ItemRow, groups: Sequence[Ref] = (), *, at: str) -> None:
        """Add an item or a choice."""
        price, most = row.base_price, self._units(row.maximum_quantity, at)
        row = replace(
            row,
            base_price=None if price is None else self._text(price, at),
            is_available=None if row.is_available is not False else False,
            maximum_quantity=most,
        )
        self._add("items", key, row, {"modifierGroupIds": list(groups)}, at)

    def group(self, key: str, row: GroupRow, choices: Sequence[Ref], *, at: str) -> None:
        """Add a modifier group. Counts are of units; None is no limit."""
        least, most = self._units(row.minimum_allowed, at) or 0, self._units(row.maximum_allowed, at)
        if most is not None and least > most:
            self.losses.approximated(at, "More has to be chosen than may be: the minimum is taken for both.")
            most = least
        row = replace(
            row,
            minimum_allowed=least or None,
            maximum_allowed=most,
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

    def finish(self) -> bytes:
        """Return the CatalogSet as JSON, valid by the rules of an ingest."""
        self._break_cycles()
        document: dict[str, Any] = {"currency": self.currency}
        for name, table in self.tables.items():
            if table or name == "items":
                document[name] = {
                    self._id(name, key): self._written(name, key, one) for key, one in table.items()
                }
        return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"

    def _add(self, name: str, key: str, row: Row, references: dict[str, list[Ref]], at: str) -> None:
        known = self.tables[name].setdefault(key, _Entity(row, references, at))
        if (known.row, _keys(known.refs)) != (row, _keys(references)):
            self.losses.dropped(at, "There is another one of this id before it, which is kept.")

    def _id(self, name: str, key: str) -> str:
        return str(uuid5(NAMESPACE, f"{self.source}:{name}:{key}".encode("utf-8", "replace").decode()))

    def _written(self, name: str, key: str, entity: _Entity) -> dict[str, Any]:
        members = msgspec.to_builtins(entity.row)
        for member, references in entity.refs.items():
            ids = [self._id(_TARGETS[member], one) for one in self._resolved(member, references)]
            if ids or (name, member) in {("sections", "itemIds"), ("modifierGroups", "itemIds")}:
                members[member] = ids
        if name == "modifierGroups" and key in self.overrides:
            members["priceOverrides"] = self._priced(key, entity)
        return {member: value for member, value in members.items() if value is not None}

    def _resolved(self, member: str, references: list[Ref]) -> Iterator[str]:
        table = self.tables[_TARGETS[member]]
        seen: set[str] = set()
        for one in references:
            if one.to not in table:
                self.losses.dropped(one.at, "What it refers to is not there.")
            elif one.to in seen:
                self.losses.dropped(one.at, "It is listed more than once.")
            else:
                seen.add(one.to)
                yield one.to

    def _priced(self, key: str, entity: _Entity) -> dict[str, str]:
        offered = {one.to for one in entity.refs["itemIds"]}
        priced: dict[str, str] = {}
        for item, (price, at) in self.overrides[key].items():
            text = self._text(price, at)
            if item not in offered or item not in self.tables["items"]:
                self.losses.dropped(at, "It is the price of a choice that the group does not offer.")
            elif text is not None:
                priced[self._id("items", item)] = text
        return priced

    def _text(self, minor: int, at: str) -> str | None:
        if MIN_MINOR <= minor <= MAX_MINOR:
            return scaled(minor, self.scale)
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
                (_TARGETS[member], one.to) for member, listed in entity.refs.items() for one in listed
            ]
            for name in ("sections", "items", "modifierGroups")
            for key, entity in self.tables[name].items()
        }
        for cycle in find_cycles(graph):
            target, (name, key) = cycle[0], cycle[-1]
            for member, listed in self.tables[name][key].refs.items():
                closing = [one for one in listed if (_TARGETS[member], one.to) == target]
                if closing:
                    self.losses.dropped(closing[0].at, "It leads back to where it came from.")
                    listed.remove(closing[0])


def _keys(references: dict[str, list[Ref]]) -> dict[str, list[str]]:
    return {member: [one.to for one in listed] for member, listed in references.items()}
