"""A spreadsheet as it is read: sheets of rows of cells, and the faults in them."""

import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from mercato_catalog.validation.findings import clean
from mercato_contract.wire import Wire

MAX_FAULTS: Final = 100
"""Faults that are listed; all are counted."""

MAX_ROWS: Final = 100_000
"""Rows of a sheet, the empty ones included."""

MAX_COLUMNS: Final = 50
"""Columns of a sheet that are looked at."""

_SHOWN: Final = 60
"""Characters of a cell that a fault repeats."""


class Kind(StrEnum):
    """What a cell holds that is neither a text nor a number, in the words of a fault."""

    DATE = "a date"
    TIME = "a time"
    ERROR = "an error"
    PERCENTAGE = "a percentage"


class Number(Struct, frozen=True):
    """A number with all its digits. `unit` is the currency that its format shows, as written there."""

    value: Decimal
    unit: str = ""


class Other(Struct, frozen=True):
    """A value that no column of a menu has."""

    kind: Kind
    text: str


Cell = str | Number | bool | Other | None
"""None and an empty text are an empty cell. Texts have no white space around them."""


class Sheet(Struct, frozen=True):
    """The first row is row 1, as in a spreadsheet program."""

    name: str
    rows: Sequence[Sequence[Cell]]


class SheetFault(Wire):
    """What has to be changed before a file can be read. `row` and `column` are null for the whole sheet or row."""

    sheet: str
    row: Annotated[int | None, Meta(description="From 1.")]
    column: Annotated[str | None, Meta(description="The heading, or the letter without one.")]
    found: Annotated[str | None, Meta(description="What the cell holds, shortened.")]
    message: str

    @property
    def place(self) -> str:
        """Return where it is, such as `menu, row 5, price`."""
        row = None if self.row is None else f"row {self.row:,}"
        return ", ".join(filter(None, (self.sheet, row, self.column)))


class UnreadableError(Exception):
    """The file can't be read as a spreadsheet; the message says why, and what to do."""

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.row = row


class Faults:
    """Collects faults in the order found."""

    def __init__(self) -> None:
        self.listed: list[SheetFault] = []
        self.count = 0

    def add(
        self,
        sheet: str,
        message: str,
        *,
        row: int | None = None,
        column: str | None = None,
        cell: Cell = None,
    ) -> None:
        """Record a fault of a sheet, a row or a cell."""
        self.count += 1
        if len(self.listed) < MAX_FAULTS:
            found = text_of(cell)
            self.listed.append(
                SheetFault(
                    sheet=cut(sheet),
                    row=row,
                    column=None if column is None else cut(column),
                    found=cut(found) if found else None,
                    message=clean(message),
                )
            )

    def sort(self) -> None:
        """Order the listed faults by row within their sheets; those of a whole sheet come first."""
        order = {
            sheet: place for place, sheet in enumerate(dict.fromkeys(fault.sheet for fault in self.listed))
        }
        self.listed.sort(key=lambda fault: (order[fault.sheet], fault.row or 0))


def cut(text: str) -> str:
    """Return a cell's text as a message shows it: on one line, without control characters, shortened."""
    text = clean(" ".join(text[: 2 * _SHOWN].split()))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def text_of(cell: Cell) -> str:
    """Return what a cell shows."""
    match cell:
        case None:
            return ""
        case bool():
            return "TRUE" if cell else "FALSE"
        case Number():
            return plain(cell.value)
        case Other():
            return cell.text
    return cell


def plain(value: Decimal) -> str:
    """Return a number without an exponent and without zeros after its last decimal: 3, not 3.0."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def letter(index: int) -> str:
    """Return the name that spreadsheet programs give the column of an index from 0: A, Z, AA."""
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def fold(text: str) -> str:
    """Return a name as it is compared: without differences of capitals, white space and equivalent characters."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def heading(cell: Cell) -> str:
    """Return a heading as it is compared: `Price:` and `Item *` are two, too. Empty for what isn't a text."""
    return fold(cell).rstrip(":* ") if isinstance(cell, str) else ""


def is_empty(row: Sequence[Cell]) -> bool:
    """Return whether a row has no cell with a value."""
    return all(cell is None or cell == "" for cell in row)
