"""Coordinates and time zone of a store's address.

An address is looked up at once, in data that ships with the package. The time zone at coordinates that a merchant
sends comes from a map of borders that takes 30 MB of memory, so a background job looks it up.
"""

import asyncio
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct

from mercato.features.stores import queries
from mercato.features.stores.cache import publish_change
from mercato.features.stores.model import Onboarding, StoreRow
from mercato.features.stores.views import address_parts
from mercato.platform import jobs
from mercato.platform.db.engine import Database, Write
from mercato.platform.gazetteer import Location, locate
from mercato.platform.jobs import Done, Handler, Handlers, Job, JobOutcome
from mercato_contract.clock import Clock
from mercato_contract.feeds import StoreChangeKind
from mercato_contract.stores import Address
from mercato_contract.wire import Wire

ONBOARDING_TIMEZONE: Final = "store.place"
STORE_TIMEZONE: Final = "store.move"
UNKNOWN_ZONE: Final = "UTC"


class OnboardingTimezoneJob(Wire):
    """The onboarding whose time zone the job looks up."""

    onboarding_id: UUID


class StoreTimezoneJob(Wire):
    """The store whose new coordinates the job looks up."""

    store_id: UUID


async def find(address: Address) -> Location:
    """Look an address up in a thread, because that reads a file."""
    return await asyncio.to_thread(locate, address_parts(address))


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
    clock: Clock

    def handlers(self) -> Handlers:
        """Return the handlers of both kinds of job."""
        onboarding = Handler(
            fn=self.set_onboarding_timezone, payload=OnboardingTimezoneJob, concurrency=2, max_attempts=3
        )
        store = Handler(fn=self.set_store_timezone, payload=StoreTimezoneJob, concurrency=2, max_attempts=3)
        return {ONBOARDING_TIMEZONE: onboarding, STORE_TIMEZONE: store}

    async def set_onboarding_timezone(self, job: Job[OnboardingTimezoneJob]) -> JobOutcome:
        """Set the time zone of an onboarding, and of its store if it exists."""
        async with self.db.read() as tx:
            onboarding = await queries.find_onboarding_by_id(tx, job.payload.onboarding_id)
        if onboarding is None or not _needs_timezone(onboarding):
            return Done()
        zone = await _timezone_of(onboarding)
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            if await queries.set_onboarding_timezone(tx, onboarding, zone):
                await publish_change(tx, onboarding.store_id, (StoreChangeKind.PROFILE,), at=self.clock())
        return Done()

    async def set_store_timezone(self, job: Job[StoreTimezoneJob]) -> JobOutcome:
        """Set the time zone of a store at its new coordinates. A store that has changed again has another job."""
        async with self.db.read() as tx:
            store = await queries.find_store(tx, job.payload.store_id)
        if store is None or not _needs_timezone(store):
            return Done()
        zone = await _timezone_of(store)
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            if await queries.set_store_timezone(tx, store, zone):
                await publish_change(tx, store.id, (StoreChangeKind.PROFILE,), at=self.clock())
        return Done()


def timezone_at(latitude: float, longitude: float) -> str:
    """Return the IANA time zone at a place."""
    import tzfpy

    return str(tzfpy.get_tz(longitude, latitude)) or UNKNOWN_ZONE


async def _timezone_of(place: Onboarding | StoreRow) -> str:
    assert place.latitude is not None
    assert place.longitude is not None
    return await asyncio.to_thread(timezone_at, place.latitude, place.longitude)


def _needs_timezone(place: Onboarding | StoreRow) -> bool:
    return not place.timezone_given and place.address.coordinates is not UNSET
