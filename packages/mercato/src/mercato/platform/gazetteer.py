"""Finds the location of an address, and the country of a name or of a time zone.

The file stays on the disk: a lookup maps it and reads about twenty pages. It has a header in JSON, then records of
places by population, then sorted keys. A key is the hash of a kind and a folded name, so a name takes eight bytes
whatever its script, and is found by bisection. `tests/geo/places.py` writes the file.
"""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import as_file, files
from itertools import islice
from mmap import ACCESS_READ, mmap
from struct import Struct as Packed
from typing import Final, NamedTuple

import msgspec

from mercato_contract.wire import Wire

FILE: Final = "places.bin"
LENGTH: Final = Packed("<I")
"""The size of the header, which follows."""

PLACE: Final = Packed("<iiHHH")
"""Latitude and longitude in 1/DEGREE degrees, then indices: time zone, country, region."""

DEGREE: Final = 100_000
HASH_BYTES: Final = 5
VALUE_BYTES: Final = 3
KEY_BYTES: Final = HASH_BYTES + VALUE_BYTES

CITY: Final = "city"
COUNTRY: Final = "country"
POSTAL: Final = "postal"
REGION: Final = "region"

NONE: Final = 0xFFFF
"""The index that means no region."""

MAX_NAMESAKES: Final = 1_000
"""Cities of one name that are examined, the most populous first."""

CACHED: Final = 256
"""Cached locations: clients ask for one of them again and again."""

_US: Final = "US"
_US_DIGITS: Final = 5


class Header(Wire):
    """Counts and tables. `countries` lists codes with the index of the only time zone, None if there are several."""

    zones: tuple[str, ...]
    countries: tuple[tuple[str, int | None], ...]
    places: int
    keys: int


def fold(name: str) -> str:
    """Return the letters and digits of a name, without case, accents, spaces and punctuation."""
    decomposed = unicodedata.normalize("NFKD", name).casefold()
    return "".join(letter for letter in decomposed if letter.isalnum())


def hash_of(kind: str, name: str, *, within: str = "") -> bytes:
    """Return the hash of a name of a kind; a region's name is hashed with its country."""
    return blake2b(f"{kind}\0{within}\0{fold(name)}".encode(), digest_size=HASH_BYTES).digest()


_header: Final = msgspec.json.Decoder(Header)


class AddressParts(NamedTuple):
    """The parts of an address that locate it; empty if unknown."""

    city: str = ""
    state: str = ""
    postal_code: str = ""
    country: str = ""


class Location(NamedTuple):
    """The coordinates in degrees and the IANA time zone, as far as they are known."""

    coordinates: tuple[float, float] | None = None
    timezone: str | None = None
    country_known: bool = True
    """False if the address names an unknown country."""


class _City(NamedTuple):
    latitude: int
    longitude: int
    zone: int
    country: int
    region: int


@lru_cache(maxsize=CACHED)
def locate(address: AddressParts) -> Location:
    """Return the location of a US postal code, else of the city, else the only time zone of the country."""
    with _open_gazetteer() as gazetteer:
        return gazetteer.locate(address)


@contextmanager
def _open_gazetteer() -> Iterator["_Gazetteer"]:
    with (
        as_file(files("mercato.platform") / FILE) as path,
        path.open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as data,
    ):
        yield _Gazetteer(data)


class _Gazetteer:
    def __init__(self, data: mmap) -> None:
        [length] = LENGTH.unpack_from(data)
        start = LENGTH.size + length
        self._data = data
        self._header = _header.decode(data[LENGTH.size : start])
        self._places = start
        self._keys = start + self._header.places * PLACE.size

    def locate(self, address: AddressParts) -> Location:
        country = next(self._find(COUNTRY, address.country), None)
        if country is None and fold(address.country):
            return Location(country_known=False)
        city = self._city(address, country)
        home = city.country if country is None and city is not None else country
        if home is None or self._code(home) == _US:
            city = self._postal_area(address, home) or city
        if city is not None:
            return Location((city.latitude / DEGREE, city.longitude / DEGREE), self._header.zones[city.zone])
        zone = None if country is None else self._header.countries[country][1]
        return Location(timezone=None if zone is None else self._header.zones[zone])

    def _city(self, address: AddressParts, country: int | None) -> _City | None:
        """Return the most populous city of the name in the country, and in the state if that is known."""
        named = islice(self._find(CITY, address.city), MAX_NAMESAKES)
        cities = [city for city in map(self._place, named) if country is None or city.country == country]
        regions = {
            number: self._regions(address.state, number) for number in {city.country for city in cities}
        }
        in_state = [city for city in cities if city.region in regions[city.country]]
        if in_state:
            return in_state[0]
        # A city in another state is another city, unless the state is unknown.
        return next((city for city in cities if not regions[city.country]), None)

    def _postal_area(self, address: AddressParts, country: int | None) -> _City | None:
        """Return the area of a US postal code; without a country, only if the state doesn't contradict."""
        code = address.postal_code[:_US_DIGITS]
        if len(code) != _US_DIGITS or not (code.isascii() and code.isdigit()):
            return None
        area = next(map(self._place, self._find(POSTAL, code)), None)
        if area is None or country is not None or not fold(address.state):
            return area
        return area if area.region in self._regions(address.state, area.country) else None

    def _regions(self, state: str, country: int) -> set[int]:
        return set(self._find(REGION, state, within=self._code(country)))

    def _code(self, country: int) -> str:
        return self._header.countries[country][0]

    def _place(self, number: int) -> _City:
        return _City(*PLACE.unpack_from(self._data, self._places + number * PLACE.size))

    def _find(self, kind: str, name: str, *, within: str = "") -> Iterator[int]:
        """Yield the values of a name in order."""
        if not fold(name):
            return
        wanted = hash_of(kind, name, within=within)
        at = bisect_left(range(self._header.keys), wanted, key=lambda index: self._key(index)[:HASH_BYTES])
        while (key := self._key(at)).startswith(wanted):
            yield int.from_bytes(key[-VALUE_BYTES:], "big")
            at += 1

    def _key(self, index: int) -> bytes:
        """Return a key; empty after the last one."""
        start = self._keys + index * KEY_BYTES
        return self._data[start : start + KEY_BYTES]


# --- countries: from the tables of the IANA time zone database ------------------------------------


_ALIASES: Final = {"UK": "GB", "USA": "US", "UNITED STATES OF AMERICA": "US", "GREAT BRITAIN": "GB"}
"""Common names that ISO 3166 hasn't."""


def country_of(name: str | None, timezone: str | None) -> str | None:
    """Return the ISO 3166 code of a country's code or English name, else the country of the time zone, or None."""
    plain = " ".join((name or "").upper().split())
    found = _names().get(_ALIASES.get(plain, plain))
    return found or _zones().get(timezone or "")


@cache
def _names() -> Mapping[str, str]:
    """Return the codes by code and by name, in upper case."""
    found = {}
    for code, name in _rows("iso3166.tab"):
        found[code] = found[name.upper()] = code
    return found


@cache
def _zones() -> Mapping[str, str]:
    return {zone: code for code, _, zone, *_ in _rows("zone.tab")}


def _rows(table: str) -> Iterator[list[str]]:
    for line in files("tzdata.zoneinfo").joinpath(table).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")
