"""Discover stores by location, words, categories, fulfilment and opening hours."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from mercato.features.discovery import queries
from mercato.features.discovery.geometry import RINGS, Circle, circle_of, metres_of
from mercato.features.discovery.hours import Openings
from mercato.features.discovery.queries import Hit, Search
from mercato.features.discovery.text import EncodedDiscoverResponse, text_query_of
from mercato.platform.db.engine import Database, Read
from mercato_contract.clock import Clock, to_ms
from mercato_contract.decoding.checks import refuse
from mercato_contract.discovery import (
    EXACT_COUNT,
    INCOMPLETE_LOCATION,
    RADIUS,
    DiscoverRequest,
    Location,
    mode_fault,
)
from mercato_contract.problems import OrderError
from mercato_contract.refusals import InvalidRequest
from mercato_contract.stores import FulfillmentMode, StoreStatusValue
from mercato_contract.wire import as_json, instant

LIMIT: Final = 50

LARGE: Final = 64 * 1024
"""Characters of sold-out items beyond which a page is rendered in a thread."""

_COLUMNS: Final = {
    None: None,
    FulfillmentMode.PICKUP: "pickup",
    FulfillmentMode.DELIVERY_BY_MERCHANT: "delivery",
}


def _status(value: StoreStatusValue, *, is_open: bool) -> bytes:
    return b',"status":"%b","isOpen":%b' % (value.encode(), as_json(is_open))


_PAUSED: Final = _status(StoreStatusValue.PAUSED, is_open=False)
_OPEN: Final = _status(StoreStatusValue.ONLINE, is_open=True)
_CLOSED: Final = _status(StoreStatusValue.ONLINE, is_open=False)


class Discovery(Struct, frozen=True):
    """Searches of live stores."""

    db: Database
    clock: Clock

    async def discover(self, request: DiscoverRequest) -> EncodedDiscoverResponse:
        """Return a page of stores, and their total up to EXACT_COUNT. Raises InvalidRequest, ValidationFailed."""
        now = self.clock()
        circle, mode = _circle(request), _COLUMNS[_mode(request)]
        search = Search(
            circle=circle,
            text_query=text_query_of(request.query, request.categories or (), mode=mode, circle=circle),
            mode=mode,
            now_ms=to_ms(now),
        )
        offset, limit = request.offset or 0, request.limit or LIMIT
        openings = Openings(now)
        open_now = bool(request.open_now)

        async def find(tx: Read) -> tuple[int, list[Hit]]:
            found = await _search(tx, search, openings, offset, limit, open_now=open_now)
            forgiving = (
                search.text_query.forgiving if search.text_query is not None and not found[0] else None
            )
            if forgiving is None:
                return found
            # Nothing is written so: a letter of the words may be wrong.
            other = search._replace(text_query=forgiving)
            return await _search(tx, other, openings, offset, limit, open_now=open_now)

        total, hits = await self.db.read_replica(find)
        # Stores with thousands of sold-out items: nobody else waits for their texts.
        is_large = sum(len(hit[-1] or "") for hit in hits) > LARGE
        render = partial(_render_all, hits, search.now_ms, openings)
        return EncodedDiscoverResponse(
            stores=await asyncio.to_thread(render) if is_large else render(),
            total_count=min(total, EXACT_COUNT),
            has_more=offset + len(hits) < total,
            total_count_is_lower_bound=True if total > EXACT_COUNT else UNSET,
        )


async def _search(
    tx: Read, search: Search, openings: Openings, offset: int, limit: int, *, open_now: bool
) -> tuple[int, list[Hit]]:
    """Return the total and the page. The total is exact up to the end of the page and to EXACT_COUNT."""
    search = await queries.name_words(tx, search)
    keys: list[int] | None = None
    # One more says whether there are more.
    most = max(EXACT_COUNT, offset + limit) + 1
    if open_now:
        rings, open_hours = [0] * len(RINGS), set()
        for key, timezone, spans, ring, stores in await queries.list_hours(tx, search):
            if openings.is_open(timezone, spans):
                rings[ring] += stores
                open_hours.add(key)
        keys = sorted(open_hours)
        if search.circle is None and search.text_query is not None and search.text_query.terms:
            counted, hits = await queries.list_hits(
                tx, search, offset=offset, limit=limit, counted=most, keys=keys
            )
            return counted or 0, hits
    elif search.circle is not None and search.text_query is None:
        rings = await queries.count_rings(tx, search)
    else:
        counted, hits = await queries.list_hits(tx, search, offset=offset, limit=limit, counted=most)
        if counted == most and search.circle is not None:
            hits = await _list_nearest(tx, search, offset, limit)
        return counted or 0, hits
    total = sum(rings)
    if offset >= total:
        return total, []
    _, hits = await queries.list_hits(
        tx, _narrow(search, rings, offset + limit), offset=offset, limit=limit, keys=keys
    )
    return total, hits


async def _list_nearest(tx: Read, search: Search, offset: int, limit: int) -> list[Hit]:
    """Return the page of the smallest circle that has enough hits."""
    hits: list[Hit] = []
    for ring in range(len(RINGS)):
        total, hits = await queries.list_hits(tx, search.inner(ring), offset=offset, limit=limit)
        if total is not None and total >= offset + limit:
            break
    return hits


def _narrow(search: Search, rings: Sequence[int], most: int) -> Search:
    """Return the search within the smallest circle that has enough hits."""
    if search.circle is None or search.text_query is not None:
        return search
    known = accumulate(rings)
    enough = next((ring for ring, stores in enumerate(known) if stores >= most), len(RINGS) - 1)
    return search.inner(enough)


def _render_all(hits: Sequence[Hit], now_ms: int, openings: Openings) -> list[msgspec.Raw]:
    return [_render(hit, now_ms, openings) for hit in hits]


def _render(hit: Hit, now_ms: int, openings: Openings) -> msgspec.Raw:
    """Return a DiscoveredStore: its card with its status, sold-out items and distance."""
    _, chord, paused_until, card, timezone, spans, sold_out = hit
    status = _PAUSED if paused_until > now_ms else _OPEN if openings.is_open(timezone, spans) else _CLOSED
    opens_at, closes_at = openings.next_change(timezone, spans, paused_until=paused_until)
    hours = b',"opensAt":%b,"closesAt":%b,"unavailableItemIds":' % (
        as_json(instant(opens_at)),
        as_json(instant(closes_at)),
    )
    items = _items(sold_out) if sold_out else b"[]"
    end = b"}" if chord is None else b',"distance":%.1f}' % metres_of(chord)
    return msgspec.Raw(b"".join((card[:-1], status, hours, items, end)))


def _items(sold_out: str) -> bytes:
    """Return the ids as a list in JSON. A UUID for each would take three times as long."""
    ids = sorted(sold_out.split(","))
    if "-" not in sold_out:
        # As SQLite stores them.
        ids = [f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}" for digits in ids]
    return b'["%b"]' % '","'.join(ids).encode()


def _circle(request: DiscoverRequest) -> Circle | None:
    location = request.location
    if location is None:
        return None
    radius = RADIUS if request.radius is None else request.radius
    return circle_of(*_place(location), radius)


def _place(location: Location) -> tuple[float, float]:
    """Return latitude and longitude. Raises InvalidRequest for half a location."""
    latitude = location.latitude if location.latitude is not None else location.lat
    longitude = location.longitude if location.longitude is not None else location.lng
    if latitude is not None and longitude is not None:
        return latitude, longitude
    reason = OrderError(code=InvalidRequest.code, message=INCOMPLETE_LOCATION, pointer="/location")
    raise InvalidRequest(INCOMPLETE_LOCATION, errors=[reason])


def _mode(request: DiscoverRequest) -> FulfillmentMode | None:
    if request.fulfillment_type is None:
        return None
    refuse([("/fulfillmentType", mode_fault(request.fulfillment_type))])
    return FulfillmentMode(request.fulfillment_type.upper())
