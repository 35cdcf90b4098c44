"""Prices of items and overrides: text or number in, strings at scale and minor units out."""

import pytest
from tests.catalog.documents import (
    CAKE,
    EXTRAS,
    LEMON,
    MILK,
    TEA,
    cafe,
    compiled,
    faults,
    json_with,
    outcome,
    served,
    warnings,
)

from mercato_catalog.model import Built


@pytest.mark.parametrize(
    "raw",
    [
        '"dear"',
        '"1.999"',
        "1.999",
        "1180591620717411303424",
        "1e400",
        "1e-400",
        '"1e2"',
        '""',
        '"NaN"',
        '"-"',
        '"1,5"',
    ],
)
def test_a_price_that_is_not_a_decimal_or_out_of_range_is_a_fault(raw: str):
    assert list(faults(json_with(TEA, "basePrice", raw))) == [f"/items/{TEA}/basePrice"]
    overridden = json_with(TEA, "x", "1").replace('"0.10"', raw)
    assert list(faults(overridden)) == [f"/modifierGroups/{EXTRAS}/priceOverrides/{LEMON}"]


@pytest.mark.parametrize("raw", ["null", "true", "{}", "[1]"])
def test_an_override_must_be_a_price(raw: str):
    overridden = json_with(TEA, "x", "1").replace('"0.10"', raw)
    [(path, message)] = faults(overridden).items()
    assert path == f"/modifierGroups/{EXTRAS}/priceOverrides/{LEMON}"
    assert message.startswith("A price must be a decimal string or a number, not ")


@pytest.mark.parametrize(
    ("raw", "currency", "text", "minor"),
    [
        ('"2.5"', "USD", "2.50", 250),
        ("2.5", "USD", "2.50", 250),
        ("2.50", "USD", "2.50", 250),
        ("2", "USD", "2.00", 200),
        ("0.1", "USD", "0.10", 10),
        ("1.1000000000000", "USD", "1.10", 110),
        ("25e-1", "USD", "2.50", 250),
        ("-1", "USD", "-1.00", -100),
        ("2.5", "KWD", "2.500", 2500),
        ('"1.001"', "BHD", "1.001", 1001),
        ("450", "JPY", "450", 450),
        ('"450.00"', "JPY", "450", 450),
        ("92233720368547758.07", "USD", "92233720368547758.07", 2**63 - 1),
    ],
)
def test_prices_are_served_as_strings_at_scale_and_compiled_to_minor_units(
    raw: str, currency: str, text: str, minor: int
):
    document = json_with(TEA, "basePrice", raw)
    for old in ('"4.00"', '"0.30"', '"0.20"', '"0.10"'):
        document = document.replace(old, raw)
    document = document.replace('"currency": "USD"', f'"currency": "{currency}"')
    copy, catalog = served(document), compiled(document)
    assert {item["basePrice"] for item in copy["items"].values()} == {text}
    assert copy["modifierGroups"][EXTRAS]["priceOverrides"] == {LEMON: text}
    assert {item.price for item in catalog.items.values()} == {minor}
    assert {price for group in catalog.groups.values() for price in group.choices.values()} == {minor}


def test_a_price_that_is_a_json_number_is_read_and_warned_of():
    document = json_with(TEA, "basePrice", "11.1").replace('"0.10"', "0")
    assert warnings(document) == {
        f"/items/{TEA}/basePrice": "The price 11.1 is a JSON number; prices are strings.",
        f"/modifierGroups/{EXTRAS}/priceOverrides/{LEMON}": "The price 0 is a JSON number; prices are strings.",
    }
    assert served(document)["items"][TEA]["basePrice"] == "11.10"


def test_prices_that_are_json_numbers_are_listed_up_to_the_bound_and_counted_beyond():
    numbers = {f"{n:08x}-0000-5000-8000-000000000000": {"name": "x", "basePrice": 1.5} for n in range(1234)}
    result = outcome({"items": numbers})
    assert isinstance(result, Built)
    assert (result.summary.warnings, len(result.warnings)) == (1234, 201)
    assert {warning.rule for warning in result.warnings} == {"number-price"}
    assert result.warnings[-1].message == "1034 more warnings like the one before."


def test_prices_may_be_strings_and_numbers_in_one_document():
    document = cafe()
    for key, price in ((TEA, "1"), (CAKE, 1), (MILK, 1.0), (LEMON, None)):
        document["items"][key]["basePrice"] = price
    prices = [item.get("basePrice") for item in served(document)["items"].values()]
    assert prices == ["1.00", "1.00", "1.00", None]
    assert [item.price for item in compiled(document).items.values()] == [100, 100, 100, None]
