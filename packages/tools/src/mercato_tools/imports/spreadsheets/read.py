"""Reads a menu of a spreadsheet: its sheets `menu` and `choices` become a CatalogSet.

Every fault is found at once and reported by its cell. Nothing is made of a file that has one.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from mercato_catalog.model import Windows
from mercato_catalog.validation.references import MAX_UNITS
from mercato_contract.decoding.checks import uri_fault
from mercato_contract.money import find_scale
from mercato_tools.imports.draft import Draft, Loss, Losses
from mercato_tools.imports.spreadsheets import prices
from mercato_tools.imports.spreadsheets.cells import (
    Cell,
    Faults,
    Kind,
    Number,
    Other,
    SheetFault,
    cut,
    fold,
    letter,
    text_of,
)
from mercato_tools.imports.spreadsheets.headings import CHOICES, nearest
from mercato_tools.imports.spreadsheets.ids import KnownItem
from mercato_tools.imports.spreadsheets.menu import SOURCE, Group, Item, Menu, Option, Section, SheetSummary
from mercato_tools.imports.spreadsheets.pages import Line, Page, Pages, SheetFile, listed
from mercato_tools.imports.spreadsheets.prices import DecimalMark, PriceError, Prices
from mercato_tools.imports.spreadsheets.text_files import Delimiter, Encoding

_TRUE: Final = "yes y true 1 x ja oui si sí sì sim wahr vrai verdadero vero waar verdadeiro"
_FALSE: Final = "no n false 0 nein non não nao nee falsch faux falso onwaar"
FLAGS: Final = dict.fromkeys(_TRUE.split(), True) | dict.fromkeys(_FALSE.split(), False)
"""What people and spreadsheet programs write for yes and no in several languages."""

_COUNTS: Final = ("minimum", "maximum", "free")
_NO_CURRENCY: Final = "The file names no currency, so {} is used. Set another if that is wrong."


class SheetOptions(Struct, frozen=True, kw_only=True):
    """What the file doesn't say, or what is to be read otherwise. None: as the file shows it.

    `hours` are when the menu is available, in seconds of the week from Sunday; None: always. `previous` are the items
    of the menu before, which keep their ids.
    """

    default_currency: str
    currency: str | None = None
    decimal: DecimalMark | None = None
    delimiter: Delimiter | None = None
    encoding: Encoding | None = None
    hours: Windows | None = None
    previous: tuple[KnownItem, ...] = ()


class SheetMenu(Struct, frozen=True, kw_only=True):
    """A file as read: `document`, the CatalogSet as JSON, and its summary are None if there are faults.

    Faults and losses are counted; the first are listed.
    """

    document: bytes | None
    summary: SheetSummary | None
    faults: tuple[SheetFault, ...]
    fault_count: int
    losses: tuple[Loss, ...]
    loss_count: int


def read_menu(menu: SheetFile, options: SheetOptions, *, choices: SheetFile | None = None) -> SheetMenu:
    """Read a workbook, or a CSV file with the one of its choices. What is wrong with it is part of the result."""
    reader = _Reader(options)
    made = reader.read(menu, choices)
    reader.faults.sort()
    return SheetMenu(
        document=None if made is None else made[0],
        summary=None if made is None else made[1],
        faults=tuple(reader.faults.listed),
        fault_count=reader.faults.count,
        losses=tuple(reader.losses.listed),
        loss_count=reader.losses.count,
    )


def refused(name: str, message: str) -> SheetMenu:
    """Return what is read of a file that can't be read at all."""
    fault = SheetFault(sheet=cut(name), row=None, column=None, found=None, message=message)
    return SheetMenu(document=None, summary=None, faults=(fault,), fault_count=1, losses=(), loss_count=0)


class _Reader:
    def __init__(self, options: SheetOptions) -> None:
        self._options = options
        self.faults = Faults()
        self.losses = Losses()
        self._menu = Menu()
        self._misses_choices = False
        self._prices: Prices

    def read(self, file: SheetFile, second: SheetFile | None) -> tuple[bytes, SheetSummary] | None:
        """Return the CatalogSet and its summary; None if there are faults."""
        options = self._options
        pages = Pages(self.faults, self.losses, delimiter=options.delimiter, encoding=options.encoding)
        page, offered = pages.find(file, second)
        if page is None:
            return None
        cells = [line.cells.get("price") for one in (page, offered) if one is not None for line in one.lines]
        currency = self._currency(cells)
        scale = find_scale(currency)
        if scale is None:
            self.faults.add(
                page.name, f"{cut(currency)} isn't a currency in use. Write its code, such as EUR."
            )
            return None
        self._prices = Prices(currency, scale, prices.marks_in(cells, currency, scale), given=options.decimal)
        if offered is not None:
            self._read_choices(offered)
        self._read_items(page, offered)
        if not self._menu.items and not self.faults.count:
            message = "No row has an item. Write each item's name and price below the headings."
            self.faults.add(page.name, message)
        if self.faults.count:
            return None
        draft = Draft(source=SOURCE, currency=currency, scale=scale, losses=self.losses)
        choices = CHOICES.name if offered is None else offered.name
        self._menu.fill(
            draft, sheet=page.name, choices=choices, hours=options.hours, previous=options.previous
        )
        return draft.finish(), self._menu.summary(currency, scale)

    def _currency(self, cells: Sequence[Cell]) -> str:
        if self._options.currency is not None:
            return self._options.currency.upper()
        named = prices.currencies_in(cells)
        if len(named) == 1:
            return named.pop()
        default = self._options.default_currency
        if not named:
            self.losses.approximated("", _NO_CURRENCY.format(default))
        # Prices in another one are faults.
        return default

    # --- choices --------------------------------------------------------------------------------

    def _read_choices(self, page: Page) -> None:
        group: Group | None = None
        for line in page.lines:
            name = self._name(page, line, "group")
            if name:
                group = self._menu.groups.setdefault(fold(name), Group(name, line.row))
            elif group is None:
                self._report(
                    page, line, "group", "The row has no group. Write the name of the one that it belongs to."
                )
                continue
            for column in _COUNTS:
                if not line.is_blank(column):
                    self._read_count(page, line, group, column)
            self._read_option(page, line, group)
        for one in self._menu.groups.values():
            least, most = one.counts.get("minimum", 0), one.counts.get("maximum")
            if most is not None and least > most:
                message = (
                    f"The minimum of {cut(one.name)} is {least}, above its maximum of {most}. Raise the maximum, or "
                    "leave it empty for no limit."
                )
                self.faults.add(page.name, message, row=one.row, column="minimum")

    def _read_count(self, page: Page, line: Line, group: Group, column: str) -> None:
        count = _whole(line.cells[column])
        if count is None or not 0 <= count <= MAX_UNITS:
            message = f"This isn't a count. Write a whole number from 0 to {MAX_UNITS:,}, or nothing."
            self._report(page, line, column, message)
        elif group.counts.setdefault(column, count) != count:
            message = (
                f"The {column} of {cut(group.name)} is {group.counts[column]} in a row above. Write the same in all "
                "rows of the group, or only in its first."
            )
            self._report(page, line, column, message)

    def _read_option(self, page: Page, line: Line, group: Group) -> None:
        name = self._name(page, line, "option")
        if not name:
            self._report(
                page, line, "option", "The row has no option. Write what can be chosen, or delete the row."
            )
            return
        # No price is no extra cost.
        price = 0 if line.is_blank("price") else self._price(page, line)
        known = group.options.setdefault(fold(name), Option(name, price or 0, line.row))
        if known.row != line.row:
            message = f"The group {cut(group.name)} has this option in row {known.row:,}, too. Delete one."
            self._report(page, line, "option", message)

    # --- items ----------------------------------------------------------------------------------

    def _read_items(self, page: Page, offered: Page | None) -> None:
        section: tuple[str, Section] | None = None
        if "section" not in page.columns:
            section = ("", self._menu.sections.setdefault("", Section("Menu", 1)))
        for line in page.lines:
            name = self._name(page, line, "section")
            if name:
                section = (fold(name), self._menu.sections.setdefault(fold(name), Section(name, line.row)))
            item = self._name(page, line, "item")
            if not item:
                self._read_section(page, line, section[1] if name and section is not None else None)
            elif section is None:
                self._report(page, line, "section", "The item has no section. Write its section's name.")
            else:
                self._read_item(page, line, section, item, offered)

    def _read_section(self, page: Page, line: Line, section: Section | None) -> None:
        """Read a row that names a section and no item: it may describe the section."""
        if section is None or not all(line.is_blank(column) for column in ("price", "choices", "available")):
            self._report(page, line, "item", "The row has no item. Write the item's name, or delete the row.")
            return
        section.description = self._text(page, line, "description") or section.description
        section.image = self._image(page, line) or section.image

    def _read_item(
        self, page: Page, line: Line, section: tuple[str, Section], name: str, offered: Page | None
    ) -> None:
        item = Item(
            name=name,
            description=self._text(page, line, "description") or None,
            price=self._item_price(page, line),
            groups=self._refer(page, line, offered),
            available=self._is_available(page, line),
            image=self._image(page, line),
            row=line.row,
        )
        known = self._menu.items.setdefault((section[0], fold(name)), item)
        if known is not item:
            message = (
                f"The section {cut(section[1].name)} has this item in row {known.row:,}, too. Delete one, or name them "
                "apart."
            )
            self._report(page, line, "item", message)

    def _item_price(self, page: Page, line: Line) -> int:
        if line.is_blank("price"):
            message = (
                "The item has no price. Write one, or 0 if it is free. The result of a formula is there only once a "
                "spreadsheet program has saved the file."
            )
            self._report(page, line, "price", message)
            return 0
        price = self._price(page, line) or 0
        if price < 0:
            self._report(page, line, "price", "The price is below zero. Write one from 0.")
        return price

    def _refer(self, page: Page, line: Line, offered: Page | None) -> Sequence[str]:
        """Return the groups that a cell names, one a line or between semicolons or commas."""
        text = self._text(page, line, "choices")
        if text and offered is None:
            # Once is enough: it is so for all.
            if not self._misses_choices:
                message = (
                    f"The item has choices, and there is no sheet {CHOICES.name} (with CSV: no second file). Add it, "
                    f"with the headings {listed(CHOICES.columns)}."
                )
                self._report(page, line, "choices", message)
            self._misses_choices = True
            return ()
        found: dict[str, None] = {}
        for name in self._group_names(text):
            if fold(name) in self._menu.groups:
                found[fold(name)] = None
                continue
            close = nearest(fold(name), list(self._menu.groups))
            hint = f"Did you mean {cut(self._menu.groups[close].name)}?" if close else "Add it there."
            where = CHOICES.name if offered is None else cut(offered.name)
            self._report(page, line, "choices", f"There is no group {cut(name)} in {where}. {hint}")
        return tuple(found)

    def _group_names(self, text: str) -> Iterator[str]:
        """Yield the names in a cell. A name may contain a comma if it is that of a group."""
        for part in re.split(r"[;\n]", text):
            names = [part] if fold(part) in self._menu.groups else part.split(",")
            yield from filter(None, (name.strip() for name in names))

    def _is_available(self, page: Page, line: Line) -> bool:
        cell = line.cells.get("available")
        if line.is_blank("available") or isinstance(cell, bool):
            return cell is not False
        known = None if isinstance(cell, Other) else FLAGS.get(fold(text_of(cell)))
        if known is None:
            message = "This says neither yes nor no. Write yes, no, or nothing, which is yes."
            self._report(page, line, "available", message)
        return known is not False

    def _image(self, page: Page, line: Line) -> str | None:
        text = self._name(page, line, "image")
        fault = uri_fault(text, "The image") if text else None
        if fault is not None:
            message = f"{fault} Pictures within the sheet aren't read: write their address."
            self._report(page, line, "image", message)
        return text or None

    # --- cells ----------------------------------------------------------------------------------

    def _name(self, page: Page, line: Line, column: str) -> str:
        """Return a cell's text on one line."""
        return " ".join(self._text(page, line, column).split())

    def _text(self, page: Page, line: Line, column: str) -> str:
        """Return a cell's text. A number is what it shows: a name may be one."""
        cell = line.cells.get(column)
        text = text_of(cell)
        if (isinstance(cell, Other) and cell.kind is Kind.ERROR) or prices.is_error(text):
            self._report(
                page, line, column, "The cell shows an error. Correct its formula, or write the text."
            )
        elif isinstance(cell, Other):
            message = f"The cell holds {cell.kind.value}. Format it as text, and type it again."
            self._report(page, line, column, message)
        return text

    def _price(self, page: Page, line: Line) -> int | None:
        try:
            return self._prices.read(line.cells.get("price"))
        except PriceError as error:
            self._report(page, line, "price", str(error))
            return None

    def _report(self, page: Page, line: Line, column: str, message: str) -> None:
        place = page.columns.get(column)
        named = column if place is None else f"{column} ({letter(place)})"
        self.faults.add(page.name, message, row=line.row, column=named, cell=line.cells.get(column))


def _whole(cell: Cell) -> int | None:
    """Return a cell's whole number that isn't negative."""
    text = text_of(cell) if isinstance(cell, str | Number) else ""
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
