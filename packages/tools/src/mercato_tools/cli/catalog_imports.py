"""`mercato catalog import`: converts menus of other formats to CatalogSets, and reports what was lost."""

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from mercato_contract import clock
from mercato_contract.refusals import Problem
from mercato_contract.texts import count_of
from mercato_contract.wire import as_json
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.inputs import STANDARD_INPUT, read_valid_document, settings, why_not
from mercato_tools.cli.options import Source, group
from mercato_tools.cli.output import note, replace_file, sanitize, wrap
from mercato_tools.imports.convert import Imported, UnknownCurrencyError, convert
from mercato_tools.imports.draft import ImportOptions, Loss
from mercato_tools.lint import lint
from mercato_tools.settings import IngestSettings

SHOWN: Final = 3
"""Pointers shown per kind of loss."""

MAX_FAULTS: Final = 10

_SPREADSHEET: Final = "mercato catalog import csv FILE reads a spreadsheet."


class Format(StrEnum):
    """Formats that can be read."""

    UBER = "uber"
    DELIVERECT = "deliverect"
    HUBRISE = "hubrise"
    SQUARE = "square"
    TOAST = "toast"
    SCHEMA_ORG = "schema-org"


imports = group("import", "Turn a spreadsheet, or a menu of another format, into a CatalogSet.")
imports.command(
    "mercato_tools.cli.sheet_imports:csv",
    name="csv",
    help="Turn a spreadsheet (CSV, XLSX, ODS) into a CatalogSet.",
)


Output = Annotated[str | None, Parameter(name=["-o", "--output"])]


@imports.default
def import_(
    file: Source,
    /,
    *,
    from_: Annotated[Format | None, Parameter(name="--from")] = None,
    output: Output = None,
    report: str | None = None,
    currency: str | None = None,
    language: str | None = None,
) -> int:
    """Convert a menu of another format to a CatalogSet, and report what was lost, by pointer.

    The format may be named as a spreadsheet's is, too: mercato catalog import toast FILE.

    Exit code 0: converted, even with losses; 1: the result isn't valid; 2: the menu can't be read.

    Args:
        from_: The menu's format. It has to be named, except of a spreadsheet: mercato catalog import csv.
        output: Where to write the CatalogSet (standard output).
        report: Where to write the losses as JSON (standard error, as text).
        currency: The currency of the prices, such as EUR.
        language: The language of the texts, such as en or fr_CA.

    """
    if from_ is None:
        raise UnusableError(
            f"The format isn't named. {_SPREADSHEET} For a menu of another format add --from and one of "
            f"{', '.join(Format)}."
        )
    bounds = settings()
    options = ImportOptions(
        currency=None if currency is None else currency.upper(),
        default_currency=bounds.default_currency,
        language=language,
        now=clock.now(),
    )
    made = _convert(read_valid_document(file, bounds).body, from_, options)
    is_valid = check(made.document, bounds)
    write(output, made.document)
    if report is None:
        print_losses(made.losses, made.count)
    else:
        write(report, as_json({"count": made.count, "losses": made.losses}) + b"\n")
        note(f"{count_of(made.count, 'loss', 'losses')}: see {sanitize(report)}")
    return 0 if is_valid else FAILED


def _named(form: Format) -> Callable[..., int]:
    """Return the command that is called like the format."""

    def run(
        file: Source,
        /,
        *,
        output: Output = None,
        report: str | None = None,
        currency: str | None = None,
        language: str | None = None,
    ) -> int:
        return import_(file, from_=form, output=output, report=report, currency=currency, language=language)

    run.__doc__ = import_.__doc__
    return run


for _form in Format:
    imports.command(_named(_form), name=_form.value, show=False)


def check(document: bytes, bounds: IngestSettings) -> bool:
    """Return whether an ingest takes the result, and print why it doesn't: that would be a bug of the conversion."""
    found, _ = lint(document, default_currency=bounds.default_currency, max_bytes=bounds.pull_bytes)
    for error in found.errors[:MAX_FAULTS]:
        note("\n".join(wrap(f"The result is not valid: {error.message}")))
        note(f"  at {sanitize(error.path)}")
    return found.valid


def _convert(document: bytes, form: Format, options: ImportOptions) -> Imported:
    try:
        return convert(form.value, document, options)
    except UnknownCurrencyError as error:
        raise UnusableError(
            f"{sanitize(str(error))} isn't a currency in use: write its code, such as EUR."
        ) from None
    except Problem as problem:
        lines = [f"This isn't a menu of the format {form.value}:"]
        for fault in problem.errors[:MAX_FAULTS]:
            lines += wrap(fault.message, first="  ", indent="  ")
            lines += [f"  at {sanitize(fault.pointer)}"] if fault.pointer else []
        if len(problem.errors) > MAX_FAULTS:
            lines.append(f"  and {len(problem.errors) - MAX_FAULTS} more.")
        lines += wrap(
            f"Name the menu's own format with --from. {_SPREADSHEET} A CatalogSet needs no import: mercato "
            "catalog lint checks it."
        )
        raise UnusableError("\n".join(lines)) from None


def write(name: str | None, content: bytes) -> None:
    """Write a file, or to standard output without a name. Raises UnusableError."""
    if name is None or name == STANDARD_INPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        replace_file(Path(name), content)
    except (OSError, ValueError) as error:
        raise UnusableError(f"{name} cannot be written: {why_not(error)}.") from None


def print_losses(losses: Sequence[Loss], count: int) -> None:
    """Print the losses that are listed, one line per message with its count; `count` is of all."""
    alike: dict[str, list[str]] = {}
    for loss in losses:
        alike.setdefault(f"{loss.kind.value}: {loss.message}", []).append(loss.path)
    for message, paths in alike.items():
        times = "" if len(paths) == 1 else f" ({len(paths):,} times)"
        note("\n".join(wrap(f"{message}{times}", indent="  ")))
        for path in filter(None, paths[:SHOWN]):
            note(f"  at {sanitize(path)}")
    listed = "" if count == len(losses) else f" The first {len(losses):,} are listed."
    note(
        f"{count_of(count, 'loss', 'losses')}.{listed} For programs: --report FILE"
        if count
        else "Nothing was lost."
    )
