"""`mercato url` and `mercato price`: what can be checked without a database: an address to pull, an order's price."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import structs

from mercato_catalog.building.packed import unpack
from mercato_catalog.validation.findings import Rule, quote
from mercato_contract.decoding import Decoder
from mercato_contract.decoding.checks import uri_fault
from mercato_contract.money import MoneyError, find_scale
from mercato_contract.refusals import Problem
from mercato_contract.stores import Charge
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire
from mercato_outbound.guard import AddressPolicy
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.catalog import build_valid
from mercato_tools.cli.failures import said_by
from mercato_tools.cli.inputs import read_file, settings
from mercato_tools.cli.options import Json, Source, group
from mercato_tools.cli.output import finding, print_json, say, wrap
from mercato_tools.lint import lint
from mercato_tools.price_proof import PriceProof, ProofOrder, verify_prices
from mercato_tools.settings import IngestSettings, MiB
from mercato_tools.url_doctor import Level, UrlDoctor, UrlFinding, without_query

url = group("url", "URLs: doctor.")

_NOT_JSON: Final = {
    rule.id for rule in (Rule.EMPTY, Rule.NOT_JSON, Rule.NOT_UTF8, Rule.COMPRESSED, Rule.TOO_DEEP)
}


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
    found = asyncio.run(diagnose(address, UrlDoctor(policy=policy, limits=bounds.pull_limits), bounds))
    failed = any(result.level is Level.FAIL for result in found)
    if json:
        print_json({"url": without_query(address), "ok": not failed, "findings": found})
    else:
        _print(found)
    return FAILED if failed else 0


async def diagnose(address: str, doctor: UrlDoctor, bounds: IngestSettings) -> list[UrlFinding]:
    """Return the findings, and the linter's result for the document."""
    pulled = await doctor.examine(address)
    return doctor.findings if pulled is None else [*doctor.findings, _lint(pulled.body, bounds)]


def _lint(document: bytes, bounds: IngestSettings) -> UrlFinding:
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


price = group("price", "Prices: verify an order's.")


class _CatalogSet(Wire):
    """The id of a served CatalogSet; a merchant's own document has none."""

    catalog_set_id: UUID | None = None


_decode_order: Final = Decoder(ProofOrder)


class _Store(Wire):
    """A store as its merchant reads it; what isn't read here may be anything."""

    charges: list[Charge]


_decode_set: Final = Decoder(_CatalogSet)
_decode_store: Final = Decoder(_Store)


@price.command
def verify(order: Source, catalog_set: Source, store: Source | None = None, /, *, json: Json = False) -> int:
    """Recompute an order from the CatalogSet that it was placed from, without a server, and show what differs.

    ORDER is the JSON of an order as either API returns it, or as a webhook carries it. CATALOGSET is the JSON of
    the set that `cart.catalogSetId` names: sets never change, so anybody who kept both can repeat the computation.
    STORE is the JSON of the order's store as its merchant read it then: with it, the taxes and fees that its `charges`
    give are recomputed, too.

    Exit code 0: equal; 1: different; 2: a document can't be read, or the order is of another set.
    """
    if [order, catalog_set, store].count("-") > 1:
        raise UnusableError("Standard input holds one document. Name a file for the other one.")
    proof = _verify(order, catalog_set, store)
    if json:
        print_json(proof)
    else:
        _print_proof(proof)
    return 0 if proof.equal else FAILED


def _verify(order: str, catalog_set: str, store: str | None) -> PriceProof:
    bounds = settings()
    try:
        placed = _decode_order(read_file(order, max_bytes=MiB))
    except Problem as problem:
        raise UnusableError(f"{order} isn't an order: {' '.join(said_by(problem))}") from None
    currency = placed.amounts.currency
    if find_scale(currency) is None:
        raise UnusableError(
            f"{order} can't be recomputed: {quote(currency)} is not an ISO 4217 currency code."
        )
    # A set that names no currency is in the network's, which is also the order's.
    document, built = build_valid(catalog_set, structs.replace(bounds, default_currency=currency))
    try:
        set_id = _decode_set(document.body).catalog_set_id
    except Problem as problem:
        raise UnusableError(
            f"{document.name} isn't a CatalogSet that the service served: {' '.join(said_by(problem))}"
        ) from None
    if set_id != placed.cart.catalog_set_id:
        raise UnusableError(
            f"The order is of the CatalogSet {placed.cart.catalog_set_id}, and {document.name} is "
            f"{set_id or 'a document without catalogSetId'}. Get the set that the order names."
        )
    try:
        return verify_prices(placed, unpack(built.compiled), _charges(store))
    except Problem as problem:
        raise UnusableError(f"{order} can't be recomputed: {' '.join(said_by(problem))}") from None
    except MoneyError as error:
        raise UnusableError(f"{order} can't be recomputed: {error}") from None


def _charges(store: str | None) -> list[Charge] | None:
    if store is None:
        return None
    try:
        return _decode_store(read_file(store, max_bytes=MiB)).charges
    except Problem as problem:
        raise UnusableError(
            f"{store} isn't a store as its merchant reads it: {' '.join(said_by(problem))}"
        ) from None


def _print_proof(proof: PriceProof) -> None:
    for difference in proof.differences:
        say(*wrap(difference.message, first=f"{difference.path}: ", indent="  "))
    if proof.equal:
        say(f"Equal: {proof.total} {proof.currency}, by CatalogSet {proof.catalog_set_id}.")
    else:
        count = len(proof.differences)
        say(f"Different: {count} amount{'s' if count > 1 else ''} of the order.")
