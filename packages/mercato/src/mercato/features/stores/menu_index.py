"""What agents read of menus: sections with their items, names to search, descriptions. A set never changes."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato.features.catalogs.queries import CompiledCatalogs
from mercato.features.stores.catalogs import IDENTITY, CatalogBodies, places_of
from mercato.platform.cache import Cache
from mercato_catalog.carts.names import Names, is_listed, names_of
from mercato_catalog.model import CompiledCatalog, Key, Menu
from mercato_catalog.words import key_of
from mercato_contract.wire import Wire

MAX_KEPT: Final = 32_000_000
"""Characters of names and descriptions that are kept of all sets together. One set is always kept."""

MAX_PICTURE: Final = 1_000
"""Characters of the address of a picture."""

MAX_DESCRIPTION: Final = 400
"""Characters that are kept of a description: more than anybody is shown."""

ITEM_SIZE: Final = 400
"""What an item weighs beside its texts."""

_SEPARATOR: Final = " > "


class Section(Struct, frozen=True):
    """A section, with the items that it sells. `name` includes those that it is in. `hours` is None for always."""

    name: str
    hours: str | None
    items: Sequence[Key]


class MenuIndex(Struct, frozen=True):
    """The items of a menu that are sold by themselves, in the menu's order, with the first section of each.

    `names` are in the normal form of the search; `named` finds what a name fits.
    """

    sections: Sequence[Section]
    places: Mapping[Key, int]
    names: Mapping[Key, str]
    named: Names
    descriptions: Mapping[Key, str]
    pictures: Mapping[Key, str]
    """Addresses of pictures; those that aren't `https`, or are too long, are left out."""

    def section_of(self, key: Key) -> str:
        """Return the name of an item's first section, an empty one if it is in none."""
        place = self.places.get(key)
        return "" if place is None else self.sections[place].name

    def find_sections(self, text: str) -> list[Section]:
        """Return the sections of this name: by the whole of it, else by its last part."""
        wanted = key_of(text)
        if text.endswith("…") and wanted:  # it was cut where it was shown
            return [section for section in self.sections if key_of(section.name).startswith(wanted)]
        whole = [section for section in self.sections if key_of(section.name) == wanted]
        return whole or [
            section for section in self.sections if key_of(section.name.rpartition(_SEPARATOR)[2]) == wanted
        ]

    def search(self, query: str) -> list[Key]:
        """Return the items whose names, or else descriptions, have every word: first those with words that begin so."""
        words = key_of(query).split()
        if not words:
            return []
        begin = [f" {word}" for word in words]
        first: list[Key] = []
        others: list[Key] = []
        for key, name in self.names.items():
            if all(word in name for word in words):
                padded = f" {name}"
                (first if all(word in padded for word in begin) else others).append(key)
        return [*first, *others] or list(self._described(query))

    def _described(self, query: str) -> Iterator[Key]:
        words = query.casefold().split()
        for key in self.names:
            text = self.descriptions.get(key)
            if text is not None and all(word in text.casefold() for word in words):
                yield key


class MenuIndexes:
    """The indexes of the menus that were read last."""

    def __init__(
        self, bodies: CatalogBodies, compiled: CompiledCatalogs, *, max_kept: int = MAX_KEPT
    ) -> None:
        self._bodies = bodies
        self._compiled = compiled
        self._cache = Cache[int, MenuIndex](capacity=max_kept, weigh=_size)

    async def get(self, set_id: UUID) -> MenuIndex:
        """Return the index of a live store's set. Raises CatalogSetNotFound."""
        found = await self._cache.get(set_id.int, self._read, set_id)
        assert found is not None
        return found

    async def _read(self, set_id: UUID) -> MenuIndex:
        catalog = await self._compiled.get(set_id)
        body = await self._bodies.get(set_id, IDENTITY)
        # A menu of several megabytes takes longer than a request may hold up others.
        return await asyncio.to_thread(index_of, body.content, catalog)


def _size(index: MenuIndex) -> int:
    texts = sum(map(len, index.names.values())) + sum(map(len, index.descriptions.values()))
    texts += sum(map(len, index.pictures.values()))
    return texts + ITEM_SIZE * (len(index.names) + sum(len(section.items) for section in index.sections))


class _Item(Wire):
    description: str | None = None
    image_url: str | None = None


class _Document(Menu, kw_only=True):
    items: dict[UUID, _Item]


def index_of(body: bytes, catalog: CompiledCatalog) -> MenuIndex:
    """Return the index of a served document, whose compiled form is `catalog`."""
    document = msgspec.json.decode(body, type=_Document)
    sections = list(_sections(document, catalog))
    places: dict[Key, int] = {}
    for number, section in enumerate(sections):
        for key in section.items:
            places.setdefault(key, number)
    named = names_of(catalog, {key: sections[number].name for key, number in places.items()})
    return MenuIndex(
        sections=sections,
        places=places,
        names={key: named.item_names[key] for key in places},
        named=named,
        descriptions={
            item_id.int: item.description[:MAX_DESCRIPTION]
            for item_id, item in document.items.items()
            if item.description
        },
        pictures={
            item_id.int: item.image_url
            for item_id, item in document.items.items()
            if item.image_url and item.image_url.startswith("https://") and len(item.image_url) <= MAX_PICTURE
        },
    )


def _sections(menu: Menu, catalog: CompiledCatalog) -> Iterator[Section]:
    """Yield the sections that sell something. The name of the only catalog says nothing."""
    is_only = len(menu.catalogs) <= 1
    for place in places_of(menu, catalog):
        items = [key for key in place.items if is_listed(catalog.items[key], catalog)]
        if items:
            path = place.path[1:] if is_only and len(place.path) > 1 else place.path
            yield Section(_SEPARATOR.join(path), None if place.note == "always" else place.note, items)
