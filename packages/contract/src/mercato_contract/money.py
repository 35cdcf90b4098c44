"""Money between decimal text and integers of minor units, never through a float.

Digits are counted before they are converted, so that a price of a million digits takes linear time.
"""

import re
from functools import lru_cache
from typing import Final

# From ISO 4217: reading the package's XML would cost 50 ms at every start. A test compares this table with the package.
_BY_DECIMALS: Final = {
    0: ("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
    2: (
        "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF "
        "CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD "
        "GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL "
        "MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR "
        "PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP "
        "TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG"
    ),
    3: ("BHD IQD JOD KWD LYD OMR TND"),
    4: ("CLF UYW"),
}


SCALES: Final = {code: scale for scale, codes in _BY_DECIMALS.items() for code in codes.split()}
"""Currency code → decimals of its amounts. Codes without a minor unit (gold, test codes) aren't currencies here."""


MIN_MINOR: Final = -(2**63)


MAX_MINOR: Final = 2**63 - 1
"""Minor units fit into a signed 64-bit integer, as database columns and MessagePack do."""


_decimal: Final = re.compile(r"(-?)(\d+)(?:\.(\d+))?", re.ASCII).fullmatch


_NUMBER: Final = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?)0*(\d{1,4}))?", re.ASCII)


_MAX_DIGITS: Final = 19


_SAFE_DIGITS: Final = 15
"""Digits before the point that are in range at every scale."""


MAX_TEXTS: Final = 4_096
"""Amounts whose texts are cached, some 200 bytes each. A menu has few prices, and an order names each many times."""


_SHOWN: Final = 40
"""Characters of a refused price that a message repeats."""


class MoneyError(ValueError):
    """A text that isn't an amount in the currency; its message says why, for the text's author."""


def find_scale(currency: str) -> int | None:
    """Return the decimals of the currency's amounts; None if the code isn't an ISO 4217 currency in use."""
    return SCALES.get(currency)


def get_scale(currency: str) -> int:
    """Return the decimals of the currency's amounts. Raises MoneyError for any other code."""
    scale = SCALES.get(currency)
    if scale is None:
        raise MoneyError(f"{quote(currency)} is not an ISO 4217 currency code.")
    return scale


def to_minor(text: str, currency: str) -> int:
    """Return the decimal text in minor units of the currency. Raises MoneyError.

    Negative amounts are decimals too. Zeros beyond the currency's decimals are accepted, other digits are not.
    """
    return decimal_to_minor(text, get_scale(currency))


def to_text(minor: int, currency: str) -> str:
    """Return the amount as decimal text: `1.10` USD, `110` JPY, `0.110` KWD."""
    return minor_to_decimal(minor, get_scale(currency))


def decimal_to_minor(text: str, scale: int) -> int:
    """Return the decimal text in minor units of `scale` decimals. Raises MoneyError."""
    match = _decimal(text)
    if match is None:
        raise MoneyError(_no_decimal(text))
    sign, whole, fraction = match.groups("")
    if len(fraction) <= scale and len(whole) < _SAFE_DIGITS:
        return int(sign + whole + fraction.ljust(scale, "0"))
    return _minor(text, sign, whole, fraction, scale)


def decimal_fault(text: str) -> str | None:
    """Return why the text isn't a decimal in any currency, or None."""
    return _no_decimal(text) if _decimal(text) is None else None


def canonical_decimal(text: str) -> str:
    """Return the decimal text in the one form of its value: `1`, `1.0` and `01.00` are `1`. Any other text stays."""
    match = _decimal(text)
    if match is None:
        return text
    sign, whole, fraction = match.groups("")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return number if number == "0" else sign + number


def is_zero(text: str) -> bool:
    """Return whether the decimal text is zero, like `0.00`."""
    return canonical_decimal(text) == "0"


def is_negative(text: str) -> bool:
    """Return whether the decimal text is below zero; `-0.00` isn't."""
    return text.startswith("-") and text.strip("-0.") != ""


def _no_decimal(text: str) -> str:
    return f"{quote(text)} is not a decimal number like 12.50."


def number_to_minor(text: str, scale: int) -> int:
    """Return the text of a JSON number in minor units; an exponent is read exactly. Raises MoneyError."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise MoneyError(f"{quote(text)} is out of range for a price.")
    sign, whole, fraction, down, exponent = match.groups("")
    if exponent:
        whole, fraction = _shifted(whole, fraction, -int(exponent) if down == "-" else int(exponent))
    return _minor(text, sign, whole, fraction, scale)


@lru_cache(maxsize=MAX_TEXTS)
def minor_to_decimal(minor: int, scale: int) -> str:
    """Return minor units as decimal text with exactly `scale` decimals."""
    if scale == 0:
        return str(minor)
    digits = str(abs(minor)).zfill(scale + 1)
    return f"{'-' if minor < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def quote(text: str) -> str:
    """Return a partner's text for a message: quoted, shortened, without control characters."""
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return '"' + "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cut) + '"'


def _shifted(whole: str, fraction: str, by: int) -> tuple[str, str]:
    """Return the digits before and after the point when it moves right by `by` places."""
    if by >= 0:
        return whole + fraction[:by].ljust(by, "0"), fraction[by:]
    return whole[:by] or "0", whole[by:].rjust(-by, "0") + fraction


def _minor(text: str, sign: str, whole: str, fraction: str, scale: int) -> int:
    fraction = fraction.rstrip("0")
    if len(fraction) > scale:
        allowed = f"at most {scale} decimals" if scale else "no decimals"
        raise MoneyError(f"{quote(text)} has more decimals than the currency: {allowed}.")
    digits = whole.lstrip("0") + fraction.ljust(scale, "0")
    if len(digits) <= _MAX_DIGITS + scale:
        minor = int(sign + (digits or "0"))
        if MIN_MINOR <= minor <= MAX_MINOR:
            return minor
    raise MoneyError(f"{quote(text)} is out of range for a price.")
