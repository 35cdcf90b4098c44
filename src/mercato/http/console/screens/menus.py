"""Menus: what a store sells, as a tree with prices, from which a storefront tries an item in the playground.

A menu can have a hundred thousand items: a page draws a bounded number of lines, and leads to the others.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from mercato.domain.catalog.menu import Menu, Node, hours, rule
from mercato.domain.catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.domain.catalog.money import minor_to_decimal
from mercato.domain.partners.model import Surface
from mercato.domain.stores.catalogs import IDENTITY
from mercato.domain.stores.model import StoreRow
from mercato.http.console.screen import PARTNERS, Page, Screens, Visit
from mercato.kernel.errors import NotFound, StoreNotFound
from mercato.kernel.plurals import count_of
from mercato.kernel.wire import Wire
from mercato.kernel.wire.cursor import PAGE

screens: Final = Screens(PARTNERS)

MAX_LINES: Final = 400
"""Lines of a page's tree."""

MAX_DEPTH: Final = 3
"""Levels of groups drawn below an item: choices may have groups of their own."""

MIN_PREVIEW: Final = 3
"""Items shown of each section in the list of sections, at least."""

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


class Place(Struct, frozen=True):
    """A catalog, a section below its path, or the items that are in no section."""

    path: tuple[str, ...]
    note: str | None
    items: Sequence[Key]


def places_of(menu: Menu, catalog: CompiledCatalog) -> list[Place]:
    """Return every catalog and section in the document's order; a shared section once, where it first occurs."""
    found: list[Place] = []
    listed: set[Key] = set()
    seen: set[str] = set()
    sections = menu.sections or {}
    times = {one.catalog_id: one for one in catalog.catalogs}
    # Depth first, with a stack of its own: sections may be nested deeply.
    rest: list[tuple[tuple[str, ...], str | None, Node]] = [
        (((times[key].name if key in times else "") or "Menu",), _open_hours(catalog, key), node)
        for key, node in reversed(menu.catalogs.items())
    ]
    while rest:
        path, note, node = rest.pop()
        items = [item.int for item in node.item_ids or ()]
        listed.update(items)
        found.append(Place(path, note, items))
        for key in reversed(node.section_ids or ()):
            if key not in seen:
                seen.add(key)
                rest.append(((*path, catalog.sections[key].name or "no name"), None, sections[key]))
    for group in catalog.groups.values():
        listed.update(group.choices)
    others = [key for key in catalog.items if key not in listed]
    return [*found, Place(("In no section",), None, others)] if others else found


def _open_hours(catalog: CompiledCatalog, key: str) -> str:
    return next((hours(one.windows) for one in catalog.catalogs if one.catalog_id == key), "always")


def preview(catalog: CompiledCatalog, places: Sequence[Place]) -> list[tuple[Place, list[Line]]]:
    """Return places with their first items, as many as a page has room for."""
    room = max(MIN_PREVIEW, (MAX_LINES - len(places)) // max(len(places), 1))
    return [(place, [_sold(catalog, key) for key in place.items[:room]]) for place in places]


def draw_items(catalog: CompiledCatalog, keys: Iterable[Key]) -> list[Line]:
    """Return items with their groups and choices, up to the lines of a page; then items alone."""
    return _Drawing(catalog).items(keys)


def _sold(catalog: CompiledCatalog, key: Key, below: Sequence[Line] = ()) -> Line:
    """Return the line of an item of a section."""
    item = catalog.items[key]
    line = _line(catalog, item, below)
    return line if item.price is None else replace(line, item_id=UUID(int=key))


def _line(catalog: CompiledCatalog, item: CompiledItem, below: Sequence[Line] = ()) -> Line:
    groups = f"{count_of(len(item.groups), 'group')} of choices" if item.groups and not below else None
    notes = [note for note in (None if item.available else "unavailable", groups) if note]
    price = None if item.price is None else minor_to_decimal(item.price, catalog.scale)
    return Line(item.name or "no name", price, ", ".join(notes) or None, below)


class _Drawing:
    def __init__(self, catalog: CompiledCatalog) -> None:
        self._catalog = catalog
        self._seen: set[Key] = set()
        self._lines = 0

    def items(self, keys: Iterable[Key]) -> list[Line]:
        return [_sold(self._catalog, key, self._below(self._catalog.items[key], 0)) for key in keys]

    def _below(self, item: CompiledItem, depth: int) -> list[Line]:
        """Return the groups of an item, which takes a line itself."""
        self._lines += 1
        drawn = depth < MAX_DEPTH and self._lines < MAX_LINES
        return [self._group(key, depth) for key in item.groups] if drawn else []

    def _group(self, key: Key, depth: int) -> Line:
        self._lines += 1
        group = self._catalog.groups[key]
        name, words = group.name or "no name", rule(group)
        if key in self._seen:
            return Line(name, note=f"{words}, as above")
        self._seen.add(key)
        room = max(0, MAX_LINES - self._lines)
        shown = self._choices(group, depth, room)
        more = len(group.choices) - len(shown)
        return Line(name, note=words + (f", and {more:,} more choices" if more else ""), below=shown)

    def _choices(self, group: CompiledGroup, depth: int, room: int) -> list[Line]:
        lines: list[Line] = []
        for key, price in group.choices.items():
            if len(lines) >= room or self._lines >= MAX_LINES:
                break
            item = self._catalog.items[key]
            line = _line(self._catalog, item, self._below(item, depth + 1))
            text = f"{'+' if price >= 0 else ''}{minor_to_decimal(price, self._catalog.scale)}"
            lines.append(Line(line.name, text, line.note, line.below))
        return lines


class MenuQuery(Wire):
    """`place` is the number of a catalog or section in the menu; without it, the page lists them."""

    place: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


@screens.get("stores/{store}/menu")
async def show_menu(visit: Visit) -> Page:
    query = visit.filters(MenuQuery)
    store = await _store(visit, visit.ids["store"])
    catalog = await visit.app.compiled.get(store.catalog_set_id)
    body = await visit.app.bodies.get(store.catalog_set_id, IDENTITY)
    # A menu of several megabytes takes longer than a request may hold up others.
    places = await asyncio.to_thread(_places, body.content, catalog)
    orders = Surface.MARKETFRONT in visit.surfaces
    values = {
        "store": store,
        "currency": catalog.currency,
        "offset": query.offset,
        "playground": f"/console/playground?store={store.id}" if orders else None,
    }
    if query.place is None:
        return Page(
            "menu.html", f"Menu of {store.name}", values | _list_places(visit, places, catalog, query)
        )
    if query.place >= len(places):
        raise NotFound("The menu has no such section. It may have changed: open the menu again.")
    place = places[query.place]
    values |= {
        "place": place,
        "items": draw_items(catalog, place.items[query.offset : query.offset + PAGE]),
        "next_url": _next_url(visit, query.offset + PAGE, len(place.items)),
    }
    return Page("menu_section.html", " > ".join(place.path)[:200], values)


async def _store(visit: Visit, store_id: UUID) -> StoreRow:
    """Return the store: for a storefront any, for a merchant its own. Raises StoreNotFound."""
    visit.check_store(store_id, StoreNotFound(store_id))
    if Surface.MARKETFRONT not in visit.surfaces:
        return await visit.app.cache.get_own(visit.caller(Surface.COMMERCE), store_id)
    store = await visit.app.cache.find(store_id)
    if store is None:
        raise StoreNotFound(store_id)
    return store


def _places(body: bytes, catalog: CompiledCatalog) -> list[Place]:
    return places_of(msgspec.json.decode(body, type=Menu), catalog)


def _list_places(
    visit: Visit, places: Sequence[Place], catalog: CompiledCatalog, query: MenuQuery
) -> dict[str, Any]:
    shown = places[query.offset : query.offset + MAX_PLACES]
    return {
        "places": preview(catalog, shown),
        "count": len(catalog.items),
        "next_url": _next_url(visit, query.offset + MAX_PLACES, len(places)),
    }


def _next_url(visit: Visit, offset: int, count: int) -> str | None:
    return visit.url_with(offset=str(offset)) if offset < count else None
