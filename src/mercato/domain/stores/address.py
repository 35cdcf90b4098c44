"""Addresses of stores, as they are sent, stored and returned."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from mercato.kernel.wire import Wire

Text255 = Annotated[str, Meta(min_length=1, max_length=255)]
Latitude = Annotated[float, Meta(ge=-90, le=90)]
Longitude = Annotated[float, Meta(ge=-180, le=180)]


class Coordinates(Wire):
    """A place on earth, in degrees."""

    lat: Latitude
    lng: Longitude


class AddressRequest(Wire):
    """An address as it is sent. Every member is optional; `address1` means the same as `street`."""

    street: Text255 | None = None
    address1: Text255 | None = None
    address2: Text255 | None = None
    city: Text255 | None = None
    state: Text255 | None = None
    postal_code: Text255 | None = None
    country: Text255 | None = None
    coordinates: Coordinates | None = None


class Address(Wire):
    """An address as it is returned: the members that were sent."""

    street: str | UnsetType = UNSET
    address2: str | UnsetType = UNSET
    city: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    postal_code: str | UnsetType = UNSET
    country: str | UnsetType = UNSET
    coordinates: Coordinates | UnsetType = UNSET


def address_of(sent: AddressRequest) -> Address:
    return Address(
        street=sent.street or sent.address1 or UNSET,
        address2=sent.address2 or UNSET,
        city=sent.city or UNSET,
        state=sent.state or UNSET,
        postal_code=sent.postal_code or UNSET,
        country=sent.country or UNSET,
        coordinates=sent.coordinates or UNSET,
    )
