"""Which sheets of the files are the menu and its choices, and which row has their headings."""

import re
from collections.abc import Container, Mapping, Sequence
from typing import Final

from msgspec import Struct

from mercato_tools.imports.draft import Losses
from mercato_tools.imports.spreadsheets.cells import (
    Cell,
    Faults,
    Sheet,
    UnreadableError,
    cut,
    fold,
    heading,
    is_empty,
    letter,
    text_of,
)
from mercato_tools.imports.spreadsheets.headings import CHOICES, MENU, Form, nearest
from mercato_tools.imports.spreadsheets.text_files import HEAD, Delimiter, Encoding, read_rows
from mercato_tools.imports.spreadsheets.workbooks import OLD, ZIP, read_workbook

MAX_FILE: Final = 32 * 1024 * 1024
"""Bytes of a file."""

_WORKBOOKS: Final = frozenset(("xlsx", "xlsm", "ods"))
_PDF: Final = b"%PDF"

_UNREAD_COLUMN: Final = "The column isn't one of a menu's, so it isn't read."
_UNREAD_ROWS: Final = "The rows above the headings aren't read."
_UNREAD_SHEET: Final = "The sheet isn't one of a menu's, so it isn't read."


class SheetFile(Struct, frozen=True):
    """A file with its name, which faults of a CSV file show in place of a sheet's."""

    name: str
    content: bytes


class Line(Struct, frozen=True):
    """A row below the headings: its number, and its cells by column."""

    row: int
    cells: Mapping[str, Cell]

    def is_blank(self, column: str) -> bool:
        """Return whether the row has nothing in a column."""
        return is_empty((self.cells.get(column),))


class Page(Struct, frozen=True):
    """A sheet with headings. `columns` are the places of its headings, from 0."""

    name: str
    lines: Sequence[Line]
    columns: Mapping[str, int]


class Pages:
    """Finds the pages of the files, and reports what they have besides."""

    def __init__(
        self, faults: Faults, losses: Losses, *, delimiter: Delimiter | None, encoding: Encoding | None
    ) -> None:
        self._faults = faults
        self._losses = losses
        self._delimiter = delimiter
        self._encoding = encoding

    def find(self, menu: SheetFile, choices: SheetFile | None) -> tuple[Page | None, Page | None]:
        """Return the menu and its choices, if there are any. The menu is None if a sheet can't be read."""
        found = self._open(menu, MENU)
        apart = None if choices is None else self._open(choices, CHOICES)
        if found is None or (choices is not None and apart is None):
            return None, None
        main = _named(MENU, found)
        beside = _named(CHOICES, found)
        main = main or next((sheet for sheet in found if sheet is not beside and sheet.rows), None)
        if main is None or not main.rows:
            self._faults.add(
                cut(menu.name) if main is None else main.name,
                f"The sheet is empty. Write the headings {listed(MENU.columns)} in its first row, and the items below.",
            )
            return None, None
        if apart is not None:
            beside = _named(CHOICES, apart) or next((sheet for sheet in apart if sheet.rows), None)
        self._report_unread(
            [sheet for sheet in found if sheet not in (main, beside)], is_needed=beside is None
        )
        page = self._page(main, MENU)
        if beside is None or not beside.rows:
            return page, None
        offered = self._page(beside, CHOICES)
        return None if offered is None else page, offered

    def _open(self, file: SheetFile, form: Form) -> Sequence[Sheet] | None:
        name = re.split(r"[/\\]", file.name)[-1]
        stem, _, ending = name.rpartition(".")
        if ending.lower() in _WORKBOOKS and not file.content.startswith((ZIP, OLD, _PDF)):
            message = (
                f"The name ends with .{ending}, but the file isn't such a workbook. Save it again as .xlsx or "
                ".ods; if it is text, name it .csv."
            )
            self._faults.add(name, message)
            return None
        try:
            return self._sheets(file.content, stem or name, form)
        except UnreadableError as error:
            self._faults.add(name, error.message, row=error.row)
            return None

    def _sheets(self, content: bytes, name: str, form: Form) -> Sequence[Sheet]:
        if len(content) > MAX_FILE:
            raise UnreadableError(f"The file has more than {MAX_FILE:,} bytes. Delete its pictures.")
        if content.startswith(ZIP):
            return read_workbook(content)
        if content.startswith(OLD):
            raise UnreadableError(
                "The file is of an old Excel (.xls), or has a password. Save it as .xlsx without a password."
            )
        if content.startswith(_PDF):
            raise UnreadableError("The file is a PDF. Save the spreadsheet as .xlsx, .ods or CSV UTF-8.")
        return [
            read_rows(
                content,
                name,
                encoding=self._encoding,
                delimiter=self._delimiter,
                form=form,
            )
        ]

    def _report_unread(self, sheets: Sequence[Sheet], *, is_needed: bool) -> None:
        for sheet in sheets:
            if is_needed and nearest(fold(sheet.name), [CHOICES.name]):
                message = f"The sheet is probably that of the choices. Name it {CHOICES.name}."
                self._faults.add(sheet.name, message)
            elif sheet.rows:
                self._losses.dropped(f"/{sheet.name}", _UNREAD_SHEET)

    # --- headings -------------------------------------------------------------------------------

    def _page(self, sheet: Sheet, form: Form) -> Page | None:
        """Return the rows below the headings; None if there are no headings."""
        head = [[heading(cell) for cell in row] for row in sheet.rows[:HEAD]]
        index = next((index for index, names in enumerate(head) if form.required <= set(names)), None)
        if index is None:
            self._report_no_headings(sheet, form, head)
            return None
        if any(not is_empty(above) for above in sheet.rows[:index]):
            self._losses.dropped(f"/{sheet.name}/1", _UNREAD_ROWS)
        places = self._columns(sheet, form, index, head[index])
        lines = []
        for number, row in enumerate(sheet.rows[index + 1 :], start=index + 2):
            cells = {name: row[place] if place < len(row) else None for name, place in places.items()}
            if form.required <= {heading(cell) for cell in cells.values()}:
                self._faults.add(sheet.name, "The row repeats the headings. Delete it.", row=number)
            elif not is_empty(tuple(cells.values())):
                lines.append(Line(number, cells))
        return Page(sheet.name, lines, places)

    def _columns(self, sheet: Sheet, form: Form, index: int, names: Sequence[str]) -> dict[str, int]:
        """Return the places of the headings, and report those that aren't of a menu."""
        places: dict[str, int] = {}
        hints = self._report_likely(sheet, form, index, names)
        for place, name in enumerate(names):
            if name in places:
                message = f"Two columns are named {name}. Rename or delete one."
                cell = sheet.rows[index][place]
                self._faults.add(sheet.name, message, row=index + 1, column=letter(place), cell=cell)
            elif name in form.columns:
                places[name] = place
            elif name and place not in hints:
                self._losses.dropped(f"/{sheet.name}/{index + 1}/{cut(name)}", _UNREAD_COLUMN)
        return places

    def _report_likely(self, sheet: Sheet, form: Form, index: int, names: Sequence[str]) -> Container[int]:
        """Report the headings that probably mean a column that isn't there, and return their places."""
        missing = [column for column in form.columns if column not in names]
        hints: dict[int, str] = {}
        for place, name in enumerate(names):
            if name and name not in form.columns and (column := form.likely(name, missing)):
                hints[place] = column
                missing.remove(column)
        for place, column in hints.items():
            self._faults.add(
                sheet.name,
                f"This isn't a column of a menu. Did you mean {column}?",
                row=index + 1,
                column=letter(place),
                cell=sheet.rows[index][place],
            )
        return hints

    def _report_no_headings(self, sheet: Sheet, form: Form, head: Sequence[Sequence[str]]) -> None:
        # Titles may stand above them.
        likely = [sum(map(form.knows, filter(None, names))) for names in head]
        first = next((index for index, row in enumerate(sheet.rows) if not is_empty(row)), 0)
        index = likely.index(max(likely)) if any(likely) else first
        seen = filter(None, map(text_of, sheet.rows[index]))
        self._faults.add(
            sheet.name,
            f"None of the first {HEAD} rows has the headings {listed(sorted(form.required))}. Write the headings "
            f"{listed(form.columns)} in one row, in any order; only {listed(sorted(form.required))} are required.",
            row=index + 1,
            cell=cut(", ".join(seen)),
        )
        if any(likely):
            self._report_likely(sheet, form, index, head[index])


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them: `a, b and c`."""
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def _named(form: Form, sheets: Sequence[Sheet]) -> Sheet | None:
    return next((sheet for sheet in sheets if fold(sheet.name) == form.name), None)
