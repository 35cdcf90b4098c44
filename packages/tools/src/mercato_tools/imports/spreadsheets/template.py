"""The spreadsheet to begin with: the headings, a few examples, and cells formatted so that prices stay prices."""

import csv
from collections.abc import Sequence
from io import BytesIO, StringIO
from typing import Any, Final

from mercato_tools.imports.spreadsheets.headings import CHOICES, MENU, Form

Value = str | int | float | None

MENU_ROWS: Final[Sequence[Sequence[Value]]] = (
    ("Pizza", "Margherita", "Tomato, mozzarella, basil", 9.5, "Size; Extras", "yes", "https://example.com/margherita.jpg"),
    ("Pizza", "Funghi", "Tomato, mozzarella, mushrooms", 10.5, "Size; Extras", "yes", None),
    ("Drinks", "Lemonade", "Home-made, 0.4 l", 3.9, None, "yes", None),
    ("Drinks", "Espresso", None, 2.2, None, "no", None),
)  # fmt: skip
"""Examples; the prices are those of cells, which hold binary numbers."""

CHOICE_ROWS: Final[Sequence[Sequence[Value]]] = (
    ("Size", 1, 1, None, "Regular", 0),
    ("Size", None, None, None, "Large", 3),
    ("Extras", 0, 4, None, "Olives", 1),
    ("Extras", None, None, None, "Anchovies", 1.5),
)

ROWS: Final = {MENU.name: MENU_ROWS, CHOICES.name: CHOICE_ROWS}

_WIDTHS: Final = {
    "section": 16,
    "item": 26,
    "description": 44,
    "choices": 24,
    "image": 40,
    "group": 18,
    "option": 26,
}
_TEXTS: Final = ("section", "item", "description", "choices", "image", "group", "option")
_FORMATTED: Final = 500
"""Rows whose cells are formatted for what is typed into them."""


def csv_template(form: Form) -> bytes:
    """Return the file of the menu or of its choices: UTF-8 with a mark, which Excel needs."""
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(form.columns)
    for row in ROWS[form.name]:
        writer.writerow([_text(column, value) for column, value in zip(form.columns, row, strict=True)])
    return text.getvalue().encode("utf-8-sig")


def xlsx_template() -> bytes:
    """Return a workbook with both sheets."""
    from openpyxl import Workbook

    book = Workbook()
    for place, form in enumerate((MENU, CHOICES)):
        _fill(book.create_sheet(form.name, place), form)
    del book["Sheet"]
    book.properties.creator = "Mercato"
    made = BytesIO()
    book.save(made)
    return made.getvalue()


def _text(column: str, value: Value) -> Value:
    return f"{value:.2f}" if column == "price" and value is not None else value


def _fill(sheet: Any, form: Form) -> None:
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    sheet.append(form.columns)
    for row in ROWS[form.name]:
        sheet.append(row)
    sheet.freeze_panes = "A2"
    for place, column in enumerate(form.columns, start=1):
        letter = get_column_letter(place)
        sheet.column_dimensions[letter].width = _WIDTHS.get(column, 11)
        sheet.cell(1, place).font = Font(bold=True)
        # As texts and numbers: without a format the program makes a date of 1.50 in some countries.
        number_format = "0.00" if column == "price" else "@" if column in _TEXTS else None
        for number in range(2, _FORMATTED + 2) if number_format is not None else ():
            sheet.cell(number, place).number_format = number_format
        if column == "available":
            choice = DataValidation(type="list", formula1='"yes,no"', allow_blank=True)
            sheet.add_data_validation(choice)
            choice.add(f"{letter}2:{letter}{_FORMATTED + 1}")
