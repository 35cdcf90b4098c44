"""How a certification is told: a line for each check as it ends, then what failed and what to do about it."""

from collections.abc import Sequence
from typing import Any, Final

from mercato.certify.model import Check, Exchange, Outcome, Verdict, counted
from mercato.certify.suite import Suite
from mercato.cli.plain import cut, folded, harmless, say, width

MOST_LINES: Final = 14
"""Lines of a message that are shown; reports have all of it."""

_MARKS: Final = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL", Verdict.SKIPPED: "skip"}
_NAME: Final = 27


class Screen:
    """Tells outcomes, group by group; the words alone say what is good and what is not."""

    def __init__(self, suite: Suite[Any]) -> None:
        self._suite = suite
        self._group = ""

    def told(self, outcome: Outcome) -> None:
        """Print the line of a check, under the heading of its group."""
        group, _, name = outcome.id.rpartition(".")
        if group != self._group:
            self._group = group
            say("", *folded(self._suite.heading(group)))
        room = width() - _NAME - 9
        say(f"  {_MARKS[outcome.verdict]}  {name:<{_NAME}} {cut(outcome.title, room)}".rstrip())

    def end(self, outcomes: Sequence[Outcome]) -> None:
        """Print what failed and what was skipped, and how many there were of each."""
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
        say(*folded(f"If it passed, it would prove that {one.proves}. ({one.section})", indent="  "))
        if one.exchanges:
            _show(one.exchanges[-1])


def summed_up(outcomes: Sequence[Outcome]) -> str:
    """Return the last line: how many passed, failed and were skipped."""
    counts = counted(tuple(outcomes))
    return f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped."


def list_checks(suite: Suite[Any], checks: Sequence[Check[Any]]) -> None:
    """Print what would be checked."""
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            say("", *folded(suite.heading(group)))
        say(f"  {check.id}")
        say(*folded(f"{check.title} ({check.section})", indent="    "))
    say("", f"{len(checks)} checks.")


def _show(exchange: Exchange) -> None:
    for name, text in (("sent", exchange.sent), ("received", exchange.received)):
        lines = [harmless(line) for line in text.split("\n")]
        shown = lines[:MOST_LINES] + (["…"] if len(lines) > MOST_LINES else [])
        for index, line in enumerate(shown):
            say(f"  {name if index == 0 else '':<9} {cut(line, width() - 12)}".rstrip())
