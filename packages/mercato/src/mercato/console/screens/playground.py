"""Playground: fill a cart, validate it and place the order, with each request and its answer.

A page remembers nothing: the cart, the token and the Idempotency-Key are hidden fields of its form.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from mercato.api.carts import carts
from mercato.api.orders import marketfront_orders
from mercato.api.stores import discovery
from mercato.console.api_calls import ApiExchange, perform
from mercato.console.order_form import (
    FIRST_FORM,
    MAX_CART,
    MAX_FORM,
    ChoiceForm,
    Group,
    OrderForm,
    cart_json,
    cart_of,
    number_of,
    order_of,
    payment_of,
    read_form,
)
from mercato.console.screen import STOREFRONTS, Page, Screens, Visit
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.http.calls import operation_of
from mercato_catalog.carts.names import is_listed
from mercato_catalog.model import CompiledCatalog, CompiledItem
from mercato_contract.carts import PricedCart, PricedLineItem
from mercato_contract.clock import new_id
from mercato_contract.discovery import DiscoveredStore, DiscoverRequest, DiscoverResponse
from mercato_contract.money import minor_to_decimal
from mercato_contract.refusals import InvalidRequest
from mercato_contract.stores import FulfillmentMode
from mercato_contract.wire import Wire, redacted
from mercato_outbound.guard import is_loopback

screens: Final = Screens(STOREFRONTS)

MAX_STORES: Final = 100
"""Stores that the field offers; another one comes with the link on its page."""

MAX_ITEMS: Final = 300
"""Items that the field offers; another one comes with its link on the menu."""

_ADD: Final = operation_of(carts, "addCartItem")
_UPDATE: Final = operation_of(carts, "updateCartItem")
_REMOVE: Final = operation_of(carts, "removeCartItem")
_VALIDATE: Final = operation_of(marketfront_orders, "validateOrder")
_PLACE: Final = operation_of(marketfront_orders, "placeOrder")
_UNITS: Final = "units-"


class PlaygroundQuery(Wire):
    store: UUID | None = None
    item: UUID | None = None


class ItemOption(Struct, frozen=True):
    id: UUID
    label: str


class CartLine(Struct, frozen=True):
    """A line of the cart as the page shows it. Amounts are decimals, None without a price."""

    id: UUID
    name: str
    modifiers: Sequence[tuple[int, str]]
    quantity: int
    unit_price: str | None
    total: str | None


@redacted("validated_order_token")
class _Answer(Wire):
    """What of an answer the page needs."""

    validated_order_token: str | None = None
    order_id: UUID | None = None


@screens.get("playground")
async def show_playground(visit: Visit) -> Page:
    query = visit.filters(PlaygroundQuery)
    return await _page(visit, replace(FIRST_FORM, store=query.store, item=query.item), {})


@screens.post("playground", needs=Permission.SEE, max_form=MAX_FORM)
async def choose_item(visit: Visit) -> Page:
    form, fields = read_form(visit)
    return await _page(visit, form, fields)


@screens.post("playground/add", needs=Permission.SEE, max_form=MAX_FORM)
async def add_to_cart(visit: Visit) -> Page:
    form, fields = read_form(visit)
    store, catalog = await _store(visit, form.store)
    item_id = form.item or new_id()
    line = {
        "itemId": item_id,
        "quantity": number_of(form.quantity),
        "modifierGroups": ChoiceForm(catalog, frozenset(), fields).modifiers(item_id),
    }
    cart = cart_of(form)
    if cart is None or cart.store_id != store.id or not cart.line_items:
        body: Mapping[str, Any] = {"storeId": store.id, "catalogSetId": store.catalog_set_id, "item": line}
    else:
        body = {"cart": cart_json(form, store), "item": line}
    return await _changed(visit, form, fields, await perform(visit, _ADD, body))


@screens.post("playground/update", needs=Permission.SEE, max_form=MAX_FORM)
async def update_line(visit: Visit) -> Page:
    form, fields = read_form(visit)
    store, _ = await _store(visit, form.store)
    # A field that was emptied isn't sent. It is no 0, which would remove the line: the API says what is wrong.
    quantity = number_of(fields.get(f"{_UNITS}{form.line}", ""))
    body = {"cart": cart_json(form, store), "lineItemId": form.line, "quantity": quantity}
    return await _changed(visit, form, fields, await perform(visit, _UPDATE, body))


@screens.post("playground/remove", needs=Permission.SEE, max_form=MAX_FORM)
async def remove_line(visit: Visit) -> Page:
    form, fields = read_form(visit)
    store, _ = await _store(visit, form.store)
    body = {"cart": cart_json(form, store), "lineItemId": form.line}
    return await _changed(visit, form, fields, await perform(visit, _REMOVE, body))


@screens.post("playground/validate", needs=Permission.PLACE_ORDERS, max_form=MAX_FORM)
async def validate_cart(visit: Visit) -> Page:
    """Validate the order: its store is called, so a read-only session can't."""
    form, fields = read_form(visit)
    store, _ = await _store(visit, form.store)
    exchange = await perform(visit, _VALIDATE, order_of(visit, form, store))
    token = msgspec.json.decode(exchange.answer, type=_Answer).validated_order_token
    return await _page(visit, replace(form, token=token, key=None), fields, exchange)


@screens.post("playground/place", needs=Permission.PLACE_ORDERS, max_form=MAX_FORM)
async def place_order(visit: Visit) -> Page:
    """Place the order. For a store that isn't a sandbox, the page asks first."""
    form, fields = read_form(visit)
    cart = cart_of(form)
    store, _ = await _store(visit, form.store if cart is None else cart.store_id)
    if not form.confirmed and not is_sandbox(visit, store):
        values = {"fields": sorted(fields.items()), "store": store}
        return Page("playground_confirm.html", "Place a real order?", values)
    token = {} if form.token is None else {"validatedOrderToken": form.token}
    payment = {} if form.payment is None else {"payment": payment_of(form.payment)}
    key = form.key or new_id()
    body = order_of(visit, form, store) | token | payment
    exchange = await perform(visit, _PLACE, body, key=str(key))
    if exchange.status == HTTPStatus.CREATED:
        # The next order begins with an empty cart. One that its store hasn't answered can be repeated.
        return await _page(visit, replace(form, cart=None, token=None, key=None), fields, exchange)
    return await _page(visit, replace(form, key=key), fields, exchange)


def is_sandbox(visit: Visit, store: StoreRow) -> bool:
    """Return whether placing creates no real order: the store is the account's own, or a simulation.

    A simulation is a store on the service's machine, or without a webhook, of a service for development.
    """
    partner = visit.session.partner
    if partner is not None and store.partner_id == partner.id:
        return True
    if not visit.app.settings.allow_private_networks:
        return False
    return store.orders_url is None or is_loopback(urlsplit(store.orders_url).hostname)


# --- the page -----------------------------------------------------------------------------------------


async def _changed(visit: Visit, form: OrderForm, fields: Mapping[str, str], exchange: ApiExchange) -> Page:
    """Return the page after a change of the cart: an earlier validation and its key are dropped."""
    too_large = len(exchange.answer) > MAX_CART
    cart = exchange.answer.decode() if exchange.succeeded and not too_large else form.cart
    page = await _page(visit, replace(form, cart=cart, token=None, key=None), fields, exchange)
    return replace(page, values={**page.values, "too_large": too_large})


async def _page(
    visit: Visit, form: OrderForm, fields: Mapping[str, str], exchange: ApiExchange | None = None
) -> Page:
    stores = await _stores(visit)
    store_id = form.store or next(iter(stores), None)
    if store_id is None:
        return Page("playground.html", "Playground", {"store": None})
    store, catalog = await _store(visit, store_id)
    sold_out = {item_id.int for item_id in store.unavailable_at(visit.app.clock())}
    items = [key for key, item in catalog.items.items() if is_listed(item, catalog)]
    chosen = form.item.int if form.item is not None and form.item.int in catalog.items else None
    chosen = next(iter(items), None) if chosen is None else chosen
    shown = items[:MAX_ITEMS]
    if chosen is not None and chosen not in shown:
        shown = [chosen, *items[: MAX_ITEMS - 1]]
    choices = ChoiceForm(catalog, frozenset(sold_out), fields)
    groups: Sequence[Group] = () if chosen is None else choices.groups(UUID(int=chosen))
    cart = cart_of(form)
    values = {
        "form": form,
        "key": form.key or new_id(),
        "stores": stores | {store.id: store.name},
        "store": store,
        "items": [_option(catalog, key, sold_out=key in sold_out) for key in shown],
        "more_items": len(items) > MAX_ITEMS,
        "item": None if chosen is None else UUID(int=chosen),
        "groups": groups,
        "cart": cart,
        "lines": [] if cart is None else await _lines(visit, cart),
        "exchange": exchange,
        "too_large": False,
        "order_id": None if exchange is None else _placed(exchange),
        "is_placed": exchange is not None and exchange.status == HTTPStatus.CREATED,
        "asks": not is_sandbox(visit, store),
        "modes": list(FulfillmentMode),
    }
    return Page("playground.html", "Playground", values)


def _placed(exchange: ApiExchange) -> UUID | None:
    """Return the order of an answer to a placement, also of one that its store hasn't answered yet."""
    answer = msgspec.json.decode(exchange.answer, type=_Answer)
    is_order = exchange.status in {HTTPStatus.CREATED, HTTPStatus.SERVICE_UNAVAILABLE}
    return answer.order_id if is_order else None


async def _stores(visit: Visit) -> dict[UUID, str]:
    """Return the names of the first stores that the session can order from, as discovery lists them."""
    if visit.store_id is not None:
        return {visit.store_id: (await _store(visit, visit.store_id))[0].name}
    answer = await visit.app.discovery.discover(DiscoverRequest(limit=MAX_STORES))
    found = [msgspec.json.decode(store, type=DiscoveredStore) for store in answer.stores]
    return {store.store_id: store.name for store in found}


async def _store(visit: Visit, store_id: UUID | None) -> tuple[StoreRow, CompiledCatalog]:
    """Return a store with its current set. Raises StoreNotFound, CatalogSetNotFound, InvalidRequest."""
    if store_id is None:
        raise InvalidRequest("The form names no store. Choose one.")
    missing = StoreNotFound(store_id)
    visit.check_store(store_id, missing)
    store = await visit.app.cache.find(store_id)
    if store is None:
        raise missing
    return store, await visit.app.compiled.get(store.catalog_set_id)


def _option(catalog: CompiledCatalog, key: int, *, sold_out: bool) -> ItemOption:
    item = catalog.items[key]
    price = (
        "" if item.price is None else f", {minor_to_decimal(item.price, catalog.scale)} {catalog.currency}"
    )
    state = ", sold out" if sold_out or not item.available else ""
    return ItemOption(UUID(int=key), f"{item.name[:80]}{price}{state}")


async def _lines(visit: Visit, cart: PricedCart) -> list[CartLine]:
    """Return the lines of a cart, with names where its store still has their items."""
    store = await visit.app.cache.find(cart.store_id)
    items: Mapping[int, CompiledItem] = {}
    if store is not None:
        items = (await visit.app.compiled.get(store.catalog_set_id)).items
    return [_line(line, items) for line in cart.line_items]


def _line(line: PricedLineItem, items: Mapping[int, CompiledItem]) -> CartLine:
    amounts = line.amounts or None
    return CartLine(
        id=line.line_item_id,
        name=_name(line, items),
        modifiers=[
            (item.quantity, _name(item, items)) for group in line.modifier_groups for item in group.line_items
        ],
        quantity=line.quantity,
        unit_price=None if amounts is None else amounts.unit_price,
        total=None if amounts is None else amounts.total,
    )


def _name(line: PricedLineItem, items: Mapping[int, CompiledItem]) -> str:
    found = items.get(line.item_id.int)
    return str(line.item_id) if found is None else found.name


# --- discovery ------------------------------------------------------------------------------------

discovery_screens: Final = Screens(STOREFRONTS, whole_account=True)

_DISCOVER: Final = operation_of(discovery, "discoverStores")

Text = Annotated[str, Meta(max_length=2000)]


class SearchQuery(Wire):
    """The fields, as somebody wrote them: the API says what is wrong with them. `searched` tells the first visit."""

    query: Text | None = None
    latitude: Text | None = None
    longitude: Text | None = None
    radius: Text | None = None
    fulfillment_type: Text | None = None
    categories: Text | None = None
    open_now: bool = False
    offset: Text | None = None
    limit: Text | None = None
    searched: bool = False


@discovery_screens.get("playground/discovery")
async def show_discovery(visit: Visit) -> Page:
    query = visit.filters(SearchQuery)
    values: dict[str, Any] = {"query": query, "modes": list(FulfillmentMode), "exchange": None, "found": None}
    if query.searched:
        exchange = await perform(visit, _DISCOVER, _request(query))
        values["exchange"] = exchange
        if exchange.succeeded:
            found = msgspec.json.decode(exchange.answer, type=DiscoverResponse)
            values |= {"found": found, "next_url": _next_url(visit, query, found)}
    return Page("discovery.html", "Discovery", values)


def _request(query: SearchQuery) -> Mapping[str, Any]:
    """Return the request without the fields that were left empty."""
    location = {"latitude": _number(query.latitude), "longitude": _number(query.longitude)}
    location = {name: value for name, value in location.items() if value is not None}
    categories = [name.strip() for name in (query.categories or "").split(",") if name.strip()]
    members = {
        "query": query.query,
        "location": location or None,
        "radius": _number(query.radius),
        "fulfillmentType": query.fulfillment_type,
        "categories": categories or None,
        "openNow": query.open_now or None,
        "offset": _number(query.offset),
        "limit": _number(query.limit),
    }
    return {name: value for name, value in members.items() if value is not None}


def _number(text: str | None) -> Any:
    """Return the JSON number that the text is, or the text if it isn't a number."""
    if text is None:
        return None
    try:
        value = msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return msgspec.Raw(text.strip().encode()) if is_number else text


def _next_url(visit: Visit, query: SearchQuery, found: DiscoverResponse) -> str | None:
    if not found.has_more or not found.stores:
        return None
    return visit.url_with(offset=str(int(query.offset or 0) + len(found.stores)))
