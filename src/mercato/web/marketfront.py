"""The Marketfront surface: what storefronts call."""

import re
from datetime import MAXYEAR, MINYEAR
from functools import lru_cache
from typing import Annotated, Any, Final

from msgspec import Meta

from mercato import errors
from mercato.catalog.compress import CODINGS
from mercato.catalog.model import CompiledCatalog
from mercato.discovery.catalogs import CatalogSet
from mercato.stores.catalogs import IDENTITY, Body
from mercato.stores.model import StoreRow
from mercato.stores.storefront import MarketfrontStore, StoreAvailability, availability_of, storefront_of
from mercato.web.operations import Access, Answer, Call, Operations
from mercato.wire import Wire, parse_instant

marketfront = Operations(access=Access.MARKETFRONT, tag="Marketfront")

_FOREVER: Final = b"private, max-age=31536000, immutable"
_NO_STORE: Final = ((b"cache-control", b"no-store"),)
_WEIGHT: Final = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)


@marketfront.get(
    "/v1/marketfront/catalog-sets/{catalogSetId}",
    summary="Get CatalogSet",
    returns=CatalogSet,
    also=(304,),
    reply_headers=("ETag",),
    request_headers=("If-None-Match",),
    missing={"catalogSetId": errors.CatalogSetNotFound},
    problems=(errors.CatalogSetNotFound,),
)
async def get_catalog_set(call: Call[None, None]) -> Answer:
    """Return a CatalogSet. It never changes under its id, so keep it; a superseded one is readable for 30 days."""
    asked, set_id, bodies = call.head.headers, call.ids["catalogSetId"], call.app.bodies
    coding = best_coding(asked.get(b"accept-encoding", b""))
    body = bodies.cached(set_id, coding) or await bodies.get(set_id, coding)
    tag, headers, unchanged = _headers(body.tag, coding)
    known = asked.get(b"if-none-match")
    # Most clients send back the one tag that they got.
    if known is not None and (known == tag or _known(known.decode("latin-1"), body)):
        return unchanged
    return Answer(raw=body.content, headers=headers)


@lru_cache(maxsize=4096)
def _headers(text: str, coding: str) -> tuple[bytes, tuple[tuple[bytes, bytes], ...], Answer]:
    """Return the tag of a body, its headers, and its 304."""
    tag = text.encode()
    of_unchanged = (b"etag", tag), (b"vary", b"Accept-Encoding"), (b"cache-control", _FOREVER)
    headers = of_unchanged if coding == IDENTITY else (*of_unchanged, (b"content-encoding", coding.encode()))
    return tag, headers, Answer(status=304, headers=of_unchanged)


class AtQuery(Wire):
    """The instant that is asked about; now, without one."""

    at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] | None = None


@marketfront.get(
    "/v1/marketfront/stores/{storeId}",
    summary="Get Store",
    id="getMarketfrontStore",
    returns=MarketfrontStore,
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


@lru_cache(maxsize=256)
def best_coding(accept_encoding: bytes) -> str:
    """Return the coding that the client likes best, ours in their order where it does not care.

    The bytes as they are come last, unless the client says that it likes them better.
    """
    weights: dict[str, float] = {}
    for part in accept_encoding.decode("latin-1").lower().split(","):
        name, _, parameter = part.strip().partition(";")
        weight = _WEIGHT.fullmatch(parameter) if parameter else None
        weights[name.strip()] = float(weight[1]) if weight else (0.0 if parameter else 1.0)
    anything = weights.get("*", 0.0)
    best = max(CODINGS, key=lambda coding: weights.get(coding, anything))
    liked = weights.get(best, anything)
    return best if liked > 0 and liked >= weights.get(IDENTITY, 0.0) else IDENTITY


def _known(if_none_match: str, body: Body) -> bool:
    """Tell whether the client has these bytes, in whatever coding."""
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in tags or not tags.isdisjoint(body.tags)
