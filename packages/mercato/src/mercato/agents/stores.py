"""Stores for agents of storefronts: find them."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from mercato.agents.texts import described, plain
from mercato.agents.tools import LARGE, READS, SMALL, ToolCall, Tools, take_within
from mercato.api.stores import discovery
from mercato.features.partners.model import Surface
from mercato.http.calls import operation_of
from mercato_contract.discovery import MAX_OFFSET, DiscoverRequest, Location, Metres
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import FulfillmentMode, Latitude, Longitude, PostalAddress
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire

tools: Final = Tools(Surface.MARKETFRONT)

LIMIT: Final = 10
MAX_LIMIT: Final = 20
"""Stores of an answer: those that it has if the call names no limit, and the most that it may name."""

MAX_CATEGORIES: Final = 5
"""Categories of a store that are listed."""

_DISCOVER: Final = operation_of(discovery, "discoverStores")


class Near(Wire, forbid_unknown_fields=True):
    """A place in degrees."""

    latitude: Latitude
    longitude: Longitude


class FindStores(Wire, forbid_unknown_fields=True):
    """The arguments of find_stores."""

    query: (
        Annotated[
            str,
            Meta(max_length=200, description="Words of a store, a cuisine or a dish: pizza margherita"),
        ]
        | None
    ) = None
    near: Annotated[Near | None, Meta(description="Where the customer is: nearest stores first")] = None
    radius: Annotated[Metres, Meta(description="Metres around near; 25000 by default")] | None = None
    fulfillment: Annotated[FulfillmentMode | None, Meta(description="Pickup, or delivery by the store")] = (
        None
    )
    open_now: Annotated[bool, Meta(description="Only stores that take orders now")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description=f"{LIMIT} by default")] | None = None
    offset: (
        Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="nextOffset of the answer before")] | None
    ) = None


class FoundStore(Wire, kw_only=True):
    """A store. `distance` in metres; `minimum` is the least amount of an order, in the store's currency."""

    store_id: str
    name: str
    description: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    categories: list[str]
    fulfillment: list[FulfillmentMode]
    is_open: bool
    opens_at: str | None
    closes_at: str | None
    timezone: str
    distance: float | UnsetType = UNSET
    minimum: str | UnsetType = UNSET


class FoundStores(Wire, kw_only=True):
    """The result of find_stores."""

    stores: list[FoundStore]
    total_count: int
    total_count_is_lower_bound: bool | UnsetType = UNSET
    next_offset: int | None


class _Store(Wire, kw_only=True):
    store_id: str
    name: str
    description: str | UnsetType = UNSET
    timezone: str
    address: PostalAddress
    categories: list[str]
    fulfillment_types: list[FulfillmentMode]
    minimum_order_amount: str | UnsetType = UNSET
    is_open: bool
    opens_at: str | None
    closes_at: str | None
    distance: float | UnsetType = UNSET


class _Discovered(Wire, kw_only=True):
    stores: list[_Store]
    total_count: int
    total_count_is_lower_bound: bool | UnsetType = UNSET
    has_more: bool


def line_of(store: FoundStore) -> str:
    """Return a store in one line of text."""
    if store.is_open:
        hours = "open" if store.closes_at is None else f"open until {store.closes_at}"
    else:
        hours = "closed" if store.opens_at is None else f"closed until {store.opens_at}"
    line = f"- {store.name} [{store.store_id}]; {hours}"
    if store.distance is not UNSET:
        line += f"; {store.distance:.0f} m away"
    line += f"; {' or '.join(store.fulfillment)}"
    if store.minimum is not UNSET:
        line += f"; minimum {store.minimum}"
    if store.categories:
        line += f"; {', '.join(store.categories)}"
    if store.address is not UNSET:
        line += f"; {store.address}"
    return line if store.description is UNSET else f"{line}; {store.description}"


def render_stores(found: FoundStores) -> str:
    """Return the stores as text."""
    least = "more than " if found.total_count_is_lower_bound else ""
    counted = f"{least}{count_of(found.total_count, 'store')} found"
    # An offset was beyond the end if there are any.
    is_beyond = found.total_count > 0 and not found.stores
    lines = [
        f"{counted}, none of them at this offset: begin again without one." if is_beyond else f"{counted}."
    ]
    lines += map(line_of, found.stores)
    if found.next_offset is not None:
        lines.append(f"More: offset {found.next_offset}.")
    return "\n".join(lines)


@tools.declare(title="Find stores", calls=[_DISCOVER], hints=READS, render=render_stores)
async def find_stores(call: ToolCall[FindStores]) -> FoundStores:
    """Find stores to order from, by words, place, fulfillment and opening. Each has its storeId, and whether and until
    when it is open (UTC).
    """
    asked = call.body
    if asked.radius is not None and asked.near is None:
        raise ValidationFailed.at("/radius", "radius needs near: send where the customer is, too.")
    limit, offset = asked.limit or LIMIT, asked.offset or 0
    found = await call.perform(
        _DISCOVER,
        DiscoverRequest(
            location=None
            if asked.near is None
            else Location(latitude=asked.near.latitude, longitude=asked.near.longitude),
            radius=asked.radius,
            fulfillment_type=asked.fulfillment,
            query=asked.query,
            open_now=asked.open_now,
            offset=offset,
            limit=limit,
        ),
        returns=_Discovered,
    )
    stores, are_left = take_within(map(_found, found.stores), line_of, most=LARGE if limit > LIMIT else SMALL)
    return FoundStores(
        stores=stores,
        total_count=found.total_count,
        total_count_is_lower_bound=found.total_count_is_lower_bound,
        next_offset=offset + len(stores) if are_left or found.has_more else None,
    )


def _found(store: _Store) -> FoundStore:
    return FoundStore(
        store_id=store.store_id,
        name=plain(store.name),
        description=described(store.description or "") or UNSET,
        address=_address(store.address) or UNSET,
        categories=list(filter(None, map(plain, store.categories[:MAX_CATEGORIES]))),
        fulfillment=store.fulfillment_types,
        is_open=store.is_open,
        opens_at=store.opens_at,
        closes_at=store.closes_at,
        timezone=store.timezone,
        distance=store.distance,
        minimum=store.minimum_order_amount,
    )


def _address(address: PostalAddress) -> str:
    parts = (address.address1, address.postal_code, address.city, address.state)
    return plain(", ".join(part for part in parts if part))
