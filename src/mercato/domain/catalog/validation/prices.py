"""Prices as they were written, in minor units, and as they are served: decimal strings at the currency's scale.

A menu repeats few prices often, so each distinct one is read once.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mercato.domain.catalog import money
from mercato.domain.catalog.validation.document import Form, Growth, Source
from mercato.domain.catalog.validation.findings import Findings
from mercato.domain.catalog.validation.near_misses import price_hint
from mercato.domain.catalog.validation.rules import Rule
from mercato.kernel.wire.kinds import json_type
from mercato.kernel.wire.walk import escape


class _NotAPrice(msgspec.Struct, frozen=True):
    """Stands for a value of another type."""

    json_type: str


Written = str | bytes | _NotAPrice | None
"""A price as it was written: the text of a string, or of a number. The two are never equal."""


class _ReadPrices(dict[Written, tuple[int | None, str | None, int | None]]):
    """Prices as they were written → in minor units, as served, and by how much that is longer; None if it is the same.

    Each is read when it is asked for the first time.
    """

    def __init__(self, scale: int) -> None:
        super().__init__()
        self._scale = scale
        self.refused: dict[Written, str] = {}

    def __missing__(self, price: Written) -> tuple[int | None, str | None, int | None]:
        self[price] = read = self._read(price)
        return read

    def _read(self, price: Written) -> tuple[int | None, str | None, int | None]:
        if price is None:
            return None, None, None
        if isinstance(price, _NotAPrice):
            self.refused[price] = f"must be {Form.PRICE.words}, not {price.json_type}."
            return None, None, None
        try:
            minor = (
                money.decimal_to_minor(price, self._scale)
                if isinstance(price, str)
                else money.number_to_minor(price.decode(), self._scale)
            )
        except money.MoneyError as fault:
            self.refused[price] = str(fault) + (price_hint(price) if isinstance(price, str) else "")
            return None, None, None
        served = money.scaled(minor, self._scale)
        quotes = 0 if isinstance(price, str) else 2
        return minor, served, None if served == price else len(served) - len(price) + quotes


class Prices:
    """Reads the prices of one document, all in one currency."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source = source
        self._findings = findings
        self._read = _ReadPrices(source.scale)

    def items(self) -> tuple[list[int | None], Growth]:
        """Return each item's base price in document order; serve it at scale."""
        items = self._source.items
        written = _written([row.base_price for row in items.rows])
        found: list[int | None] = []
        grown = 0
        # One pass: each price is hashed and looked up once, and its members are touched once.
        read = map(self._read.__getitem__, written)
        for members, (minor, text, growth) in zip(items.members.values(), read, strict=True):
            found.append(minor)
            if growth is not None:
                members["basePrice"] = text
                grown += growth
        if self._read.refused:
            self._refuse(written)
        if None in self._read:
            self._warn_without(written)
        return found, Growth(0, grown)

    def overrides(self) -> dict[str, dict[str, int]]:
        """Return each group's own prices by the ids as they were written; serve them at scale."""
        return {
            key: self._of_group(key, prices)
            for key, prices in self._source.groups.values("priceOverrides").items()
        }

    def any_negative(self) -> bool:
        """Tell whether any price that was read is below zero."""
        return any(minor is not None and minor < 0 for minor, _, _ in self._read.values())

    def _of_group(self, key: str, prices: dict[str, Any]) -> dict[str, int]:
        groups = self._source.groups
        found: dict[str, int] = {}
        served: dict[str, Any] = {}
        for item, value in prices.items():
            price = _NotAPrice("null") if value is None else _as_written(value)
            minor, served[item], _ = self._read[price]
            if minor is None:
                at = f"{groups.pointer(key)}/priceOverrides/{escape(item)}"
                self._findings.fault(Rule.INVALID_PRICE, self._refusal("A price", price), at)
            found[item] = minor or 0
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

    def _warn_without(self, written: Iterable[Written]) -> None:
        items = self._source.items
        for key in [key for key, price in zip(items.members, written, strict=True) if price is None]:
            self._findings.warn(
                Rule.NO_PRICE,
                f"The item {items.label(key)} has no basePrice: "
                "it cannot be sold by itself, and is free as a modifier.",
                items.pointer(key),
            )


def _written(values: list[Any]) -> list[Written]:
    if set(map(type, values)) <= {str, type(None)}:
        return values
    # Not as integers: whoever knows how they are hashed can choose a million of them that all hash alike.
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
