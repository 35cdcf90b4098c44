"""Prices as they were written, in minor units, and as they are served: decimal strings at the currency's scale.

A menu repeats few prices often, so each distinct text is looked at once.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from mercato.catalog import money
from mercato.catalog.findings import Findings, escape
from mercato.catalog.shape import said
from mercato.catalog.source import NULL, GroupSource, Raw, Source, Table

_NULL: Final = bytes(NULL)


class Prices:
    """Reads the prices of one document, all in one currency."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source = source
        self._findings = findings
        self._minor: dict[bytes, int | None] = {_NULL: None}
        self._served: dict[bytes, Raw] = {}
        self._refused: dict[bytes, str] = {}

    def items(self) -> list[int | None]:
        """Return each item's base price in document order; put the text that is served into its members."""
        table = self._source.items
        texts = [bytes(item.base_price) for item in table.entities.values()]
        self._read(set(texts))
        if self._refused:
            self._name_refused(texts)
        minor = [self._minor.get(text) for text in texts]
        if self._served:
            for members, text in zip(table.members.values(), texts, strict=True):
                if text in self._served:
                    members["basePrice"] = self._served[text]
        self._warn_without(minor)
        return minor

    def overrides(self) -> dict[str, dict[str, int]]:
        """Return each group's overrides: group → item → price; put the texts served into its members."""
        groups = self._source.groups
        return {
            key: self._of_group(groups, key, group)
            for key, group in groups.entities.items()
            if group.price_overrides
        }

    def _of_group(self, groups: Table[GroupSource], key: str, group: GroupSource) -> dict[str, int]:
        texts = {item: bytes(raw) for item, raw in (group.price_overrides or {}).items()}
        self._read(set(texts.values()))
        prices: dict[str, int] = {}
        for item, text in texts.items():
            minor = self._minor.get(text)
            if minor is None:
                fault = self._refused.get(text) or "A price must be a decimal string or a number, not null."
                self._findings.fault(fault, f"{groups.pointer(key)}/priceOverrides/{escape(item)}")
            else:
                prices[item] = minor
        served: dict[str, Any] = {i: self._served.get(text) or Raw(text) for i, text in texts.items()}
        groups.members[key]["priceOverrides"] = served
        return prices

    def _read(self, texts: Iterable[bytes]) -> None:
        scale = self._source.scale
        for text in texts:
            if text in self._minor or text in self._refused:
                continue
            try:
                minor = self._minor[text] = _price(text, scale)
            except money.MoneyError as fault:
                self._refused[text] = str(fault)
                continue
            served = f'"{money.scaled(minor, scale)}"'.encode()
            if served != text:
                self._served[text] = Raw(served)

    def _name_refused(self, texts: Collection[bytes]) -> None:
        table = self._source.items
        for key, text in zip(table.entities, texts, strict=True):
            if text in self._refused:
                self._findings.fault(self._refused[text], f"{table.pointer(key)}/basePrice")

    def _warn_without(self, minor: list[int | None]) -> None:
        table = self._source.items
        for key, price, text in zip(table.entities, minor, table.entities.values(), strict=True):
            if price is None and bytes(text.base_price) == _NULL:
                self._findings.warn(
                    "no price",
                    f"The item {table.said(key)} has no basePrice: "
                    "it cannot be sold by itself, and is free as a modifier.",
                    table.pointer(key),
                )


def _price(text: bytes, scale: int) -> int:
    if text[:1] == b'"':
        return money.decimal_to_minor(msgspec.json.decode(text, type=str), scale)
    if said(text) == "a number":
        return money.number_to_minor(text.decode(), scale)
    raise money.MoneyError(f"A price must be a decimal string or a number, not {said(text)}.")
