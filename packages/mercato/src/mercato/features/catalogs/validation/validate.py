"""Validates a document as fetched: every fault in it, or its tables, prices, references and windows."""

from typing import Any, Final
from uuid import UUID

from msgspec import Raw, Struct
from msgspec.json import encode

from mercato.features.catalogs.model import Windows
from mercato.features.catalogs.validation import checks
from mercato.features.catalogs.validation.decode import read, repeats_a_key
from mercato.features.catalogs.validation.document import (
    CATALOGS,
    GROUPS,
    ITEMS,
    SECTIONS,
    Growth,
    Kind,
    Members,
    R,
    Source,
    Table,
)
from mercato.features.catalogs.validation.findings import Findings, Rule
from mercato.features.catalogs.validation.hours import read_windows
from mercato.features.catalogs.validation.near_misses import warn_near_misses
from mercato.features.catalogs.validation.prices import Prices
from mercato.features.catalogs.validation.references import References, refuse_cycles, resolve
from mercato.features.catalogs.validation.scan import BOM, scan
from mercato.features.catalogs.validation.tables import read_table
from mercato.platform.wire.kinds import json_type
from mercato_contract.money import find_scale, get_scale, quote

MAX_CATALOGS: Final = 1_000
"""Catalogs in one set: every section has a bit for each of them."""


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
    later = Findings()
    source = _read_tables(top, onboarding_id, default_currency, later)
    prices = Prices(source, later)
    item_prices, growth = prices.items()
    overrides = prices.overrides()
    # After the prices, which have no colons: the encoded text is then also the one that is served.
    if _repeats_a_key(document, source, growth if not overrides else Growth(size=None)):
        found = scan(document.removeprefix(BOM))
        for pointer, _ in found.duplicates:
            findings.fault(Rule.DUPLICATE_KEY, "This key is repeated in its object.", pointer)
        findings.count_unlisted(found.duplicate_count - len(found.duplicates))
    findings.extend(later)
    references = resolve(source, overrides, findings)
    refuse_cycles(source, references, findings)
    checks.check_counts(source, references, findings)
    windows = read_windows(source, findings)
    checks.warn_nameless(source, findings)
    checks.warn_idle_overrides(source, references, findings)
    warn_near_misses(source, findings)
    if prices.any_negative():
        checks.warn_negative_prices(source, item_prices, references, findings)
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


def _repeats_a_key(document: bytes, source: Source, growth: Growth) -> bool:
    """Tell whether the document repeats a key; `growth` is that of the prices."""
    written: list[bytes] = []
    rest: dict[str, Any] = dict(source.top)
    for table in source.tables:
        # A table whose ids were replaced isn't the document's own any more.
        if rest.get(table.kind.member) is table.members:
            rest[table.kind.member] = Raw()
            written.append(table.write())
            growth += table.growth
        elif table is source.items:
            growth += Growth(size=None)
    return repeats_a_key(document, [*written, encode(rest)], growth)
