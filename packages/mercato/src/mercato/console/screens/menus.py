"""Menus: what a store sells, as a tree with prices, from which a storefront tries an item in the playground.

A menu can have a hundred thousand items: a page draws a bounded number of lines, and leads to the others.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from mercato.console.screen import EVERYBODY, Page, Screens, Visit
from mercato.features.catalogs.model import CompiledCatalog, CompiledGroup, CompiledItem, Key, rule
from mercato.features.partners.model import Surface
from mercato.features.stores.catalogs import Place
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.platform.errors import NotFound
from mercato.platform.texts import count_of
from mercato_contract.money import minor_to_decimal
from mercato_contract.pages import PAGE
from mercato_contract.wire import Wire

screens: Final = Screens(EVERYBODY)

MAX_BYTES: Final = 85_000
"""Bytes of a page's lines, by their most; with the rest of the page there are less than 100 kB."""

MARKUP: Final = 350
"""Bytes of a line around its texts: its link, its notes of a fixed length and its price."""

MAX_TEXT: Final = 80
"""Characters of a text that a line shows."""

MAX_DEPTH: Final = 3
"""Levels of groups drawn below an item: choices may have groups of their own."""

MIN_PREVIEW: Final = 3
"""Items shown of each section in the list of sections, at least."""

MAX_PREVIEW: Final = 300
"""Items shown in the list of sections, if there are few sections."""

MAX_PLACES: Final = 100
"""Catalogs and sections on a page of a menu."""


class Line(Struct, frozen=True):
    """A line of the tree: `price` is a decimal, `note` what else there is to know.

    `item_id` is set for an item of a section that has a price: it can be put into a cart by itself.
    """

    name: str
    price: str | None = None
    note: str | None = None
    below: Sequence["Line"] = ()
    item_id: UUID | None = None


def list_places(
    catalog: CompiledCatalog, places: Sequence[Place], offset: int
) -> list[tuple[Place, list[Line]]]:
    """Return the places from an offset with their first items, as many as a page has room for, but one at least."""
    drawing = _Drawing(catalog)
    found: list[tuple[Place, list[Line]]] = []
    count = min(MAX_PLACES, len(places) - offset)
    most = max(MIN_PREVIEW, MAX_PREVIEW // max(count, 1))
    for place in places[offset : offset + count]:
        if found and not drawing.has_room:
            break
        drawing.take(*place.path, place.note)
        found.append((place, drawing.list_items(place.items[:most])))
    return found


def draw_items(catalog: CompiledCatalog, keys: Sequence[Key]) -> list[Line]:
    """Return the first items as many as a page has room for, but one at least, with groups and choices if they fit."""
    drawing = _Drawing(catalog)
    lines: list[Line] = []
    for key in keys:
        if lines and not drawing.has_room:
            break
        lines.append(drawing.item(key))
    return lines


class _Drawing:
    """Draws lines as long as a page has room, half of which is for groups and their choices."""

    def __init__(self, catalog: CompiledCatalog) -> None:
        self._catalog = catalog
        self._seen: set[Key] = set()
        self._left = MAX_BYTES

    @property
    def has_room(self) -> bool:
        return self._left > 0

    @property
    def _has_room_below(self) -> bool:
        return self._left > MAX_BYTES // 2

    def take(self, *texts: str | None) -> None:
        """Count a line: its markup, and its texts as they are cut. Escaped, a character has at most five bytes."""
        self._left -= MARKUP + sum(5 * min(len(text or ""), MAX_TEXT) for text in texts)

    def list_items(self, keys: Iterable[Key]) -> list[Line]:
        """Return items without their groups."""
        lines = []
        for key in keys:
            if not self.has_room:
                break
            lines.append(self._sold(key, ()))
            self.take(lines[-1].name, lines[-1].note)
        return lines

    def item(self, key: Key) -> Line:
        """Return an item of a section with its groups."""
        self.take(self._catalog.items[key].name)
        return self._sold(key, self._below(self._catalog.items[key], 0))

    def _sold(self, key: Key, below: Sequence[Line]) -> Line:
        item = self._catalog.items[key]
        line = _line(self._catalog, item, below)
        return line if item.price is None else replace(line, item_id=UUID(int=key))

    def _below(self, item: CompiledItem, depth: int) -> list[Line]:
        """Return the groups of an item."""
        lines: list[Line] = []
        for key in item.groups if depth < MAX_DEPTH else ():
            if not self._has_room_below:
                break
            lines.append(self._group(key, depth))
        if lines and len(lines) < len(item.groups):
            lines.append(Line(f"and {count_of(len(item.groups) - len(lines), 'more group')}"))
        return lines

    def _group(self, key: Key, depth: int) -> Line:
        group = self._catalog.groups[key]
        name, words = group.name or "no name", rule(group)
        self.take(name, words)
        if key in self._seen:
            return Line(name, note=f"{words}, as above")
        self._seen.add(key)
        shown = self._choices(group, depth)
        more = len(group.choices) - len(shown)
        return Line(name, note=words + (f", and {more:,} more choices" if more else ""), below=shown)

    def _choices(self, group: CompiledGroup, depth: int) -> list[Line]:
        lines: list[Line] = []
        for key, price in group.choices.items():
            if not self._has_room_below:
                break
            item = self._catalog.items[key]
            self.take(item.name)
            line = _line(self._catalog, item, self._below(item, depth + 1))
            text = f"{'+' if price >= 0 else ''}{minor_to_decimal(price, self._catalog.scale)}"
            lines.append(Line(line.name, text, line.note, line.below))
        return lines


def _line(catalog: CompiledCatalog, item: CompiledItem, below: Sequence[Line] = ()) -> Line:
    groups = f"{count_of(len(item.groups), 'group')} of choices" if item.groups and not below else None
    notes = [note for note in (None if item.available else "unavailable", groups) if note]
    price = None if item.price is None else minor_to_decimal(item.price, catalog.scale)
    return Line(item.name or "no name", price, ", ".join(notes) or None, below)


class MenuQuery(Wire):
    """`place` is the number of a catalog or section in the menu; without it, the page lists them."""

    place: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


@screens.get("stores/{store}/menu")
async def show_menu(visit: Visit) -> Page:
    query = visit.filters(MenuQuery)
    store = await _store(visit, visit.ids["store"])
    catalog = await visit.app.compiled.get(store.catalog_set_id)
    places = await visit.app.places.get(store.catalog_set_id)
    orders = Surface.MARKETFRONT in visit.surfaces
    values: dict[str, Any] = {
        "store": store,
        "currency": catalog.currency,
        "offset": query.offset,
        "playground": f"/console/playground?store={store.id}" if orders else None,
    }
    if query.place is None:
        shown = list_places(catalog, places, query.offset)
        values |= {
            "places": shown,
            "count": len(catalog.items),
            "next_url": _next_url(visit, query.offset + len(shown), len(places)),
        }
        return Page("menu.html", f"Menu of {store.name}", values)
    if query.place >= len(places):
        raise NotFound("The menu has no such section. It may have changed: open the menu again.")
    place = places[query.place]
    items = draw_items(catalog, place.items[query.offset : query.offset + PAGE])
    values |= {
        "place": place,
        "items": items,
        "next_url": _next_url(visit, query.offset + len(items), len(place.items)),
    }
    return Page("menu_section.html", " > ".join(place.path)[:200], values)


async def _store(visit: Visit, store_id: UUID) -> StoreRow:
    """Return the store: for a storefront and an operator any, for a merchant its own. Raises StoreNotFound."""
    visit.check_store(store_id, StoreNotFound(store_id))
    if not visit.is_operator and Surface.MARKETFRONT not in visit.surfaces:
        return await visit.app.cache.get_own(visit.caller(Surface.COMMERCE), store_id)
    store = await visit.app.cache.find(store_id)
    if store is None:
        raise StoreNotFound(store_id)
    return store


def _next_url(visit: Visit, offset: int, count: int) -> str | None:
    return visit.url_with(offset=str(offset)) if offset < count else None
