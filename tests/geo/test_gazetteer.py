"""The location of an address, found offline."""

import pytest

from mercato.platform.gazetteer import AddressParts, Location, fold, locate

PARIS = (48.85341, 2.3488)
MUNICH = (48.13743, 11.57549)


@pytest.mark.parametrize(
    ("city", "country"),
    [
        ("Munich", "Germany"),
        ("München", "Deutschland"),
        ("MUENCHEN", "de"),
        ("munchen", "DEU"),
        ("Мюнхен", "DE"),
        ("ミュンヘン", "DE"),
    ],
)
def test_a_city_is_found_by_its_names_in_any_script_and_its_country_by_code_or_name(city: str, country: str):
    assert locate(AddressParts(city=city, country=country)) == Location(MUNICH, "Europe/Berlin")


@pytest.mark.parametrize(
    ("city", "country", "zone"),
    [
        ("東京", "日本", "Asia/Tokyo"),
        ("القاهرة", "مصر", "Africa/Cairo"),
        ("São Paulo", "Brasil", "America/Sao_Paulo"),
        ("서울", "대한민국", "Asia/Seoul"),
        ("London", "UK", "Europe/London"),
        ("Cardiff", "Wales", "Europe/London"),
        ("Dubai", "U.A.E.", "Asia/Dubai"),
        ("Auckland", "New Zealand", "Pacific/Auckland"),
    ],
)
def test_cities_of_every_continent_have_their_time_zone(city: str, country: str, zone: str):
    found = locate(AddressParts(city=city, country=country))
    assert found.coordinates is not None
    assert found.timezone == zone


@pytest.mark.parametrize(
    ("state", "coordinates"),
    [
        ("MA", (42.10148, -72.58981)),
        ("Illinois", (39.80172, -89.64371)),
        ("illinois", (39.80172, -89.64371)),
    ],
)
def test_the_state_distinguishes_cities_of_one_name(state: str, coordinates: tuple[float, float]):
    assert locate(AddressParts("Springfield", state=state, country="US")).coordinates == coordinates


def test_a_state_is_known_by_its_abbreviation_and_in_its_own_script():
    assert locate(AddressParts("London", state="ON", country="Canada")).timezone == "America/Toronto"
    assert locate(AddressParts("札幌市", state="北海道", country="JP")).timezone == "Asia/Tokyo"


def test_a_city_of_the_same_name_in_another_state_is_another_city():
    assert locate(AddressParts("Portland", state="Kansas", country="US")).coordinates is None


def test_without_a_state_the_most_populous_city_of_the_name_is_found():
    assert locate(AddressParts("Paris")).coordinates == PARIS
    assert locate(AddressParts("Paris", state="TX")).timezone == "America/Chicago"


def test_a_country_with_one_time_zone_has_it_even_if_the_city_is_unknown():
    assert locate(AddressParts("Nowhereville", country="France")) == Location(None, "Europe/Paris")
    assert locate(AddressParts(country="Germany")).timezone == "Europe/Berlin"
    assert locate(AddressParts("Nowhereville", country="Spain")) == Location()


def test_an_unknown_country_is_reported_as_unknown():
    assert locate(AddressParts("Munich", country="Germny")) == Location(country_known=False)


def test_a_postal_code_of_the_united_states_is_more_exact_than_its_city():
    beverly_hills = Location((34.0901, -118.4065), "America/Los_Angeles")
    assert locate(AddressParts("Los Angeles", "CA", "90210", "US")) == beverly_hills
    assert locate(AddressParts("Beverly Hills", "CA", "90210-1234")) == beverly_hills


def test_a_postal_code_of_another_country_is_not_read_as_one_of_the_united_states():
    assert locate(AddressParts("Munich", postal_code="80331")).coordinates == MUNICH


def test_an_unknown_postal_code_is_not_found():
    assert locate(AddressParts(postal_code="09001", country="US")).coordinates is None


def test_an_empty_address_has_no_location():
    assert locate(AddressParts()) == Location()
    assert locate(AddressParts("?", "!", "-", " ")) == Location()


def test_names_are_compared_without_case_accents_spaces_and_punctuation():
    assert fold(" Saint-Étienne ") == fold("SAINT ETIENNE") == "saintetienne"
