"""Addresses of stores, as they are sent, stored and returned."""

from msgspec import UNSET

from mercato_contract.stores import Address, AddressRequest


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
