"""Reads prices into minor units, and windows of availability into spans of the local week."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mercato_catalog.model import DAY_SECONDS, DAYS, Windows
from mercato_catalog.validation.document import Form, Source
from mercato_catalog.validation.findings import Findings, Rule, shorten
from mercato_catalog.validation.near_misses import window_hint
from mercato_catalog.validation.price_hints import price_hint
from mercato_contract.catalog_documents import MAX_WINDOWS
from mercato_contract.json_values import escape, json_type
from mercato_contract.money import MoneyError, decimal_to_minor, minor_to_decimal, number_to_minor

# --- prices ---------------------------------------------------------------------------------------
#
# They are served as decimal strings at the currency's scale. A menu has few distinct prices, so each is read once.

_NO_PRICE: Final = "has no basePrice: it can't be sold by itself, and is free as a modifier."


class _NotAPrice(msgspec.Struct, frozen=True):
    """A value of another type."""

    json_type: str


Written = str | bytes | _NotAPrice | None
"""A price as written: the text of a string, or the bytes of a number, which never equal a string."""


class _ReadPrices(dict[Written, tuple[int | None, str | None]]):
    """Prices as written → in minor units, and as served. Each is read at its first lookup."""

    def __init__(self, currency: str, scale: int) -> None:
        super().__init__()
        self._currency = currency
        self._scale = scale
        self.refused: dict[Written, str] = {}

    def __missing__(self, price: Written) -> tuple[int | None, str | None]:
        self[price] = read = self._read(price)
        return read

    def _read(self, price: Written) -> tuple[int | None, str | None]:
        if price is None:
            return None, None
        if isinstance(price, _NotAPrice):
            self.refused[price] = f"must be {Form.PRICE.words}, not {price.json_type}."
            return None, None
        try:
            minor = (
                decimal_to_minor(price, self._scale)
                if isinstance(price, str)
                else number_to_minor(price.decode(), self._scale)
            )
        except MoneyError as fault:
            hint = price_hint(price, self._currency) if isinstance(price, str) else ""
            self.refused[price] = f"{fault}{hint}"
            return None, None
        return minor, minor_to_decimal(minor, self._scale)


class Prices:
    """Reads the prices of one document, all in one currency."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source = source
        self._findings = findings
        self._read = _ReadPrices(source.currency, source.scale)

    def items(self) -> list[int | None]:
        """Return each item's base price in document order; serve it at scale."""
        items = self._source.items
        written = _written([row.base_price for row in items.rows])
        found: list[int | None] = []
        # In one pass, so that each price is hashed once.
        read = map(self._read.__getitem__, written)
        for members, (minor, text) in zip(items.members.values(), read, strict=True):
            found.append(minor)
            if text is not None:
                members["basePrice"] = text
        if self._read.refused:
            self._refuse(written)
        if any(type(price) is bytes for price in self._read):
            self._warn_of_numbers(written)
        if None in self._read:
            self._warn_without(written)
        return found

    def overrides(self) -> dict[str, dict[str, int]]:
        """Return each group's prices by the ids as written; serve them at scale."""
        return {
            key: self._of_group(key, prices)
            for key, prices in self._source.groups.values("priceOverrides").items()
        }

    def any_negative(self) -> bool:
        """Return whether any price that was read is below zero."""
        return any(minor is not None and minor < 0 for minor, _ in self._read.values())

    def _of_group(self, key: str, prices: dict[str, Any]) -> dict[str, int]:
        groups = self._source.groups
        found: dict[str, int] = {}
        served: dict[str, Any] = {}
        numbers: list[tuple[str, bytes]] = []
        for item, value in prices.items():
            price = _NotAPrice("null") if value is None else _as_written(value)
            minor, served[item] = self._read[price]
            if minor is None:
                at = f"{groups.pointer(key)}/priceOverrides/{escape(item)}"
                self._findings.fault(Rule.INVALID_PRICE, self._refusal("A price", price), at)
            elif isinstance(price, bytes):
                numbers.append((item, price))
            found[item] = minor or 0
        self._findings.warn_of_each(
            Rule.NUMBER_PRICE,
            numbers,
            lambda one: (
                _number_message(one[1]),
                f"{groups.pointer(key)}/priceOverrides/{escape(one[0])}",
            ),
        )
        groups.change(key, "priceOverrides", served)
        return found

    def _refuse(self, written: Sequence[Written]) -> None:
        items = self._source.items
        for key, price in zip(items.members, written, strict=True):
            if price in self._read.refused:
                rule = Rule.WRONG_TYPE if isinstance(price, _NotAPrice) else Rule.INVALID_PRICE
                self._findings.fault(
                    rule, self._refusal("basePrice", price), f"{items.pointer(key)}/basePrice"
                )

    def _refusal(self, name: str, price: Written) -> str:
        reason = self._read.refused[price]
        return f"{name} {reason}" if isinstance(price, _NotAPrice) else reason

    def _warn_of_numbers(self, written: Iterable[Written]) -> None:
        items, refused = self._source.items, self._read.refused
        numbers = [
            (key, price)
            for key, price in zip(items.members, written, strict=True)
            if isinstance(price, bytes) and price not in refused
        ]
        self._findings.warn_of_each(
            Rule.NUMBER_PRICE,
            numbers,
            lambda found: (_number_message(found[1]), f"{items.pointer(found[0])}/basePrice"),
        )

    def _warn_without(self, written: Iterable[Written]) -> None:
        items = self._source.items
        self._findings.warn_of_each(
            Rule.NO_PRICE,
            [key for key, price in zip(items.members, written, strict=True) if price is None],
            lambda key: (f"The item {items.label(key)} {_NO_PRICE}", items.pointer(key)),
        )


def _number_message(price: bytes) -> str:
    return f"The price {shorten(price.decode())} is a JSON number; prices are strings."


def _written(values: list[Any]) -> list[Written]:
    if set(map(type, values)) <= {str, type(None)}:
        return values
    # Numbers stay text: a hostile document could have a million integers whose hashes collide.
    return list(map(_as_written, values))


def _as_written(value: Any) -> Written:
    match value:
        case str() | None:
            return value
        case bool():
            return _NotAPrice(json_type(value))
        case int():
            return str(value).encode()
        case msgspec.Raw():
            return bytes(value)
        case _:
            return _NotAPrice(json_type(value))


# --- windows --------------------------------------------------------------------------------------

ALWAYS: Final[list[dict[str, str]]] = [
    {"dayOfWeek": day, "start": "00:00:00", "end": "00:00:00"} for day in DAYS
]
"""Served for a catalog that is always available, because storefronts read a missing list as closed."""

LAST_SECONDS: Final = 60
"""Seconds before midnight in which a window ends that is meant to end with the day."""

_MIDNIGHTS: Final = ("24:", "23:59")
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)", re.ASCII)


def read_windows(source: Source, findings: Findings) -> list[Windows | None]:
    """Return each catalog's windows, None for always, which is served as seven whole days."""
    catalogs = source.catalogs
    if sum(map(len, catalogs.values("availability").values())) > MAX_WINDOWS:
        message = f"The catalogs have more than {MAX_WINDOWS:,} windows of availability together."
        findings.fault(Rule.TOO_MANY_WINDOWS, message, "/catalogs")
        return []
    read: list[Windows | None] = []
    for key, row in catalogs.entries():
        if row.availability is None:
            catalogs.change(key, "availability", ALWAYS)
            read.append(None)
            continue
        at = f"{catalogs.pointer(key)}/availability"
        spans = [_span(window, f"{at}/{index}", findings) for index, window in enumerate(row.availability)]
        _warn_of_early_ends(catalogs.label(key), spans, at, findings)
        read.append(tuple(sorted(span for span in spans if span is not None)))
    return read


def _span(window: Any, at: str, findings: Findings) -> tuple[int, int] | None:
    if not isinstance(window, dict):
        findings.fault(Rule.WRONG_TYPE, f"A window must be an object, not {json_type(window)}.", at)
        return None
    day = window.get("dayOfWeek")
    if day not in DAYS:
        message = f"dayOfWeek must be one of {', '.join(DAYS)}.{window_hint(window, 'dayOfWeek')}"
        findings.fault(Rule.UNKNOWN_DAY, message, f"{at}/dayOfWeek")
    start, end = (_second(window, name, at, findings) for name in ("start", "end"))
    if start is None or end is None or day not in DAYS:
        return None
    # An end of 00:00:00 is the end of the day.
    end = end or DAY_SECONDS
    if start >= end:
        findings.fault(
            Rule.WINDOW_INVERTED,
            "The window ends before it begins. Write one across midnight as two.",
            at,
        )
        return None
    base = DAYS.index(day) * DAY_SECONDS
    return base + start, base + end


def _warn_of_early_ends(
    label: str, spans: Sequence[tuple[int, int] | None], at: str, findings: Findings
) -> None:
    """Warn of windows that end in the last minute of a day: the store is closed until midnight, which nobody means."""
    closed = [(index, -span[1] % DAY_SECONDS) for index, span in enumerate(spans) if span is not None]
    early = [(index, seconds) for index, seconds in closed if 0 < seconds <= LAST_SECONDS]
    if early:
        index, seconds = early[0]
        left = "a second" if seconds == 1 else f"{seconds} seconds"
        others = f" {len(early)} of its windows end so." if len(early) > 1 else ""
        findings.warn(
            Rule.WINDOW_ENDS_EARLY,
            f"A window of the catalog {label} ends {left} before midnight, and the store is "
            f"closed until then. The end of the day is 00:00:00.{others}",
            f"{at}/{index}/end",
        )


def _second(window: dict[str, Any], name: str, at: str, findings: Findings) -> int | None:
    value = window.get(name)
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        if name not in window:
            message = f"{name} is missing: a time like 18:30:00."
        else:
            shown = "" if isinstance(value, str) else f", not {json_type(value)}"
            message = f"{name} must be a time like 18:30:00{shown}."
        midnight = isinstance(value, str) and name == "end" and value.startswith(_MIDNIGHTS)
        more = " The end of the day is 00:00:00." if midnight else window_hint(window, name)
        findings.fault(Rule.INVALID_TIME, f"{message}{more}", f"{at}/{name}")
        return None
    hours, minutes, seconds = map(int, match.groups())
    return hours * 3600 + minutes * 60 + seconds
