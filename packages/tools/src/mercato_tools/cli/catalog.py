"""`mercato catalog`: checks, compares and draws catalog documents by the ingest's rules, without a server."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from cyclopts import Parameter
from msgspec import UNSET

from mercato_catalog.building.packed import unpack
from mercato_catalog.carts import pricing
from mercato_catalog.carts.lines import check_bounds
from mercato_catalog.model import (
    NO_ONBOARDING,
    Built,
    CompiledCatalog,
    CompiledGroup,
    CompiledItem,
    Key,
    Menu,
    Node,
    hours,
)
from mercato_catalog.model import rule as choice_rule
from mercato_catalog.validation.findings import MAX_PER_KIND, Rule
from mercato_contract.carts import LineItem
from mercato_contract.catalogs import CatalogDiff, DiffList
from mercato_contract.clock import new_id
from mercato_contract.decoding import Decoder
from mercato_contract.money import minor_to_decimal
from mercato_contract.problems import OrderError
from mercato_contract.refusals import Problem
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.failures import said_by
from mercato_tools.cli.inputs import (
    Document,
    RefusedError,
    read_document,
    read_file,
    read_valid_document,
    settings,
)
from mercato_tools.cli.options import Json, Source, group
from mercato_tools.cli.output import cells, note, print_json, sanitize, say, truncate, width, wrap
from mercato_tools.lint import LintFinding, LintReport, refused
from mercato_tools.lint import lint as lint_document
from mercato_tools.settings import IngestSettings, MiB

MAX_ALIKE: Final = 10
"""Warnings shown per rule, without --all."""

SUMMARIZED: Final = {Rule.ID_NOT_UUID.id: "Ids that are not UUIDs"}
"""Rules whose warnings are one line with their count, without --all: there is nothing to do."""

SARIF_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

catalog = group("catalog", "Catalogs: lint, diff, show, import, template.")
catalog.command(
    "mercato_tools.cli.catalog_imports:imports",
    name="import",
    help="Turn a spreadsheet, or a menu of another format, into a CatalogSet.",
)
catalog.command(
    "mercato_tools.cli.sheet_imports:template",
    name="template",
    help="Write a spreadsheet to begin with, with examples.",
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
    show_all: Annotated[bool, Parameter("--all")] = False,
    agents: bool = False,
    onboarding: Onboarding = NO_ONBOARDING,
) -> int:
    """Check a catalog by the ingest's own rules, without a server, and show where each error is.

    Exit code 0: valid; 1: errors; 2: the document can't be read.

    Args:
        sarif: SARIF 2.1.0 on standard output, for code hosts.
        show_all: Show all warnings that are alike, rather than the first of them or their count.
        agents: Also warn of names that AI agents can't order by, and count the items that they can.

    """
    if json and sarif:
        raise UnusableError("Give --json or --sarif, not both.")
    bounds = settings()
    name, uri = file, file
    try:
        document = read_document(file, bounds)
        name, uri = document.name, document.uri
        report, _ = _lint(document, bounds, onboarding, agents=agents)
    except RefusedError as error:
        report = refused(error.rule, str(error))
    if json:
        print_json(report)
    elif sarif:
        print_json(_sarif(report, uri))
    else:
        _print(report, name, show_all=show_all)
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
    before, after = (unpack(build_valid(name, bounds, onboarding)[1].compiled) for name in (old, new))
    from mercato_catalog.diff import diff as compare

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
    document, built = build_valid(file, settings())
    say(*tree(built, title=document.name))
    return 0


def _lint(
    document: Document, bounds: IngestSettings, onboarding: UUID, *, agents: bool = False
) -> tuple[LintReport, Built | None]:
    return lint_document(
        document.body,
        default_currency=bounds.default_currency,
        max_bytes=bounds.pull_bytes,
        onboarding_id=onboarding,
        agents=agents,
    )


def build_valid(
    name: str, bounds: IngestSettings, onboarding: UUID = NO_ONBOARDING
) -> tuple[Document, Built]:
    """Return a valid document and what an ingest builds from it. Raises UnusableError."""
    document = read_valid_document(name, bounds)
    report, built = _lint(document, bounds, onboarding)
    if built is None:
        note("\n".join(_lines(report.errors[0], document.name, "error")))
        raise UnusableError(f"{document.name} is not valid. See all of it: mercato catalog lint {name}")
    return document, built


def _print(report: LintReport, name: str, *, show_all: bool) -> None:
    for error in report.errors:
        say(*_lines(error, name, "error"), "")
    alike: dict[str, list[LintFinding]] = {}
    for warning in report.warnings:
        alike.setdefault(warning.rule, []).append(warning)
    summarized = {} if show_all else SUMMARIZED
    for rule, found in alike.items():
        if rule in summarized:
            # What isn't listed has no place.
            listed = sum(bool(finding.path) for finding in found)
            count = listed if listed == len(found) else f"more than {listed}"
            say(f"{summarized[rule]}: {count}. No action needed [{rule}]: --all shows them.", "")
            continue
        for warning in found if show_all else found[:MAX_ALIKE]:
            say(*_lines(warning, name, "warning"), "")
        if not show_all and len(found) > MAX_ALIKE:
            say(f"{count_of(len(found) - MAX_ALIKE, 'more warning')} [{rule}]: --all shows them.", "")
    rules = {
        found.rule: found.advice
        for found in (*report.errors, *report.warnings)
        if found.rule not in summarized
    }
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
    if report.summary is None:
        return f"{name} is not valid: {_counted(report.errors, 'error')}, {_counted(report.warnings, 'warning')}."
    summary, count, named = report.summary, report.summary.warnings, ""
    if report.agents is not UNSET:
        items = count_of(report.agents.items, "item that is sold", "items that are sold")
        named = f" Agents can order {report.agents.by_name:,} of {items} by name."
        count += report.agents.warnings
    return (
        f"{name} is valid: {count_of(summary.items, 'item')}, {count_of(summary.sections, 'section')}, "
        f"{count_of(summary.catalogs, 'catalog')}, {count_of(summary.modifier_groups, 'modifier group')}, "
        f"prices in {summary.currency}; {count_of(count, 'warning')}.{named}"
    )


def _counted(found: Sequence[LintFinding], noun: str) -> str:
    """Return how many there are: at least so many where a list was cut, whose last entry stands for the others."""
    alike = Counter(finding.rule for finding in found)
    is_cut = Rule.NOT_LISTED.id in alike or max(alike.values(), default=0) > MAX_PER_KIND
    return f"{'at least ' if is_cut else ''}{count_of(len(found), noun)}"


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
    driver = {"name": "mercato catalog lint", "version": version("mercato-tools"), "rules": rules}
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


class SampleCart(Wire):
    """A cart as a storefront sends or receives it; only its lines are read."""

    line_items: list[LineItem]


class CartChange(Wire):
    """A cart's price before and after; null where it can't be priced, with the errors."""

    file: str
    before: str | None
    after: str | None
    errors: list[OrderError]

    @property
    def breaks(self) -> bool:
        """Return whether the old catalog prices it and the new one doesn't."""
        return self.before is not None and self.after is None


class Difference(Wire):
    """The changes of the new catalog, and the prices of the sample carts."""

    catalog: CatalogDiff
    carts: list[CartChange]


_decode: Final = Decoder(SampleCart)


def compare_carts(files: Iterable[str], before: CompiledCatalog, after: CompiledCatalog) -> list[CartChange]:
    """Return each cart's price by both catalogs. Raises UnusableError for a file that isn't a cart."""
    return [_compare(file, before, after) for file in files]


def _compare(file: str, before: CompiledCatalog, after: CompiledCatalog) -> CartChange:
    try:
        lines = _decode(read_file(file, max_bytes=MiB)).line_items
        check_bounds(lines)
    except Problem as problem:
        raise UnusableError(f"{file} isn't a cart: {' '.join(said_by(problem))}") from None
    old, _ = _price(lines, before)
    new, faults = _price(lines, after)
    return CartChange(file=file, before=old, after=new, errors=faults)


def _price(lines: list[LineItem], catalog: CompiledCatalog) -> tuple[str | None, list[OrderError]]:
    priced = pricing.price(lines, catalog=catalog, sold_out=(), new_id=new_id)
    faults = [fault.error() for fault in (*priced.faults, *priced.overflows)]
    if faults or priced.total is None:
        return None, faults
    return f"{minor_to_decimal(priced.total, catalog.scale)} {catalog.currency}", []


def print_difference(found: Difference) -> None:
    """Print it for people."""
    say(*_catalog(found.catalog))
    for change in found.carts:
        say(*_cart(change))


def _catalog(found: CatalogDiff) -> Iterator[str]:
    if found.identical:
        yield "No difference that pricing or browsing would show."
        return
    if found.currency is not None:
        yield f"Currency: {found.currency.before} before, {found.currency.after} after"
    items = found.items
    yield from _listed("Items added", "+", items.added)
    yield from _listed("Items removed", "-", items.removed)
    if items.repriced.count:
        yield f"Items repriced: {items.repriced.count:,}"
        for repriced in items.repriced.entries:
            prices = f"{repriced.before or 'no price'} → {repriced.after or 'no price'}"
            yield from wrap(
                f"{repriced.name or 'no name'} ({repriced.id})", first=f"  {prices}  ", indent="      "
            )
        yield from _more(items.repriced.count - len(items.repriced.entries))
    yield from _listed("Items with other options", "~", items.reoptioned)
    yield from _listed("Items with another name, availability, maximum or partnerItemId", "~", items.changed)
    parts = {
        "Modifier groups": found.modifier_groups,
        "Sections": found.sections,
        "Catalogs": found.catalogs,
    }
    for noun, part in parts.items():
        yield from _listed(f"{noun} added", "+", part.added)
        yield from _listed(f"{noun} removed", "-", part.removed)
        yield from _listed(f"{noun} changed", "~", part.changed)


def _listed(title: str, mark: str, found: DiffList) -> Iterator[str]:
    if found.count:
        yield f"{title}: {found.count:,}"
        for entry in found.entries:
            yield from wrap(f"{entry.name or 'no name'} ({entry.id})", first=f"  {mark} ", indent="    ")
        yield from _more(found.count - len(found.entries))


def _more(count: int) -> Iterator[str]:
    if count:
        yield f"  and {count:,} more"


def _cart(change: CartChange) -> Iterator[str]:
    name = f"Cart {sanitize(change.file)}"
    if change.before == change.after:
        yield f"{name}: {'cannot be priced by either' if change.after is None else f'{change.after}, as before'}"
    elif change.after is None:
        yield f"{name}: {change.before} before, and now it fails:"
    elif change.before is None:
        yield f"{name}: could not be priced before, {change.after} now"
    else:
        yield f"{name}: {change.before} → {change.after}"
    for fault in change.errors:
        yield from wrap(f"{fault.code} at {fault.pointer}: {fault.message}", indent="    ", first="  - ")


MAX_DEPTH: Final = 16
"""Levels drawn: more don't fit in 80 columns."""

_MIN_ROOM: Final = 16


Line = tuple[str, str, "Iterator[Line]"]
"""The text on the left, the price on the right, and the children."""


def tree(built: Built, *, title: str) -> Iterator[str]:
    """Yield the lines of the tree."""
    drawing = _Drawing(unpack(built.compiled), msgspec.json.decode(built.body, type=Menu))
    counts = built.summary
    yield truncate(
        f"{sanitize(title)}: {count_of(counts.items, 'item')}, prices in {counts.currency}",
        width(),
    )
    yield from _draw(drawing.catalogs(), "", 1)
    # Known only after everything above was drawn.
    rest = drawing.rest()
    if rest:
        yield "In no section:"
        yield from _draw(drawing.items(rest), "", 1)


def _draw(lines: Iterator[Line], indent: str, depth: int) -> Iterator[str]:
    line = next(lines, None)
    while line is not None:
        following = next(lines, None)
        left, right, below = line
        yield _row(indent + ("├─ " if following else "└─ "), left, right)
        inner = indent + ("│  " if following else "   ")
        if depth < MAX_DEPTH:
            yield from _draw(below, inner, depth + 1)
        elif next(below, None) is not None:
            yield inner + "└─ …"
        line = following


def _row(branch: str, left: str, right: str) -> str:
    room = max(_MIN_ROOM, width() - cells(branch) - (cells(right) + 1 if right else 0))
    text = branch + truncate(sanitize(left), room)
    if not right:
        return text
    return text + " " * max(1, width() - cells(text) - cells(right)) + right


@dataclass
class _Drawing:
    catalog: CompiledCatalog
    menu: Menu
    seen: set[str | Key] = field(default_factory=set)
    met: set[Key] = field(default_factory=set)

    def catalogs(self) -> Iterator[Line]:
        for catalog in self.catalog.catalogs or ():
            node = self.menu.catalogs[catalog.catalog_id]
            yield f"{catalog.name or 'no name'} ({hours(catalog.windows)})", "", self._below(node)
        if not self.catalog.catalogs:
            for node in self.menu.catalogs.values():
                yield "Menu (always)", "", self._below(node)

    def rest(self) -> list[Key]:
        """Return the items that have not been drawn yet."""
        return [key for key in self.catalog.items if key not in self.met]

    def _below(self, node: Node) -> Iterator[Line]:
        sections = self.menu.sections or {}
        for key in node.section_ids or ():
            name = self.catalog.sections[key].name or "no name"
            if key in self.seen:
                yield f"{name} (as elsewhere)", "", iter(())
            else:
                self.seen.add(key)
                yield name, "", self._below(sections[key])
        yield from self.items(key.int for key in node.item_ids or ())

    def items(self, keys: Iterable[Key]) -> Iterator[Line]:
        for key in keys:
            item = self.catalog.items[key]
            self.met.add(key)
            price = "no price" if item.price is None else self._text(item.price)
            yield _named(item), price, self._groups(item)

    def _groups(self, item: CompiledItem) -> Iterator[Line]:
        for key in item.groups:
            group = self.catalog.groups[key]
            name = f"{group.name or 'no name'} ({choice_rule(group)})"
            if key in self.seen:
                self.met.update(group.choices)
                yield f"{name} (as elsewhere)", "", iter(())
            else:
                self.seen.add(key)
                yield name, "", self._choices(group)

    def _choices(self, group: CompiledGroup) -> Iterator[Line]:
        for key, price in group.choices.items():
            item = self.catalog.items[key]
            self.met.add(key)
            yield _named(item), f"{'+' if price >= 0 else ''}{self._text(price)}", self._groups(item)

    def _text(self, minor: int) -> str:
        return minor_to_decimal(minor, self.catalog.scale)


def _named(item: CompiledItem) -> str:
    return (item.name or "no name") + ("" if item.available else " (unavailable)")
