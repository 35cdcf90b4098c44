"""A refused price has a suggestion exactly where its text has one reading."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.catalog.documents import TEA, cafe, outcome

from mercato_catalog.validation.price_hints import (
    AMBIGUOUS,
    NOT_A_SHARE,
    NOT_ONE_AMOUNT,
    price_hint,
)
from mercato_contract.money import SCALES, MoneyError, minor_to_decimal, to_minor

CURRENCIES = ("USD", "EUR", "JPY", "KWD", "CLF")

STYLES = {
    "English": (",", "."),
    "German": (".", ","),
    "French": ("\N{NARROW NO-BREAK SPACE}", ","),
    "with blanks": (" ", "."),
    "Swiss": ("\N{RIGHT SINGLE QUOTATION MARK}", "."),
    "without thousands": ("", ","),
}
"""How an amount is written: what separates thousands, and decimals."""


def suggested(text: str, currency: str = "USD") -> str | None:
    """Return the price that is suggested, or None."""
    found = re.match(r' Did you mean "(.+?)"\?', price_hint(text, currency))
    return found and found[1]


@pytest.mark.parametrize(
    ("price", "meant"),
    [
        ("$4.50", "4.50"),
        ("4,50", "4.50"),
        ("US$ 1,234.50", "1234.50"),
        ("USD 1,234.50", "1234.50"),
        ("usd 7", "7"),
        ("Rs. 120", "120"),
        ("$4.50 USD", "4.50"),
        ("-$4.50", "-4.50"),
        ("\N{MINUS SIGN}4,50", "-4.50"),
        ("+4.50", "4.50"),
        (" 4.50 ", "4.50"),
        ("\N{NO-BREAK SPACE}4.50", "4.50"),
        ("1 234,50", "1234.50"),
        ("1'234.50", "1234.50"),
        ("1.234,50", "1234.50"),
        ("1,23,456.00", "123456.00"),
        ("1,234", "1234"),
        ("1.234.567", "1234567"),
    ],
)
def test_a_currency_a_decimal_comma_blanks_and_clear_thousands_have_a_suggestion(price: str, meant: str):
    assert price_hint(price, "USD") == f' Did you mean "{meant}"?'


@pytest.mark.parametrize(
    ("price", "currency", "meant"),
    [
        ("\u00a51,000", "JPY", "1000"),
        ("1,000", "JPY", "1000"),
        ("1.000", "JPY", None),
        ("1,000", "USD", None),  # one dollar, or a thousand
        ("1.234", "USD", None),
        ("\u20ac1.500", "EUR", None),
        ("1,234", "KWD", None),
        ("KD 1", "KWD", None),
        ("KWD 1.234", "KWD", "1.234"),
        ("1,234,567", "KWD", "1234567"),
        ("6,50", "JPY", None),
    ],
)
def test_what_separates_three_digits_depends_on_the_currency(price: str, currency: str, meant: str | None):
    assert suggested(price, currency) == meant


@pytest.mark.parametrize(
    "price",
    [
        *("1e1", "1e3", "2E2", "1O.50", "l0.50", "2x4.50", "3 for 5", "12.50 / 6", "4.50-5.50", "4.50 5.50"),
        *("three", "4.50.1", "50\u00a2", "50p", "all 5", "4.50 each", "1_000", "0x10", ".50", "5.", "1 23"),
        *("1,23,45", "--4", "\u0664,\u0665\u0660", "", "$", "1" * 5_000 + "$"),
    ],
)
def test_a_text_that_isnt_one_amount_is_explained(price: str):
    assert price_hint(price, "USD") == NOT_ONE_AMOUNT


@pytest.mark.parametrize(
    ("price", "currency", "hint"),
    [
        ("12%", "USD", NOT_A_SHARE),
        ("1.234", "USD", AMBIGUOUS),
        ("1,500", "USD", AMBIGUOUS),
        ("1.2345", "USD", ""),
        ("6,50", "JPY", ' "6.50" has more decimals than the currency: no decimals.'),
        ("4,50 \u20ac", "USD", ' Did you mean "4.50"? The catalog\'s currency is USD.'),
        ("4.50 CAD", "USD", ' Did you mean "4.50"? The catalog\'s currency is USD.'),
    ],
)
def test_why_there_is_no_suggestion_is_said(price: str, currency: str, hint: str):
    assert price_hint(price, currency) == hint


def test_the_suggestion_is_in_the_error_of_the_price():
    document = cafe()
    document["items"][TEA]["basePrice"] = "$2.50"
    assert outcome(document).faults[0].message.endswith('Did you mean "2.50"?')


pieces = st.one_of(
    st.from_regex(r"[0-9]{1,4}", fullmatch=True),
    st.sampled_from(
        [*".,' -+/x%$eOl", " for ", "USD", "EUR", "\u20ac", "\N{NO-BREAK SPACE}", "kr", "\u0664", "\u00b2"]
    ),
)


@given(st.lists(pieces, max_size=8).map("".join), st.sampled_from(CURRENCIES))
@example("1e3", "USD")
@example("1O.50", "USD")
@example("2x4.50", "USD")
@example("3 for 5", "USD")
@example("12.50 / 6", "USD")
def test_a_suggestion_is_a_price_with_the_digits_of_the_text_and_nothing_between_them(
    text: str, currency: str
):
    hint = suggested(text, currency)
    if hint is None:
        return
    assert re.sub(r"[^0-9]", "", hint) == "".join(filter(str.isdigit, text))
    assert isinstance(to_minor(hint, currency), int)
    at = [place for place, letter in enumerate(text) if letter.isdigit()]
    between = "".join(text[start + 1 : end] for start, end in pairwise(at))
    assert set(between) <= set(".,' \N{NO-BREAK SPACE}")
    assert hint != text
    assert hint.startswith("-") == ("-" in text)


@given(
    st.integers(-(10**13), 10**13),
    st.sampled_from(CURRENCIES),
    st.sampled_from(sorted(STYLES)),
    st.booleans(),
)
def test_no_way_to_write_an_amount_is_taken_for_another_amount(
    minor: int, currency: str, style: str, whole: bool
):
    scale = SCALES[currency]
    if whole:
        minor -= minor % 10**scale
    text = minor_to_decimal(minor, scale)
    thousands, point = STYLES[style]
    units, _, decimals = text.partition(".")
    written = f"{int(units):,}".replace(",", thousands) if units not in {"-0", "0"} else units
    if decimals and not whole:
        written += point + decimals
    try:
        assert to_minor(written, currency) is not None
    except MoneyError:
        hint = suggested(written, currency)
        assert hint is None or to_minor(hint, currency) == minor
