"""Menus as files of each kind: what CSV, XLSX and ODS programs write."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZIP_DEFLATED, ZipFile

from openpyxl import Workbook

from mercato_tools.imports.spreadsheets.headings import CHOICES, MENU
from mercato_tools.imports.spreadsheets.pages import SheetFile
from mercato_tools.imports.spreadsheets.read import SheetMenu, SheetOptions, read_menu

Rows = Sequence[Sequence[Any]]

HEAD = MENU.columns
EUROS = SheetOptions(default_currency="EUR")

_ODS = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0" office:version="1.3">
<office:body><office:spreadsheet>{}</office:spreadsheet></office:body></office:document-content>"""


def csv_of(rows: Rows, *, delimiter: str = ",", encoding: str = "utf-8", end: str = "\r\n") -> bytes:
    text = io.StringIO(newline="")
    # Python's writer doesn't quote a line feed that doesn't end a row; spreadsheet programs do.
    quoting: Any = csv.QUOTE_ALL if end == "\r" else csv.QUOTE_MINIMAL
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return text.getvalue().encode(encoding)


def xlsx_of(sheets: Mapping[str, Rows]) -> bytes:
    book = Workbook()
    for place, (name, rows) in enumerate(sheets.items()):
        sheet = book.create_sheet(name, place)
        for row in rows:
            sheet.append(list(row))
    del book["Sheet"]
    return saved(book)


def saved(book: Workbook) -> bytes:
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def ods_of(sheets: Mapping[str, Rows]) -> bytes:
    tables = "".join(
        f"<table:table table:name={quoteattr(name)}>{''.join(map(_ods_row, rows))}</table:table>"
        for name, rows in sheets.items()
    )
    return ods_with(tables)


def ods_with(tables: str) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", _ODS.format(tables))
    return made.getvalue()


def _ods_row(row: Sequence[Any]) -> str:
    return f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>"


def _ods_cell(value: Any) -> str:
    if value is None or value == "":
        return "<table:table-cell/>"
    if isinstance(value, bool):
        kind = f'office:value-type="boolean" office:boolean-value="{str(value).lower()}"'
    elif isinstance(value, int | float):
        kind = f'office:value-type="float" office:value="{value}"'
    else:
        kind = 'office:value-type="string"'
    paragraphs = "".join(f"<text:p>{escape(line)}</text:p>" for line in str(value).split("\n"))
    return f"<table:table-cell {kind}>{paragraphs}</table:table-cell>"


def read(
    menu: bytes, options: SheetOptions = EUROS, *, choices: bytes | None = None, name: str = "menu.csv"
) -> SheetMenu:
    offered = None if choices is None else SheetFile("choices.csv", choices)
    return read_menu(SheetFile(name, menu), options, choices=offered)


def priced(*cells: Any, head: Sequence[str] = ("item", "price")) -> Rows:
    """Return rows of items with these prices."""
    return [head, *([f"Item {number}", cell] for number, cell in enumerate(cells, start=1))]


def prices_of(made: SheetMenu) -> list[str]:
    assert made.summary is not None, made.faults
    return [item.price for item in made.summary.shown]


def both(menu: Rows, choices: Rows) -> Mapping[str, Rows]:
    return {MENU.name: menu, CHOICES.name: choices}
