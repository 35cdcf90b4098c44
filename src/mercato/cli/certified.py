"""The output of a certification: a line for each check as it ends, then what failed and what to do about it."""

from collections.abc import Sequence
from typing import Any, Final

from mercato.certify.report import Exchange, Outcome, Verdict, count
from mercato.certify.suite import Check, Suite
from mercato.cli.console import print_json
from mercato.cli.plain import cut, folded, harmless, say, width
from mercato.plurals import count_of
from mercato.wire import Wire

MOST_LINES: Final = 14
"""Lines of a message that are shown; reports have all of it."""

_MARKS: Final = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL", Verdict.SKIPPED: "skip"}
_NAME: Final = 27


class Screen:
    """Prints outcomes, group by group; words alone, not colours, say what passed."""

    def __init__(self, suite: Suite[Any]) -> None:
        self._suite = suite
        self._group = ""
        self._held: list[Outcome] = []
        """The first checks of a group, if all of them were skipped for one reason."""

    def report(self, outcome: Outcome) -> None:
        """Print the line of a check, under the heading of its group; a group that is skipped as a whole has one."""
        group = outcome.id.rpartition(".")[0]
        if group != self._group:
            self._print_held()
            say("", *folded(self._suite.headings[group]))
        held = self._held
        is_first = group != self._group
        self._group = group
        if outcome.verdict is Verdict.SKIPPED and (is_first or (held and held[0].seen == outcome.seen)):
            held.append(outcome)
            return
        for one in [*held, outcome]:
            _line(one)
        held.clear()

    def _print_held(self) -> None:
        held, self._held = self._held, []
        if len(held) > 1:
            say(f"  {_MARKS[Verdict.SKIPPED]}  all {len(held)}")
        else:
            for one in held:
                _line(one)

    def end(self, outcomes: Sequence[Outcome]) -> None:
        """Print what failed and what was skipped, and how many there were of each."""
        self._print_held()
        failed = [one for one in outcomes if one.verdict is Verdict.FAIL]
        if failed:
            say("", "What failed, and what to do:")
        for one in failed:
            self._explain(one)
        skipped: dict[str, list[str]] = {}
        for one in outcomes:
            if one.verdict is Verdict.SKIPPED:
                skipped.setdefault(one.seen, []).append(one.id)
        if skipped:
            say("", "Skipped:")
        for why, names in skipped.items():
            first = names[0] if len(names) == 1 else f"{len(names)} checks"
            say(*folded(why, first=f"  {first}: ", indent="    "))
        say("", *folded(summed_up(outcomes)))

    def _explain(self, one: Outcome) -> None:
        say("", one.id)
        say(*folded(one.title, indent="  "))
        say(*folded(one.seen, indent="  "))
        say(*folded(one.advice or "", first="  -> ", indent="     "))
        say(*folded(f"A pass proves that {one.proves}. ({one.section})", indent="  "))
        if one.exchanges:
            _show(one.exchanges[-1])


def _line(one: Outcome) -> None:
    name, room = one.id.rpartition(".")[2], width() - _NAME - 9
    say(f"  {_MARKS[one.verdict]}  {name:<{_NAME}} {cut(one.title, room)}".rstrip())


def summed_up(outcomes: Sequence[Outcome]) -> str:
    """Return how many passed, failed and were skipped."""
    counts = count(outcomes)
    return f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped."


class Listed(Wire):
    """One check."""

    id: str
    group: str
    title: str
    section: str


class Listing(Wire):
    """The checks that would run."""

    checks: list[Listed]


def list_checks(suite: Suite[Any], checks: Sequence[Check[Any]], *, json: bool) -> None:
    """Print the checks that would run."""
    if json:
        print_json(
            Listing(
                checks=[
                    Listed(id=one.id, group=one.group, title=one.title, section=one.section) for one in checks
                ]
            )
        )
        return
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            say("", *folded(suite.headings[group]))
        say(f"  {check.id}")
        say(*folded(f"{check.title} ({check.section})", indent="    "))
    say("", f"{count_of(len(checks), 'check')}.")


def _show(exchange: Exchange) -> None:
    for name, text in (("sent", exchange.sent), ("received", exchange.received)):
        lines = [harmless(line) for line in text.split("\n")]
        shown = lines[:MOST_LINES] + (["…"] if len(lines) > MOST_LINES else [])
        for index, line in enumerate(shown):
            say(f"  {name if index == 0 else '':<9} {cut(line, width() - 12)}".rstrip())
