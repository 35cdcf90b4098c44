"""Stores: whether they can be ordered from and why, pausing them, and what is sold out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from mercato.console import hours_form
from mercato.console.filters import Filters, partner_of, read_filters, scope_of
from mercato.console.screen import EVERYBODY, MERCHANTS, OPERATORS, Done, Page, Screens, Visit
from mercato.console.store_forms import charge_lines, handling_words
from mercato.console.store_states import StoreState, calls_shown, find_states
from mercato.console.times import say
from mercato.features.lookup import find_stores
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores import operators
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.features.stores.operators import StoreFilter, StoreSummary
from mercato.features.stores.registrations import Registration, list_registrations
from mercato.features.stores.views import availability_of, spans_of, windows_in
from mercato.features.webhooks.queries import DeliveryFilter, list_rows, list_warnings
from mercato.platform.db.engine import Read
from mercato_catalog.model import CompiledCatalog
from mercato_contract.decoding.decode import page_of, read_cursor
from mercato_contract.discovery import DiscoveredStore, DiscoverRequest
from mercato_contract.events import STORE_CALLS
from mercato_contract.money import minor_to_decimal
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import (
    Address,
    ItemAvailabilityEntry,
    ItemAvailabilityRequest,
    OrderHandling,
    StoreStatusUpdate,
    StoreStatusValue,
)
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import Instant, Wire, parse_instant

screens: Final = Screens(EVERYBODY)

MAX_EXAMINED: Final = 200
"""Stores that a page examines of those that are open, or in trouble: both depend on the present time."""

MAX_CALLS: Final = 200
"""The newest webhooks about orders that a store's page examines for its last answers."""

MAX_ITEMS: Final = 50
"""Items of a store that a page shows; a search narrows them."""

_YEARS: Final = range(2, 9999)
"""The first and the last year of the calendar lack a local time in some zones."""


class StoresQuery(Wire):
    """The filters of the list, besides the partner for operators.

    `side` is a partner's that is merchant and storefront, `query` a storefront's words.
    """

    side: Surface | None = None
    status: StoreStatusValue | None = None
    name: Annotated[str, Meta(max_length=200)] | None = None
    open_now: bool = False
    in_trouble: bool = False
    query: Annotated[str, Meta(max_length=200)] | None = None
    offset: Annotated[int, Meta(ge=0, le=10_000)] = 0
    cursor: Cursor | None = None


class StoreQuery(Wire):
    """What one store's page shows: an instant, and which items."""

    at: Instant | None = None
    item: Annotated[str, Meta(max_length=200)] | None = None


class PauseForm(Wire):
    pause_reason: str | None = None
    resume_at: Instant | None = None


class ItemForm(Wire):
    """One switch. `item` is the search that it was found by."""

    item_id: UUID
    available: bool
    item: Annotated[str, Meta(max_length=200)] | None = None


class ReplyWarning(Struct, frozen=True):
    """What was odd about a store's last answer to calls of a type."""

    type: str
    delivery_id: UUID
    message: str


class Item(Struct, frozen=True):
    """An item in the list. `price` is a decimal, None if the item has no base price; `picture` the address of one."""

    id: UUID
    name: str
    price: str | None
    sold_out: bool
    picture: str | None


@screens.get("stores")
async def list_stores(visit: Visit) -> Page:
    filters = read_filters(visit, StoresQuery)
    query = filters.query
    if not visit.is_operator and visit.caller_of(query.side).surface is Surface.MARKETFRONT:
        return await _discover(visit, filters)
    now = visit.app.clock()
    async with visit.app.db.read() as tx:
        wanted = StoreFilter(
            partner_id=await partner_of(tx, visit, filters),
            store_id=visit.store_id,
            status=query.status,
            before=read_cursor(query.cursor),
        )
        rows, cursor = ([], None) if filters.faults else await _examine(tx, visit, filters, wanted, now)
        states = await find_states(tx, rows, now, shows_calls_of=calls_shown(visit))
        started = [] if filters.texts or visit.store_id else await _registrations(tx, visit)
    chosen = [row for row in rows if _is_chosen(query, states[row.id])]
    filters.listed(chosen, cursor)
    values = {
        "stores": chosen,
        "states": states,
        "next_cursor": cursor,
        "search": filters,
        "statuses": list(StoreStatusValue),
        "most": MAX_EXAMINED if query.open_now or query.in_trouble else None,
        "registrations": started,
    }
    return Page("stores.html", "Stores", values)


async def _registrations(tx: Read, visit: Visit) -> Sequence[Registration]:
    """Return the stores that the merchant is registering, for those who may go on with them."""
    if visit.is_operator or not visit.may(Permission.MANAGE_STORES):
        return []
    return await list_registrations(tx, visit.caller(Surface.COMMERCE).partner_id)


async def _examine(
    tx: Read, visit: Visit, filters: Filters[StoresQuery], wanted: StoreFilter, now: datetime
) -> tuple[Sequence[StoreSummary], str | None]:
    """Return the stores of a page before what depends on the present time, and the cursor of the next one."""
    query = filters.query
    if query.name is not None:
        scope = scope_of(visit, Surface.COMMERCE)
        if wanted.partner_id is not None:
            # Also where an operator has chosen it: of many stores of one name only so many are found.
            scope = replace(scope, partner_id=wanted.partner_id, surfaces=(Surface.COMMERCE,))
        found = await find_stores(tx, query.name, scope, limit=PAGE)
        rows = await operators.list_stores_of(tx, found, now=now)
        if not rows:
            filters.faults["name"] = "No store has this name."
        return [row for row in rows if wanted.status in {None, row.status}], None
    limit = MAX_EXAMINED if query.open_now or query.in_trouble else PAGE
    rows = await operators.list_stores(tx, wanted, limit=limit + 1, now=now)
    return page_of(rows, limit, lambda row: row.id)


def _is_chosen(query: StoresQuery, state: StoreState) -> bool:
    return (not query.open_now or state.kind == "good") and (not query.in_trouble or state.is_trouble)


async def _discover(visit: Visit, filters: Filters[StoresQuery]) -> Page:
    """Show a storefront the stores of the network, as discovery finds them."""
    query = filters.query
    found: Sequence[DiscoveredStore] = ()
    count, is_lower_bound, next_url = 0, False, None
    if visit.store_id is None and not filters.faults:
        request = DiscoverRequest(query=query.query, offset=query.offset, limit=PAGE)
        answer = await visit.app.discovery.discover(request)
        found = [msgspec.json.decode(store, type=DiscoveredStore) for store in answer.stores]
        count, is_lower_bound = answer.total_count, bool(answer.total_count_is_lower_bound)
        if answer.has_more:
            next_url = visit.url_with(offset=str(query.offset + PAGE))
    values = {
        "found": found,
        "count": count,
        "is_lower_bound": is_lower_bound,
        "next_url": next_url,
        "search": filters,
        "only": visit.store_id,
    }
    return Page("stores_found.html", "Stores", values)


@screens.get("stores/{store}")
async def show_store(visit: Visit) -> Page:
    row, now = await _store(visit), visit.app.clock()
    query = visit.filters(StoreQuery, timezone=row.timezone)
    async with visit.app.db.read() as tx:
        found = await operators.list_stores_of(tx, [row.id], now=now)
        # Of a store that isn't theirs storefronts learn whether it is open, not how its calls go.
        states = await find_states(tx, found, now, shows_calls_of=calls_shown(visit))
    if row.id not in states:
        raise StoreNotFound(row.id)
    catalog = await visit.app.compiled.get(row.catalog_set_id)
    at = None if query.at is None else _instant(query.at)
    owns = _owns(visit, row)
    knows = owns or visit.is_operator
    pictures = await _pictures(visit, row)
    values = {
        "store": row,
        "state": states[row.id],
        "address": _one_line(row.address),
        "query": query,
        "now": availability_of(row, catalog, now),
        "then": None if at is None else availability_of(row, catalog, at),
        "hours": hours_form.day_lines(windows_in(spans_of(catalog))),
        "items": _items(row, catalog, query.item, now, pictures),
        "most": MAX_ITEMS,
        "currency": catalog.currency,
        "may_pause": knows,
        "may_sell_out": owns,
        "has_board": owns
        and visit.may(Permission.CHANGE_ORDERS)
        and row.handling is not OrderHandling.WEBHOOK,
        "handling": handling_words(row) if knows else None,
        "charges": list(charge_lines(row)) if knows else [],
        "failure": found[0].failing if knows else None,
        "warnings": await _warnings(visit, row) if knows else (),
        "paused": row.paused_at(now),
    }
    return Page("store.html", row.name, values, timezone=row.timezone, has_pictures=bool(pictures))


@screens.post("stores/{store}/pause", needs=Permission.CHANGE_STORES, audiences=MERCHANTS | OPERATORS)
async def pause_store(visit: Visit) -> Done:
    row = await _store(visit)
    form = visit.fields(PauseForm, timezone=row.timezone)
    status = StoreStatusUpdate(
        status=StoreStatusValue.PAUSED, pause_reason=form.pause_reason, resume_at=form.resume_at
    )
    await _set_status(visit, row, status)
    at = None if form.resume_at is None else parse_instant(form.resume_at)
    until = "" if at is None else f" until {say(at, row.timezone)}"
    return _done(visit, f"The store is paused{until}: it takes no orders.")


@screens.post("stores/{store}/resume", needs=Permission.CHANGE_STORES, audiences=MERCHANTS | OPERATORS)
async def resume_store(visit: Visit) -> Done:
    await _set_status(visit, await _store(visit), StoreStatusUpdate(status=StoreStatusValue.ONLINE))
    return _done(visit, "The store is resumed: it takes orders while it is open.")


@screens.post("stores/{store}/items", needs=Permission.CHANGE_STORES, audiences=MERCHANTS)
async def set_item_availability(visit: Visit) -> Done:
    form, row = visit.fields(ItemForm), await _store(visit)
    entry = ItemAvailabilityEntry(item_id=str(form.item_id), available=form.available)
    caller = visit.caller(Surface.COMMERCE)
    await visit.app.stores.set_items(caller, row.id, ItemAvailabilityRequest(items=[entry]))
    catalog = await visit.app.compiled.get(row.catalog_set_id)
    item = catalog.items.get(form.item_id.int)
    name = "The item" if item is None else item.name
    return _done(visit, f"{name} is {'available' if form.available else 'sold out'}.", item=form.item)


# --- the store -----------------------------------------------------------------------------------------


def _one_line(address: Address) -> str | None:
    parts = (
        address.street,
        address.address2,
        address.postal_code,
        address.city,
        address.state,
        address.country,
    )
    return ", ".join(part for part in parts if part) or None


async def _store(visit: Visit) -> StoreRow:
    """Return the store: the partner's own, for a storefront any, for operators every. Raises StoreNotFound."""
    store_id = visit.ids["store"]
    row = await visit.app.cache.find_in_force(store_id)
    may_see = row is not None and (
        visit.is_operator or Surface.MARKETFRONT in visit.surfaces or _owns(visit, row)
    )
    if row is None or not may_see:
        raise StoreNotFound(store_id)
    visit.check_store(store_id, StoreNotFound(store_id))
    return row


def _owns(visit: Visit, row: StoreRow) -> bool:
    partner = visit.session.partner
    return partner is not None and Surface.COMMERCE in visit.surfaces and row.partner_id == partner.id


async def _set_status(visit: Visit, row: StoreRow, status: StoreStatusUpdate) -> None:
    app = visit.app
    if not visit.is_operator:
        await app.stores.set_status(visit.caller(Surface.COMMERCE), row.id, status)
        return
    async with app.db.write() as tx:
        await operators.change_status(tx, row.id, status, now=app.clock())


async def _warnings(visit: Visit, row: StoreRow) -> list[ReplyWarning]:
    """Return what was odd about the store's last answer to each call, if it was."""
    wanted = DeliveryFilter(
        partner_id=row.partner_id, surface=Surface.COMMERCE, types="order", store_id=row.id
    )
    newest: dict[str, UUID] = {}
    async with visit.app.db.read() as tx:
        for match in await list_rows(tx, wanted, limit=MAX_CALLS):
            if match.type in STORE_CALLS and match.status == DeliveryStatus.SUCCEEDED:
                newest.setdefault(match.type, match.id)
        found = await list_warnings(tx, list(newest.values()))
    return [ReplyWarning(type_, id_, found[id_]) for type_, id_ in newest.items() if id_ in found]


async def _pictures(visit: Visit, row: StoreRow) -> Mapping[int, str]:
    """Return the addresses of the items' pictures, if the visitor's browser may load them from there.

    An operator's doesn't: who runs a network reads the stores of strangers, whose servers would see that.
    """
    if visit.is_operator or not visit.app.settings.console_pictures:
        return {}
    return (await visit.app.menu_indexes.get(row.catalog_set_id)).pictures


def _items(
    row: StoreRow, catalog: CompiledCatalog, words: str | None, now: datetime, pictures: Mapping[int, str]
) -> list[Item]:
    """Return the first items whose names contain the words, those that are sold out before the others."""
    sold_out = {item_id.int for item_id in row.unavailable_at(now)}
    wanted = (words or "").casefold()
    found = [key for key, item in catalog.items.items() if wanted in item.name.casefold()]
    found.sort(key=lambda key: key not in sold_out)
    return [
        _item(key, catalog, sold_out=key in sold_out, picture=pictures.get(key)) for key in found[:MAX_ITEMS]
    ]


def _item(key: int, catalog: CompiledCatalog, *, sold_out: bool, picture: str | None) -> Item:
    item = catalog.items[key]
    price = None if item.price is None else minor_to_decimal(item.price, catalog.scale)
    return Item(UUID(int=key), item.name, price, sold_out, picture)


def _instant(text: str) -> datetime:
    at = parse_instant(text)
    if at is None or at.year not in _YEARS:
        raise ValidationFailed.at(
            None, f"The time {text!r} can't be checked. Choose one like 2026-01-31 18:30."
        )
    return at


def _done(visit: Visit, message: str, *, item: str | None = None) -> Done:
    query = "" if not item else "?" + urlencode({"item": item})
    return Done(message, to=f"/console/stores/{visit.ids['store']}{query}")
