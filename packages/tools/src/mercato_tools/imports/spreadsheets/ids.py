"""Which ids the items of a menu get: those of the menu before, or else some derived from their names. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import count
from typing import Final

import msgspec
from msgspec import Struct

from mercato_catalog.model import CompiledCatalog, Menu
from mercato_tools.imports.spreadsheets.cells import fold

_ITEM: Final = "item:"

Place = tuple[str, str]
"""The names of a section and of an item in it, as compared: no two rows of a menu have the same."""


class KnownItem(Struct, frozen=True, array_like=True):
    """An item of the menu before, in one of its sections. `id` is that of the merchant's document."""

    id: str
    section: str
    name: str

    @property
    def place(self) -> Place:
        return fold(self.section), fold(self.name)


def known_items(document: bytes, catalog: CompiledCatalog) -> tuple[KnownItem, ...]:
    """Return the items that a menu lists, in its order. `document` is the served one, `catalog` its compiled form."""
    menu = msgspec.json.decode(document, type=Menu)
    nodes = [("", node) for node in menu.catalogs.values()]
    nodes += [(catalog.sections[key].name, node) for key, node in (menu.sections or {}).items()]
    found = []
    for section, node in nodes:
        for id_ in node.item_ids or ():
            item = catalog.items[id_.int]
            found.append(KnownItem(item.document_id or str(id_), section, item.name))
    return tuple(found)


def keep_ids(
    places: Sequence[Place], previous: Sequence[KnownItem], *, taken: Container[str]
) -> dict[Place, str]:
    """Return the ids of the rows that are items of the menu before.

    First come the rows whose section has an item of that name. The others get the ids that are left of their name, in
    order: they were moved, or their section has another name. Ids that are `taken` are of something else.
    """
    # The first one is the last of its list: it's taken first.
    of_place: dict[Place, list[str]] = defaultdict(list)
    of_name: dict[str, list[str]] = defaultdict(list)
    for item in reversed(previous):
        if item.id not in taken:
            of_place[item.place].append(item.id)
            of_name[item.place[1]].append(item.id)
    kept: dict[Place, str] = {}
    used: set[str] = set()
    for place in places:
        _take(place, of_place.get(place), kept, used)
    for place in places:
        if place not in kept:
            _take(place, of_name.get(place[1]), kept, used)
    return kept


def _take(place: Place, offered: list[str] | None, kept: dict[Place, str], used: set[str]) -> None:
    while offered:
        found = offered.pop()
        if found not in used:
            used.add(found)
            kept[place] = found
            return


def derive_keys(
    places: Sequence[Place], kept: dict[Place, str], *, id_of: Callable[[str], str]
) -> dict[Place, str]:
    """Return keys for the rows without an id, whose ids, by `id_of`, are none of those that are kept.

    By its name alone an item keeps its id in another section. Of several with one name each needs its section, too:
    which of them stands first is no part of it, so the id of one never comes to mean another.
    """
    names, used = Counter(name for _, name in places), set(kept.values())
    return {
        place: next(key for key in _keys(place, is_only=names[place[1]] == 1) if id_of(key) not in used)
        for place in places
        if place not in kept
    }


def _keys(place: Place, *, is_only: bool) -> Iterator[str]:
    section, name = place
    if is_only:
        yield f"{_ITEM}{name}"
    yield f"{_ITEM}{section}\n{name}"
    # An item that was moved away has this section's id.
    for number in count(2):
        yield f"{_ITEM}{section}\n{name}\n{number}"
