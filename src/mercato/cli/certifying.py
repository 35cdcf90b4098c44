"""What the commands of `mercato certify` share: their options, and how they report, write and sign the results."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mercato import clock
from mercato.certify.report import Outcome, sign
from mercato.certify.suite import Check, Suite, UnusableTargetError
from mercato.cli import FAILED, UNUSABLE
from mercato.cli.certified import Screen
from mercato.cli.console import print_json
from mercato.cli.failures import UnusableError
from mercato.cli.pasted import read_secrets
from mercato.cli.plain import folded, say
from mercato.cli.reports import check_writable, report_of, vault, write
from mercato.cli.sources import RefusedError, read_document, settings
from mercato.outbound.signing import signing_key
from mercato.wire.checks import uri_fault

Only = Annotated[
    list[str] | None,
    Parameter(
        help="Run the checks whose id contains this, or matches it with * and ?; may be repeated.",
        negative=(),
    ),
]
Listed = Annotated[bool, Parameter(name="--list", negative=(), help="List the checks and stop.")]
ReportFile = Annotated[Path | None, Parameter(help="Write the signed report to this file.")]
Secret = Annotated[
    str | None, Parameter(help="The signing secret: whsec_…, @FILE, or @- for standard input's first line.")
]


class Progress:
    """Reports a certification while it runs, and at its end."""

    def __init__(
        self,
        suite: Suite[Any],
        kind: str,
        target: str,
        *,
        json: bool,
        report: Path | None,
        data_dir: Path | None,
    ) -> None:
        if report is not None:
            check_writable(report)
        self._screen = None if json else Screen(suite)
        self._kind, self._target = kind, target
        self._file = report
        # Loaded now: a missing key should be noticed before all the work.
        self._vault = vault(data_dir) if json or report is not None else None

    def report(self, outcome: Outcome) -> None:
        """Print one outcome."""
        if self._screen is not None:
            self._screen.report(outcome)

    def run(self, work: Coroutine[Any, Any, tuple[Outcome, ...]]) -> int:
        """Do the work, print the results, and return the exit code."""
        began = clock.now()
        if self._screen is not None:
            say(*folded(f"Certifying the {self._kind}: {self._target}"))
        try:
            outcomes = asyncio.run(work)
        except UnusableTargetError as error:
            raise UnusableError(str(error)) from None
        report = report_of(self._kind, self._target, began, outcomes)
        if self._screen is not None:
            self._screen.end(outcomes)
        if self._vault is not None:
            signed = sign(report, self._vault)
            if self._file is not None:
                write(signed, self._file)
            if self._screen is None:
                print_json(signed)
            else:
                say(f"The signed report is in {self._file}.")
        if report.counts.failed:
            return FAILED
        return 0 if report.counts.passed else UNUSABLE


def selected(suite: Suite[Any], only: Sequence[str] | None) -> tuple[Check[Any], ...]:
    """Return the selected checks. Raises UnusableError when there are none."""
    checks = suite.select(only or ())
    if not checks:
        raise UnusableError(f"No check matches {', '.join(only or ())}. List them all with --list.")
    return checks


def url_of(text: str | None, option: str) -> str:
    """Return an absolute URL. Raises UnusableError."""
    if text is None:
        raise UnusableError(f"Give {option}.")
    fault = uri_fault(text, option)
    if fault is not None:
        raise UnusableError(fault)
    return text


def secret_of(text: str | None) -> str:
    """Return a signing secret, given as such or in a file. Raises UnusableError."""
    if text is None:
        raise UnusableError(
            "Give the signing secret with --secret: whsec_…, @FILE, or @- for standard input."
        )
    secret = read_secrets([text])[0]
    try:
        signing_key(secret)
    except ValueError as error:
        raise UnusableError(f"--secret: {error}") from None
    return secret


def document_of(name: str) -> bytes:
    """Return a catalog from a file. Raises UnusableError."""
    try:
        return read_document(name, settings()).body
    except RefusedError as error:
        raise UnusableError(str(error)) from None
