"""Discover stores: by place, by words, by what they offer, and by whether they are open."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec

from mercato import errors
from mercato.clock import Clock
from mercato.db.engine import Database
from mercato.db.types import to_ms
from mercato.discovery import queries
from mercato.discovery.hours import Openings
from mercato.discovery.model import RADIUS, DiscoverRequest, Found, Location
from mercato.discovery.places import Circle, circle_of, metres_of
from mercato.discovery.queries import Hit, Search
from mercato.discovery.text import question_of
from mercato.errors import OrderError
from mercato.stores.model import StoreStatusValue
from mercato.stores.storefront import FulfillmentMode
from mercato.wire import as_json

LIMIT: Final = 50

_COLUMNS: Final = {
    None: None,
    FulfillmentMode.PICKUP: "pickup",
    FulfillmentMode.DELIVERY_BY_MERCHANT: "delivery",
}


@dataclass(frozen=True, slots=True)
class Discovery:
    """Searches of live stores."""

    db: Database
    clock: Clock

    async def discover(self, request: DiscoverRequest) -> Found:
        """Return a page of stores, and exactly how many there are. Raises InvalidRequest, ValidationFailed."""
        now = self.clock()
        circle, mode = _circle(request), _COLUMNS[_mode(request)]
        search = Search(
            circle=circle,
            question=question_of(request.query, request.categories or (), mode=mode, circle=circle),
            mode=mode,
            now_ms=to_ms(now),
        )
        offset, limit = request.offset or 0, request.limit or LIMIT
        openings = Openings(now)
        hits: list[Hit] = []
        async with self.db.read() as tx:
            if request.open_now:
                hours = await queries.list_hours(tx, search)
                opened = [row for row in hours if openings.is_open(row.timezone, row.spans)]
                total = sum(row.stores for row in opened)
                if offset < total:
                    keys = sorted(row.key for row in opened)
                    _, hits = await queries.list_hits(tx, search, offset=offset, limit=limit, keys=keys)
            else:
                counted, hits = await queries.list_hits(tx, search, offset=offset, limit=limit)
                total = counted or 0
        return Found(
            stores=[_shown(hit, search.now_ms, openings) for hit in hits],
            total_count=total,
            has_more=offset + len(hits) < total,
        )


def _shown(hit: Hit, now_ms: int, openings: Openings) -> msgspec.Raw:
    """Return a DiscoveredStore: its card with what depends on the hour, on what is sold out and on who asks."""
    paused = hit.paused_until > now_ms
    opened = not paused and openings.is_open(hit.timezone, hit.spans)
    items = sorted(str(UUID(item)) for item in hit.sold_out.split(",")) if hit.sold_out else []
    status = StoreStatusValue.PAUSED if paused else StoreStatusValue.ONLINE
    more = f',"status":"{status.value}","isOpen":{"true" if opened else "false"},"unavailableItemIds":'
    tail = "}" if hit.away is None else f',"distance":{round(metres_of(hit.away), 1)}}}'
    return msgspec.Raw(hit.card[:-1] + more.encode() + as_json(items) + tail.encode())


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
    message = "location needs latitude and longitude (or lat and lng)."
    code = errors.InvalidRequest.code
    raise errors.InvalidRequest(message, errors=[OrderError(code=code, message=message, pointer="/location")])


def _mode(request: DiscoverRequest) -> FulfillmentMode | None:
    if request.fulfillment_type is None:
        return None
    try:
        return FulfillmentMode(request.fulfillment_type.upper())
    except ValueError:
        names = " or ".join(FulfillmentMode)
        raise errors.ValidationFailed.at("/fulfillmentType", f"fulfillmentType must be {names}.") from None
