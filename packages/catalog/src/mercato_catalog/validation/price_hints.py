"""What an unreadable price may mean. A suggestion is made only where the text has one reading. Pure."""

import re
from typing import Final

from mercato_contract.money import SCALES, MoneyError, decimal_to_minor, get_scale, quote

MAX_PRICE: Final = 40
"""Characters of a price that is examined."""

THREE_DECIMALS: Final = 3

NOT_ONE_AMOUNT: Final = " A price is one amount: digits, and a point before the decimals."
NOT_A_SHARE: Final = " A price is an amount, not a percentage."
AMBIGUOUS: Final = (
    " A point or comma before three digits may separate thousands or decimals. Write thousands without a "
    "separator, and a point before the decimals."
)

_BY_SIGN: Final = (
    "\u0e3fTHB \u20a1CRC \u20a6NGN \u20aaILS \u20abVND \u20acEUR \u20aeMNT \u20b1PHP \u20b2PYG \u20b4UAH \u20b5GHS "
    "\u20b8KZT \u20b9INR \u20baTRY \u20bcAZN \u20bdRUB \u20beGEL"
)
_OWN_SIGNS: Final = {pair[0]: pair[1:] for pair in _BY_SIGN.split(" ")}
"""Signs of a single currency, from Unicode's block of them, with its code."""

_OTHERS: Final = (
    "$ \u00a3 \u00a5 \u20a9 \u5143 \u5186 \u5713 \uc6d0 rs rs. kr kr. fr fr. sfr sfr. ft lei z\u0142 k\u010d rm rp rp. "
    "us$ c$ ca$ a$ au$ nz$ hk$ s$ nt$ mx$ r$ s/ s/. euro euros dollar dollars"
)
_SHARED_SIGNS: Final = frozenset(_OTHERS.split(" "))
"""Other ways in which currencies are written. The cent's sign isn't one of them: it divides the amount."""

_SPACES: Final = str.maketrans(
    dict.fromkeys("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}", " ")
    | {"\N{RIGHT SINGLE QUOTATION MARK}": "'", "\N{MINUS SIGN}": "-"}
)

_PARTS: Final = re.compile(
    r"(?P<before>[^0-9+-]*)(?P<minus>[+-]?)(?P<between>[^0-9+-]*)"
    r"(?P<number>[0-9](?:[0-9.,' ]*[0-9])?)(?P<after>[^0-9]*)"
)
_WHOLE: Final = re.compile(r"[0-9]+")
_SEPARATED: Final = re.compile(r"([0-9]+)([.,])([0-9]+)")
_ONE_GROUP: Final = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")
_GROUPS: Final = re.compile(r"([1-9][0-9]{0,2}(?:([ .,'])[0-9]{3})(?:\2[0-9]{3})*)(?:(?!\2)[.,]([0-9]+))?")
_LAKHS: Final = re.compile(r"([1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3})(?:\.([0-9]+))?")
_NOT_DIGITS: Final = re.compile(r"[^0-9]")


def price_hint(price: str, currency: str) -> str:
    """Return a suggestion for a price that was refused, or why there is none, as a sentence to append.

    A suggestion is a price in the currency, and has the text's digits in their order. Only a currency, spaces, a
    decimal comma and separators of thousands are undone, and only where nothing else can be meant. The return value is
    empty if the text is a decimal whose refusal says all.
    """
    if len(price) > MAX_PRICE:
        return NOT_ONE_AMOUNT
    if price.rstrip().endswith("%"):
        return NOT_A_SHARE
    parts = _PARTS.fullmatch(price.strip().translate(_SPACES))
    if parts is None:
        return NOT_ONE_AMOUNT
    named = [text for place in ("before", "between", "after") if (text := parts[place].strip())]
    codes = [_currency_of(text, currency) for text in named]
    if None in codes:
        return NOT_ONE_AMOUNT
    scale = get_scale(currency)
    minus = parts["minus"].replace("+", "")
    match [minus + reading for reading in _readings(parts["number"], scale)]:
        case [reading] if reading == price:
            return ""
        case [reading]:
            other = "" if {currency}.issuperset(codes) else f" The catalog's currency is {currency}."
            return f" {_fault_of(reading, scale) or f'Did you mean {quote(reading)}?'}{other}"
        case []:
            return NOT_ONE_AMOUNT
        case _:
            return AMBIGUOUS


def _currency_of(text: str, currency: str) -> str | None:
    """Return the code of the currency that is written beside an amount; the catalog's, if that may be meant."""
    if text in SCALES:
        return text
    if text.lower() in _SHARED_SIGNS or text.upper() == currency:
        return currency
    return _OWN_SIGNS.get(text)


def _readings(number: str, scale: int) -> list[str]:
    """Return the decimals that digits with separators may stand for.

    A lone point or comma is the decimal point. Before three digits it may separate thousands: a point except where the
    currency has three decimals; a comma certainly, if it isn't a price with three decimals.
    """
    if _WHOLE.fullmatch(number):
        return [number]
    if lone := _SEPARATED.fullmatch(number):
        decimal, by_point = f"{lone[1]}.{lone[3]}", lone[2] == "."
        if _ONE_GROUP.fullmatch(number) is None:
            return [decimal]
        thousands = lone[1] + lone[3]
        if by_point:
            return [decimal] if scale >= THREE_DECIMALS else [decimal, thousands]
        return [decimal, thousands] if scale and _is_price(decimal, scale) else [thousands]
    if groups := _GROUPS.fullmatch(number):
        return [_joined(groups[1], groups[3])]
    if lakhs := _LAKHS.fullmatch(number):
        return [_joined(lakhs[1], lakhs[2])]
    return []


def _joined(grouped: str, decimals: str | None) -> str:
    whole = _NOT_DIGITS.sub("", grouped)
    return whole if decimals is None else f"{whole}.{decimals}"


def _is_price(text: str, scale: int) -> bool:
    return _fault_of(text, scale) is None


def _fault_of(text: str, scale: int) -> str | None:
    try:
        decimal_to_minor(text, scale)
    except MoneyError as fault:
        return str(fault)
    return None
