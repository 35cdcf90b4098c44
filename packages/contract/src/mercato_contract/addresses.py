"""What a delivery address must have, by country: most have no postal codes or don't require them, some have no cities.

Google's address data says what a country requires. The package with it has 4.8 MB, of which two lists of codes are
needed here: a test compares them with the package.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mercato_contract.placements import DeliveryAddress
from mercato_contract.texts import is_blank

_POSTAL_CODES: Final = (
    "AS AT AU AX BE BL BR CA CH CN CZ DE DK EE ES FI FK FM FR GB GF GG GL GP GR GS GU HU IM IN IO IT JE JP KR LI LT LU "
    "LV MF MH MP MQ MX MY NC NL NO NZ PF PL PM PN PR PT PW RE RO RU SE SG SH SJ SK SM TC TR TW UA US VI WF YT ZA"
)
_NO_CITY: Final = "AE AG CO GI HK ID JP KY MO NR SG SM VG"

_REQUIRE_POSTAL_CODE: Final = frozenset(_POSTAL_CODES.split())
_REQUIRE_NO_CITY: Final = frozenset(_NO_CITY.split())


class AddressPart(NamedTuple):
    """A part of an address: its member on the wire, and its name for people."""

    member: str
    name: str


def requires_city(country: str | None) -> bool:
    """Return whether addresses in the country (ISO 3166) need a city; those of an unknown country do."""
    return country not in _REQUIRE_NO_CITY


def requires_postal_code(country: str | None) -> bool:
    """Return whether addresses in the country (ISO 3166) need a postal code; those of an unknown country do."""
    return country is None or country in _REQUIRE_POSTAL_CODE


def missing_parts(address: DeliveryAddress, country: str | None) -> Iterator[AddressPart]:
    """Yield what the address of a delivery in the country needs and doesn't have."""
    if is_blank(address.address1 or ""):
        yield AddressPart("address1", "street")
    if requires_city(country) and is_blank(address.city or ""):
        yield AddressPart("city", "city")
    if requires_postal_code(country) and is_blank(address.postal_code or ""):
        yield AddressPart("postalCode", "postal code")
