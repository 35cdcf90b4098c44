"""Catalogs: the runs that pulled them, what was wrong, and what a run changed; and a store's menu as a tree."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import zip_longest
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from mercato.console.catalog_changes import changes_of
from mercato.console.filters import before_of, partner_of, read_filters, store_of
from mercato.console.screen import EVERYBODY, MERCHANTS, OPERATORS, Done, Page, Question, Screens, Visit
from mercato.features.catalogs import operators, queries
from mercato.features.catalogs.errors import CatalogIngestNotFound, CatalogSetNotFound
from mercato.features.catalogs.operators import RunFilter
from mercato.features.catalogs.runs import OPEN, Run
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.catalogs import Place
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.features.stores.queries import find_name_and_timezone
from mercato.platform.db.engine import Read
from mercato.platform.errors import NotFound
from mercato.platform.telemetry import tracing
from mercato_catalog.diff import diff
from mercato_catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key, rule
from mercato_contract.decoding.decode import page_of
from mercato_contract.money import minor_to_decimal
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.texts import count_of
from mercato_contract.wire import Instant, Wire, parse_instant
from mercato_outbound.guard import origin_of

screens: Final = Screens(MERCHANTS | OPERATORS)


class Ended(StrEnum):
    """The runs that a list can be limited to."""

    FAILED = "failed"


class RunsQuery(Wire):
    """The filters of the list, besides the store."""

    status: Ended | None = None
    since: Instant | None = None
    until: Instant | None = None
    cursor: Cursor | None = None


@screens.get("catalogs")
async def list_runs(visit: Visit) -> Page:
    filters = read_filters(visit, RunsQuery)
    query = filters.query
    async with visit.app.db.read() as tx:
        wanted = RunFilter(
            partner_id=await partner_of(tx, visit, filters),
            store_id=await store_of(tx, visit, filters, Surface.COMMERCE),
            failed=query.status is Ended.FAILED,
            since=None if query.since is None else parse_instant(query.since),
            before=before_of(query.cursor, query.until),
        )
        rows = [] if filters.faults else await operators.list_runs(tx, wanted, limit=PAGE + 1)
    page, cursor = page_of(rows, PAGE, lambda row: row.id)
    filters.listed(page)
    values = {
        "runs": page,
        "next_cursor": cursor,
        "search": filters,
        "statuses": list(Ended),
        "ms": _ms,
        "origin": origin_of,
    }
    return Page("catalogs.html", "Catalogs", values)


@screens.get("catalogs/{run}")
async def show_run(visit: Visit) -> Page:
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
        current = await queries.find_current_set(tx, run.owner.id)
        pair = await _sets(tx, run)
        # What the document says is the merchant's: operators see where it is wrong, and why.
        shown = [] if visit.is_operator else await queries.find_excerpts(tx, run.id)
        is_kept = run.set_id is not None and await operators.is_kept(tx, run.set_id)
        place = await find_name_and_timezone(tx, run.owner.store_id)
    values = {
        "run": run,
        "store_name": place and place[0],
        "address": origin_of(run.callback_url)
        if visit.is_operator and run.callback_url
        else run.callback_url,
        "errors": list(zip_longest(run.errors, shown, fillvalue="")),
        "has_excerpts": bool(shown),
        "took": None if run.status in OPEN else _ms(run.updated_at - run.created_at),
        "is_current": run.set_id is not None and run.set_id == current,
        "is_kept": is_kept,
        "can_cancel": run.activate_at is not None and run.status in OPEN,
        "live": await visit.app.cache.find_in_force(run.owner.store_id) is not None,
        **await _changes(visit, pair),
    }
    return Page("catalog_run.html", f"Run {run.id}", values)


async def _ask_to_activate(visit: Visit) -> Question:
    """Ask with the differences between the set that the store serves now and the run's."""
    back = f"/console/catalogs/{visit.ids['run']}"
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
        current = await queries.find_current_set(tx, run.owner.id)
        kept = run.set_id is not None and await operators.is_kept(tx, run.set_id)
    if run.set_id is None or current is None or not kept:
        raise CatalogSetNotFound(run.set_id or run.id)
    found = await _changes(visit, (current, run.set_id))
    text = "The store serves it as soon as you confirm. Carts and orders are then priced from it."
    if found["identical"]:
        text += " Nothing changes that pricing or browsing would show."
    lines = tuple(
        f"{change.kind} ({change.count:,}): {'; '.join(change.first)}" for change in found["changes"]
    )
    return Question("Activate this set?", text, back=back, names=lines)


@screens.post(
    "catalogs/{run}/activate", needs=Permission.CHANGE_CATALOGS, audiences=MERCHANTS, ask=_ask_to_activate
)
async def activate_set(visit: Visit) -> Done:
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
    if run.set_id is None:
        raise CatalogSetNotFound(run.id)
    trace = tracing.current(visit.head.child())
    caller = visit.caller(Surface.COMMERCE)
    await visit.app.stores.activate_set(caller, run.owner.store_id, run.set_id, trace=trace)
    return Done("The store serves this set now.", to=f"/console/catalogs/{run.id}")


@screens.post("catalogs/{run}/cancel", needs=Permission.CHANGE_CATALOGS, audiences=MERCHANTS)
async def cancel_activation(visit: Visit) -> Done:
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
    await visit.app.stores.cancel_activation(visit.caller(Surface.COMMERCE), run.owner.store_id, run.id)
    return Done(
        "The activation was cancelled. The store keeps its catalog.", to=f"/console/catalogs/{run.id}"
    )


# --- runs ---------------------------------------------------------------------------------------------


async def _run(tx: Read, visit: Visit) -> Run:
    """Return the partner's run of the path. Raises CatalogIngestNotFound, also for another partner's."""
    missing = CatalogIngestNotFound(visit.ids["run"])
    run = await queries.find_run(tx, visit.ids["run"])
    if run is None:
        raise missing
    if not visit.is_operator and run.owner.partner_id != visit.caller(Surface.COMMERCE).partner_id:
        raise missing
    visit.check_store(run.owner.store_id, missing)
    return run


async def _sets(tx: Read, run: Run) -> tuple[UUID, UUID] | None:
    """Return the set that the run replaced, or will, and the run's own, if both are kept."""
    if run.set_id is None or not await operators.is_kept(tx, run.set_id):
        return None
    before = await operators.find_previous_set(tx, run)
    return None if before is None else (before, run.set_id)


async def _changes(visit: Visit, pair: tuple[UUID, UUID] | None) -> dict[str, Any]:
    if pair is None:
        return {"changes": None, "identical": False}
    before, after = await visit.app.compiled.get(pair[0]), await visit.app.compiled.get(pair[1])
    found = await asyncio.to_thread(diff, before, after)
    return {"changes": list(changes_of(found)), "identical": found.identical}


def _ms(took: timedelta) -> int:
    return took // timedelta(milliseconds=1)


# --- menus ----------------------------------------------------------------------------------------

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
    """A line of the tree: `price` is a decimal, `note` an additional text.

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
    """Adds lines while the page has room; half of it is for groups and their choices."""

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


@screens.get("stores/{store}/menu", audiences=EVERYBODY)
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
