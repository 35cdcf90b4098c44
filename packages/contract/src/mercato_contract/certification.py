"""The report of a certification, signed by an installation of the service or by nobody."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from mercato_contract.wire import Instant, Wire


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105  # a verdict
    FAIL = "fail"
    SKIPPED = "skipped"


class Exchange(Wire):
    """One request and its response, shortened, without secrets."""

    sent: str
    received: str
    ms: Annotated[int, Meta(description="Milliseconds until the response was complete, or the wait ended.")]


class CheckOutcome(Wire):
    """The result of one check."""

    id: str
    title: str
    proves: str
    section: str
    verdict: Verdict
    seen: str
    advice: Annotated[str | None, Meta(description="What to do; null for a check that passed.")]
    exchanges: tuple[Exchange, ...]


class Counts(Wire):
    """How many checks had each verdict."""

    passed: int
    failed: int
    skipped: int


class Report(Wire):
    """What was certified, when, by which version, and the result of every check."""

    kind: Annotated[str, Meta(description="`merchant` or `storefront`.")]
    target: Annotated[str, Meta(description="What was certified, without credentials.")]
    version: str
    started_at: Instant
    finished_at: Instant
    counts: Counts
    checks: tuple[CheckOutcome, ...]


def count(outcomes: Collection[CheckOutcome]) -> Counts:
    verdicts = [outcome.verdict for outcome in outcomes]
    return Counts(
        passed=verdicts.count(Verdict.PASS),
        failed=verdicts.count(Verdict.FAIL),
        skipped=verdicts.count(Verdict.SKIPPED),
    )


class Signature(Wire):
    """Who signed a report. The public key is the 32 raw bytes in base64, and so is the signature's 64."""

    algorithm: str
    public_key: str
    signature: str
    proves: str


class SignedReport(Wire):
    """A report with its signature."""

    report: Report
    signature: Signature


class UnsignedReport(Wire):
    """A report that nobody signed: it proves nothing to others."""

    report: Report
