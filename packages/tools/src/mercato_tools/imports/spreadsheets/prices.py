"""Prices as people write them in cells, read exactly or refused: nothing is guessed.

`1.50`, `1,50`, `€ 1.234,50`, `1'234.50` and `12,-` each have one meaning. `1,234` has two: a thousand, or three
decimals. It is read only if something decides: an option, another price of the file, or a currency without decimals.
"""

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from typing import Final

from mercato_contract.money import MoneyError, decimal_to_minor, find_scale
from mercato_tools.imports.spreadsheets.cells import Cell, Kind, Number, Other, plain

TOLERANCE: Final = Decimal("1e-9")
"""How far a cell's binary number may be from an amount of the currency: 3.3000000000000003 is 3.30, 3.305 isn't."""

MAX_PRICE: Final = 60
"""Characters of a price with its currency."""

GROUP: Final = 3
"""Digits between two marks of thousands."""


class DecimalMark(StrEnum):
    """What stands before the decimals of a price."""

    POINT = "point"
    COMMA = "comma"

    @property
    def character(self) -> str:
        return "." if self is DecimalMark.POINT else ","

    @property
    def other(self) -> "DecimalMark":
        """The one that then stands between thousands."""
        return DecimalMark.COMMA if self is DecimalMark.POINT else DecimalMark.POINT


class PriceError(ValueError):
    """A cell isn't a price; the message says why, and what to write instead."""


_SPACES: Final = re.compile(r"[\s\u00a0\u2007\u202f\u2009]+")
_WIDE: Final = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""The wide forms of ASCII in Japanese and Chinese texts. Other compatible characters would change a price: 3⁵⁰."""

_UNIT: Final = r"[^\s\d.,'’()\-−–—+/:%=#]{1,4}\.?"  # noqa: RUF001  # what programs write
_PRICE: Final = re.compile(
    rf"(?P<before>{_UNIT})?\s?(?P<sign>[-−+])?\s?(?P<middle>{_UNIT})?\s?"  # noqa: RUF001
    rf"(?P<number>\d[\d.,'’ ]*?|[.,]\d+)(?P<dash>[.,]\s?[-–—]{{1,2}})?\s?(?P<after>{_UNIT})?",  # noqa: RUF001
    re.ASCII,
)
_GROUPED: Final = re.compile(r"\d{1,3}(?:[ '’]\d{3})+(?:[.,]\d+)?", re.ASCII)  # noqa: RUF001
_GROUP_MARKS: Final = re.compile(r"[ '’]")  # noqa: RUF001
_ERROR: Final = re.compile(r"#(?:[A-ZÄÖÜÉÁÍÓÚ_]{2,}[!?]|N/?[ADV]|DIV/0!|NUM!)|Err:\d{3}", re.ASCII)
_DATE: Final = re.compile(
    r"\d{1,4}[./-]\d{1,2}[./-](?:\d{1,4})?|\d{1,2}[ .-]{1,2}[^\W\d_]{3,9}\.?(?:[ -]\d{2,4})?"
    r"|[^\W\d_]{3,9}\.?[ -]\d{1,4}|0\d[.,]\d{1,2}"
)

_SYMBOLS: Final = {
    "€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "₺": "TRY", "₪": "ILS", "฿": "THB", "₫": "VND", "₱": "PHP",
    "₴": "UAH", "₽": "RUB", "₦": "NGN", "₸": "KZT", "zł": "PLN", "kč": "CZK", "r$": "BRL", "us$": "USD", "a$": "AUD",
    "nz$": "NZD", "hk$": "HKD", "nt$": "TWD", "s$": "SGD", "c$": "CAD", "ca$": "CAD", "mx$": "MXN", "円": "JPY",
    "元": "CNY", "eur": "EUR", "fr.": "CHF", "sfr.": "CHF", "sfr": "CHF",
}  # fmt: skip
"""Texts beside an amount that are of one currency."""

_SHARED: Final = {
    "$": frozenset(
        (
            "USD",
            "CAD",
            "AUD",
            "NZD",
            "MXN",
            "SGD",
            "HKD",
            "TWD",
            "ARS",
            "CLP",
            "COP",
            "UYU",
            "BZD",
            "JMD",
            "TTD",
        )
    ),
    "¥": frozenset(("JPY", "CNY")),
    "kr": frozenset(("SEK", "NOK", "DKK", "ISK")),
    "kr.": frozenset(("SEK", "NOK", "DKK", "ISK")),
    "fr": frozenset(("CHF", "XOF", "XAF", "XPF")),
    "rs": frozenset(("INR", "PKR", "LKR", "NPR", "MUR")),
    "rs.": frozenset(("INR", "PKR", "LKR", "NPR", "MUR")),
    "ft": frozenset(("HUF",)),
    "lei": frozenset(("RON", "MDL")),
    "tl": frozenset(("TRY",)),
    "r": frozenset(("ZAR",)),
}
"""Texts beside an amount that are of several currencies."""


def currency_of_unit(unit: str) -> str | None:
    """Return the one currency that a text beside an amount means, or None."""
    if find_scale(unit.upper()) is not None:
        return unit.upper()
    return _SYMBOLS.get(unit.casefold())


def currencies_in(cells: Iterable[Cell]) -> set[str]:
    """Return the currencies that prices name."""
    found = set()
    for cell in cells:
        for unit in _units(cell):
            if (currency := currency_of_unit(unit)) is not None:
                found.add(currency)
    return found


def _units(cell: Cell) -> Iterable[str]:
    if isinstance(cell, Number):
        return (cell.unit,) if cell.unit else ()
    if isinstance(cell, str) and len(cell) <= MAX_PRICE and (match := _PRICE.fullmatch(normalize(cell))):
        return filter(None, (match["before"], match["middle"], match["after"]))
    return ()


def normalize(text: str) -> str:
    """Return a price's text with plain spaces and digits."""
    return _SPACES.sub(" ", text.translate(_WIDE)).strip()


def marks_in(cells: Iterable[Cell], currency: str, scale: int) -> set[DecimalMark]:
    """Return the decimal marks that prices show beyond doubt: `1,50`, `1.234,50` and `1.234.567` show a comma.

    What isn't a price in the currency shows nothing.
    """
    alone = Prices(currency, scale, set(), given=None)
    found: set[DecimalMark] = set()
    for cell in cells:
        if not isinstance(cell, str) or not ("." in cell or "," in cell):
            continue
        try:
            alone.read(cell)
        except PriceError:
            continue
        match = _PRICE.fullmatch(normalize(cell))
        assert match is not None, "it was read"
        number = match["number"]
        last = max(number.rfind("."), number.rfind(","))
        if last < 0 or (scale == 0 and number.count(number[last]) == 1):
            continue
        mark = DecimalMark.POINT if number[last] == "." else DecimalMark.COMMA
        is_repeated = number.count(number[last]) > 1
        found.add(mark.other if is_repeated else mark)
    return found


def is_ambiguous(number: str, scale: int) -> bool:
    """Return whether the only mark of a number could be one of thousands as well as one of decimals."""
    if scale == 0 or sum(number.count(mark) for mark in ".,") != 1:
        return False
    head, _, tail = number.replace(",", ".").partition(".")
    return len(tail) == GROUP and 1 <= len(head) <= GROUP and not head.startswith("0")


class Prices:
    """Reads the prices of a file in one currency."""

    def __init__(
        self, currency: str, scale: int, marks: set[DecimalMark], *, given: DecimalMark | None
    ) -> None:
        """`marks` are what the file shows; `given` is the mark that somebody chose, which decides."""
        self.currency = currency
        self.scale = scale
        self._given = given
        self._known = next(iter(marks)) if len(marks) == 1 else None
        mark = (given or self._known or DecimalMark.POINT).character
        self._example = f"12{mark}{'50'.ljust(scale, '0')[:scale]}" if scale else "1250"

    def read(self, cell: Cell) -> int:
        """Return a cell's price in minor units. Raises PriceError."""
        match cell:
            case Number():
                return self._number(cell)
            case str():
                return self._text(cell)
            case Other(kind=Kind.DATE | Kind.TIME as kind):
                raise PriceError(
                    f"The spreadsheet program made {kind.value} of the price. Format the column as a number with "
                    f"{self.scale} decimals, or as text, and type the price again, such as {self._example}."
                )
            case Other(kind=Kind.ERROR):
                raise PriceError(
                    f"The cell shows an error. Correct its formula, or write a price such as {self._example}."
                )
        raise PriceError(f"This isn't a price. Write one such as {self._example}.")

    def _number(self, cell: Number) -> int:
        self._check_unit(cell.unit)
        step = Decimal(1).scaleb(-self.scale)
        if abs(cell.value) >= 10**18:  # beyond every amount
            raise PriceError(f"The price is out of range. Write one such as {self._example}.")
        near = cell.value.quantize(step, ROUND_HALF_EVEN)
        if abs(near - cell.value) > TOLERANCE:
            raise PriceError(
                f"The cell holds {plain(cell.value)}, even if it shows a rounded price, and {self._decimals()}. "
                f"Write the price itself, such as {plain(near)}."
            )
        return self._minor(f"{near:f}")

    def _text(self, cell: str) -> int:
        text = normalize(cell)
        match = _PRICE.fullmatch(text) if len(text) <= MAX_PRICE else None
        if match is None or _DATE.fullmatch(match["number"]):
            raise PriceError(self._no_price(text))
        for unit in filter(None, (match["before"], match["middle"], match["after"])):
            if currency_of_unit(unit) is None and unit.casefold() not in _SHARED:
                raise PriceError(self._no_price(text))
            self._check_unit(unit)
        number = match["number"].strip()
        if " " in number or "'" in number or "’" in number:  # noqa: RUF001
            if not _GROUPED.fullmatch(number):
                raise PriceError(self._no_price(text))
            number = _GROUP_MARKS.sub("", number)
        number = self._grouped(number, text) if match["dash"] else self._decimal(number, text)
        return self._minor(f"{'-' if match['sign'] in {'-', '−'} else ''}{number}")  # noqa: RUF001

    def _decimal(self, number: str, text: str) -> str:
        """Return a number of digits and marks as a decimal with a point."""
        last = max(number.rfind("."), number.rfind(","))
        if last < 0:
            return number
        mark = number[last]
        other = "," if mark == "." else "."
        if number.count(mark) > 1 or self._is_grouping(mark, number):
            if self._given is not None and self._given.character == mark:
                raise PriceError(self._against())
            return self._grouped(number, text)
        if self._given is not None and self._given.character != mark:
            raise PriceError(self._against())
        whole, fraction = number[:last], number[last + 1 :]
        if not fraction or mark in whole:
            raise PriceError(self._no_price(text))
        whole = self._grouped(whole, text) if other in whole else whole
        if len(fraction.rstrip("0")) > self.scale:
            raise PriceError(
                f"The price has {len(fraction.rstrip('0'))} decimals ({mark} is read as the decimal mark), and "
                f"{self._decimals()}. Write one such as {self._example}."
            )
        return f"{whole or '0'}.{fraction}"

    def _is_grouping(self, mark: str, number: str) -> bool:
        """Return whether the only mark of a number is one of thousands. Raises PriceError if nothing decides."""
        if ("," in number) == ("." in number):
            return False
        head, _, tail = number.partition(mark)
        if self.scale == 0:
            return len(tail) == GROUP and 1 <= len(head) <= GROUP
        if not is_ambiguous(number, self.scale):
            # Only a chosen mark makes one of thousands of it, and then it has too few digits for that.
            return False
        known = self._given or self._known
        if known is None:
            thousands, point = head + tail, f"{head}.{tail}"
            raise PriceError(
                f"This is {thousands} or {point}, and nothing in the file says which. Write it without a mark of "
                f"thousands, such as {thousands}, or say which mark stands before decimals: a comma or a point."
            )
        return known.character != mark

    def _grouped(self, number: str, text: str) -> str:
        """Return a whole number without its marks of thousands."""
        marks = {character for character in number if character in ".,"}
        if not marks:
            return number
        [mark, *others] = marks
        if others or not re.fullmatch(rf"\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+", number, re.ASCII):
            raise PriceError(self._no_price(text))
        return number.replace(mark, "")

    def _minor(self, decimal: str) -> int:
        whole = decimal.lstrip("-").partition(".")[0]
        if len(whole) > 1 and whole.startswith("0"):
            raise PriceError(f"The price begins with 0. Write it without, such as {self._example}.")
        try:
            return decimal_to_minor(decimal, self.scale)
        except MoneyError as error:
            raise PriceError(f"{error} Write one such as {self._example}.") from None

    def _check_unit(self, unit: str) -> None:
        if (
            not unit
            or self.currency in _SHARED.get(unit.casefold(), ())
            or currency_of_unit(unit) == self.currency
        ):
            return
        named = currency_of_unit(unit) or " or ".join(sorted(_SHARED.get(unit.casefold(), ()))) or unit
        raise PriceError(
            f"The price is in {named}, and the menu's currency is {self.currency}. Write all prices in one currency, "
            "and name that one if it is another."
        )

    def _decimals(self) -> str:
        return f"{self.currency} has {self.scale or 'no'} decimals"

    def _against(self) -> str:
        assert self._given is not None
        return (
            f"The decimal mark is a {self._given.value}, and this isn't written so. Write a price such as "
            f"{self._example}."
        )

    def _no_price(self, text: str) -> str:
        if is_error(text):
            return f"The cell shows an error. Correct its formula, or write a price such as {self._example}."
        if text.startswith("="):
            return f"This is a formula. Write its result, such as {self._example}."
        if _DATE.fullmatch(text) or re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            return (
                "This looks like a date or a time, which spreadsheet programs make of prices. Format the column as a "
                f"number or as text, and type the price again, such as {self._example}."
            )
        return (
            f"This isn't a price. Write one amount, such as {self._example}, or 0 if it is free; several sizes are a "
            "group of choices."
        )


def is_error(text: str) -> bool:
    """Return whether a text is the error value of a spreadsheet program, such as #REF!."""
    return _ERROR.fullmatch(text) is not None
