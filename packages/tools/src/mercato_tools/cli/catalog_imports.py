"""`mercato catalog import`: converts menus of other formats to CatalogSets, and reports what was lost."""

import os
import sys
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
from mercato_tools.cli.options import Source
from mercato_tools.cli.output import note, sanitize, wrap
from mercato_tools.imports.convert import Imported, UnknownCurrencyError, convert
from mercato_tools.imports.draft import ImportOptions
from mercato_tools.lint import lint

SHOWN: Final = 3
"""Pointers shown per kind of loss."""

MAX_FAULTS: Final = 10


class Format(StrEnum):
    """Formats that can be read."""

    UBER = "uber"
    DELIVERECT = "deliverect"
    HUBRISE = "hubrise"
    SQUARE = "square"


def import_(
    file: Source,
    /,
    *,
    from_: Annotated[Format, Parameter(name="--from")],
    output: Annotated[str | None, Parameter(name=["-o", "--output"])] = None,
    report: str | None = None,
    currency: str | None = None,
    language: str | None = None,
) -> int:
    """Convert a menu of another format to a CatalogSet, and report what was lost, by pointer.

    Exit code 0: converted, even with losses; 1: the result isn't valid; 2: the menu can't be read.

    Args:
        from_: The menu's format.
        output: Where to write the CatalogSet (standard output).
        report: Where to write the losses as JSON (standard error, as text).
        currency: The currency of the prices, such as EUR.
        language: The language of the texts, such as en or fr_CA.

    """
    bounds = settings()
    options = ImportOptions(
        currency=None if currency is None else currency.upper(),
        default_currency=bounds.default_currency,
        language=language,
        now=clock.now(),
    )
    made = _convert(read_valid_document(file, bounds).body, from_, options)
    # A conversion should never produce what an ingest refuses.
    found, _ = lint(made.document, default_currency=bounds.default_currency, max_bytes=bounds.pull_bytes)
    for error in found.errors[:MAX_FAULTS]:
        note("\n".join(wrap(f"The result is not valid: {error.message}")))
        note(f"  at {sanitize(error.path)}")
    _write(output, made.document)
    if report is None:
        _print_losses(made)
    else:
        _write(report, as_json({"count": made.count, "losses": made.losses}) + b"\n")
        note(f"{count_of(made.count, 'loss', 'losses')}: see {sanitize(report)}")
    return 0 if found.valid else FAILED


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
            "Name the menu's own format with --from. A CatalogSet needs no import: mercato catalog lint checks it."
        )
        raise UnusableError("\n".join(lines)) from None


def _write(name: str | None, content: bytes) -> None:
    if name is None or name == STANDARD_INPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    try:
        # Written to a temporary file first: a server must never send half a catalog.
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_bytes(content)
        part.replace(path)
    except (OSError, ValueError) as error:
        raise UnusableError(f"{name} cannot be written: {why_not(error)}.") from None


def _print_losses(made: Imported) -> None:
    """Print the losses, one line per message with its count."""
    alike: dict[str, list[str]] = {}
    for loss in made.losses:
        alike.setdefault(f"{loss.kind.value}: {loss.message}", []).append(loss.path)
    for message, paths in alike.items():
        times = "" if len(paths) == 1 else f" ({len(paths):,} times)"
        note("\n".join(wrap(f"{message}{times}", indent="  ")))
        for path in filter(None, paths[:SHOWN]):
            note(f"  at {sanitize(path)}")
    listed = "" if made.count == len(made.losses) else f" The first {len(made.losses):,} are listed."
    note(
        f"{count_of(made.count, 'loss', 'losses')}.{listed} For programs: --report FILE"
        if made.count
        else "Nothing was lost."
    )
