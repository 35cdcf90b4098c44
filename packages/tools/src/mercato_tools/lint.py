"""The linter: what an ingest would report of a document, with lines, columns and advice. Pure."""

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato_catalog.building.build import build
from mercato_catalog.building.packed import unpack
from mercato_catalog.carts.name_findings import check_names
from mercato_catalog.model import NO_ONBOARDING, BuildFailed, BuildRequest, Built, Finding, Unchanged
from mercato_catalog.validation.findings import Rule
from mercato_catalog.validation.scan import BOM, Position, locate, positions
from mercato_catalog.validation.validate import not_utf8
from mercato_contract.catalogs import CatalogSummary
from mercato_contract.wire import Wire

ADVICE: Final = {rule.id: rule.advice for rule in Rule}


class LintFinding(Wire):
    """An error or a warning, and its position in the document as read."""

    code: str
    message: str
    path: Annotated[str, Meta(description="RFC 6901 pointer.")]
    line: Annotated[int, Meta(description="From 1.")]
    column: Annotated[int, Meta(description="From 1, in characters.")]
    rule: Annotated[str, Meta(description="The same as `code`.")]
    advice: str


class AgentSummary(Wire):
    """How many items are sold by themselves, how many of them can be ordered by name, and the warnings of names.

    `warnings` counts all of them, also those that the list left out.
    """

    items: int
    by_name: int
    warnings: int


class LintReport(Wire):
    """All that was found. `summary` is null when there are errors; `agents` is there if names were checked."""

    valid: bool
    errors: tuple[LintFinding, ...]
    warnings: tuple[LintFinding, ...]
    summary: CatalogSummary | None
    agents: AgentSummary | UnsetType = UNSET


def lint(
    document: bytes,
    *,
    default_currency: str,
    max_bytes: int,
    onboarding_id: UUID = NO_ONBOARDING,
    agents: bool = False,
) -> tuple[LintReport, Built | None]:
    """Return what an ingest would report of the document, and what it would build of one without errors.

    A document over `max_bytes` can only be pulled compressed. The `onboarding_id` is used to derive the UUIDs that
    replace ids which aren't UUIDs. `agents`: also warn of names that agents can't order by.
    """
    made = build(document, BuildRequest(onboarding_id, NO_ONBOARDING, NO_ONBOARDING, default_currency))
    assert not isinstance(made, Unchanged)
    faults = made.faults if isinstance(made, BuildFailed) else ()
    warnings = made.warnings
    if len(document) > max_bytes:
        message = (
            f"The document has {len(document):,} bytes; beyond {max_bytes:,} it can only be sent compressed."
        )
        warnings = (*warnings, Finding(Rule.NEEDS_COMPRESSION.id, message, ""))
    named: AgentSummary | UnsetType = UNSET
    if agents and isinstance(made, Built):
        found = check_names(
            document, unpack(made.compiled), onboarding_id=onboarding_id, default_currency=default_currency
        )
        warnings = (*warnings, *found.warnings)
        named = AgentSummary(items=found.items, by_name=found.by_name, warnings=found.count)
    places = _places(document, [*faults, *warnings])
    report = LintReport(
        valid=not faults,
        errors=tuple(_located(fault, places) for fault in faults),
        warnings=tuple(_located(warning, places) for warning in warnings),
        summary=made.summary if isinstance(made, Built) else None,
        agents=named,
    )
    return report, made if isinstance(made, Built) else None


def refused(rule: Rule, message: str) -> LintReport:
    """Return the report of a document that couldn't be read at all."""
    fault = _located(Finding(rule.id, message, ""), {"": Position(1, 1)})
    return LintReport(valid=False, errors=(fault,), warnings=(), summary=None)


def _places(document: bytes, found: Sequence[Finding]) -> dict[str, Position]:
    if not found:
        return {}
    pointers = {finding.path for finding in found}
    if any(finding.rule == Rule.NOT_UTF8.id for finding in found):
        at = not_utf8(document.removeprefix(BOM)) or 0
        return dict.fromkeys(pointers, positions(document.removeprefix(BOM), [at])[at])
    return locate(document, pointers)


def _located(found: Finding, places: dict[str, Position]) -> LintFinding:
    line, column = places[found.path]
    return LintFinding(
        code=found.rule,
        message=found.message,
        path=found.path,
        line=line,
        column=column,
        rule=found.rule,
        advice=ADVICE[found.rule],
    )
