"""`mercato catalog import`: menus of other formats as CatalogSets, and what was lost on the way."""

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from mercato import clock
from mercato.catalog.imports.convert import Imported, UnknownCurrencyError, convert
from mercato.catalog.imports.losses import Loss
from mercato.catalog.imports.source import ImportOptions
from mercato.catalog.lint import lint
from mercato.cli import FAILED
from mercato.cli.console import note
from mercato.cli.failures import UnusableError
from mercato.cli.plain import folded, harmless
from mercato.cli.sources import STANDARD_INPUT, RefusedError, read_document, settings
from mercato.errors import Problem
from mercato.plurals import count_of
from mercato.settings import Settings
from mercato.wire import Wire, as_json

SHOWN: Final = 3
"""Places that people are shown of what was lost in many."""

MOST_FAULTS: Final = 10


class Format(StrEnum):
    """Formats that can be read."""

    UBER = "uber"
    DELIVERECT = "deliverect"
    HUBRISE = "hubrise"
    SQUARE = "square"


class Report(Wire):
    """What was lost: all counted, the first 10,000 listed."""

    count: int
    losses: Sequence[Loss]


def import_(
    file: Annotated[
        str, Parameter(help="A file, a URL, or - for standard input.", allow_leading_hyphen=True)
    ],
    /,
    *,
    from_: Annotated[Format, Parameter(name="--from", help="The format that it is in.")],
    output: Annotated[
        str | None,
        Parameter(name=["-o", "--output"], help="Where to write the CatalogSet (standard output)."),
    ] = None,
    report: Annotated[
        str | None, Parameter(help="Where to write what was lost, as JSON (standard error, in words).")
    ] = None,
    currency: Annotated[str | None, Parameter(help="The currency of the prices, as EUR.")] = None,
    language: Annotated[str | None, Parameter(help="The language of the texts, as en or fr_CA.")] = None,
) -> int:
    """Turn a menu of another format into a CatalogSet, and say by pointer what was lost on the way.

    Exit code 0: done, whatever was lost; 1: the result is not valid; 2: there is nothing to import.
    """
    bounds = settings()
    made = _made(file, from_, bounds, currency, language)
    code = _checked(made, bounds)
    _write(output, made.document)
    if report is None:
        _tell(made)
    else:
        _write(report, as_json(Report(count=made.count, losses=made.losses)) + b"\n")
        note(f"{count_of(made.count, 'loss', 'losses')}: see {harmless(report)}")
    return code


def _made(file: str, form: Format, bounds: Settings, currency: str | None, language: str | None) -> Imported:
    asked = ImportOptions(
        currency=None if currency is None else currency.upper(),
        default_currency=bounds.default_currency,
        language=language,
        now=clock.now(),
    )
    try:
        document = read_document(file, bounds)
        return convert(form.value, document.body, asked)
    except RefusedError as refused:
        raise UnusableError(str(refused)) from None
    except UnknownCurrencyError as error:
        raise UnusableError(
            f"{harmless(str(error))} is no currency in use: write its code, as EUR."
        ) from None
    except Problem as problem:
        raise UnusableError(_why(problem, form)) from None


def _why(problem: Problem, form: Format) -> str:
    lines = [f"This is no menu of the format {form.value}:"]
    for fault in problem.errors[:MOST_FAULTS]:
        lines += folded(fault.message, first="  ", indent="  ")
        lines += [f"  at {harmless(fault.pointer)}"] if fault.pointer else []
    if len(problem.errors) > MOST_FAULTS:
        lines.append(f"  and {len(problem.errors) - MOST_FAULTS} more.")
    return "\n".join(lines)


def _checked(made: Imported, bounds: Settings) -> int:
    """Return the exit code, having said what an ingest would refuse: there should be nothing."""
    found, _ = lint(made.document, default_currency=bounds.default_currency, most_bytes=bounds.pull_bytes)
    for one in found.errors[:MOST_FAULTS]:
        note("\n".join(folded(f"The result is not valid: {one.message}")))
        note(f"  at {harmless(one.path)}")
    return 0 if found.valid else FAILED


def _write(name: str | None, content: bytes) -> None:
    if name is None or name == STANDARD_INPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    try:
        # Written beside it first, so that a half-written catalog is never there for a server to send.
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_bytes(content)
        part.replace(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "its name is none"
        raise UnusableError(f"{name} cannot be written: {why}.") from None


def _tell(made: Imported) -> None:
    """Say what was lost: what is alike, together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in made.losses:
        alike.setdefault((one.kind.value, one.message), []).append(one.path)
    for (kind, message), paths in alike.items():
        times = "" if len(paths) == 1 else f" ({len(paths):,} times)"
        note("\n".join(folded(f"{kind}: {message}{times}", indent="  ")))
        for path in paths[:SHOWN]:
            if path:
                note(f"  at {harmless(path)}")
    listed = "" if made.count == len(made.losses) else f" The first {len(made.losses):,} are listed."
    note(
        "Nothing was lost."
        if not made.count
        else f"{count_of(made.count, 'loss', 'losses')}.{listed} For programs: --report FILE"
    )
