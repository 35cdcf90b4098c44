"""`mercato catalog`: looks at catalog documents as an ingest would, without a server."""

from collections import Counter
from typing import Annotated, Final
from uuid import UUID

from cyclopts import App, Parameter

from mercato.catalog.building.model import Built
from mercato.catalog.building.packed import unpack
from mercato.catalog.ids import NOWHERE
from mercato.catalog.lint import LintFinding, LintReport, refused
from mercato.catalog.lint import lint as linted
from mercato.cli import FAILED
from mercato.cli.carts import compare_carts
from mercato.cli.catalog_diff import Difference, print_difference
from mercato.cli.catalog_tree import tree
from mercato.cli.console import note, print_json
from mercato.cli.failures import UnusableError
from mercato.cli.options import Json
from mercato.cli.plain import folded, harmless, say
from mercato.cli.sarif import sarif
from mercato.cli.sources import Document, RefusedError, read_document, settings
from mercato.plurals import count_of
from mercato.settings import Settings

MOST_ALIKE: Final = 10
"""Warnings of one rule that people are shown."""

catalog = App(name="catalog", help="Catalogs: lint, diff, show, import.")
catalog.command(
    "mercato.cli.catalog_import:import_",
    name="import",
    help="Turn a menu of another format into a CatalogSet.",
)

Source = Annotated[str, Parameter(help="A file, a URL, or - for standard input.", allow_leading_hyphen=True)]

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
    sarif_: Annotated[
        bool, Parameter(name="--sarif", negative=(), help="SARIF 2.1.0 on standard output, for code hosts.")
    ] = False,
    onboarding: Onboarding = NOWHERE,
) -> int:
    """Say what an ingest would say of a catalog, and where: by the ingest's own rules, without a server.

    Exit code 0: valid; 1: errors; 2: there is nothing to look at.
    """
    if json and sarif_:
        raise UnusableError("Ask for --json or for --sarif, not for both.")
    bounds = settings()
    name, uri, report = file, file, None
    try:
        document = read_document(file, bounds)
        name, uri = document.name, document.uri
        report, _ = _looked_at(document, bounds, onboarding)
    except RefusedError as error:
        report = refused(error.rule, str(error))
    if json:
        print_json(report)
    elif sarif_:
        print_json(sarif(report, uri))
    else:
        _print(report, name)
    return 0 if report.valid else FAILED


@catalog.command
def diff(
    old: Source,
    new: Source,
    /,
    *,
    cart: Annotated[
        list[str] | None, Parameter(help="A file with a cart to price by both; may be repeated.", negative=())
    ] = None,
    json: Json = False,
    onboarding: Onboarding = NOWHERE,
) -> int:
    """Say what NEW changes against OLD: added, removed, repriced, with other options; and what carts would cost.

    Exit code 0: done; 1: a cart that OLD can price would fail; 2: one of the documents is not valid.
    """
    if old == new == "-":
        raise UnusableError("Standard input holds one document. Name a file for the other one.")
    bounds = settings()
    before, after = (unpack(_valid(name, bounds, onboarding)[1].compiled) for name in (old, new))
    from mercato.catalog.diff import diff as compared

    found = Difference(catalog=compared(before, after), carts=compare_carts(cart or (), before, after))
    if json:
        print_json(found)
    else:
        print_difference(found)
    return FAILED if any(one.breaks for one in found.carts) else 0


@catalog.command
def show(file: Source, /) -> int:
    """Draw a catalog's menu: catalogs with their hours, sections, items, and what can be chosen, with prices.

    Exit code 0: drawn; 2: the document is not valid.
    """
    document, built = _valid(file, settings())
    for line in tree(built, title=document.name):
        say(line)
    return 0


def _looked_at(document: Document, bounds: Settings, onboarding: UUID) -> tuple[LintReport, Built | None]:
    return linted(
        document.body,
        default_currency=bounds.default_currency,
        most_bytes=bounds.pull_bytes,
        onboarding_id=onboarding,
    )


def _valid(name: str, bounds: Settings, onboarding: UUID = NOWHERE) -> tuple[Document, Built]:
    """Return a document that has no errors, and what an ingest makes of it. Raises UnusableError."""
    try:
        document = read_document(name, bounds)
    except RefusedError as error:
        raise UnusableError(str(error)) from None
    report, built = _looked_at(document, bounds, onboarding)
    if built is None:
        for line in _told(report.errors[0], document.name, "error"):
            note(line)
        raise UnusableError(f"{document.name} is not valid. See all of it: mercato catalog lint {name}")
    return document, built


def _print(report: LintReport, name: str) -> None:
    for kind, listed in (("error", report.errors), ("warning", report.warnings)):
        counted: Counter[str] = Counter()
        for found in listed:
            counted[found.rule] += 1
            if kind == "error" or counted[found.rule] <= MOST_ALIKE:
                say(*_told(found, name, kind), "")
        for rule, count in counted.items():
            if kind == "warning" and count > MOST_ALIKE:
                say(f"{count_of(count - MOST_ALIKE, 'more warning')} [{rule}]: --json has them.", "")
    rules = {found.rule: found.advice for found in (*report.errors, *report.warnings)}
    if rules:
        say("What to do:")
        for rule, advice in rules.items():
            say(*folded(advice, first=f"  {rule}: ", indent="    "))
        say("")
    say(*folded(_summed_up(report, harmless(name))))


def _told(found: LintFinding, name: str, kind: str) -> list[str]:
    return [
        f"{harmless(name)}:{found.line}:{found.column}: {kind} [{found.rule}]",
        *folded(found.message, indent="  "),
        *([f"  at {harmless(found.path)}"] if found.path else []),
    ]


def _summed_up(report: LintReport, name: str) -> str:
    counts = f"{count_of(len(report.errors), 'error')}, {count_of(len(report.warnings), 'warning')}"
    if report.summary is None:
        return f"{name} is not valid: {counts}."
    held = report.summary
    counts = count_of(held.warnings, "warning")
    return (
        f"{name} is valid: {count_of(held.items, 'item')}, {count_of(held.sections, 'section')}, "
        f"{count_of(held.catalogs, 'catalog')}, {count_of(held.modifier_groups, 'modifier group')}, "
        f"prices in {held.currency}; {counts}."
    )
