"""Certification on the screen, and its report as a file."""

from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from mercato_contract import clock
from mercato_contract.certification import (
    CheckOutcome,
    Counts,
    Exchange,
    Report,
    SignedReport,
    UnsignedReport,
    Verdict,
    count,
)
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire, instant
from mercato_tools.certify.suite import Check, Suite
from mercato_tools.cli import UnusableError
from mercato_tools.cli.output import (
    finding,
    indented,
    print_json,
    replace_file,
    sanitize,
    say,
    truncate,
    view,
    width,
    wrap,
)

MAX_LINES: Final = 14
"""Lines shown of a message; reports have all of it."""


_MARKS: Final = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL", Verdict.SKIPPED: "skip"}
_NAME: Final = 27


class CheckDisplay:
    """Prints outcomes group by group; meaning never depends on colour."""

    def __init__(self, suite: Suite[Any]) -> None:
        self._suite = suite
        self._group = ""
        self._pending: list[CheckOutcome] = []
        """The first checks of a group, while all are skipped for the same reason."""

    def show(self, outcome: CheckOutcome) -> None:
        """Print a check's line under the heading of its group; a group skipped as a whole has one line."""
        group = outcome.id.rpartition(".")[0]
        is_first = group != self._group
        if is_first:
            self._print_pending()
            say("", *wrap(self._suite.headings[group]))
        self._group = group
        pending = self._pending
        if outcome.verdict is Verdict.SKIPPED and (is_first or (pending and pending[0].seen == outcome.seen)):
            pending.append(outcome)
            return
        say(*map(_line, (*pending, outcome)))
        pending.clear()

    def _print_pending(self) -> None:
        pending, self._pending = self._pending, []
        say(
            *(
                [f"  {_MARKS[Verdict.SKIPPED]}  all {len(pending)}"]
                if len(pending) > 1
                else map(_line, pending)
            )
        )

    def end(self, outcomes: Sequence[CheckOutcome]) -> None:
        """Print the failed and skipped checks, and the counts."""
        self._print_pending()
        failed = [outcome for outcome in outcomes if outcome.verdict is Verdict.FAIL]
        if failed:
            say("", "What failed, and what to do:")
        for outcome in failed:
            say(
                "",
                outcome.id,
                *wrap(outcome.title, indent="  "),
                *finding(outcome.seen, outcome.advice, indent="  "),
            )
            say(*wrap(f"A pass proves that {outcome.proves}. ({outcome.section})", indent="  "))
            if outcome.exchanges:
                _show(outcome.exchanges[-1])
        skipped: dict[str, list[str]] = {}
        for outcome in outcomes:
            if outcome.verdict is Verdict.SKIPPED:
                skipped.setdefault(outcome.seen, []).append(outcome.id)
        if skipped:
            say("", "Skipped:")
        for reason, names in skipped.items():
            first = names[0] if len(names) == 1 else f"{len(names)} checks"
            say(*wrap(reason, first=f"  {first}: ", indent="    "))
        say("", f"{counts_text(count(outcomes))}.")


def counts_text(counts: Counts) -> str:
    """Return how many checks passed, failed and were skipped."""
    return f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"


def _line(outcome: CheckOutcome) -> str:
    name, room = outcome.id.rpartition(".")[2], width() - _NAME - 9
    return f"  {_MARKS[outcome.verdict]}  {name:<{_NAME}} {truncate(outcome.title, room)}".rstrip()


def _show(exchange: Exchange) -> None:
    for name, text in (("sent", exchange.sent), ("received", exchange.received)):
        lines = [sanitize(line) for line in text.split("\n")]
        shown = lines[:MAX_LINES] + (["…"] if len(lines) > MAX_LINES else [])
        for index, line in enumerate(shown):
            say(f"  {name if index == 0 else '':<9} {truncate(line, width() - 12)}".rstrip())


class CheckEntry(Wire):
    """A check that hasn't run."""

    id: str
    group: str
    title: str
    section: str


def print_checks(suite: Suite[Any], checks: Sequence[Check[Any]], *, json: bool) -> None:
    """Print the checks without running them."""
    if json:
        print_json({"checks": [view(CheckEntry, check) for check in checks]})
        return
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            say("", *wrap(suite.headings[group]))
        say(f"  {check.id}", *wrap(f"{check.title} ({check.section})", indent="    "))
    say("", f"{count_of(len(checks), 'check')}.")


def report_of(kind: str, target: str, began: datetime, outcomes: Sequence[CheckOutcome]) -> Report:
    """Return the report of a certification that ends now."""
    return Report(
        kind=kind,
        target=target,
        version=version("mercato-tools"),
        started_at=instant(began) or "",
        finished_at=instant(clock.now()) or "",
        counts=count(outcomes),
        checks=tuple(outcomes),
    )


def check_writable(file: Path) -> None:
    """Raise UnusableError for a report that can't be written: before the work, not after it."""
    if file.is_dir():
        raise UnusableError(f"{file} is a directory. Name a file in it.")
    if not file.absolute().parent.is_dir():
        raise UnusableError(f"There is no directory {file.absolute().parent}.")


def write_report(report: SignedReport | UnsignedReport, file: Path) -> None:
    """Write a report. Raises UnusableError when it can't be."""
    try:
        replace_file(file, indented(report))
    except OSError as error:
        raise UnusableError(f"The report cannot be written to {file}: {error.strerror}.") from None
