"""Money: decimal text to whole minor units and back, by the currency's own scale."""

from decimal import Decimal

import iso4217
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibration import cpu_within

from mercato_contract.money import (
    SCALES,
    MoneyError,
    find_scale,
    get_scale,
    number_to_minor,
    to_minor,
    to_text,
)


@pytest.mark.parametrize(
    ("text", "currency", "minor", "served"),
    [
        ("12.5", "USD", 1250, "12.50"),
        ("0", "USD", 0, "0.00"),
        ("-0", "USD", 0, "0.00"),
        ("-0.05", "USD", -5, "-0.05"),
        ("007.10", "USD", 710, "7.10"),
        ("1.1000", "USD", 110, "1.10"),
        ("500", "JPY", 500, "500"),
        ("500.000", "JPY", 500, "500"),
        ("0.25", "KWD", 250, "0.250"),
        ("1.0010", "BHD", 1001, "1.001"),
        ("1.2345", "CLF", 12345, "1.2345"),
        ("92233720368547758.07", "USD", 2**63 - 1, "92233720368547758.07"),
        ("-92233720368547758.08", "USD", -(2**63), "-92233720368547758.08"),
    ],
)
def test_amounts_are_read_and_written_at_the_currencys_scale(
    text: str, currency: str, minor: int, served: str
):
    assert to_minor(text, currency) == minor
    assert to_text(minor, currency) == served


@pytest.mark.parametrize(
    ("text", "currency", "answer"),
    [
        ("1.001", "USD", "more decimals than the currency: at most 2"),
        ("1.5", "JPY", "more decimals than the currency: no decimals"),
        ("0.0001", "KWD", "more decimals than the currency: at most 3"),
        ("92233720368547758.08", "USD", "out of range"),
        ("-92233720368547758.09", "USD", "out of range"),
        ("9223372036854775808", "JPY", "out of range"),
        ("1" + "0" * 5000, "JPY", "out of range"),
        ("", "USD", "not a decimal number"),
        (".5", "USD", "not a decimal number"),
        ("5.", "USD", "not a decimal number"),
        ("+5", "USD", "not a decimal number"),
        ("1e3", "USD", "not a decimal number"),
        ("1,50", "USD", "not a decimal number"),
        (" 1", "USD", "not a decimal number"),
        ("1\n", "USD", "not a decimal number"),
        ("NaN", "USD", "not a decimal number"),
        ("Infinity", "USD", "not a decimal number"),
        ("٣", "USD", "not a decimal number"),  # an Arabic digit on purpose
        ("0x10", "USD", "not a decimal number"),
        ("1_000", "USD", "not a decimal number"),
    ],
)
def test_a_text_that_is_not_an_amount_is_refused_with_the_reason(text: str, currency: str, answer: str):
    with pytest.raises(MoneyError, match=answer):
        to_minor(text, currency)


@pytest.mark.parametrize(
    ("text", "scale", "minor"),
    [
        ("12.5", 2, 1250),
        ("1.25E7", 0, 12_500_000),
        ("1.25e+2", 2, 12_500),
        ("125e-2", 2, 125),
        ("5e-2", 2, 5),
        ("-1250000E-6", 2, -125),
        ("0e9999", 2, 0),
        ("1E0007", 0, 10_000_000),
        ("0.00e-5", 0, 0),
    ],
)
def test_a_json_number_may_have_an_exponent_and_is_read_exactly(text: str, scale: int, minor: int):
    assert number_to_minor(text, scale) == minor


@pytest.mark.parametrize(
    "text", ["1e400", "1e99999999999999999999", "1180591620717411303424", "1e-3", "1e-400"]
)
def test_a_json_number_beyond_the_range_or_the_scale_is_refused(text: str):
    with pytest.raises(MoneyError):
        number_to_minor(text, 2)


@pytest.mark.parametrize("text", ["9" * 2_000_000, "0." + "0" * 2_000_000 + "1", "1" * 1_000_000 + "e9999"])
def test_a_price_of_a_million_digits_takes_linear_time(text: str):
    with cpu_within(5), pytest.raises(MoneyError) as refused:
        number_to_minor(text, 2)
    assert len(str(refused.value)) < 150


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["USD", "JPY", "KWD", "CLF"]))
def test_every_amount_is_the_same_after_conversion_to_text_and_back(minor: int, currency: str):
    text = to_text(minor, currency)
    assert to_minor(text, currency) == minor
    assert Decimal(text).scaleb(get_scale(currency)) == minor


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**15), max_value=10**15))
def test_texts_agree_with_decimal_arithmetic(amount: Decimal):
    assert to_minor(f"{amount:f}", "EUR") == int(amount * 100)
    assert number_to_minor(f"{amount:E}", 2) == int(amount * 100)


def test_an_unknown_currency_has_no_scale():
    assert find_scale("ABC") is None
    assert find_scale("usd") is None
    assert find_scale("XAU") is None
    with pytest.raises(MoneyError, match='"ABC" is not an ISO 4217 currency code'):
        to_minor("1", "ABC")


def test_the_table_of_currencies_is_the_standards():
    standard = {c.code: c.exponent for c in iso4217.Currency if c.exponent is not None}
    assert standard == SCALES
