"""What an ingest would say of a document, with the line and column of each place, and what to do about it. Pure."""

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato.catalog.build import BuildFailed, Built, Unchanged, build
from mercato.catalog.decode import not_utf8
from mercato.catalog.ids import NOWHERE
from mercato.catalog.locate import Position, locate, positions
from mercato.catalog.model import CatalogFault, CatalogSummary, CatalogWarning
from mercato.catalog.read import BOM
from mercato.catalog.rules import Rule
from mercato.wire import Wire

ADVICE: Final = {rule.id: rule.advice for rule in Rule}


class LintFinding(Wire):
    """An error or a warning, and its place in the document as it was read."""

    message: str
    path: Annotated[str, Meta(description="RFC 6901 pointer.")]
    line: Annotated[int, Meta(description="From 1.")]
    column: Annotated[int, Meta(description="From 1, in characters.")]
    rule: str
    advice: str


class LintReport(Wire):
    """All that was found. `summary` is null when there are errors."""

    valid: bool
    errors: tuple[LintFinding, ...]
    warnings: tuple[LintFinding, ...]
    summary: CatalogSummary | None


def lint(
    document: bytes, *, default_currency: str, most_bytes: int, onboarding_id: UUID = NOWHERE
) -> tuple[LintReport, Built | None]:
    """Return what an ingest would say of the document, and what it would make of one without errors.

    `most_bytes` is what a server may send at most without compressing it. Ids that are no UUIDs are served as those
    that are made of the `onboarding_id`.
    """
    made = build(
        document,
        onboarding_id=onboarding_id,
        catalog_set_id=NOWHERE,
        store_id=NOWHERE,
        default_currency=default_currency,
        previous_hash=None,
    )
    assert not isinstance(made, Unchanged)
    faults = list(zip(made.faults, made.fault_rules, strict=True)) if isinstance(made, BuildFailed) else []
    warnings = list(zip(made.warnings, made.warning_rules, strict=True))
    if len(document) > most_bytes:
        words = (
            f"The document has {len(document):,} bytes; beyond {most_bytes:,} it can only be sent compressed."
        )
        warnings.append((CatalogWarning(message=words, path=""), Rule.NEEDS_COMPRESSION.id))
    places = _places(document, [*faults, *warnings])
    report = LintReport(
        valid=not faults,
        errors=tuple(_finding(fault, rule, places) for fault, rule in faults),
        warnings=tuple(_finding(warning, rule, places) for warning, rule in warnings),
        summary=made.summary if isinstance(made, Built) else None,
    )
    return report, made if isinstance(made, Built) else None


def refused(rule: Rule, message: str) -> LintReport:
    """Return the report of a document that could not be read at all."""
    fault = CatalogFault(message=message, path="")
    return LintReport(
        valid=False,
        errors=(_finding(fault, rule.id, {"": Position(1, 1)}),),
        warnings=(),
        summary=None,
    )


Found = tuple[CatalogFault | CatalogWarning, str]


def _places(document: bytes, found: Sequence[Found]) -> dict[str, Position]:
    if not found:
        return {}
    if any(rule == Rule.NOT_UTF8.id for _, rule in found):
        text = document.removeprefix(BOM)
        at = not_utf8(text) or 0
        return dict.fromkeys((one.path for one, _ in found), positions(text, [at])[at])
    return locate(document, {one.path for one, _ in found})


def _finding(found: CatalogFault | CatalogWarning, rule: str, places: dict[str, Position]) -> LintFinding:
    line, column = places[found.path]
    return LintFinding(
        message=found.message, path=found.path, line=line, column=column, rule=rule, advice=ADVICE[rule]
    )
