"""A check, what came of it, and what it saw."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Generic, TypeVar

from msgspec import Meta

from mercato.wire import Instant, Wire

B = TypeVar("B")

UNEXPLAINED: Final = "Compare what was sent with what came back, below."


class Verdict(StrEnum):
    """What came of a check."""

    PASS = "pass"  # noqa: S105  # a verdict
    FAIL = "fail"
    SKIPPED = "skipped"


class Failed(Exception):  # noqa: N818  # a verdict, not an error of ours
    """The implementation does not do what the check asks for; the message says what it did instead."""


class NoAnswer(Failed):
    """Nothing came back, or not in time."""


class UnusableTargetError(Exception):
    """There is nothing to certify; the message says why, and what to do."""


class Skipped(Exception):  # noqa: N818  # a verdict too
    """The check says nothing here; the message says why, and what it needs."""


Run = Callable[[B], Awaitable[str]]
"""Look, and return what was seen in a few words. Raises Failed or Skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[B]):
    """One thing that an implementation has to do. `needs` names checks without which this one says nothing."""

    id: str
    title: str
    proves: str
    section: str
    advice: str
    needs: tuple[str, ...]
    run: Run[B]

    @property
    def group(self) -> str:
        """Return what it is listed under: its id without the last part."""
        return self.id.rpartition(".")[0]


class Exchange(Wire):
    """One request and what came back, shortened, without secrets."""

    sent: str
    received: str
    ms: Annotated[
        int, Meta(description="Milliseconds until the answer was complete, or nobody waited any more.")
    ]


class Outcome(Wire):
    """What came of a check, as it stands in a report."""

    id: str
    title: str
    proves: str
    section: str
    verdict: Verdict
    seen: str
    advice: Annotated[str | None, Meta(description="What to do; null for a check that passed.")]
    exchanges: tuple[Exchange, ...]


class Counts(Wire):
    """How many checks came to what."""

    passed: int
    failed: int
    skipped: int


class Report(Wire):
    """What was certified, when, by which version, and what came of every check."""

    kind: Annotated[str, Meta(description="`merchant` or `storefront`.")]
    target: Annotated[str, Meta(description="What was looked at, without what could grant access.")]
    version: str
    started_at: Instant
    finished_at: Instant
    counts: Counts
    checks: tuple[Outcome, ...]


def counted(outcomes: tuple[Outcome, ...]) -> Counts:
    """Return how many outcomes there are of each verdict."""
    verdicts = [one.verdict for one in outcomes]
    return Counts(
        passed=verdicts.count(Verdict.PASS),
        failed=verdicts.count(Verdict.FAIL),
        skipped=verdicts.count(Verdict.SKIPPED),
    )


def outcome_of(
    check: Check[Any],
    verdict: Verdict,
    seen: str,
    exchanges: tuple[Exchange, ...],
    *,
    advice: str | None = None,
) -> Outcome:
    """Return the outcome of a check. What to do is the check's own advice, unless another fits better."""
    told = None if verdict is Verdict.PASS else advice or check.advice
    return Outcome(
        id=check.id,
        title=check.title,
        proves=check.proves,
        section=check.section,
        verdict=verdict,
        seen=seen,
        advice=told,
        exchanges=exchanges,
    )
