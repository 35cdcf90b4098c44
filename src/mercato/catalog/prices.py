"""Prices as they were written, in minor units, and as they are served: decimal strings at the currency's scale.

A menu repeats few prices often, so each distinct one is looked at once.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from mercato.catalog import money
from mercato.catalog.findings import Findings, escape
from mercato.catalog.near_misses import price_hint
from mercato.catalog.rules import Rule
from mercato.catalog.shape import said
from mercato.catalog.source import Form, Source

Written = str | bytes | None
"""A price as it was written: the text of a string, or of a number. The two are never equal."""


class _Read(dict[Written, tuple[int | None, str | None, int | None]]):
    """Prices as they were written → in minor units, as served, and by how much that is longer; None if it is the same.

    Each is read when it is asked for the first time.
    """

    def __init__(self, scale: int) -> None:
        super().__init__()
        self._scale = scale
        self.refused: dict[Written, str] = {}

    def __missing__(self, price: Written) -> tuple[int | None, str | None, int | None]:
        self[price] = read = self._of(price)
        return read

    def _of(self, price: Written) -> tuple[int | None, str | None, int | None]:
        if price is None:
            return None, None, None
        try:
            minor = _minor(price, self._scale)
        except money.MoneyError as fault:
            self.refused[price] = str(fault) + (price_hint(price) if isinstance(price, str) else "")
            return None, None, None
        served = money.scaled(minor, self._scale)
        return minor, served, None if served == price else _growth(price, served)


class Prices:
    """Reads the prices of one document, all in one currency."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source = source
        self._findings = findings
        self._read = _Read(source.scale)
        self.grown: int | None = 0
        """Bytes by which JSON with the texts that are served is longer than as it was read; None if not known."""

    def items(self) -> list[int | None]:
        """Return each item's base price in document order; put the text that is served into its members."""
        table = self._source.items
        prices = _written(table.column("basePrice"))
        found: list[int | None] = []
        grown = 0
        # One pass: each price is hashed and looked up once, and its row is touched once.
        for row, price in zip(table.members.values(), prices, strict=True):
            minor, text, growth = self._read[price]
            found.append(minor)
            if growth is not None:
                row["basePrice"] = text
                grown += growth
        self.grown = grown
        if self._read.refused:
            self._name_refused(prices)
        if None in self._read:
            self._warn_without(prices)
        return found

    def any_negative(self) -> bool:
        """Tell whether any price that was read is below zero."""
        return any(minor is not None and minor < 0 for minor, _, _ in self._read.values())

    def overrides(self) -> None:
        """Put minor units into the column of overrides, and the texts that are served into the members.

        Their keys are as they were written: references are resolved afterwards.
        """
        groups = self._source.groups
        if groups.has("priceOverrides"):
            # Refused ones were of any length; it is not worth keeping count.
            self.grown = None
            rows = zip(groups.members, groups.column("priceOverrides"), strict=True)
            groups.put("priceOverrides", [written and self._of_group(key, written) for key, written in rows])

    def _of_group(self, key: str, overrides: dict[str, Any]) -> dict[str, int]:
        groups = self._source.groups
        minor: dict[str, int] = {}
        served: dict[str, Any] = {}
        for item, value in overrides.items():
            [price] = _written([value if type(value) in Form.PRICE.types else None])
            found, served[item], _ = self._read[price]
            if found is None:
                fault = (
                    self._read.refused.get(price) or f"A price must be {Form.PRICE.words}, not {said(value)}."
                )
                self._findings.fault(
                    Rule.INVALID_PRICE, fault, f"{groups.pointer(key)}/priceOverrides/{escape(item)}"
                )
            minor[item] = found or 0
        groups.change(key, "priceOverrides", served)
        return minor

    def _name_refused(self, prices: Iterable[Written]) -> None:
        table = self._source.items
        for key, price in zip(table.members, prices, strict=True):
            if price in self._read.refused:
                self._findings.fault(
                    Rule.INVALID_PRICE, self._read.refused[price], f"{table.pointer(key)}/basePrice"
                )

    def _warn_without(self, prices: Iterable[Written]) -> None:
        table = self._source.items
        for key in [key for key, price in zip(table.members, prices, strict=True) if price is None]:
            self._findings.warn(
                Rule.NO_PRICE,
                f"The item {table.said(key)} has no basePrice: "
                "it cannot be sold by itself, and is free as a modifier.",
                table.pointer(key),
            )


def _written(values: list[Any]) -> list[Written]:
    if set(map(type, values)) <= {str, type(None)}:
        return values
    # Not as integers: whoever knows how they are hashed can choose a million of them that all hash alike.
    return [value if isinstance(value, str) or value is None else _text(value) for value in values]


def _growth(written: str | bytes, served: str) -> int:
    return len(served) - len(written) + (2 if isinstance(written, bytes) else 0)


def _text(number: int | msgspec.Raw) -> bytes:
    return bytes(number) if isinstance(number, msgspec.Raw) else str(number).encode()


def _minor(price: str | bytes, scale: int) -> int:
    if isinstance(price, bytes):
        return money.number_to_minor(price.decode(), scale)
    return money.decimal_to_minor(price, scale)
