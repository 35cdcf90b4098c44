"""Countries by what addresses call them, and by time zone: from the tables of the IANA time zone database."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

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
