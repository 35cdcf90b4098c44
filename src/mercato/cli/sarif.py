"""A report in SARIF 2.1.0: what code hosts and editors show beside the lines of a file."""

from importlib.metadata import version
from typing import Final

from msgspec import field

from mercato.catalog.lint import LintFinding, LintReport
from mercato.catalog.validation.rules import Rule
from mercato.wire import Wire

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class Text(Wire):
    text: str


class Described(Wire):
    id: str
    short_description: Text
    help: Text


class Driver(Wire):
    name: str
    version: str
    rules: list[Described]


class Tool(Wire):
    driver: Driver


class Artifact(Wire):
    uri: str


class Region(Wire):
    start_line: int
    start_column: int


class Physical(Wire):
    artifact_location: Artifact
    region: Region


class Logical(Wire):
    fully_qualified_name: str
    kind: str


class Location(Wire):
    physical_location: Physical
    logical_locations: list[Logical]


class Result(Wire):
    rule_id: str
    rule_index: int
    level: str
    message: Text
    locations: list[Location]


class Run(Wire):
    tool: Tool
    column_kind: str
    results: list[Result]


class Log(Wire):
    schema: str = field(name="$schema")
    version: str
    runs: list[Run]


_INDEX: Final = {rule.id: index for index, rule in enumerate(Rule)}


def sarif(report: LintReport, uri: str) -> Log:
    """Return the report on the document of that URI."""
    rules = [
        Described(
            id=rule.id,
            short_description=Text(text=rule.id.replace("-", " ")),
            help=Text(text=rule.advice),
        )
        for rule in Rule
    ]
    driver = Driver(name="mercato catalog lint", version=version("mercato"), rules=rules)
    results = [_result(one, "error", uri) for one in report.errors]
    results += [_result(one, "warning", uri) for one in report.warnings]
    run = Run(tool=Tool(driver=driver), column_kind="unicodeCodePoints", results=results)
    return Log(schema=SCHEMA, version="2.1.0", runs=[run])


def _result(found: LintFinding, level: str, uri: str) -> Result:
    physical = Physical(
        artifact_location=Artifact(uri=uri),
        region=Region(start_line=found.line, start_column=found.column),
    )
    return Result(
        rule_id=found.rule,
        rule_index=_INDEX[found.rule],
        level=level,
        message=Text(text=f"{found.message} {found.advice}"),
        locations=[
            Location(
                physical_location=physical,
                logical_locations=[Logical(fully_qualified_name=found.path or "/", kind="member")],
            )
        ],
    )
