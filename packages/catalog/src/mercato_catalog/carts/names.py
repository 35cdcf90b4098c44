"""The names of a menu as agents see them: what a name fits, and the nearest to one that fits nothing. Pure.

A name is compared in the normal form of the search, and fits everything that is the same in it.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import pairwise
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato_catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato_catalog.words import key_of, keys_of
from mercato_contract.money import minor_to_decimal
from mercato_contract.ordering import MAX_NAME, ResolvedChoice
from mercato_contract.texts import as_data
from mercato_contract.wire import Wire, parse_uuid

NEAREST: Final = 3
"""Names that are listed for one that fits nothing."""

MAX_COMPARED: Final = 500
"""Groups of an item, or options of a group, that are compared with a name that fits none."""

_MAX_LETTERS: Final = 32
"""Letters of a name that count for its neighbours."""

_MAX_NEIGHBOURS: Final = 50_000
"""Items whose names are suggested, the first of the menu: it bounds the memory of their pairs of letters."""

_MAX_VISITS: Final = 20_000
"""Names that share a pair of letters with an unknown one and are counted, the rarest pairs first."""

_MAX_RANKED: Final = 30
"""Names with the most of its pairs, which are ranked by their similarity."""

_MAX_KNOWN: Final = 2_000
"""Modifier groups of a menu, and items, that are kept as lines are read: those that were ordered."""

Named = CompiledItem | CompiledGroup


@lru_cache(maxsize=4096)
def uuid_of(key: Key) -> UUID:
    """Return the UUID of a key. Making one runs Python code."""
    return UUID(int=key)


@lru_cache(maxsize=4096)
def shown(name: str) -> str:
    """Return a merchant's name as agents see it. The same ones are shown again and again."""
    return as_data(name, most=MAX_NAME)


def normal_form(text: str) -> str:
    """Return the normal form of a name."""
    return key_of(shown(text))


@lru_cache(maxsize=4096)
def key_or_name(text: str) -> Key | str:
    """Return the key of an id that was sent, or the normal form of a name: most of them are sent again and again."""
    sent = parse_uuid(text)
    return normal_form(text) if sent is None else sent.int


def is_listed(item: CompiledItem, catalog: CompiledCatalog) -> bool:
    """Return whether the item is sold by itself: it has a price, and a section of the menu lists it."""
    return item.price is not None and catalog.reaches[item.reach] != 0


class KnownGroup(Struct, frozen=True):
    """A modifier group as lines are read.

    `options` has one unit of each, by its key and by the name that fits no other of them.
    """

    key: Key
    id: UUID
    name: str
    group: CompiledGroup
    options: Mapping[Key | str, ResolvedChoice]


class Names(Struct, frozen=True):
    """The names of one menu, made once of it: `names_of`. `sections` has the first section of each item."""

    catalog: CompiledCatalog
    sections: Mapping[Key, str]
    by_name: Mapping[str, Sequence[Key]]
    """Items by the normal form of their names. Nothing has the empty one, which says nothing."""
    item_names: Mapping[Key, str]
    group_names: Mapping[Key, str]
    neighbours: "Neighbours"
    known_groups: dict[Key, KnownGroup] = {}
    known_items: dict[Key, dict[Key | str, KnownGroup]] = {}
    """What was ordered, made when it is first asked for: at most _MAX_KNOWN groups, and items with their groups."""

    def find_items(self, text: str) -> Sequence[Key]:
        """Return the items that an id or a name fits: those that are sold by themselves, if there are any."""
        items, sent = self.catalog.items, key_or_name(text)
        if isinstance(sent, int):
            return (sent,) if sent in items else ()
        fits = self.by_name.get(sent, ())
        if len(fits) <= 1:
            return fits
        return [key for key in fits if is_listed(items[key], self.catalog)] or fits

    def find_groups(self, text: str, item: CompiledItem) -> Sequence[Key]:
        """Return the modifier groups of an item that an id or a name fits."""
        sent = key_or_name(text)
        if isinstance(sent, int):
            return (sent,) if sent in item.groups else ()
        if not sent:
            return ()
        names = self.group_names
        fits = [key for key in item.groups if names[key] == sent]
        return fits if len(fits) <= 1 else list(dict.fromkeys(fits))

    def find_options(self, text: str, group: CompiledGroup) -> Sequence[Key]:
        """Return the options of a modifier group that an id or a name fits."""
        choices, sent = group.choices, key_or_name(text)
        if isinstance(sent, int):
            return (sent,) if sent in choices else ()
        named = self.by_name.get(sent, ())
        if len(named) == 1:  # most names are those of one item
            return named if named[0] in choices else ()
        if len(named) < len(choices):
            return [key for key in named if key in choices]
        return [key for key in choices if self.item_names[key] == sent]

    def groups_of(self, key: Key, item: CompiledItem) -> Mapping[Key | str, KnownGroup]:
        """Return the modifier groups of an item by their keys and by the names that fit no other of them."""
        found: dict[Key | str, KnownGroup] | None = self.known_items.get(key)
        if found is None:
            if len(self.known_items) >= _MAX_KNOWN:
                self.known_items.clear()
            groups = list(map(self._known_group, dict.fromkeys(item.groups)))
            names = Counter(self.group_names[group.key] for group in groups)
            found = {group.key: group for group in groups}
            found |= {
                name: group for group in groups if names[name := self.group_names[group.key]] == 1 and name
            }
            self.known_items[key] = found
        return found

    def _known_group(self, key: Key) -> KnownGroup:
        found = self.known_groups.get(key)
        if found is None:
            if len(self.known_groups) >= _MAX_KNOWN:
                self.known_groups.clear()
            found = self.known_groups[key] = self._make_group(key)
        return found

    def _make_group(self, key: Key) -> KnownGroup:
        group, group_id, items = self.catalog.groups[key], uuid_of(key), self.catalog.items
        name = shown(group.name)
        names = Counter(map(self.item_names.get, group.choices))
        options: dict[Key | str, ResolvedChoice] = {}
        for option, own in group.choices.items():
            price = minor_to_decimal(own, self.catalog.scale)
            unit = ResolvedChoice(group_id, name, uuid_of(option), shown(items[option].name), 1, price)
            options[option] = unit
            if (normal := self.item_names[option]) and names[normal] == 1:
                options[normal] = unit
        return KnownGroup(key, group_id, name, group, options)

    def nearest_items(self, text: str) -> Sequence[Key]:
        """Return the items that are sold by themselves whose names are the nearest, the most similar first."""
        return self.neighbours.find(normal_form(text))

    def nearest_groups(self, text: str, item: CompiledItem) -> Sequence[Key]:
        """Return the modifier groups of an item with the nearest names."""
        return _rank(normal_form(text), list(dict.fromkeys(item.groups))[:MAX_COMPARED], self.group_names)

    def nearest_options(self, text: str, group: CompiledGroup) -> Sequence[Key]:
        """Return the options of a modifier group with the nearest names."""
        return _rank(normal_form(text), list(group.choices)[:MAX_COMPARED], self.item_names)


def names_of(catalog: CompiledCatalog, sections: Mapping[Key, str]) -> Names:
    """Return the names of a menu. It takes a hundred milliseconds for tens of thousands of items."""
    items = dict(zip(catalog.items, _normal(catalog.items.values()), strict=True))
    by_name: dict[str, list[Key]] = {}
    for key, name in items.items():
        if name:
            by_name.setdefault(name, []).append(key)
    listed = [key for key, item in catalog.items.items() if is_listed(item, catalog)]
    return Names(
        catalog=catalog,
        sections=sections,
        by_name=by_name,
        item_names=items,
        group_names=dict(zip(catalog.groups, _normal(catalog.groups.values()), strict=True)),
        neighbours=_neighbours(listed[:_MAX_NEIGHBOURS], items),
    )


def _normal(things: Collection[Named]) -> list[str]:
    return keys_of([shown(thing.name) for thing in things])


# --- sections -------------------------------------------------------------------------------------


class _Section(Wire):
    name: str | None = None
    item_ids: list[UUID] | None = None


class _Sections(Wire):
    sections: dict[str, _Section] | None = None


def sections_of(body: bytes) -> dict[Key, str]:
    """Return the name of the first section of each item in the served copy of a CatalogSet."""
    found: dict[Key, str] = {}
    for section in (msgspec.json.decode(body, type=_Sections).sections or {}).values():
        name = shown(section.name or "")
        for item_id in section.item_ids or ():
            found.setdefault(item_id.int, name)
    return found


# --- the nearest names ----------------------------------------------------------------------------
#
# Names are as similar as the share of their pairs of neighbouring letters that both have (Dice's coefficient), which
# forgives typing errors, missing words and another order of words. A blank before and after the name makes its first
# and last letter count twice.


class Neighbours(Struct, frozen=True):
    """Names by each pair of letters in them, as indexes of `keys`."""

    keys: Sequence[Key]
    names: Mapping[Key, str]
    by_pair: Mapping[str, Sequence[int]]

    def find(self, wanted: str) -> Sequence[Key]:
        """Return the keys of the nearest names."""
        shared: Counter[int] = Counter()
        room = _MAX_VISITS
        found = [pair for pair in _pairs(wanted) if pair in self.by_pair]
        for pair in sorted(found, key=lambda pair: (len(self.by_pair[pair]), pair)):
            places = self.by_pair[pair]
            shared.update(places[:room])
            room -= len(places)
            if room <= 0:
                break
        # Of those with as many pairs in common, the first of the menu: a set has another order in each process.
        most = nsmallest(_MAX_RANKED, shared.items(), key=lambda entry: (-entry[1], entry[0]))
        near = [self.keys[place] for place, _ in most]
        # Those without any pair in common are as near as each other.
        others = [key for key in self.keys[: _MAX_RANKED + NEAREST] if key not in near]
        return _rank(wanted, [*near, *others[:NEAREST]], self.names)


def _neighbours(keys: Sequence[Key], names: Mapping[Key, str]) -> Neighbours:
    by_pair: dict[str, array[int]] = {}
    for place, key in enumerate(keys):
        for pair in _pairs(names[key]):
            if pair not in by_pair:
                by_pair[pair] = array("I")
            by_pair[pair].append(place)
    return Neighbours(keys, names, by_pair)


def _pairs(name: str) -> set[str]:
    text = f" {name[:_MAX_LETTERS]} "
    return set(map("".join, pairwise(text)))


def _rank(wanted: str, keys: Iterable[Key], names: Mapping[Key, str]) -> Sequence[Key]:
    pairs = _pairs(wanted)

    def similarity(key: Key) -> float:
        own = _pairs(names[key])
        return 2 * len(pairs & own) / (len(pairs) + len(own))

    return sorted(keys, key=similarity, reverse=True)[:NEAREST]
