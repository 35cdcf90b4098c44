"""`mercato catalog`: checks, compares and draws catalog documents by the ingest's rules, without a server."""

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final
from uuid import UUID

from cyclopts import Parameter

from mercato.cli import FAILED, UnusableError
from mercato.cli.catalog.diff import Difference, compare_carts, print_difference
from mercato.cli.catalog.tree import tree
from mercato.cli.inputs import Document, RefusedError, read_document, read_valid_document, settings
from mercato.cli.options import Json, Source, group
from mercato.cli.output import note, print_json, sanitize, say, wrap
from mercato.features.catalogs.building.model import Built
from mercato.features.catalogs.building.packed import unpack
from mercato.features.catalogs.ids import NO_ONBOARDING
from mercato.features.catalogs.lint import LintFinding, LintReport, refused
from mercato.features.catalogs.lint import lint as lint_document
from mercato.features.catalogs.validation.findings import Rule
from mercato.platform.texts import count_of
from mercato.settings import Settings

MAX_ALIKE: Final = 10
"""Warnings shown per rule."""

SARIF_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

catalog = group("catalog", "Catalogs: lint, diff, show, import.")
catalog.command(
    "mercato.cli.catalog.imports:import_",
    name="import",
    help="Turn a menu of another format into a CatalogSet.",
)

Onboarding = Annotated[
    UUID,
    Parameter(
        help="The store's onboardingId: the ids that replace those which aren't UUIDs are derived from it.",
        show_default=False,
    ),
]


@catalog.command
def lint(
    file: Source,
    /,
    *,
    json: Json = False,
    sarif: bool = False,
    onboarding: Onboarding = NO_ONBOARDING,
) -> int:
    """Check a catalog by the ingest's own rules, without a server, and show where each error is.

    Exit code 0: valid; 1: errors; 2: the document can't be read.

    Args:
        sarif: SARIF 2.1.0 on standard output, for code hosts.

    """
    if json and sarif:
        raise UnusableError("Give --json or --sarif, not both.")
    bounds = settings()
    name, uri = file, file
    try:
        document = read_document(file, bounds)
        name, uri = document.name, document.uri
        report, _ = _lint(document, bounds, onboarding)
    except RefusedError as error:
        report = refused(error.rule, str(error))
    if json:
        print_json(report)
    elif sarif:
        print_json(_sarif(report, uri))
    else:
        _print(report, name)
    return 0 if report.valid else FAILED


@catalog.command
def diff(
    old: Source,
    new: Source,
    /,
    *,
    cart: list[str] | None = None,
    json: Json = False,
    onboarding: Onboarding = NO_ONBOARDING,
) -> int:
    """Compare two catalogs: items added, removed, repriced, with other options; and what sample carts would cost.

    Exit code 0: done; 1: a cart that OLD can price would fail; 2: one of the documents is not valid.

    Args:
        cart: A file with a cart to price by both; may be repeated.

    """
    if old == new == "-":
        raise UnusableError("Standard input holds one document. Name a file for the other one.")
    bounds = settings()
    before, after = (unpack(_build(name, bounds, onboarding)[1].compiled) for name in (old, new))
    from mercato.features.catalogs.diff import diff as compare

    found = Difference(catalog=compare(before, after), carts=compare_carts(cart or (), before, after))
    if json:
        print_json(found)
    else:
        print_difference(found)
    return FAILED if any(cart_change.breaks for cart_change in found.carts) else 0


@catalog.command
def show(file: Source, /) -> int:
    """Draw a catalog's menu: catalogs with hours, sections, items, modifier groups and prices.

    Exit code 0: drawn; 2: the document is not valid.
    """
    document, built = _build(file, settings())
    say(*tree(built, title=document.name))
    return 0


def _lint(document: Document, bounds: Settings, onboarding: UUID) -> tuple[LintReport, Built | None]:
    return lint_document(
        document.body,
        default_currency=bounds.default_currency,
        max_bytes=bounds.pull_bytes,
        onboarding_id=onboarding,
    )


def _build(name: str, bounds: Settings, onboarding: UUID = NO_ONBOARDING) -> tuple[Document, Built]:
    """Return a valid document and what an ingest builds from it. Raises UnusableError."""
    document = read_valid_document(name, bounds)
    report, built = _lint(document, bounds, onboarding)
    if built is None:
        note("\n".join(_lines(report.errors[0], document.name, "error")))
        raise UnusableError(f"{document.name} is not valid. See all of it: mercato catalog lint {name}")
    return document, built


def _print(report: LintReport, name: str) -> None:
    for kind, listed in (("error", report.errors), ("warning", report.warnings)):
        counted: Counter[str] = Counter()
        for found in listed:
            counted[found.rule] += 1
            if kind == "error" or counted[found.rule] <= MAX_ALIKE:
                say(*_lines(found, name, kind), "")
        for rule, count in counted.items():
            if kind == "warning" and count > MAX_ALIKE:
                say(f"{count_of(count - MAX_ALIKE, 'more warning')} [{rule}]: --json has them.", "")
    rules = {found.rule: found.advice for found in (*report.errors, *report.warnings)}
    if rules:
        say("What to do:")
        for rule, advice in rules.items():
            say(*wrap(advice, first=f"  {rule}: ", indent="    "))
        say("")
    say(*wrap(_summary(report, sanitize(name))))


def _lines(found: LintFinding, name: str, kind: str) -> list[str]:
    return [
        f"{sanitize(name)}:{found.line}:{found.column}: {kind} [{found.rule}]",
        *wrap(found.message, indent="  "),
        *([f"  at {sanitize(found.path)}"] if found.path else []),
    ]


def _summary(report: LintReport, name: str) -> str:
    warnings = count_of(len(report.warnings), "warning")
    if report.summary is None:
        return f"{name} is not valid: {count_of(len(report.errors), 'error')}, {warnings}."
    summary = report.summary
    return (
        f"{name} is valid: {count_of(summary.items, 'item')}, {count_of(summary.sections, 'section')}, "
        f"{count_of(summary.catalogs, 'catalog')}, {count_of(summary.modifier_groups, 'modifier group')}, "
        f"prices in {summary.currency}; {count_of(summary.warnings, 'warning')}."
    )


def _sarif(report: LintReport, uri: str) -> dict[str, Any]:
    """Return the report in SARIF 2.1.0, which code hosts and editors show beside a file's lines."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.id.replace("-", " ")},
            "help": {"text": rule.advice},
        }
        for rule in Rule
    ]
    driver = {"name": "mercato catalog lint", "version": version("mercato"), "rules": rules}
    results = [*_results(report.errors, "error", uri), *_results(report.warnings, "warning", uri)]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _results(found: Sequence[LintFinding], level: str, uri: str) -> list[dict[str, Any]]:
    index = {rule.id: position for position, rule in enumerate(Rule)}
    return [
        {
            "ruleId": fault.rule,
            "ruleIndex": index[fault.rule],
            "level": level,
            "message": {"text": f"{fault.message} {fault.advice}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": uri},
                        "region": {"startLine": fault.line, "startColumn": fault.column},
                    },
                    "logicalLocations": [{"fullyQualifiedName": fault.path or "/", "kind": "member"}],
                }
            ],
        }
        for fault in found
    ]
