"""A store in the shapes that its readers get.

Each of the other shapes has one reader, and only members for that reader:

- `StoreRow` (`model.py`): the service, with what no reader may see, such as the version.
- `StoreChange` (`model.py`): one update; what is UNSET stays.
- `Store`: the merchant, with the webhookUrl, the pause's reason and the warnings that concern nobody else.
- `StoreCard`: a storefront at any time. The search index stores it, so nothing in it depends on the present time.
- `MarketfrontStore`, `DiscoveredStore`: the card with its status now; and in a search with its distance.
- `Listing` (`discovery/text.py`): the search index, by words, place and hours.
- `StoreSummary`, `StoreDetail` (`operators.py`): operators, who see the stores of every partner, hidden ones included.
- `ClosedStore` (`search.py`): the merchant's overview, with the next opening.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET, Struct, UnsetType, json
from msgspec.structs import asdict

from mercato.features.stores.model import Onboarding, StoreRow, fill, handling_of
from mercato.platform.gazetteer import AddressParts, locate
from mercato_catalog.hours import HoursChange, edges_of, next_change
from mercato_catalog.model import DAY_SECONDS, DAYS, CompiledCatalog, Windows
from mercato_catalog.words import WEEK, merge_windows
from mercato_contract.catalogs import AvailabilityWindow, PartnerWarning
from mercato_contract.clock import zone
from mercato_contract.member_hints import UNKNOWN_MEMBER, member_hint
from mercato_contract.stores import (
    Address,
    AvailabilityReason,
    Coordinates,
    FulfillmentMode,
    MarketfrontStore,
    OrderHandling,
    PostalAddress,
    Store,
    StoreAvailability,
    StoreCard,
    StoreStatusResponse,
    StoreStatusValue,
)
from mercato_contract.wire import instant, rfc3339
from mercato_outbound.guard import AddressPolicy, call_fault


def status_of(row: StoreRow, now: datetime) -> StoreStatusResponse:
    """Return a store's status at an instant."""
    if not row.paused_at(now):
        return StoreStatusResponse(status=StoreStatusValue.ONLINE, pause_reason=None, resume_at=None)
    return StoreStatusResponse(
        status=StoreStatusValue.PAUSED, pause_reason=row.pause_reason, resume_at=instant(row.resume_at)
    )


def store_of(row: StoreRow, now: datetime) -> Store:
    """Return a store as its merchant sees it at an instant."""
    status = status_of(row, now)
    return fill(
        Store,
        row,
        store_id=row.id,
        status=status.status,
        pause_reason=status.pause_reason,
        resume_at=status.resume_at,
        order_handling=row.handling,
        accept_within=row.accept_minutes
        if row.handling is OrderHandling.MANUAL
        else row.accept_within or UNSET,
        charges=() if row.charges is None else row.charges.charges,
        minimum_order_amount=row.minimum_text or UNSET,
        unavailable_item_ids=row.unavailable_at(now),
        warnings=(*warnings_of(row), *unseen_warnings_of(row), *(row.unknown_members or ())),
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


LOCATION_UNKNOWN: Final = "LOCATION_UNKNOWN"
TIMEZONE_ASSUMED: Final = "TIMEZONE_ASSUMED"
WEBHOOK_URL_REFUSED: Final = "WEBHOOK_URL_REFUSED"
ORDERS_UNSEEN: Final = "ORDERS_UNSEEN"
ORDERS_UNSEEN_MESSAGE: Final = "Orders are accepted by the service; nobody is called."


def warnings_of(place: Onboarding | StoreRow) -> tuple[PartnerWarning, ...]:
    """Return the warnings about an address that could not be located.

    They aren't stored but looked up again: that is rare and takes a fraction of a millisecond.
    """
    if place.latitude is not None:
        return ()
    location = locate(address_parts(place.address))
    unknown = _location_unknown(place.address, country_known=location.country_known)
    if place.timezone_given or location.timezone is not None:
        return (unknown,)
    return unknown, _timezone_assumed(place.timezone)


def unknown_members_of(request: type[Struct], pointers: Sequence[str]) -> tuple[PartnerWarning, ...] | None:
    """Return the warnings about unknown members of a request, which are stored; None if there are none."""
    found = [(member_hint(request, pointer), pointer) for pointer in pointers]
    return tuple(PartnerWarning(code=UNKNOWN_MEMBER, message=text, path=at) for text, at in found) or None


def webhook_warnings_of(place: Onboarding | StoreRow, policy: AddressPolicy) -> tuple[PartnerWarning, ...]:
    """Return the warning about a webhookUrl that is never called: Register accepts every http(s) URI."""
    is_called = handling_of(place.order_handling, place.webhook_url) is OrderHandling.WEBHOOK
    fault = is_called and place.webhook_url and call_fault(place.webhook_url, "webhookUrl", policy)
    if not fault:
        return ()
    message = f"{fault} Change it with Update Store: it isn't called, so each order of the store fails."
    return (PartnerWarning(code=WEBHOOK_URL_REFUSED, message=message, path="/webhookUrl"),)


def unseen_warnings_of(place: Onboarding | StoreRow) -> tuple[PartnerWarning, ...]:
    """Return the warning about a store about whose orders nobody is asked."""
    if handling_of(place.order_handling, place.webhook_url) is not OrderHandling.AUTOMATIC:
        return ()
    reason, path = "its orderHandling is automatic", "/orderHandling"
    if place.webhook_url is None:
        reason, path = "the store has no webhookUrl", "/webhookUrl"
    message = (
        f"{ORDERS_UNSEEN_MESSAGE.removesuffix('.')}: {reason}. Send webhookUrl, or orderHandling manual, at "
        "registration or with Update Store; or read the orders in the feed of events."
    )
    return (PartnerWarning(code=ORDERS_UNSEEN, message=message, path=path),)


def _location_unknown(address: Address, *, country_known: bool) -> PartnerWarning:
    city, country = _text_or_empty(address.city), _text_or_empty(address.country)
    path = "/address"
    if not country_known:
        path, reason = "/address/country", f'"{country}" is not the name or the ISO 3166 code of a country'
    elif city:
        path, reason = "/address/city", f'no city "{city}" of 15,000 people or more was found there'
    elif _text_or_empty(address.postal_code):
        path, reason = "/address/postalCode", "only postal codes of the United States are known"
    else:
        reason = "it names no city"
    return PartnerWarning(
        code=LOCATION_UNKNOWN,
        message=f"The address has no known location: {reason}. Storefronts find the store by name, but not by place. "
        "Send address.coordinates with lat and lng, at registration or with Update Store.",
        path=path,
    )


def _timezone_assumed(timezone: str) -> PartnerWarning:
    return PartnerWarning(
        code=TIMEZONE_ASSUMED,
        message=f"The time zone is assumed to be {timezone}: none was sent, and the address doesn't determine it. "
        "Opening hours are read in it. "
        "Send timezone (an IANA name like Europe/Berlin), at registration or with Update Store.",
        path="/timezone",
    )


def address_parts(address: Address) -> AddressParts:
    """Return what the gazetteer looks an address up by."""
    return AddressParts(
        city=_text_or_empty(address.city),
        state=_text_or_empty(address.state),
        postal_code=_text_or_empty(address.postal_code),
        country=_text_or_empty(address.country),
    )


def _text_or_empty(value: str | UnsetType) -> str:
    return "" if value is UNSET else value.strip()


_OTHER_CHANGES: Final = 1
"""Changes of the card, or of the words that find a store, that added no member: raise it by one with such a change."""

_MEMBERS: Final = sum(len(shape.get("properties", ())) for shape in json.schema(StoreCard)["$defs"].values())
_MEMBERS_OF_VERSION_1: Final = 23

CARD_VERSION: Final = 1 + (_MEMBERS - _MEMBERS_OF_VERSION_1) + _OTHER_CHANGES
"""The version of a stored StoreCard and what is in it: each member that is added raises it.

Stored cards of an earlier version are rewritten. A number, as a server of the previous release has to see that a card
is newer than its own, and leave it alone.
"""


def card_of(row: StoreRow, spans: Windows) -> StoreCard:
    """Return the store's card; `spans` of the week in which some catalog of its set is available."""
    return fill(
        StoreCard,
        row,
        store_id=row.id,
        address=address_shown(row),
        availability=windows_in(spans),
        fulfillment_types=modes_of(row),
        minimum_order_amount=row.minimum_text or UNSET,
    )


def storefront_of(row: StoreRow, catalog: CompiledCatalog, now: datetime) -> MarketfrontStore:
    """Return the store as storefronts see it at an instant."""
    spans = spans_of(catalog)
    opens_at, closes_at = _next_change(row, spans, now)
    return MarketfrontStore(
        **asdict(card_of(row, spans)),
        status=StoreStatusValue.PAUSED if row.paused_at(now) else StoreStatusValue.ONLINE,
        is_open=reason_at(row, catalog, now) is AvailabilityReason.OPEN,
        opens_at=instant(opens_at),
        closes_at=instant(closes_at),
        unavailable_item_ids=row.unavailable_at(now),
    )


def reason_at(row: StoreRow, catalog: CompiledCatalog, at: datetime) -> AvailabilityReason:
    """Return whether the store is open at an instant, or why not."""
    if row.paused_at(at):
        return AvailabilityReason.PAUSED
    if catalog.is_open(at.astimezone(zone(row.timezone))):
        return AvailabilityReason.OPEN
    return AvailabilityReason.OUTSIDE_HOURS


def availability_of(row: StoreRow, catalog: CompiledCatalog, at: datetime) -> StoreAvailability:
    """Return the same with a text for people."""
    reason = reason_at(row, catalog, at)
    local = at.astimezone(zone(row.timezone))
    resumes = f" until {instant(row.resume_at)}" if row.resume_at is not None else " until it is resumed"
    words = {
        AvailabilityReason.OPEN: "A catalog of the store is available at that time.",
        AvailabilityReason.PAUSED: f"The store is paused{resumes}.",
        AvailabilityReason.OUTSIDE_HOURS: f"No catalog of the store is available on {local:%A} at {local:%H:%M:%S}.",
    }
    opens_at, closes_at = _next_change(row, spans_of(catalog), at)
    return StoreAvailability(
        at=instant(at) or "",
        is_open=reason is AvailabilityReason.OPEN,
        opens_at=instant(opens_at),
        closes_at=instant(closes_at),
        reason=reason,
        detail=words[reason],
        timezone=row.timezone,
        local_time=local.replace(tzinfo=None).isoformat(timespec="seconds"),
    )


def _next_change(row: StoreRow, spans: Windows, at: datetime) -> HoursChange:
    since = row.resume_at if row.paused_at(at) else at
    return next_change(at, zone(row.timezone), edges_of(spans), since=since)


def spans_of(catalog: CompiledCatalog) -> Windows:
    """Return the spans of the week in which at least one catalog of the set is available."""
    spans: list[tuple[int, int]] = [] if catalog.catalogs else list(WEEK)
    for hours in catalog.catalogs:
        spans += WEEK if hours.windows is None else hours.windows
    return merge_windows(spans)


def windows_in(spans: Windows) -> tuple[AvailabilityWindow, ...]:
    """Return spans of the week as windows of its days."""
    found: list[AvailabilityWindow] = []
    for number, day in enumerate(DAYS):
        base = number * DAY_SECONDS
        inside = ((max(start - base, 0), min(end - base, DAY_SECONDS)) for start, end in spans)
        found += [
            AvailabilityWindow(day_of_week=day, start=_clock(start), end=_clock(end % DAY_SECONDS))
            for start, end in inside
            if start < end
        ]
    return tuple(found)


def _clock(second: int) -> str:
    return str(timedelta(seconds=second)).zfill(8)


def address_shown(row: StoreRow) -> PostalAddress:
    """Return the address with the store's coordinates."""
    place = None
    if row.latitude is not None and row.longitude is not None:
        place = Coordinates(lat=row.latitude, lng=row.longitude)
    address = row.address
    return PostalAddress(
        address1=address.street or None,
        address2=address.address2 or None,
        city=address.city or None,
        coordinates=place,
        postal_code=address.postal_code or None,
        state=address.state or None,
    )


def modes_of(row: StoreRow) -> tuple[FulfillmentMode, ...]:
    """Return the fulfilment types that the store allows."""
    allowed = (
        (FulfillmentMode.PICKUP, row.pickup_allowed),
        (FulfillmentMode.DELIVERY_BY_MERCHANT, row.delivery_allowed),
    )
    return tuple(mode for mode, yes in allowed if yes)
