"""The Marketfront surface: what storefronts call."""

from datetime import MAXYEAR, MINYEAR
from typing import Annotated, Any, Final

from msgspec import Meta

from mercato import errors
from mercato.catalog.model import CompiledCatalog
from mercato.discovery.catalogs import CatalogSet
from mercato.stores.model import StoreRow
from mercato.stores.storefront import MarketfrontStore, StoreAvailability, availability_of, storefront_of
from mercato.web.catalog_sets import answer, coding_for
from mercato.web.operations import Access, Answer, Call, Operations
from mercato.wire import Wire, parse_instant

marketfront = Operations(access=Access.MARKETFRONT, tag="Marketfront")

_NO_STORE: Final = ((b"cache-control", b"no-store"),)


@marketfront.get(
    "/v1/marketfront/catalog-sets/{catalogSetId}",
    summary="Get CatalogSet",
    returns=CatalogSet,
    also=(304,),
    reply_headers=("ETag", "Vary", "Cache-Control", "Content-Encoding"),
    request_headers=("If-None-Match",),
    missing={"catalogSetId": errors.CatalogSetNotFound},
    problems=(errors.CatalogSetNotFound,),
)
async def get_catalog_set(call: Call[None, None]) -> Answer:
    """Return a CatalogSet. It never changes under its id, so keep it; a superseded one is readable for 30 days."""
    set_id, bodies, coding = call.ids["catalogSetId"], call.app.bodies, coding_for(call.headers)
    return answer(bodies.cached(set_id, coding) or await bodies.get(set_id, coding), call.headers)


class AtQuery(Wire):
    """The instant that is asked about; now, without one."""

    at: (
        Annotated[
            str,
            Meta(
                description="The instant that is asked about; without it, now.",
                extra_json_schema={"format": "date-time"},
            ),
        ]
        | None
    ) = None


@marketfront.get(
    "/v1/marketfront/stores/{storeId}",
    summary="Get Store",
    id="getMarketfrontStore",
    returns=MarketfrontStore,
    reply_headers=("Cache-Control",),
    missing={"storeId": errors.StoreNotFound},
    problems=(errors.StoreNotFound,),
)
async def get_store(call: Call[None, None]) -> Answer:
    """Return a store as it is now; sold-out items and opening change from one moment to the next."""
    row, catalog = await _store(call)
    return Answer(storefront_of(row, catalog, call.app.clock()), headers=_NO_STORE)


@marketfront.get(
    "/v1/marketfront/stores/{storeId}/availability",
    summary="Get Store Availability",
    query=AtQuery,
    returns=StoreAvailability,
    reply_headers=("Cache-Control",),
    missing={"storeId": errors.StoreNotFound},
    problems=(errors.StoreNotFound,),
)
async def get_store_availability(call: Call[None, AtQuery]) -> Answer:
    """Return whether the store is open at an instant, and why."""
    row, catalog = await _store(call)
    at = call.app.clock()
    if call.query.at is not None:
        asked = parse_instant(call.query.at)
        # The calendar's first and last day have no local time in every zone.
        if asked is None or not MINYEAR < asked.year < MAXYEAR:
            raise errors.ValidationFailed.at(
                None, "at must be an RFC 3339 instant, like 2026-01-31T18:30:00Z."
            )
        at = asked
    return Answer(availability_of(row, catalog, at), headers=_NO_STORE)


async def _store(call: Call[None, Any]) -> tuple[StoreRow, CompiledCatalog]:
    row = await call.app.cache.find(call.ids["storeId"])
    if row is None:
        raise errors.StoreNotFound(call.ids["storeId"])
    return row, await call.app.compiled.get(row.catalog_set_id)
