"""From bytes to the four tables, or to what is wrong with the bytes."""

import codecs
from typing import Any, Final
from uuid import UUID

from mercato.catalog import money
from mercato.catalog.decode import UnreadableError, decode
from mercato.catalog.findings import Findings
from mercato.catalog.rules import Rule
from mercato.catalog.shape import said
from mercato.catalog.source import CATALOGS, GROUPS, ITEMS, SECTIONS, Members, Source
from mercato.catalog.tables import read_table

MOST_CATALOGS: Final = 1_000
"""Catalogs in one set: every section is looked at for each of them."""

BOM: Final = codecs.BOM_UTF8


def read(document: bytes, findings: Findings) -> Members | None:
    """Return the document's members, or None when what was noted leaves nothing to check."""
    text = document
    if document.startswith(BOM):
        findings.warn(
            Rule.BYTE_ORDER_MARK, "The document begins with a byte order mark, which JSON has none of.", ""
        )
        text = document[len(BOM) :]
    try:
        return decode(text)
    except UnreadableError as fault:
        findings.fault(fault.rule, str(fault), "")
        return None


def read_tables(top: Members, *, onboarding_id: UUID, default_currency: str, findings: Findings) -> Source:
    """Return the document's tables; what cannot be read is noted, and left out."""
    currency = _currency(top.get("currency"), default_currency, findings)
    catalogs, sections, items, groups = (
        read_table(top.get(kind.member), kind, onboarding_id=onboarding_id, findings=findings)
        for kind in (CATALOGS, SECTIONS, ITEMS, GROUPS)
    )
    if top.get("items") is None:
        findings.fault(
            Rule.ITEMS_MISSING,
            "items is required: an object of items by id.",
            "/items" if "items" in top else "",
        )
        items.readable = False
    if len(catalogs) > MOST_CATALOGS:
        findings.fault(
            Rule.TOO_MANY_CATALOGS, f"catalogs holds more than {MOST_CATALOGS:,} catalogs.", "/catalogs"
        )
    return Source(onboarding_id, top, currency, money.get_scale(currency), catalogs, sections, items, groups)


def _currency(value: Any, default: str, findings: Findings) -> str:
    if value is None:
        return default
    if not isinstance(value, str):
        findings.fault(Rule.WRONG_TYPE, f"currency must be a string, not {said(value)}.", "/currency")
        return default
    if money.find_scale(value) is None:
        findings.fault(
            Rule.UNKNOWN_CURRENCY,
            f"{money.shown(value)} is not an ISO 4217 currency code such as USD.",
            "/currency",
        )
        return default
    return value
