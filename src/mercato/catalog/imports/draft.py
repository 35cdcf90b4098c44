"""A CatalogSet while it is put together from another format: whatever the linter would refuse is mended, and told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from mercato.catalog.counts import MOST as MOST_UNITS
from mercato.catalog.hours import DAYS
from mercato.catalog.imports.hours import Window
from mercato.catalog.imports.losses import Losses
from mercato.catalog.money import LEAST, MOST, scaled

NAMESPACE: Final = UUID("5a1f3c0e-7f0c-5d0b-9a55-3f0c4e6d2b10")
"""Ids are UUIDv5 of this, the format, the kind and the source's own id: the same at every import."""

_RANK: Final = {day: rank for rank, day in enumerate(DAYS)}


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to an entity by the source's key, and where the source makes it."""

    to: str
    at: str


@dataclass(slots=True)
class _Entity:
    members: dict[str, Any]
    refs: dict[str, list[Ref]]
    at: str


Table = dict[str, _Entity]

_TARGETS: Final = {
    "sectionIds": "sections",
    "itemIds": "items",
    "modifierGroupIds": "modifierGroups",
}


@dataclass
class Draft:
    """Takes entities by the source's keys, in any order; `finish` resolves what they refer to."""

    source: str
    currency: str
    scale: int
    losses: Losses
    _catalogs: Table = field(default_factory=dict)
    _sections: Table = field(default_factory=dict)
    _items: Table = field(default_factory=dict)
    _groups: Table = field(default_factory=dict)
    _overrides: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)

    def has_item(self, key: str) -> bool:
        """Tell whether there is such an item."""
        return key in self._items

    def item(
        self,
        key: str,
        *,
        at: str,
        name: str | None,
        price: int | None,
        partner_id: str | None = None,
        description: str | None = None,
        image: str | None = None,
        available: bool = True,
        maximum: int | None = None,
        groups: Sequence[Ref] = (),
        tags: Sequence[str] = (),
    ) -> None:
        """Add an item or a choice. `price` in minor units."""
        members: dict[str, Any] = {"name": name, "description": description, "imageUrl": image}
        members["basePrice"] = None if price is None else self._text(price, at)
        members["isAvailable"] = None if available else False
        members["maximumQuantity"] = self._units(maximum, at)
        members["tags"] = list(tags) or None
        members["partnerItemId"] = partner_id
        self._add(self._items, key, members, {"modifierGroupIds": list(groups)}, at)

    def group(
        self,
        key: str,
        *,
        at: str,
        name: str | None,
        choices: Sequence[Ref],
        minimum: int | None = None,
        maximum: int | None = None,
        per_item: int | None = None,
        free: int | None = None,
    ) -> None:
        """Add a modifier group. Counts are of units; None is no limit."""
        least, most = self._units(minimum, at) or 0, self._units(maximum, at)
        if most is not None and least > most:
            self.losses.approximated(at, "More has to be chosen than may be: the minimum is taken for both.")
            most = least
        members = {
            "name": name,
            "minimumAllowed": least or None,
            "maximumAllowed": most,
            "maximumPerItem": self._units(per_item, at),
            "freeQuantity": self._units(free, at) or None,
        }
        self._add(self._groups, key, members, {"itemIds": list(choices)}, at)

    def override(self, group: str, item: str, price: int, at: str) -> None:
        """Set what a choice costs in one group."""
        self._overrides.setdefault(group, {})[item] = (price, at)

    def overridden(self, group: str) -> set[str]:
        """Return the choices that have a price of their own in the group."""
        return set(self._overrides.get(group, ()))

    def section(
        self,
        key: str,
        *,
        at: str,
        name: str | None,
        items: Sequence[Ref],
        sections: Sequence[Ref] = (),
        description: str | None = None,
        image: str | None = None,
    ) -> None:
        """Add a section."""
        members = {"name": name, "description": description, "imageUrl": image}
        self._add(self._sections, key, members, {"itemIds": list(items), "sectionIds": list(sections)}, at)

    def catalog(
        self,
        key: str,
        *,
        at: str,
        name: str | None,
        sections: Sequence[Ref],
        windows: Sequence[Window] | None,
        description: str | None = None,
    ) -> None:
        """Add a catalog; `windows` None is always."""
        hours = (
            None
            if windows is None
            else sorted(windows, key=lambda one: (_RANK[one["dayOfWeek"]], one["start"]))
        )
        members = {"name": name, "description": description, "availability": hours}
        self._add(self._catalogs, key, members, {"sectionIds": list(sections)}, at)

    def finish(self) -> bytes:
        """Return the CatalogSet as JSON, valid by the rules of an ingest."""
        self._break_cycles(self._sections, lambda entity: [("sectionIds", entity.refs["sectionIds"])])
        self._break_modifier_cycles()
        document: dict[str, Any] = {"currency": self.currency}
        for name, table in self._tables():
            if table or name == "items":
                document[name] = {
                    self._id(name, key): self._written(name, key, one) for key, one in table.items()
                }
        return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"

    def _tables(self) -> tuple[tuple[str, Table], ...]:
        return (
            ("catalogs", self._catalogs),
            ("sections", self._sections),
            ("items", self._items),
            ("modifierGroups", self._groups),
        )

    def _add(
        self, table: Table, key: str, members: dict[str, Any], refs: dict[str, list[Ref]], at: str
    ) -> None:
        known = table.get(key)
        if known is None:
            table[key] = _Entity(members, refs, at)
        elif (known.members, _keys(known)) != (members, _keys(_Entity(members, refs, at))):
            self.losses.dropped(at, "There is another one of this id before it, which is kept.")

    def _id(self, kind: str, key: str) -> str:
        return str(uuid5(NAMESPACE, f"{self.source}:{kind}:{key}".encode("utf-8", "replace").decode()))

    def _written(self, kind: str, key: str, entity: _Entity) -> dict[str, Any]:
        written = {name: value for name, value in entity.members.items() if value is not None}
        for name, refs in entity.refs.items():
            ids = [self._id(_TARGETS[name], one) for one in self._resolved(name, refs)]
            if ids or (kind, name) in {("sections", "itemIds"), ("modifierGroups", "itemIds")}:
                written[name] = ids
        if kind == "modifierGroups" and key in self._overrides:
            written["priceOverrides"] = self._priced(key, entity)
        return written

    def _resolved(self, name: str, refs: list[Ref]) -> Iterator[str]:
        table = dict(self._tables())[_TARGETS[name]]
        seen: set[str] = set()
        for one in refs:
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
        for item, (price, at) in self._overrides[key].items():
            text = self._text(price, at)
            if item not in offered or item not in self._items:
                self.losses.dropped(at, "It is the price of a choice that the group does not offer.")
            elif text is not None:
                priced[self._id("items", item)] = text
        return priced

    def _text(self, minor: int, at: str) -> str | None:
        if LEAST <= minor <= MOST:
            return scaled(minor, self.scale)
        self.losses.dropped(at, "The price is out of range.")
        return None

    def _units(self, count: int | None, at: str) -> int | None:
        if count is None or 0 <= count <= MOST_UNITS:
            return count
        self.losses.dropped(at, "A count is out of range.")
        return None

    # --- cycles ---------------------------------------------------------------------------------------

    def _break_modifier_cycles(self) -> None:
        """Take out what leads from an item over its groups back to the item."""
        joined: Table = {f"i{key}": one for key, one in self._items.items()}
        joined |= {f"g{key}": one for key, one in self._groups.items()}
        self._break_cycles(joined, _modifier_refs)

    def _break_cycles(self, table: Table, refs_of: Any) -> None:
        """Walk by depth; a reference to what is being walked is taken out. Without recursion: menus may be deep."""
        done: set[str] = set()
        for start in table:
            if start in done:
                continue
            path, ahead = {start}, [(start, iter(_edges(table[start], refs_of)))]
            while ahead:
                key, edges = ahead[-1]
                edge = next(edges, None)
                if edge is None:
                    done.add(key)
                    path.discard(key)
                    ahead.pop()
                    continue
                refs, ref, target = edge
                if target in path:
                    self.losses.dropped(ref.at, "It leads back to where it came from.")
                    refs.remove(ref)
                elif target in table and target not in done:
                    path.add(target)
                    ahead.append((target, iter(_edges(table[target], refs_of))))


def _keys(entity: _Entity) -> dict[str, list[str]]:
    return {name: [one.to for one in refs] for name, refs in entity.refs.items()}


def _modifier_refs(entity: _Entity) -> list[tuple[str, list[Ref]]]:
    return [
        (prefix, entity.refs[name])
        for name, prefix in (("modifierGroupIds", "g"), ("itemIds", "i"))
        if name in entity.refs
    ]


def _edges(entity: _Entity, refs_of: Any) -> list[tuple[list[Ref], Ref, str]]:
    return [
        (refs, ref, f"{'' if prefix == 'sectionIds' else prefix}{ref.to}")
        for prefix, refs in refs_of(entity)
        for ref in refs
    ]
