"""A menu as a tree in the terminal: catalogs and their hours, sections, items, groups and choices, with prices.

A shared section or group is drawn once, where it first occurs, so that the tree isn't longer than the document.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mercato.cli.output import cells, sanitize, truncate, width
from mercato.features.catalogs.building.model import Built
from mercato.features.catalogs.building.packed import unpack
from mercato.features.catalogs.menu import Menu, Node, hours, rule
from mercato.features.catalogs.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.platform.texts import count_of
from mercato_contract.money import minor_to_decimal

MAX_DEPTH: Final = 16
"""Levels drawn: more don't fit in 80 columns."""

_MIN_ROOM: Final = 16


Line = tuple[str, str, "Iterator[Line]"]
"""The text on the left, the price on the right, and the children."""


def tree(built: Built, *, title: str) -> Iterator[str]:
    """Yield the lines of the tree."""
    drawing = _Drawing(unpack(built.compiled), msgspec.json.decode(built.body, type=Menu))
    counts = built.summary
    yield truncate(
        f"{sanitize(title)}: {count_of(counts.items, 'item')}, prices in {counts.currency}",
        width(),
    )
    yield from _draw(drawing.catalogs(), "", 1)
    # Known only after everything above was drawn.
    rest = drawing.rest()
    if rest:
        yield "In no section:"
        yield from _draw(drawing.items(rest), "", 1)


def _draw(lines: Iterator[Line], indent: str, depth: int) -> Iterator[str]:
    line = next(lines, None)
    while line is not None:
        following = next(lines, None)
        left, right, below = line
        yield _row(indent + ("├─ " if following else "└─ "), left, right)
        inner = indent + ("│  " if following else "   ")
        if depth < MAX_DEPTH:
            yield from _draw(below, inner, depth + 1)
        elif next(below, None) is not None:
            yield inner + "└─ …"
        line = following


def _row(branch: str, left: str, right: str) -> str:
    room = max(_MIN_ROOM, width() - cells(branch) - (cells(right) + 1 if right else 0))
    text = branch + truncate(sanitize(left), room)
    if not right:
        return text
    return text + " " * max(1, width() - cells(text) - cells(right)) + right


@dataclass
class _Drawing:
    catalog: CompiledCatalog
    menu: Menu
    seen: set[str | Key] = field(default_factory=set)
    met: set[Key] = field(default_factory=set)

    def catalogs(self) -> Iterator[Line]:
        for catalog in self.catalog.catalogs or ():
            node = self.menu.catalogs[catalog.catalog_id]
            yield f"{catalog.name or 'no name'} ({hours(catalog.windows)})", "", self._below(node)
        if not self.catalog.catalogs:
            for node in self.menu.catalogs.values():
                yield "Menu (always)", "", self._below(node)

    def rest(self) -> list[Key]:
        """Return the items that have not been drawn yet."""
        return [key for key in self.catalog.items if key not in self.met]

    def _below(self, node: Node) -> Iterator[Line]:
        sections = self.menu.sections or {}
        for key in node.section_ids or ():
            name = self.catalog.sections[key].name or "no name"
            if key in self.seen:
                yield f"{name} (as elsewhere)", "", iter(())
            else:
                self.seen.add(key)
                yield name, "", self._below(sections[key])
        yield from self.items(key.int for key in node.item_ids or ())

    def items(self, keys: Iterable[Key]) -> Iterator[Line]:
        for key in keys:
            item = self.catalog.items[key]
            self.met.add(key)
            price = "no price" if item.price is None else self._text(item.price)
            yield _named(item), price, self._groups(item)

    def _groups(self, item: CompiledItem) -> Iterator[Line]:
        for key in item.groups:
            group = self.catalog.groups[key]
            name = f"{group.name or 'no name'} ({rule(group)})"
            if key in self.seen:
                self.met.update(group.choices)
                yield f"{name} (as elsewhere)", "", iter(())
            else:
                self.seen.add(key)
                yield name, "", self._choices(group)

    def _choices(self, group: CompiledGroup) -> Iterator[Line]:
        for key, price in group.choices.items():
            item = self.catalog.items[key]
            self.met.add(key)
            yield _named(item), f"{'+' if price >= 0 else ''}{self._text(price)}", self._groups(item)

    def _text(self, minor: int) -> str:
        return minor_to_decimal(minor, self.catalog.scale)


def _named(item: CompiledItem) -> str:
    return (item.name or "no name") + ("" if item.available else " (unavailable)")
