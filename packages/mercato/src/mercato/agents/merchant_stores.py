"""Stores for agents of merchants: read them, pause them, and say what is sold out."""

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato.agents.texts import described, plain
from mercato.agents.tools import (
    LARGE,
    READS,
    SMALL,
    Hints,
    ToolCall,
    Tools,
    cut_to_fit,
    query_of,
    take_within,
)
from mercato.api.stores import commerce_stores
from mercato.features.partners.model import Surface
from mercato.features.stores.rules import served_id
from mercato.http.calls import operation_of
from mercato_catalog.model import CompiledCatalog
from mercato_contract.pages import cursor_of
from mercato_contract.stores import (
    Address,
    ItemAvailabilityResponse,
    StoreStatusResponse,
    StoreStatusValue,
)
from mercato_contract.texts import count_of
from mercato_contract.wire import Instant, Wire

tools: Final = Tools(Surface.COMMERCE)

LIMIT: Final = 20
MAX_LIMIT: Final = 100
"""Stores of a list: those that it has if the call names no limit, and the most that it may name."""

MAX_ITEMS: Final = 200
"""Items of one call of set_item_availability."""

_LIST: Final = operation_of(commerce_stores, "listStores")
_GET: Final = operation_of(commerce_stores, "getStore")
_SET_STATUS: Final = operation_of(commerce_stores, "setStoreStatus")
_SET_ITEMS: Final = operation_of(commerce_stores, "setItemAvailability")

CHANGES: Final = Hints(read_only=False, destructive=False, idempotent=True, open_world=False)
"""Changes what can be changed back."""

StoreId = Annotated[UUID, Meta(description="Of list_stores")]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description=f"{LIMIT} by default")]
Cursor = Annotated[str, Meta(max_length=64, description="nextCursor of the answer before")]


class _Warning(Wire, kw_only=True):
    code: str
    message: str


class _Store(Wire, kw_only=True):
    store_id: UUID
    partner_store_id: str
    catalog_set_id: UUID
    name: str
    address: Address
    timezone: str
    description: str | UnsetType = UNSET
    status: StoreStatusValue
    pause_reason: str | None
    resume_at: Instant | None
    webhook_url: str | UnsetType = UNSET
    minimum_order_amount: str | UnsetType = UNSET
    delivery_allowed: bool
    pickup_allowed: bool
    categories: list[str]
    unavailable_item_ids: tuple[UUID, ...]
    warnings: tuple[_Warning, ...] = ()


class _StorePage(Wire):
    stores: list[_Store]
    next_cursor: str | None


class StoreSummary(Wire, kw_only=True):
    """A store in brief, with the numbers of its sold-out items and of its warnings."""

    store_id: UUID
    partner_store_id: str
    name: str
    status: StoreStatusValue
    pause_reason: str | UnsetType = UNSET
    resume_at: str | UnsetType = UNSET
    sold_out_items: int
    warnings: int


def _summary(store: _Store) -> StoreSummary:
    return StoreSummary(
        store_id=store.store_id,
        partner_store_id=plain(store.partner_store_id),
        name=plain(store.name),
        status=store.status,
        pause_reason=described(store.pause_reason or "") or UNSET,
        resume_at=store.resume_at or UNSET,
        sold_out_items=len(store.unavailable_item_ids),
        warnings=len(store.warnings),
    )


def line_of_store(store: StoreSummary) -> str:
    """Return a store in one line of text."""
    reason = "" if store.pause_reason is UNSET else f" ({store.pause_reason})"
    until = "" if store.resume_at is UNSET else f" until {store.resume_at}"
    parts = [
        f"- {store.name} [{store.store_id}], your id {store.partner_store_id}: {store.status.value}{until}{reason}",
        f"{count_of(store.sold_out_items, 'item')} sold out" if store.sold_out_items else "",
        count_of(store.warnings, "warning") if store.warnings else "",
    ]
    return "; ".join(part for part in parts if part)


class ListStores(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of list_stores."""

    status: StoreStatusValue | None = None
    partner_store_id: Annotated[str, Meta(max_length=255, description="Your own id of a store")] | None = None
    limit: Limit | None = None
    cursor: Cursor | None = None


class ListedStores(Wire, kw_only=True):
    """The result of list_stores."""

    stores: list[StoreSummary]
    next_cursor: str | None


def render_stores(found: ListedStores) -> str:
    """Return a list of stores as text."""
    lines = list(map(line_of_store, found.stores)) or ["No stores."]
    if found.next_cursor is not None:
        lines.append(f"More: cursor {found.next_cursor}")
    return "\n".join(lines)


@tools.declare(title="List stores", calls=[_LIST], hints=READS, render=render_stores)
async def list_stores(call: ToolCall[ListStores]) -> ListedStores:
    """List your live stores, newest first, with what is paused and how much is sold out."""
    asked = call.body
    limit = asked.limit or LIMIT
    query = query_of(
        status=asked.status and asked.status.value,
        partner_store_id=asked.partner_store_id,
        limit=limit,
        cursor=asked.cursor,
    )
    page = await call.perform(_LIST, returns=_StorePage, query=query)
    most = LARGE if limit > LIMIT else SMALL
    stores, are_left = take_within(map(_summary, page.stores), line_of_store, most=most)
    # The list's own cursors name its entries, too.
    following = cursor_of(stores[-1].store_id) if are_left else page.next_cursor
    return ListedStores(stores=stores, next_cursor=following)


# --- one store ------------------------------------------------------------------------------------


class GetStore(Wire, forbid_unknown_fields=True):
    """The arguments of get_store."""

    store_id: StoreId


class SoldOutItem(Wire):
    """A sold-out item."""

    id: UUID
    name: str


class StoreDetails(StoreSummary, kw_only=True):
    """A store, with its sold-out items and the messages of its warnings. `moreSoldOut` have no room."""

    address: str | UnsetType = UNSET
    timezone: str
    description: str | UnsetType = UNSET
    webhook_url: str | UnsetType = UNSET
    minimum: str | UnsetType = UNSET
    delivery: bool
    pickup: bool
    categories: list[str]
    sold_out: list[SoldOutItem]
    more_sold_out: int | UnsetType = UNSET
    notes: list[str]


MAX_CATEGORIES: Final = 20
MAX_NOTES: Final = 5
"""Categories, and messages of warnings, that are listed."""

MAX_CATEGORY: Final = 60
"""Characters that are kept of a category."""

_SOLD_OUT_SIZE: Final = 5_000
"""Bytes that the sold-out items of a store have in an answer."""


def _line_of_item(item: SoldOutItem) -> str:
    return f"  {item.name} [{item.id}]"


def render_store(store: StoreDetails) -> str:
    """Return a store as text."""
    modes = [name for name, is_on in (("pickup", store.pickup), ("delivery", store.delivery)) if is_on]
    lines = [
        line_of_store(store),
        f"Address: {store.address}" if store.address else "",
        f"{store.timezone}; {' and '.join(modes) or 'neither pickup nor delivery'}"
        + ("" if store.minimum is UNSET else f"; minimum {store.minimum}"),
        f"Webhooks: {store.webhook_url}" if store.webhook_url else "",
        f"Categories: {', '.join(store.categories)}" if store.categories else "",
        store.description or "",
        "Sold out:" if store.sold_out else "",
        *map(_line_of_item, store.sold_out),
        f"  and {store.more_sold_out} more" if store.more_sold_out else "",
        *(f"Warning: {note}" for note in store.notes),
    ]
    return "\n".join(line for line in lines if line)


@tools.declare(title="Read a store", calls=[_GET], hints=READS, render=render_store)
async def get_store(call: ToolCall[GetStore]) -> StoreDetails:
    """Read one of your stores: status, sold-out items, address, what it offers, and warnings."""
    store = await call.perform(_GET, returns=_Store, ids={"storeId": call.body.store_id})
    catalog = await call.app.compiled.get(store.catalog_set_id)
    summary = _summary(store)
    parts = (store.address.street, store.address.postal_code, store.address.city, store.address.country)
    address = plain(", ".join(part for part in parts if part)) or UNSET
    items = [SoldOutItem(id=item_id, name=_name(catalog, item_id)) for item_id in store.unavailable_item_ids]

    def make(part: int) -> StoreDetails:
        sold_out, _ = take_within(items, _line_of_item, most=_SOLD_OUT_SIZE // part)
        return StoreDetails(
            **{name: getattr(summary, name) for name in summary.__struct_fields__},
            address=address,
            timezone=store.timezone,
            description=store.description and described(store.description, part),
            webhook_url=store.webhook_url and described(store.webhook_url, part),
            minimum=store.minimum_order_amount,
            delivery=store.delivery_allowed,
            pickup=store.pickup_allowed,
            categories=[plain(name, MAX_CATEGORY // part) for name in store.categories[:MAX_CATEGORIES]],
            sold_out=sold_out,
            more_sold_out=len(items) - len(sold_out) or UNSET,
            notes=[described(warning.message, part) for warning in store.warnings[:MAX_NOTES]],
        )

    return cut_to_fit(make, render_store)


def _name(catalog: CompiledCatalog, item_id: UUID) -> str:
    item = catalog.items.get(item_id.int)
    return "" if item is None else plain(item.name)


# --- changes --------------------------------------------------------------------------------------


class SetStoreStatus(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of set_store_status."""

    store_id: StoreId
    status: StoreStatusValue
    pause_reason: Annotated[str, Meta(max_length=500, description="Why it is paused")] | None = None
    resume_at: (
        Annotated[
            str,
            Meta(max_length=64, description="RFC 3339 instant at which a pause ends; else until it is ended"),
        ]
        | None
    ) = None


class StatusSet(Wire, kw_only=True):
    """The result of set_store_status."""

    store_id: UUID
    status: StoreStatusValue
    pause_reason: str | None
    resume_at: str | None


def render_status(found: StatusSet) -> str:
    """Return a store's status as text."""
    until = "" if found.resume_at is None else f" until {found.resume_at}"
    reason = "" if found.pause_reason is None else f" ({found.pause_reason})"
    return f"The store {found.store_id} is {found.status.value}{until}{reason}."


@tools.declare(title="Pause or resume a store", calls=[_SET_STATUS], hints=CHANGES, render=render_status)
async def set_store_status(call: ToolCall[SetStoreStatus]) -> StatusSet:
    """Pause a store, so that it takes no orders, or bring it online."""
    asked = call.body
    body = {"status": asked.status.value, "pauseReason": asked.pause_reason, "resumeAt": asked.resume_at}
    found = await call.perform(
        _SET_STATUS, body, returns=StoreStatusResponse, ids={"storeId": asked.store_id}
    )
    return StatusSet(
        store_id=asked.store_id,
        status=found.status,
        pause_reason=described(found.pause_reason or "") or None,
        resume_at=found.resume_at,
    )


class ItemChange(Wire, kw_only=True):
    """An item, by either id, and whether it is available."""

    item_id: Annotated[str, Meta(max_length=255)] | None = None
    partner_item_id: Annotated[str, Meta(max_length=255, description="Your own id")] | None = None
    available: bool
    until: (
        Annotated[str, Meta(max_length=64, description="RFC 3339 instant at which it is available again")]
        | None
    ) = None


class SetItemAvailability(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of set_item_availability."""

    store_id: StoreId
    items: Annotated[list[ItemChange], Meta(min_length=1, max_length=MAX_ITEMS)]


class ItemsSet(Wire, kw_only=True):
    """The result of set_item_availability: how many were changed, and how many items are sold out now."""

    store_id: UUID
    changed: int
    sold_out_items: int


def render_items(found: ItemsSet) -> str:
    """Return what was changed as text."""
    return (
        f"Changed: {count_of(found.changed, 'item')} of the store {found.store_id}. "
        f"Sold out now: {count_of(found.sold_out_items, 'item')}."
    )


@tools.declare(title="Set items sold out", calls=[_SET_ITEMS], hints=CHANGES, render=render_items)
async def set_item_availability(call: ToolCall[SetItemAvailability]) -> ItemsSet:
    """Mark items of a store as sold out or available, at once and without a new catalog."""
    asked = call.body
    found = await call.perform(
        _SET_ITEMS, {"items": asked.items}, returns=ItemAvailabilityResponse, ids={"storeId": asked.store_id}
    )
    store = await call.app.cache.get_own(call.caller, asked.store_id)
    # One that is sent twice is one, whichever of its ids is sent: its last entry counts.
    changed = {served_id(item.item_id or item.partner_item_id or "", store).int for item in asked.items}
    return ItemsSet(
        store_id=asked.store_id,
        changed=len(changed),
        sold_out_items=len(found.unavailable_item_ids),
    )
