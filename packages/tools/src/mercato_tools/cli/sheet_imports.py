"""`mercato catalog import csv` and `mercato catalog template`: menus as spreadsheets."""

from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from mercato_catalog.building.packed import unpack
from mercato_contract.texts import count_of
from mercato_contract.wire import as_json
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.catalog import build_valid
from mercato_tools.cli.catalog_imports import check, print_losses, write
from mercato_tools.cli.inputs import STANDARD_INPUT, read_file, settings
from mercato_tools.cli.output import note, sanitize, say, wrap
from mercato_tools.imports.spreadsheets.headings import CHOICES, MENU
from mercato_tools.imports.spreadsheets.ids import KnownItem, known_items
from mercato_tools.imports.spreadsheets.pages import MAX_FILE, SheetFile
from mercato_tools.imports.spreadsheets.prices import DecimalMark
from mercato_tools.imports.spreadsheets.read import SheetMenu, SheetOptions, read_menu
from mercato_tools.imports.spreadsheets.text_files import Delimiter, Encoding
from mercato_tools.imports.spreadsheets.workbooks import ZIP
from mercato_tools.lint import lint
from mercato_tools.settings import IngestSettings

SHOWN: Final = 20
"""Faults shown without --report."""

WORKBOOK: Final = ".xlsx"
TEXT: Final = ".csv"


def csv(
    file: Annotated[
        str, Parameter(help="A CSV, XLSX or ODS file, or - for standard input.", allow_leading_hyphen=True)
    ],
    /,
    *,
    choices: str | None = None,
    output: Annotated[str | None, Parameter(name=["-o", "--output"])] = None,
    report: str | None = None,
    currency: str | None = None,
    decimal: DecimalMark | None = None,
    delimiter: Delimiter | None = None,
    encoding: Encoding | None = None,
    previous: str | None = None,
) -> int:
    """Turn a spreadsheet with a menu into a CatalogSet, or list its faults by sheet, row and column.

    Exit code 0: converted, even with losses; 1: the menu has faults, and nothing is written; 2: a file can't be read.

    Args:
        choices: The second file of CSV (the file choices.csv beside the first one, if there is one).
        output: Where to write the CatalogSet (standard output).
        report: Where to write faults and losses as JSON (standard error, as text).
        currency: The currency of the prices, such as EUR (the one that they name).
        decimal: The mark before decimals, for prices such as 1,234.
        delimiter: What stands between two cells of CSV.
        encoding: The encoding of CSV, such as windows-1252.
        previous: The CatalogSet before, whose items keep their ids (the file of --output, if there is one).

    """
    bounds = settings()
    menu = _read(file)
    offered = None if choices is None else _read(choices)
    if offered is None and not menu.content.startswith(ZIP) and file != STANDARD_INPUT:
        beside = Path(file).with_name(CHOICES.name + Path(file).suffix)
        if beside.is_file() and beside != Path(file):
            offered = _read(str(beside))
            note(f"Choices: {sanitize(str(beside))}")
    options = SheetOptions(
        default_currency=bounds.default_currency,
        currency=currency,
        decimal=decimal,
        delimiter=delimiter,
        encoding=encoding,
        previous=_previous(previous, output, bounds),
    )
    made = read_menu(menu, options, choices=offered)
    if report is not None:
        found = {
            "faultCount": made.fault_count,
            "faults": made.faults,
            "count": made.loss_count,
            "losses": made.losses,
        }
        write(report, as_json(found) + b"\n")
    if made.document is None:
        _print_faults(made, report)
        return FAILED
    is_valid = check(made.document, bounds)
    write(output, made.document)
    if report is None:
        print_losses(made.losses, made.loss_count)
    else:
        note(f"{count_of(made.loss_count, 'loss', 'losses')}: see {sanitize(report)}")
    return 0 if is_valid else FAILED


def template(file: str = f"{MENU.name}{WORKBOOK}", /) -> int:
    """Write a spreadsheet to begin with: its headings, and a few examples to replace.

    Exit code 0: written; 2: a file of the name is there, or can't be written.

    Args:
        file: What to write: a name that ends with .xlsx, or with .csv for two files.

    """
    # The library takes a tenth of a second.
    from mercato_tools.imports.spreadsheets.template import csv_template, xlsx_template

    path = Path(file)
    if path.suffix.lower() == WORKBOOK:
        made = {path: xlsx_template()}
    elif path.suffix.lower() == TEXT:
        made = {
            path: csv_template(MENU),
            path.with_name(f"{CHOICES.name}{path.suffix}"): csv_template(CHOICES),
        }
    else:
        raise UnusableError(f"{file} ends neither with {WORKBOOK} nor with {TEXT}. Write such a name.")
    for one in made:
        if one.exists():
            raise UnusableError(f"There is a file {one} already. Name another one.")
    for one, content in made.items():
        write(str(one), content)
        say(f"Written: {sanitize(str(one))}")
    return 0


def _previous(given: str | None, output: str | None, bounds: IngestSettings) -> tuple[KnownItem, ...]:
    """Return the items whose ids are kept: of the CatalogSet that is given, else of the one that is replaced.

    Raises UnusableError if the given one can't be used.
    """
    if given is not None:
        _, built = build_valid(given, bounds)
        return known_items(built.body, unpack(built.compiled))
    if output is None or output == STANDARD_INPUT or not Path(output).is_file():
        return ()
    replaced = read_file(output, max_bytes=bounds.pull_bytes)
    _, found = lint(replaced, default_currency=bounds.default_currency, max_bytes=bounds.pull_bytes)
    if found is None:
        if replaced:
            note(f"{sanitize(output)} isn't a valid CatalogSet, so no ids are kept from it.")
        return ()
    note(f"Ids: {sanitize(output)}")
    return known_items(found.body, unpack(found.compiled))


def _read(name: str) -> SheetFile:
    content = read_file(name, max_bytes=MAX_FILE + 1)
    return SheetFile(f"{MENU.name}{TEXT}" if name == STANDARD_INPUT else name, content)


def _print_faults(made: SheetMenu, report: str | None) -> None:
    for fault in made.faults[:SHOWN]:
        found = "" if fault.found is None else f": {sanitize(fault.found)}"
        note(f"{sanitize(fault.place)}{found}")
        note("\n".join(wrap(fault.message, first="  ", indent="  ")))
    more = made.fault_count - min(len(made.faults), SHOWN)
    rest = (
        ""
        if not more
        else f" The first {SHOWN} are shown." + (" For more: --report FILE" if report is None else "")
    )
    note(f"{count_of(made.fault_count, 'fault')}, and nothing was written.{rest}")
