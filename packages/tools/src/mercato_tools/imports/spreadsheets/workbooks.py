"""XLSX and ODS files as sheets of cells: only values are read, and macros, formulas and links stay unread.

What a file unpacks to is bounded by the sizes that it declares, beyond which `zipfile` reads nothing.
"""

import math
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from io import BytesIO
from itertools import islice
from typing import IO, Any, Final
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from mercato_tools.imports.spreadsheets.cells import (
    MAX_COLUMNS,
    MAX_ROWS,
    Cell,
    Kind,
    Number,
    Other,
    Sheet,
    UnreadableError,
    is_empty,
)

MAX_PARTS: Final = 2_000
"""Files within a workbook; each picture is one."""

MAX_UNPACKED: Final = 64 * 1024 * 1024
"""Bytes of a workbook's parts when they are unpacked, without its pictures, which stay packed."""

MAX_SHEETS: Final = 50

LAST_ROW: Final = 1_048_576
"""The last row that spreadsheet programs have. Empty rows up to it are passed over."""

ZIP: Final = b"PK\x03\x04"
OLD: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of a workbook of Excel 97, and of any that has a password."""

_MEDIA: Final = ("xl/media/", "Pictures/", "Thumbnails/", "xl/embeddings/", "Object ")
_SAVE: Final = "Save it as .xlsx, .ods or CSV UTF-8."


def read_workbook(content: bytes) -> Sequence[Sheet]:
    """Return the sheets that are shown, and hidden ones after them. Raises UnreadableError."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            parts = archive.infolist()
            if len(parts) > MAX_PARTS:
                raise UnreadableError(
                    f"The file has more than {MAX_PARTS:,} parts. Delete its pictures and charts."
                )
            size = sum(part.file_size for part in parts if not part.filename.startswith(_MEDIA))
            if size > MAX_UNPACKED:
                raise UnreadableError(
                    f"Unpacked, the file has {size:,} bytes, more than the {MAX_UNPACKED:,} that are read. Delete the "
                    "sheets that aren't the menu's, or save it as CSV UTF-8."
                )
            names = {part.filename for part in parts}
            if "content.xml" in names:
                with archive.open("content.xml") as part:
                    return OpenDocument().read(part)
    # What `zipfile` raises for an archive that is broken, cut off, encrypted or packed in an unknown way: faults of the
    # file, all of them, and said as one.
    except (
        BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError,
    ) as error:  # fmt: skip
        raise UnreadableError(f"The file is damaged ({error}). {_SAVE}") from None
    if "xl/workbook.xml" not in names and "xl/workbook.bin" in names:
        raise UnreadableError(f"The file is an Excel binary workbook (.xlsb). {_SAVE}")
    if not any(name.endswith(("workbook.xml", "workbook2.xml")) for name in names):
        raise UnreadableError(f"The file is an archive, but not a workbook of Excel or LibreOffice. {_SAVE}")
    return _read_xlsx(content)


# --- XLSX -----------------------------------------------------------------------------------------


def _read_xlsx(content: bytes) -> Sequence[Sheet]:
    from openpyxl import load_workbook

    try:
        with warnings.catch_warnings():
            # Of parts that aren't read, such as the rules of a drop-down list.
            warnings.simplefilter("ignore")
            book = load_workbook(BytesIO(content), read_only=True, data_only=True, keep_links=False)
            shown = sorted(book.worksheets[:MAX_SHEETS], key=lambda sheet: sheet.sheet_state != "visible")
            return [Sheet(sheet.title, _collect(_xlsx_rows(sheet), sheet.title)) for sheet in shown]
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # a damaged workbook raises errors of every kind in the library
        raise UnreadableError(f"The workbook is damaged ({type(error).__name__}). {_SAVE}") from error


def _xlsx_rows(sheet: Any) -> Iterator[list[Cell]]:
    # The size that a sheet declares is often wrong.
    sheet.reset_dimensions()
    for row in islice(sheet.iter_rows(max_col=MAX_COLUMNS), LAST_ROW):
        yield [_xlsx_cell(cell) for cell in row]


def _xlsx_cell(cell: Any) -> Cell:
    match cell.value:
        case None:
            return None
        case bool() as value:
            return value
        case str() as value:
            return Other(Kind.ERROR, value) if cell.data_type == "e" else value.strip()
        case int() | float() as value:
            if not math.isfinite(value):
                return Other(Kind.ERROR, str(value))
            number = Decimal(repr(value))
            form = _QUOTED.sub("", cell.number_format or "")
            if "%" in form:
                return Other(Kind.PERCENTAGE, f"{number:f}")
            return Number(number, _unit(cell.number_format or ""))
        case datetime() as value if value.time() == time():
            return Other(Kind.DATE, value.date().isoformat())
        case datetime() | date() as value:
            return Other(
                Kind.DATE, value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
            )
        case time() | timedelta() as value:
            return Other(Kind.TIME, str(value))
    return Other(Kind.ERROR, str(cell.value))


_QUOTED: Final = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_FORMAT_UNIT: Final = re.compile(r'\[\$([^\]\-]{1,4})[^\]]*\]|"\s*([^"\s\d]{1,4})\s*"|([€£$¥₹])')


def _unit(form: str) -> str:
    """Return the currency of a number's format, such as `#,##0.00 [$€-407]`, as written there."""
    match = _FORMAT_UNIT.search(form)
    return "" if match is None else next(filter(None, match.groups()), "")


def _collect(rows: Iterable[list[Cell]], name: str) -> list[list[Cell]]:
    """Return the rows up to the last one with a value. Raises UnreadableError if there are too many."""
    kept: list[list[Cell]] = []
    empty = 0
    for row in rows:
        if is_empty(row):
            empty += 1
            continue
        if len(kept) + empty >= MAX_ROWS:
            raise UnreadableError(
                f"The sheet {name} has a value below row {MAX_ROWS:,}. Delete it, or split the menu into several."
            )
        kept.extend([[]] * empty)
        kept.append(row)
        empty = 0
    return kept


# --- ODS ------------------------------------------------------------------------------------------

_TABLE: Final = "urn:oasis:names:tc:opendocument:xmlns:table:1.0 "
_OFFICE: Final = "urn:oasis:names:tc:opendocument:xmlns:office:1.0 "
_TEXT: Final = "urn:oasis:names:tc:opendocument:xmlns:text:1.0 "
_CALC: Final = "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0 "
_CELLS: Final = (_TABLE + "table-cell", _TABLE + "covered-table-cell")
_CHUNK: Final = 64 * 1024

_NO_MEMORY: Final = expat.errors.codes[expat.errors.XML_ERROR_NO_MEMORY]

MAX_DEPTH: Final = 200
"""Elements within each other. The parser keeps each of them until it ends; programs write about twenty."""


class OpenDocument:
    """Reads the sheets of an ODS file's `content.xml` (OpenDocument 1.3, part 3) as it streams by."""

    def __init__(self) -> None:
        self._sheets: list[tuple[str, list[list[Cell]]]] = []
        self._row: list[Cell] = []
        self._empty = 0
        self._repeated = 1
        self._cell: dict[str, str] | None = None
        self._text: list[str] = []
        self._paragraphs = 0
        self._skipped = 0
        self._depth = 0

    def read(self, part: IO[bytes]) -> Sequence[Sheet]:
        """Return the sheets. Raises UnreadableError, or MemoryError if the parser has none left."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = _refuse
        try:
            while chunk := part.read(_CHUNK):
                parser.Parse(chunk, False)  # takes no keywords
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            if error.code == _NO_MEMORY:
                raise MemoryError from None
            reason = expat.errors.messages[error.code]
            raise UnreadableError(
                f"The file can't be read: it is damaged, or has a password ({reason}). {_SAVE}"
            ) from None
        return [Sheet(name, rows) for name, rows in self._sheets]

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError(
                f"The file isn't one of a spreadsheet program: more than {MAX_DEPTH} elements lie within each other. "
                f"{_SAVE}"
            )
        if self._skipped or name == _OFFICE + "annotation":
            self._skipped += 1
        elif name == _TABLE + "table":
            if len(self._sheets) >= MAX_SHEETS:
                raise UnreadableError(
                    f"The file has more than {MAX_SHEETS} sheets. Delete those that aren't the menu's."
                )
            self._sheets.append((attributes.get(_TABLE + "name", ""), []))
            self._empty = 0
        elif name == _TABLE + "table-row":
            self._row, self._repeated = [], _count(attributes.get(_TABLE + "number-rows-repeated"))
        elif name in _CELLS:
            self._cell, self._text, self._paragraphs = attributes, [], 0
        elif self._cell is not None:
            if name == _TEXT + "p":
                self._text += ["\n"] if self._paragraphs else []
                self._paragraphs += 1
            elif name == _TEXT + "s":
                self._text.append(" " * min(_count(attributes.get(_TEXT + "c")), 100))
            elif name == _TEXT + "tab":
                self._text.append("\t")
            elif name == _TEXT + "line-break":
                self._text.append("\n")

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._skipped:
            self._skipped -= 1
        elif name in _CELLS and self._cell is not None:
            times = _count(self._cell.get(_TABLE + "number-columns-repeated"))
            room = MAX_COLUMNS - len(self._row)
            self._row += [_ods_cell(self._cell, "".join(self._text).strip())] * min(times, max(room, 0))
            self._cell = None
        elif name == _TABLE + "table-row" and self._sheets:
            self._add_row()

    def _characters(self, text: str) -> None:
        if self._cell is not None and self._paragraphs and not self._skipped:
            self._text.append(text)

    def _add_row(self) -> None:
        name, rows = self._sheets[-1]
        if is_empty(self._row):
            self._empty += self._repeated
            return
        if len(rows) + self._empty + self._repeated > MAX_ROWS:
            raise UnreadableError(
                f"The sheet {name} has a value below row {MAX_ROWS:,}. Delete it, or split the menu into several."
            )
        rows.extend([[]] * self._empty)
        rows.extend([self._row] * self._repeated)
        self._empty = 0


def _refuse(*_: object) -> None:
    raise UnreadableError(
        f"The file isn't one of a spreadsheet program: it declares a document type. {_SAVE}"
    )


def _count(text: str | None) -> int:
    return min(int(text), LAST_ROW) if text is not None and text.isascii() and text.isdecimal() else 1


def _ods_cell(attributes: dict[str, str], text: str) -> Cell:
    if attributes.get(_CALC + "value-type") == "error":
        return Other(Kind.ERROR, text)
    reader = _READERS.get(attributes.get(_OFFICE + "value-type", ""))
    if reader is None:
        # A text: programs may leave the type out.
        return attributes.get(_OFFICE + "string-value", text).strip()
    return reader(attributes, text)


def _ods_number(attributes: dict[str, str], text: str) -> Cell:
    try:
        value = Decimal(attributes.get(_OFFICE + "value", ""))
    except InvalidOperation:
        return Other(Kind.ERROR, text)
    if not value.is_finite() or abs(value.adjusted()) > 300:  # noqa: PLR2004  # beyond every binary number
        return Other(Kind.ERROR, text)
    return Number(value, attributes.get(_OFFICE + "currency", ""))


_READERS: Final[dict[str, Callable[[dict[str, str], str], Cell]]] = {
    "float": _ods_number,
    "currency": _ods_number,
    "percentage": lambda _, text: Other(Kind.PERCENTAGE, text),
    "date": lambda attributes, text: Other(Kind.DATE, attributes.get(_OFFICE + "date-value", text)),
    "time": lambda attributes, text: Other(Kind.TIME, attributes.get(_OFFICE + "time-value", text)),
    "boolean": lambda attributes, _: attributes.get(_OFFICE + "boolean-value") == "true",
}
