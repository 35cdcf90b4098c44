"""Menus: what a store sells, as a tree with prices, from which a storefront tries an item in the playground."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from mercato.domain.catalog.menu import Menu
from mercato.domain.catalog.model import CompiledCatalog
from mercato.domain.partners.model import Surface
from mercato.domain.stores.catalogs import IDENTITY
from mercato.domain.stores.model import StoreRow
from mercato.http.console.menu import Place, draw_items, places_of, preview
from mercato.http.console.screen import PARTNERS, Page, Screens, Visit
from mercato.kernel.errors import NotFound, StoreNotFound
from mercato.kernel.wire import Wire
from mercato.kernel.wire.cursor import PAGE

screens: Final = Screens(PARTNERS)

MAX_PLACES: Final = 100
"""Catalogs and sections on a page of a menu."""


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
