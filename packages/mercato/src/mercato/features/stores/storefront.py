"""A store as storefronts see it, and whether it is open."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET
from msgspec.structs import asdict

from mercato.features.catalogs.model import DAY_SECONDS, DAYS, CompiledCatalog, Windows
from mercato.features.catalogs.search import WEEK, merge_windows
from mercato.features.stores.model import StoreRow
from mercato.platform.clock import zone
from mercato_contract.catalogs import AvailabilityWindow
from mercato_contract.stores import (
    AvailabilityReason,
    Coordinates,
    FulfillmentMode,
    MarketfrontStore,
    PostalAddress,
    StoreAvailability,
    StoreCard,
    StoreStatusValue,
)
from mercato_contract.wire import instant

CARD_VERSION: Final = 1
"""The version of a stored StoreCard. Increment it with every change of the shape: stored cards are then rewritten."""


def card_of(row: StoreRow, spans: Windows) -> StoreCard:
    """Return the store's card; `spans` of the week in which some catalog of its set is available."""
    return StoreCard(
        store_id=row.id,
        catalog_set_id=row.catalog_set_id,
        name=row.name,
        description=row.description or UNSET,
        phone=row.phone or UNSET,
        logo_url=row.logo_url or UNSET,
        timezone=row.timezone,
        address=address_shown(row),
        availability=windows_in(spans),
        categories=row.categories,
        fulfillment_types=modes_of(row),
        minimum_order_amount=row.minimum_text or UNSET,
    )


def storefront_of(row: StoreRow, catalog: CompiledCatalog, now: datetime) -> MarketfrontStore:
    """Return the store as storefronts see it at an instant."""
    return MarketfrontStore(
        **asdict(card_of(row, spans_of(catalog))),
        status=StoreStatusValue.PAUSED if row.paused_at(now) else StoreStatusValue.ONLINE,
        is_open=reason_at(row, catalog, now) is AvailabilityReason.OPEN,
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
