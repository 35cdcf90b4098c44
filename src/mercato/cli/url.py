"""`mercato url doctor`: what a pull would meet at a URL, step by step, and what to do about it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final

from cyclopts import App, Parameter

from mercato.catalog.lint import lint
from mercato.catalog.validation.rules import Rule
from mercato.cli import FAILED
from mercato.cli.console import print_json
from mercato.cli.failures import UnusableError
from mercato.cli.options import Json
from mercato.cli.plain import folded, harmless, say
from mercato.cli.sources import settings
from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.doctor import Level, UrlDoctor, UrlFinding, shown
from mercato.outbound.results import PullLimits
from mercato.plurals import count_of
from mercato.settings import Settings
from mercato.wire import Wire
from mercato.wire.checks import uri_fault

url = App(name="url", help="URLs: doctor.")

_NO_JSON: Final = {one.id for one in (Rule.EMPTY, Rule.NOT_JSON, Rule.NOT_UTF8, Rule.TOO_DEEP)}


class Diagnosis(Wire):
    """All findings; `ok` unless one of them fails."""

    url: str
    ok: bool
    findings: Sequence[UrlFinding]


@url.command
def doctor(
    address: Annotated[str, Parameter(help="A catalogCallbackUrl or callbackUrl, as you would register it.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Pull a catalog's URL as an ingest would, and say what is found: name, addresses, TLS, redirects, size, ETag.

    Exit code 0: it can be pulled; 1: it cannot, or holds no JSON; 2: it is no URL.
    """
    fault = uri_fault(address, "The URL")
    if fault is not None:
        raise UnusableError(fault)
    bounds = settings()
    found = asyncio.run(diagnose(address, doctor_for(bounds), bounds))
    failed = any(one.level is Level.FAIL for one in found)
    if json:
        print_json(Diagnosis(url=shown(address), ok=not failed, findings=found))
    else:
        _print(found)
    return FAILED if failed else 0


def doctor_for(bounds: Settings) -> UrlDoctor:
    """Return what looks at a URL as a pull of these settings does."""
    return UrlDoctor(
        policy=AddressPolicy(allow_private=bounds.allow_private_networks),
        limits=PullLimits(
            connect=bounds.pull_connect_seconds,
            total=bounds.pull_seconds,
            redirects=bounds.pull_redirects,
            max_raw=bounds.pull_bytes,
            max_decoded=bounds.pull_decoded_bytes,
        ),
    )


async def diagnose(address: str, doctor: UrlDoctor, bounds: Settings) -> list[UrlFinding]:
    """Return the findings, and what the linter says of the document that was read."""
    pulled = await doctor.examine(address)
    return doctor.findings if pulled is None else [*doctor.findings, _catalog(pulled.body, bounds)]


def _catalog(document: bytes, bounds: Settings) -> UrlFinding:
    report, _ = lint(document, default_currency=bounds.default_currency, most_bytes=bounds.pull_bytes)
    if report.valid and report.summary is not None:
        count = report.summary.items
        said = f"valid JSON, a valid catalog of {count_of(count, 'item')}"
        return UrlFinding(name="catalog", level=Level.OK, said=said)
    if any(one.rule in _NO_JSON for one in report.errors):
        first = report.errors[0]
        return UrlFinding(name="catalog", level=Level.FAIL, said=first.message, advice=first.advice)
    count = len(report.errors)
    return UrlFinding(
        name="catalog",
        level=Level.WARN,
        said=f"valid JSON, but no valid catalog: {count_of(count, 'error')}. {report.errors[0].message}",
        advice="See all of it: mercato catalog lint URL",
    )


def _print(found: Sequence[UrlFinding]) -> None:
    width = max(len(one.name) for one in found)
    for one in found:
        took = "" if one.ms is None else f" ({one.ms:,} ms)"
        start = f"{one.level.value:<5} {one.name:<{width}}  "
        indent = " " * len(start)
        say(*folded(harmless(f"{one.said}{took}"), first=start, indent=indent))
        if one.advice:
            say(*folded(one.advice, first=f"{indent}-> ", indent=f"{indent}   "))
    counted = Counter(one.level for one in found)
    say("", ", ".join(f"{counted[level]} {level.value}" for level in Level) + ".")
