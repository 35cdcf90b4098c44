"""`mercato url doctor`: pulls a URL step by step, and reports what fails and how to fix it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from mercato.cli import FAILED, UnusableError
from mercato.cli.inputs import settings
from mercato.cli.options import Json, group
from mercato.cli.output import finding, print_json, say
from mercato.features.catalogs.lint import lint
from mercato.features.catalogs.runs import pull_limits
from mercato.features.catalogs.validation.findings import Rule
from mercato.platform.outbound.guard import AddressPolicy
from mercato.platform.texts import count_of
from mercato.platform.wire.checks import uri_fault
from mercato.settings import Settings
from mercato.tools.url_doctor import Level, UrlDoctor, UrlFinding, without_query

url = group("url", "URLs: doctor.")

_NOT_JSON: Final = {rule.id for rule in (Rule.EMPTY, Rule.NOT_JSON, Rule.NOT_UTF8, Rule.TOO_DEEP)}


@url.command
def doctor(address: str, /, *, json: Json = False) -> int:
    """Pull a catalog's URL as an ingest would, and check DNS, addresses, TLS, redirects, size and ETag.

    Exit code 0: it can be pulled; 1: it can't, or isn't JSON; 2: not a URL.

    Args:
        address: A catalogCallbackUrl or callbackUrl, as you would register it.

    """
    fault = uri_fault(address, "The URL")
    if fault is not None:
        raise UnusableError(fault)
    bounds = settings()
    policy = AddressPolicy(allow_private=bounds.allow_private_networks)
    found = asyncio.run(diagnose(address, UrlDoctor(policy=policy, limits=pull_limits(bounds)), bounds))
    failed = any(result.level is Level.FAIL for result in found)
    if json:
        print_json({"url": without_query(address), "ok": not failed, "findings": found})
    else:
        _print(found)
    return FAILED if failed else 0


async def diagnose(address: str, doctor: UrlDoctor, bounds: Settings) -> list[UrlFinding]:
    """Return the findings, and the linter's result for the document."""
    pulled = await doctor.examine(address)
    return doctor.findings if pulled is None else [*doctor.findings, _lint(pulled.body, bounds)]


def _lint(document: bytes, bounds: Settings) -> UrlFinding:
    report, _ = lint(document, default_currency=bounds.default_currency, max_bytes=bounds.pull_bytes)
    if report.valid and report.summary is not None:
        message = f"valid JSON, a valid catalog of {count_of(report.summary.items, 'item')}"
        return UrlFinding(name="catalog", level=Level.OK, message=message)
    first = report.errors[0]
    if any(error.rule in _NOT_JSON for error in report.errors):
        return UrlFinding(name="catalog", level=Level.FAIL, message=first.message, advice=first.advice)
    message = f"valid JSON, but not a valid catalog: {count_of(len(report.errors), 'error')}. {first.message}"
    advice = "See all of it: mercato catalog lint URL"
    return UrlFinding(name="catalog", level=Level.WARN, message=message, advice=advice)


def _print(found: Sequence[UrlFinding]) -> None:
    width = max(len(result.name) for result in found)
    for result in found:
        took = "" if result.ms is None else f" ({result.ms:,} ms)"
        first = f"{result.level.value:<5} {result.name:<{width}}  "
        say(*finding(f"{result.message}{took}", result.advice, first=first, indent=" " * len(first)))
    counted = Counter(result.level for result in found)
    say("", ", ".join(f"{counted[level]} {level.value}" for level in Level) + ".")
