"""A document as fetched: every fault in it, or all that serving and pricing need of it."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import msgspec

from mercato.catalog.counts import check_counts
from mercato.catalog.cycles import refuse_cycles
from mercato.catalog.duplicates import repeats_a_key
from mercato.catalog.findings import Findings, clipped
from mercato.catalog.hours import read_windows
from mercato.catalog.model import Windows
from mercato.catalog.near_misses import warn_near_misses, warn_negative
from mercato.catalog.prices import Prices
from mercato.catalog.read import BOM, read, read_tables
from mercato.catalog.references import resolve
from mercato.catalog.rules import Rule
from mercato.catalog.scan import scan
from mercato.catalog.source import Source, Table

_NAMED: Final = 3
"""Items that one warning names."""


class Valid(msgspec.Struct, frozen=True):
    """A document without faults. Prices, overrides in their column too, are in minor units of its currency."""

    source: Source
    item_prices: list[int | None]
    windows: list[Windows | None]


def validate(document: bytes, *, onboarding_id: UUID, default_currency: str) -> tuple[Valid | None, Findings]:
    """Return the validated document, or None when there are faults, and what was found.

    Raises nothing, whatever the bytes are. The work is linear in the document's size.
    """
    findings = Findings()
    try:
        valid = _validate(document, onboarding_id, default_currency, findings)
    except RecursionError:
        findings = Findings()
        findings.fault(Rule.TOO_DEEP, "The document is nested too deeply to be read.", "")
        valid = None
    return (None if findings.fault_count else valid), findings


def _validate(
    document: bytes, onboarding_id: UUID, default_currency: str, findings: Findings
) -> Valid | None:
    top = read(document, findings)
    if top is None:
        return None
    later = Findings()
    source = read_tables(top, onboarding_id=onboarding_id, default_currency=default_currency, findings=later)
    prices = Prices(source, later)
    item_prices = prices.items()
    prices.overrides()
    # Not before the prices, which have no colons: what is written to be counted is what will be served.
    # Prices have changed what will be written only where their table is written, and not the document's own.
    grown = prices.grown if source.items.members is top.get("items") else None
    kept = [table.own_ids for table in source.tables if table.members is top.get(table.kind.member)]
    if grown is not None:
        grown += sum(added.size for added in kept)
    if repeats_a_key(document, source.write(), grown=grown, added=sum(added.count for added in kept)):
        _name_repeated(document.removeprefix(BOM), findings)
    findings.extend(later)
    resolve(source, findings)
    refuse_cycles(source, findings)
    check_counts(source, findings)
    valid = Valid(source=source, item_prices=item_prices, windows=read_windows(source, findings))
    for table in source.tables:
        _warn_nameless(table, findings)
    _warn_idle_overrides(source, findings)
    warn_near_misses(source, findings)
    if prices.any_negative():
        warn_negative(source, item_prices, findings)
    return valid


def _name_repeated(document: bytes, findings: Findings) -> None:
    found = scan(document)
    for pointer, _ in found.duplicates:
        findings.fault(Rule.DUPLICATE_KEY, "This key stands more than once in its object.", pointer)
    findings.unlisted(found.duplicate_count - len(found.duplicates))


def _warn_nameless(table: Table, findings: Findings) -> None:
    names = table.names()
    if all(names):
        return
    for key in _keys_of(table, names, ""):
        findings.warn(
            Rule.NO_NAME, f"The {table.kind.noun} {table.said(key)} has no name.", table.pointer(key)
        )


def _keys_of(table: Table, column: list[str], value: str) -> Iterator[str]:
    """Yield the served ids of the entities that have the value: `index` looks at thousands in the time of a step."""
    keys, at = list(table.members), -1
    while True:
        try:
            at = column.index(value, at + 1)
        except ValueError:
            return
        yield keys[at]


def _warn_idle_overrides(source: Source, findings: Findings) -> None:
    groups = source.groups
    offered = dict(groups.rows_with("itemIds"))
    for key, prices in groups.rows_with("priceOverrides"):
        idle = prices.keys() - set(offered.get(key, ()))
        if idle:
            named = ", ".join(clipped(item) for item in sorted(idle)[:_NAMED]) + (
                " and more" if len(idle) > _NAMED else ""
            )
            findings.warn(
                Rule.IDLE_OVERRIDE,
                f"priceOverrides of the modifier group {groups.said(key)} names items that it does not offer: {named}.",
                f"{groups.pointer(key)}/priceOverrides",
            )
