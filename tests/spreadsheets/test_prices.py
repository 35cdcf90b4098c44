"""A price of a spreadsheet is read exactly, or refused with what to write: it is never guessed."""
# ruff: noqa: RUF001  # texts of menus

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.spreadsheets.sheets import EUROS, csv_of, priced, prices_of, read, xlsx_of

from mercato_contract.money import SCALES, minor_to_decimal
from mercato_tools.imports.spreadsheets.cells import Kind, Number, Other
from mercato_tools.imports.spreadsheets.prices import DecimalMark, PriceError, Prices
from mercato_tools.imports.spreadsheets.read import SheetOptions

POINT, COMMA = DecimalMark.POINT, DecimalMark.COMMA


def reader(currency: str = "EUR", *marks: DecimalMark, given: DecimalMark | None = None) -> Prices:
    return Prices(currency, SCALES[currency], set(marks), given=given)


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("1.50", 150),
        ("1,50", 150),
        ("1.5", 150),
        ("12", 1200),
        ("0", 0),
        (".5", 50),
        ("1.500,00", 150_000),
        ("1,500.00", 150_000),
        ("1.234.567", 123_456_700),
        ("1,234,567.8", 123_456_780),
        ("1'234.50", 123_450),
        ("1’234,50", 123_450),
        ("1 234,50", 123_450),
        ("1\u00a0234,50", 123_450),
        ("1\u202f234,5", 123_450),
        ("€ 1,50", 150),
        ("1,50 €", 150),
        ("EUR 1.50", 150),
        ("1.50eur", 150),
        ("12,-", 1200),
        ("12.–", 1200),
        ("12,-- €", 1200),
        ("-0,50", -50),
        ("−0.50", -50),
        ("€ -0.50", -50),
        ("+1.50", 150),
        ("０．５０", 50),
        ("1.5000", 150),
        ("0,500", 50),
        ("1234,560", 123_456),
    ],
)
def test_a_price_with_one_meaning_is_read(text: str, cents: int):
    assert reader().read(text) == cents


@pytest.mark.parametrize("text", ["1,234", "1.234", "12,345", "999.000", "€ 1,234"])
def test_a_price_with_two_meanings_is_refused_unless_something_decides(text: str):
    with pytest.raises(PriceError, match="nothing in the file says which"):
        reader().read(text)
    with pytest.raises(PriceError, match="nothing in the file says which"):
        reader("EUR", POINT, COMMA).read(text)
    mark = COMMA if "," in text else POINT
    other = POINT if mark is COMMA else COMMA
    digits = int("".join(filter(str.isdigit, text)))
    for deciding in (reader("EUR", other), reader(given=other)):
        assert deciding.read(text) == digits * 100
    for deciding in (reader("EUR", mark), reader(given=mark)):
        if text.endswith("000"):
            assert deciding.read(text) == digits // 10
        else:
            with pytest.raises(PriceError, match="EUR has 2 decimals"):
                deciding.read(text)
    assert reader("JPY").read(text.strip("€ ")) == digits
    assert reader("KWD", mark).read(text.strip("€ ")) == digits
    assert reader("KWD", other).read(text.strip("€ ")) == digits * 1000


@pytest.mark.parametrize(
    "text",
    [
        "free",
        "from 5",
        "5-7",
        "1.50/2.00",
        "1.50 2.00",
        "5 EUR/kg",
        "½",
        "5½",
        "3⁵⁰",
        "12²",
        "(1.50)",
        "1,2,3",
        "1..5",
        "1.5.",
        "12.",
        "1 23,50",
        "1'23.50",
        "1.23,456,7",
        "1,234.567,8",
        "--1",
        "5-",
        "1e3",
        "1.50E+02",
        "0x10",
        "१२",
        "5 %",
        "5%",
        "TBD",
        "?",
        "-",
        "€",
        "=1+1",
        "'1.50",
        "1.50$",
        "£1.50",
        "1.50 USD",
        "$ 1.50",
        "1.5055",
        "1,505 €5",
        "9" * 30,
        "9" * 10_000,
        "1.50" * 20,
    ],
)
def test_what_is_no_price_is_refused(text: str):
    with pytest.raises(PriceError) as refused:
        reader().read(text)
    assert "12.50" in str(refused.value) or "one currency" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "1 May",
        "1-May",
        "May-50",
        "1. Mai",
        "01.05.2026",
        "1/5/26",
        "2026-05-01",
        "01.05",
        "1.5.26",
        "1:50",
        "01:50:00",
    ],
)
def test_a_date_that_a_program_made_of_a_price_is_named(text: str):
    with pytest.raises(PriceError, match="looks like a date or a time"):
        reader().read(text)


@pytest.mark.parametrize(
    ("kind", "words"), [(Kind.DATE, "made a date of"), (Kind.TIME, "made a time of"), (Kind.ERROR, "error")]
)
def test_a_cell_of_another_kind_is_named(kind: Kind, words: str):
    with pytest.raises(PriceError, match=words):
        reader().read(Other(kind, "2026-05-01"))


@pytest.mark.parametrize(
    "text", ["#REF!", "#N/A", "#DIV/0!", "#VALUE!", "#NAME?", "#BEZUG!", "#NV", "Err:502"]
)
def test_an_error_value_is_named(text: str):
    with pytest.raises(PriceError, match="shows an error"):
        reader().read(text)


@pytest.mark.parametrize("text", ["12.50", "1,234,567", "1.234.567,00", "1.5"])
def test_a_chosen_decimal_mark_refuses_what_is_written_otherwise(text: str):
    with pytest.raises(PriceError, match=r"isn't written so|isn't a price"):
        reader(given=COMMA if text.count(".") == 1 else POINT if text.endswith("00") else COMMA).read(text)


@pytest.mark.parametrize(
    ("value", "cents"),
    [
        ("1.5", 150),
        ("3.3000000000000003", 330),
        ("0.1", 10),
        ("2.675", None),
        ("1.505", None),
        ("1E+2", 10_000),
        ("1E-12", 0),
        ("-0.5", -50),
        ("1E+300", None),
        ("92233720368547758.07", 2**63 - 1),
        ("92233720368547758.08", None),
    ],
)
def test_a_number_is_its_amount_within_the_tolerance_or_refused(value: str, cents: int | None):
    cell = Number(Decimal(value))
    if cents is None:
        with pytest.raises(PriceError):
            reader().read(cell)
    else:
        assert reader().read(cell) == cents


@pytest.mark.parametrize(
    ("unit", "currency"),
    [("€", "EUR"), ("$", "USD"), ("$", "CAD"), ("kr", "SEK"), ("CHF", "CHF"), ("zł", "PLN")],
)
def test_a_number_whose_format_shows_the_currency_is_read_and_another_refused(unit: str, currency: str):
    assert reader(currency).read(Number(Decimal("1.5"), unit)) == 150
    with pytest.raises(PriceError, match="the menu's currency is GBP"):
        reader("GBP").read(Number(Decimal("1.5"), unit))


@pytest.mark.parametrize("value", [True, False, None])
def test_a_truth_value_is_no_price(value: Any):
    with pytest.raises(PriceError):
        reader().read(value)


AMOUNTS = st.integers(min_value=0, max_value=10**9)


@given(
    AMOUNTS,
    st.sampled_from(["EUR", "JPY", "KWD", "CLF"]),
    st.sampled_from([*DecimalMark]),
    st.sampled_from(["", " ", "’", "sep"]),
)
def test_every_way_to_write_an_amount_is_read_as_it_or_refused(
    minor: int, currency: str, mark: DecimalMark, group: str
):
    """Never as another amount, whatever else is in the file, when the mark is the one that the file shows."""
    scale = SCALES[currency]
    text = minor_to_decimal(minor, scale)
    whole, _, fraction = text.partition(".")
    separator = ("," if mark is POINT else ".") if group == "sep" else group
    written = f"{int(whole):,}".replace(",", separator) + (mark.character + fraction if fraction else "")
    assert reader(currency, mark).read(written) == minor
    assert reader(currency, given=mark).read(written) == minor
    try:
        alone = reader(currency).read(written)
    except PriceError:
        return
    assert alone == minor


@given(st.text(alphabet="0123456789.,'’ -€$EUR\u00a0", max_size=14))
def test_a_text_is_never_read_as_two_amounts(text: str):
    """What is read without a decision is read the same with each one that doesn't refuse it."""

    def attempt(prices: Prices) -> int | None:
        try:
            return prices.read(text)
        except PriceError:
            return None

    alone = attempt(reader())
    if alone is not None:
        for mark in DecimalMark:
            assert attempt(reader("EUR", mark)) == alone
            assert attempt(reader(given=mark)) in {alone, None}


@given(st.integers(min_value=-(10**9), max_value=10**9), st.sampled_from(["EUR", "JPY", "KWD", "CLF"]))
def test_a_binary_number_of_an_amount_is_that_amount(minor: int, currency: str):
    near = float(Decimal(minor).scaleb(-SCALES[currency]))
    assert reader(currency).read(Number(Decimal(repr(near)))) == minor


# --- what else is in the file ---------------------------------------------------------------------


def test_another_price_of_the_file_decides():
    assert prices_of(read(csv_of(priced("9,50", "1.234"), delimiter=";"))) == ["9.50", "1234.00"]
    assert prices_of(read(csv_of(priced("9.50", "1,234")))) == ["9.50", "1234.00"]


def test_without_another_price_the_fault_says_what_to_write():
    made = read(csv_of(priced("1,234", "5")))
    [fault] = made.faults
    assert (fault.row, fault.column, fault.found) == (2, "price (B)", "1,234")
    assert fault.message.startswith(
        "This is 1234 or 1.234, and nothing in the file says which. Write it without"
    )
    assert made.document is None


@pytest.mark.parametrize(
    "other", ["1. May", "12.", "9.50 x", "1.2.3", "$9.50", "9.505", "01.05", "9.50/8.50", "1,234"]
)
def test_what_is_no_price_decides_nothing(other: str):
    made = read(csv_of(priced("1,234", other)))
    assert made.faults[0].row == 2
    assert "nothing in the file says which" in made.faults[0].message


def test_two_marks_in_one_file_decide_nothing():
    made = read(csv_of(priced("9.50", "8,50", "1.234")))
    assert [fault.row for fault in made.faults] == [4]


def test_the_option_decides():
    chosen = replace(EUROS, decimal=POINT)
    assert prices_of(read(csv_of(priced("1,234")), chosen)) == ["1234.00"]


def test_the_price_of_a_choice_decides_too():
    menu = [("section", "item", "price", "choices"), ("A", "B", "1.234", "Size")]
    choices = [("group", "option", "price"), ("Size", "Large", "2,50")]
    made = read(csv_of(menu, delimiter=";"), choices=csv_of(choices, delimiter=";"))
    assert prices_of(made) == ["1234.00"]


@pytest.mark.parametrize(
    ("cells", "currency"),
    [
        (["£1.50", "2"], "GBP"),
        (["1,50 €"], "EUR"),
        (["CHF 12.-", "5"], "CHF"),
        (["12 USD"], "USD"),
        (["¥100"], "JPY"),
    ],
)
def test_the_currency_is_the_one_that_prices_name(cells: list[str], currency: str):
    default = "JPY" if currency == "JPY" else "AUD"
    made = read(csv_of(priced(*cells), delimiter=";"), SheetOptions(default_currency=default))
    assert made.summary is not None, made.faults
    assert made.summary.currency == currency


def test_prices_in_two_currencies_are_faults_of_one_of_them():
    made = read(csv_of(priced("£1.50", "€2.50")))
    assert [fault.row for fault in made.faults] == [2]
    assert "The price is in GBP, and the menu's currency is EUR." in made.faults[0].message


def test_a_sign_that_currencies_share_is_refused_with_their_codes():
    made = read(csv_of(priced("¥1,200")), SheetOptions(default_currency="USD"))
    assert "The price is in CNY or JPY, and the menu's currency is USD." in made.faults[0].message


def test_a_default_currency_is_reported():
    made = read(csv_of(priced("5")))
    assert "names no currency, so EUR is used" in made.losses[0].message
    assert read(csv_of(priced("5")), SheetOptions(default_currency="USD", currency="eur")).losses == ()


def test_an_unknown_currency_is_a_fault():
    made = read(csv_of(priced("5")), SheetOptions(default_currency="USD", currency="XYZ"))
    assert "XYZ isn't a currency in use" in made.faults[0].message


def test_cells_of_a_workbook_are_read_by_their_values():
    assert prices_of(read(xlsx_of({"menu": priced(1.5, 2, 3.3000000000000003, "4,50", 0)}))) == [
        "1.50",
        "2.00",
        "3.30",
        "4.50",
        "0.00",
    ]
