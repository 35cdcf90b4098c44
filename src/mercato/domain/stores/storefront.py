"""A store as storefronts see it, and whether it is open."""

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from msgspec import UNSET, UnsetType

from mercato.domain.catalog.model import DAY_SECONDS, DAYS, CompiledCatalog, Windows
from mercato.domain.catalog.search import WEEK, merge_windows
from mercato.domain.stores.address import Coordinates
from mercato.domain.stores.availability import StoreStatusValue
from mercato.domain.stores.model import AnsweredUri, StoreRow
from mercato.kernel.clock import zone
from mercato.kernel.wire import Instant, Wire, instant


class FulfillmentMode(StrEnum):
    """How an order reaches its customer."""

    PICKUP = "PICKUP"
    DELIVERY_BY_MERCHANT = "DELIVERY_BY_MERCHANT"


class AvailabilityWindow(Wire):
    """An open span of a day, local to the store's time zone; `end` 00:00:00 is the end of that day."""

    day_of_week: str
    start: str
    end: str


class PostalAddress(Wire):
    """An address with every member; null where it was not given."""

    address1: str | None
    address2: str | None
    city: str | None
    coordinates: Coordinates | None
    postal_code: str | None
    state: str | None


class MarketfrontStore(Wire, kw_only=True):
    """A store as storefronts see it."""

    store_id: UUID
    catalog_set_id: UUID
    name: str
    description: str | UnsetType = UNSET
    phone: str | UnsetType = UNSET
    logo_url: AnsweredUri | UnsetType = UNSET
    timezone: str
    address: PostalAddress
    status: StoreStatusValue
    is_open: bool
    availability: tuple[AvailabilityWindow, ...]
    categories: tuple[str, ...]
    fulfillment_types: tuple[FulfillmentMode, ...]
    minimum_order_amount: str | UnsetType = UNSET
    unavailable_item_ids: tuple[UUID, ...]


class AvailabilityReason(StrEnum):
    """Why a store is open or not."""

    OPEN = "OPEN"
    PAUSED = "PAUSED"
    OUTSIDE_HOURS = "OUTSIDE_HOURS"


class StoreAvailability(Wire):
    """Whether a store is open at an instant, and why. `localTime` is in its time zone, without an offset."""

    at: Instant
    is_open: bool
    reason: AvailabilityReason
    detail: str
    timezone: str
    local_time: str


def storefront_of(row: StoreRow, catalog: CompiledCatalog, now: datetime) -> MarketfrontStore:
    """Return the store as storefronts see it at an instant."""
    return MarketfrontStore(
        store_id=row.id,
        catalog_set_id=row.catalog_set_id,
        name=row.name,
        description=row.description or UNSET,
        phone=row.phone or UNSET,
        logo_url=row.logo_url or UNSET,
        timezone=row.timezone,
        address=address_shown(row),
        status=StoreStatusValue.PAUSED if row.paused_at(now) else StoreStatusValue.ONLINE,
        is_open=reason_at(row, catalog, now) is AvailabilityReason.OPEN,
        availability=windows_of(catalog),
        categories=row.categories,
        fulfillment_types=modes_of(row),
        minimum_order_amount=row.minimum_text or UNSET,
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
    return StoreAvailability(
        at=instant(at) or "",
        is_open=reason is AvailabilityReason.OPEN,
        reason=reason,
        detail=words[reason],
        timezone=row.timezone,
        local_time=local.strftime("%Y-%m-%dT%H:%M:%S"),
    )


def windows_of(catalog: CompiledCatalog) -> tuple[AvailabilityWindow, ...]:
    """Return when at least one catalog of the set is available, by day and without overlaps."""
    spans: list[tuple[int, int]] = [] if catalog.catalogs else list(WEEK)
    for hours in catalog.catalogs:
        spans += WEEK if hours.windows is None else hours.windows
    return windows_in(merge_windows(spans))


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
