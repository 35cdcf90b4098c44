"""How `places.bin` is laid out, for the one that writes it and the one that reads it.

A header in JSON, then records of places by population, then keys in order. A key is the hash of a kind and a folded
name, so a name takes eight bytes whatever its script, and is found by bisection without reading the file.
"""

import unicodedata
from hashlib import blake2b
from struct import Struct as Packed
from typing import Final

from mercato.wire import Wire

FILE: Final = "places.bin"
LENGTH: Final = Packed("<I")
"""Bytes of the header, which follows."""

PLACE: Final = Packed("<iiHHH")
"""Latitude and longitude in DEGREE, then indices: time zone, country, region."""

DEGREE: Final = 100_000
HASH_BYTES: Final = 5
VALUE_BYTES: Final = 3
KEY_BYTES: Final = HASH_BYTES + VALUE_BYTES

CITY: Final = "city"
COUNTRY: Final = "country"
POSTAL: Final = "postal"
REGION: Final = "region"

NONE: Final = 0xFFFF
"""Stands for no region."""


class Header(Wire):
    """Counts and tables. `countries` lists code and index of the one time zone, or None where there are several."""

    zones: tuple[str, ...]
    countries: tuple[tuple[str, int | None], ...]
    places: int
    keys: int


def fold(name: str) -> str:
    """Return the letters and digits of a name, without case, accents, spaces and punctuation."""
    spread = unicodedata.normalize("NFKD", name).casefold()
    return "".join(letter for letter in spread if letter.isalnum())


def hash_of(kind: str, name: str, *, within: str = "") -> bytes:
    """Return the hash of a name of a kind; a region's name means something within its country."""
    return blake2b(f"{kind}\0{within}\0{fold(name)}".encode(), digest_size=HASH_BYTES).digest()
