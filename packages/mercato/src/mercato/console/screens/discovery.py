"""Discovery tester: every field of the search for stores, what it finds as a table, and its request and answer."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from mercato.api.stores import discovery
from mercato.console.api_calls import operation_of, perform
from mercato.console.screen import STOREFRONTS, Page, Screens, Visit
from mercato_contract.discovery import DiscoverResponse
from mercato_contract.stores import FulfillmentMode
from mercato_contract.wire import Wire

screens: Final = Screens(STOREFRONTS, whole_account=True)

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


@screens.get("playground/discovery")
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
    """Return the JSON number of the text as it is written, or the text if it is none."""
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
