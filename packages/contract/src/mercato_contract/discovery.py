"""Store discovery: the request and the response."""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from mercato_contract.stores import FulfillmentMode, Latitude, Longitude, MarketfrontStore
from mercato_contract.wire import MAX_ENTRIES, Objection, Wire, validator

RADIUS: Final = 25_000
"""Metres around a place, unless a request says otherwise."""


MAX_RADIUS: Final = 1_000_000
"""Metres: a meal isn't fetched from further than a thousand kilometres."""


INCOMPLETE_LOCATION: Final = "location needs latitude and longitude (or lat and lng)."


MAX_LIMIT: Final = 100


MAX_OFFSET: Final = 2**31 - 1


EXACT_COUNT: Final = 1_000
"""The greatest number of matches that is counted exactly."""


Metres = Annotated[
    float, Meta(ge=0, le=MAX_RADIUS, description=f"Metres around the location; {RADIUS:,} by default.")
]


class Location(Wire):
    """A place on earth in degrees, by either pair of names."""

    latitude: Latitude | None = None
    longitude: Longitude | None = None
    lat: Latitude | None = None
    lng: Longitude | None = None


def _location_fault(sent: Mapping[str, object]) -> Objection | None:
    whole = all(
        any(sent.get(name) is not None for name in pair)
        for pair in (("latitude", "lat"), ("longitude", "lng"))
    )
    return None if whole else Objection(INCOMPLETE_LOCATION, form=True)


def mode_fault(text: str) -> str | None:
    """Return why this isn't a fulfilment type, or None."""
    known = tuple(FulfillmentMode)
    return None if text.upper() in known else f"fulfillmentType must be {' or '.join(known)}."


class DiscoverRequest(Wire):
    """A search. Every member is optional and narrows the result; null is the same as absent."""

    location: Annotated[Location, Meta(extra=validator(_location_fault))] | None = None
    radius: Metres | None = None
    fulfillment_type: (
        Annotated[
            str,
            Meta(description="PICKUP or DELIVERY_BY_MERCHANT, in any case.", extra=validator(mode_fault)),
        ]
        | None
    ) = None
    query: (
        Annotated[
            str,
            Meta(
                max_length=200,
                description="Words that must all occur in a store's name, description or categories or in names of its "
                "sections and items; the last may be the beginning of one.",
            ),
        ]
        | None
    ) = None
    categories: (
        Annotated[
            list[Annotated[str, Meta(max_length=255)]],
            Meta(max_length=MAX_ENTRIES, description="Stores of any of these, in any case."),
        ]
        | None
    ) = None
    open_now: Annotated[bool, Meta(description="Only stores that are open now.")] | None = None
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET)] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="50 by default.")] | None = None


class DiscoveredStore(MarketfrontStore, kw_only=True):
    """A store as storefronts see it; `distance` in metres when the search has a location."""

    distance: float | UnsetType = UNSET


class DiscoverResponse(Wire):
    """A page of results: nearest first with a location, else best text match, else by name."""

    stores: list[DiscoveredStore]
    total_count: Annotated[
        int, Meta(description=f"The number of matches; exact to {EXACT_COUNT:,}, which it never exceeds.")
    ]
    has_more: bool
    total_count_is_lower_bound: (
        Annotated[
            bool, Meta(description="True if there are more matches than totalCount; else it is absent.")
        ]
        | UnsetType
    ) = UNSET
