"""Validates a document as fetched: every fault in it, or its tables, prices, references and windows."""

from typing import Any
from uuid import UUID

from msgspec import Struct

from mercato.features.catalogs.model import Windows
from mercato.features.catalogs.validation.decode import read
from mercato.features.catalogs.validation.document import (
    CATALOGS,
    GROUPS,
    ITEMS,
    SECTIONS,
    Kind,
    Members,
    R,
    Source,
    Table,
    warn_near_misses,
)
from mercato.features.catalogs.validation.findings import Findings, Rule
from mercato.features.catalogs.validation.references import (
    References,
    check_counts,
    refuse_cycles,
    resolve,
    warn_idle_overrides,
    warn_nameless,
    warn_negative_prices,
)
from mercato.features.catalogs.validation.tables import read_table
from mercato.features.catalogs.validation.values import Prices, read_windows
from mercato.platform.wire.checks import json_type
from mercato_contract.catalog_documents import MAX_CATALOGS
from mercato_contract.money import find_scale, get_scale, quote


class ValidDocument(Struct, frozen=True):
    """A document without faults. Prices are in minor units of its currency."""

    source: Source
    item_prices: list[int | None]
    references: References
    windows: list[Windows | None]


def validate(
    document: bytes, *, onboarding_id: UUID, default_currency: str
) -> tuple[ValidDocument | None, Findings]:
    """Return the validated document, or None when there are faults, and what was found.

    Raises nothing for any bytes. The work is linear in the document's size.
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
) -> ValidDocument | None:
    top = read(document, findings)
    if top is None:
        return None
    source = _read_tables(top, onboarding_id, default_currency, findings)
    prices = Prices(source, findings)
    item_prices, overrides = prices.items(), prices.overrides()
    references = resolve(source, overrides, findings)
    refuse_cycles(source, references, findings)
    check_counts(source, references, findings)
    windows = read_windows(source, findings)
    warn_nameless(source, findings)
    warn_idle_overrides(source, references, findings)
    warn_near_misses(source, findings)
    if prices.any_negative():
        warn_negative_prices(source, item_prices, references, findings)
    return ValidDocument(source, item_prices, references, windows)


def _read_tables(top: Members, onboarding_id: UUID, default_currency: str, findings: Findings) -> Source:
    """Return the document's tables; what can't be read is reported and left out."""

    def table(kind: Kind[R]) -> Table[R]:
        return read_table(top.get(kind.member), kind, onboarding_id=onboarding_id, findings=findings)

    currency = _currency(top.get("currency"), default_currency, findings)
    catalogs, sections, items, groups = table(CATALOGS), table(SECTIONS), table(ITEMS), table(GROUPS)
    if top.get("items") is None:
        at = "/items" if "items" in top else ""
        findings.fault(Rule.ITEMS_MISSING, "items is required: an object of items by id.", at)
        items.is_readable = False
    if len(catalogs) > MAX_CATALOGS:
        message = f"catalogs has more than {MAX_CATALOGS:,} catalogs."
        findings.fault(Rule.TOO_MANY_CATALOGS, message, "/catalogs")
    return Source(onboarding_id, top, currency, get_scale(currency), catalogs, sections, items, groups)


def _currency(value: Any, default: str, findings: Findings) -> str:
    if value is None:
        return default
    if not isinstance(value, str):
        findings.fault(Rule.WRONG_TYPE, f"currency must be a string, not {json_type(value)}.", "/currency")
        return default
    if find_scale(value) is None:
        message = f"{quote(value)} isn't an ISO 4217 currency code such as USD."
        findings.fault(Rule.UNKNOWN_CURRENCY, message, "/currency")
        return default
    return value
