"""Coordinates and time zone of a store's address, and the warnings to its merchant when they are unknown.

An address is looked up at once, in data that ships with the package. The time zone at coordinates that a merchant
sends comes from a map of borders that takes 30 MB of memory, so a background job looks it up.
"""

import asyncio
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from mercato.features.stores import onboarding_queries, queries
from mercato.features.stores.cache import publish_change
from mercato.features.stores.model import Onboarding, StoreRow
from mercato.platform import jobs
from mercato.platform.db.engine import Database, Write
from mercato.platform.geo.gazetteer import AddressParts, Location, locate
from mercato.platform.jobs import Done, Handler, Handlers, Job, Outcome
from mercato_contract.catalogs import PartnerWarning
from mercato_contract.stores import Address
from mercato_contract.wire import Wire

ONBOARDING_TIMEZONE: Final = "store.place"
STORE_TIMEZONE: Final = "store.move"
UNKNOWN_ZONE: Final = "UTC"

LOCATION_UNKNOWN: Final = "LOCATION_UNKNOWN"
TIMEZONE_ASSUMED: Final = "TIMEZONE_ASSUMED"


class OnboardingTimezoneJob(Wire):
    """The onboarding whose time zone the job looks up."""

    onboarding_id: UUID


class StoreTimezoneJob(Wire):
    """The store whose new coordinates the job looks up."""

    store_id: UUID


async def find(address: Address) -> Location:
    """Look an address up in a thread, because that reads a file."""
    return await asyncio.to_thread(locate, _words(address))


async def enqueue_for_onboarding(tx: Write, onboarding: Onboarding) -> None:
    """Enqueue the lookup of the time zone if the merchant sent coordinates without one."""
    if _needs_timezone(onboarding):
        payload = OnboardingTimezoneJob(onboarding_id=onboarding.id)
        await jobs.enqueue(tx, ONBOARDING_TIMEZONE, payload, ordering_key=f"place:{onboarding.id}")


async def enqueue_for_store(tx: Write, store: StoreRow) -> None:
    """Enqueue the same for a store whose address has changed."""
    if _needs_timezone(store):
        payload = StoreTimezoneJob(store_id=store.id)
        await jobs.enqueue(tx, STORE_TIMEZONE, payload, ordering_key=f"place:{store.onboarding_id}")


class TimezoneLookup(Struct, frozen=True):
    """Looks time zones up and stores them."""

    db: Database

    def handlers(self) -> Handlers:
        """Return the handlers of both kinds of job."""
        onboarding = Handler(
            fn=self.set_onboarding_timezone, payload=OnboardingTimezoneJob, concurrency=2, max_attempts=3
        )
        store = Handler(fn=self.set_store_timezone, payload=StoreTimezoneJob, concurrency=2, max_attempts=3)
        return {ONBOARDING_TIMEZONE: onboarding, STORE_TIMEZONE: store}

    async def set_onboarding_timezone(self, job: Job[OnboardingTimezoneJob]) -> Outcome:
        """Set the time zone of an onboarding, and of its store if it exists."""
        async with self.db.read() as tx:
            onboarding = await onboarding_queries.find_onboarding_by_id(tx, job.payload.onboarding_id)
        if onboarding is None or not _needs_timezone(onboarding):
            return Done()
        zone = await _timezone_of(onboarding)
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            if await queries.set_onboarding_timezone(tx, onboarding, zone):
                await publish_change(tx, onboarding.store_id)
        return Done()

    async def set_store_timezone(self, job: Job[StoreTimezoneJob]) -> Outcome:
        """Set the time zone of a store at its new coordinates. A store that has changed again has another job."""
        async with self.db.read() as tx:
            store = await queries.find_store(tx, job.payload.store_id)
        if store is None or not _needs_timezone(store):
            return Done()
        zone = await _timezone_of(store)
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            if await queries.set_store_timezone(tx, store, zone):
                await publish_change(tx, store.id)
        return Done()


def timezone_at(latitude: float, longitude: float) -> str:
    """Return the IANA time zone at a place."""
    import tzfpy

    return str(tzfpy.get_tz(longitude, latitude)) or UNKNOWN_ZONE


def warnings_of(place: Onboarding | StoreRow) -> tuple[PartnerWarning, ...]:
    """Return the warnings about an address that could not be located.

    They aren't stored but looked up again: that is rare and takes a fraction of a millisecond.
    """
    if place.latitude is not None:
        return ()
    location = locate(_words(place.address))
    unknown = _location_unknown(place.address, country_known=location.country_known)
    if place.timezone_given or location.timezone is not None:
        return (unknown,)
    return unknown, _timezone_assumed(place.timezone)


def _location_unknown(address: Address, *, country_known: bool) -> PartnerWarning:
    city, country = _text_or_empty(address.city), _text_or_empty(address.country)
    pointer = "/address"
    if not country_known:
        pointer, reason = "/address/country", f'"{country}" is not the name or the ISO 3166 code of a country'
    elif city:
        pointer, reason = "/address/city", f'no city "{city}" of 15,000 people or more was found there'
    elif _text_or_empty(address.postal_code):
        pointer, reason = "/address/postalCode", "only postal codes of the United States are known"
    else:
        reason = "it names no city"
    return PartnerWarning(
        code=LOCATION_UNKNOWN,
        message=f"The address has no known location: {reason}. Storefronts find the store by name, but not by place. "
        "Send address.coordinates with lat and lng, at registration or with Update Store.",
        pointer=pointer,
    )


def _timezone_assumed(timezone: str) -> PartnerWarning:
    return PartnerWarning(
        code=TIMEZONE_ASSUMED,
        message=f"The time zone is assumed to be {timezone}: none was sent, and the address doesn't determine it. "
        "Opening hours are read in it. "
        "Send timezone (an IANA name like Europe/Berlin), at registration or with Update Store.",
        pointer="/timezone",
    )


async def _timezone_of(place: Onboarding | StoreRow) -> str:
    assert place.latitude is not None
    assert place.longitude is not None
    return await asyncio.to_thread(timezone_at, place.latitude, place.longitude)


def _needs_timezone(place: Onboarding | StoreRow) -> bool:
    return not place.timezone_given and place.address.coordinates is not UNSET


def _words(address: Address) -> AddressParts:
    return AddressParts(
        city=_text_or_empty(address.city),
        state=_text_or_empty(address.state),
        postal_code=_text_or_empty(address.postal_code),
        country=_text_or_empty(address.country),
    )


def _text_or_empty(value: str | UnsetType) -> str:
    return "" if value is UNSET else value.strip()
