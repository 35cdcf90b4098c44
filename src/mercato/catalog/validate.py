"""A document as fetched: every fault in it, or all that serving and pricing need of it."""

from typing import Final
from uuid import UUID

import msgspec

from mercato.catalog.counts import check_counts
from mercato.catalog.cycles import refuse_cycles
from mercato.catalog.findings import Findings, clipped
from mercato.catalog.hours import read_windows
from mercato.catalog.model import Windows
from mercato.catalog.prices import Prices
from mercato.catalog.read import read
from mercato.catalog.references import resolve
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
        findings.fault("The document is nested too deeply to be read.", "")
        valid = None
    return (None if findings.fault_count else valid), findings


def _validate(
    document: bytes, onboarding_id: UUID, default_currency: str, findings: Findings
) -> Valid | None:
    source = read(document, onboarding_id=onboarding_id, default_currency=default_currency, findings=findings)
    if source is None:
        return None
    prices = Prices(source, findings)
    item_prices = prices.items()
    prices.overrides()
    resolve(source, findings)
    refuse_cycles(source, findings)
    check_counts(source, findings)
    valid = Valid(source=source, item_prices=item_prices, windows=read_windows(source, findings))
    for table in source.tables:
        _warn_nameless(table, findings)
    _warn_idle_overrides(source, findings)
    return valid


def _warn_nameless(table: Table, findings: Findings) -> None:
    names = table.names()
    # The column itself is handed out when every entity has a name.
    if names is table.column("name"):
        return
    for key in [key for key, name in zip(table.members, names, strict=True) if not name]:
        findings.warn("no name", f"The {table.kind.noun} {table.said(key)} has no name.", table.pointer(key))


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
                "idle override",
                f"priceOverrides of the modifier group {groups.said(key)} names items that it does not offer: {named}.",
                f"{groups.pointer(key)}/priceOverrides",
            )
