"""From bytes to the four tables, or to what is wrong with the bytes."""

import codecs
from typing import Final
from uuid import UUID

import msgspec

from mercato.catalog import money
from mercato.catalog.duplicates import repeats_a_key
from mercato.catalog.findings import Findings
from mercato.catalog.locate import positions
from mercato.catalog.scan import scan
from mercato.catalog.shape import said
from mercato.catalog.source import CATALOGS, GROUPS, ITEMS, NULL, SECTIONS, Raw, Source
from mercato.catalog.tables import read_table

MOST_VALUES: Final = 2_000_000
"""Values in one document; each costs some hundred bytes while it is checked."""

MOST_CATALOGS: Final = 1_000
"""Catalogs in one set: every section is looked at for each of them."""

_COUNTED_FROM: Final = 8 * 1024 * 1024
"""Bytes up to which a document can't hold enough values to matter."""

_BOM: Final = codecs.BOM_UTF8
_CHUNK: Final = 1 << 16


def read(document: bytes, *, onboarding_id: UUID, default_currency: str, findings: Findings) -> Source | None:
    """Return the document's tables, or None when what was noted leaves nothing to check."""
    top = _read_top(document, findings)
    if top is None:
        return None
    return _read_tables(document, top, onboarding_id, default_currency, findings)


def _read_top(document: bytes, findings: Findings) -> dict[str, Raw] | None:
    text = document
    if document.startswith(_BOM):
        findings.warn(
            "byte order mark", "The document begins with a byte order mark, which JSON has no use for.", ""
        )
        text = document[len(_BOM) :]
    fault = _unreadable(text)
    if fault is not None:
        findings.fault(fault, "")
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Raw])
    except msgspec.ValidationError:
        findings.fault(f"The document must be an object, not {said(text.lstrip())}.", "")
    except msgspec.DecodeError:
        findings.fault(_broken(document), "")
    return None


def _unreadable(text: bytes) -> str | None:
    first = text[:200].lstrip()[:1]
    if not text.strip():
        return "The document is empty."
    if first == b"<":
        return "The document is HTML or XML, not JSON. Does the URL lead to a page that asks to log in?"
    at = _not_utf8(text)
    if at is not None:
        line, column = positions(text, [at])[at]
        return (
            f"The document is not UTF-8: the byte at line {line}, column {column} is not part of a character."
        )
    if len(text) > _COUNTED_FROM and text.count(b",") > MOST_VALUES:
        return f"The document holds more than {MOST_VALUES:,} values."
    return None


def _not_utf8(text: bytes) -> int | None:
    """Return the offset of the first byte that is wrong; in pieces, so that no second copy is made."""
    if text.isascii():
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(text), _CHUNK):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(text[start : start + _CHUNK], start + _CHUNK >= len(text))
        except UnicodeDecodeError as fault:
            return start - pending + fault.start
    return None


def _broken(document: bytes) -> str:
    found = scan(document)
    if found.broken is None:
        return "The document is not JSON."
    line, column = positions(document, [found.broken_at])[found.broken_at]
    return f"The document is not JSON: at line {line}, column {column}, {found.broken}."


def _read_tables(
    document: bytes, top: dict[str, Raw], onboarding_id: UUID, default_currency: str, findings: Findings
) -> Source:
    currency = _currency(top.get("currency"), default_currency, findings)
    tables = [
        read_table(top.get(kind.member), kind, onboarding_id=onboarding_id, findings=findings)
        for kind in (CATALOGS, SECTIONS, ITEMS, GROUPS)
    ]
    if top.get("items", NULL) == NULL:
        findings.fault("items is required: an object of items by id.", "/items" if "items" in top else "")
        tables[2].readable = False
    if len(tables[0].entities) > MOST_CATALOGS:
        findings.fault(f"catalogs holds more than {MOST_CATALOGS:,} catalogs.", "/catalogs")
    if repeats_a_key(document, members=len(top) + sum(table.count for table in tables)):
        _name_repeated(document, findings)
    return Source(onboarding_id, top, currency, money.get_scale(currency), *tables)


def _currency(raw: Raw | None, default: str, findings: Findings) -> str:
    if raw is None or raw == NULL:
        return default
    try:
        currency = msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        findings.fault(f"currency must be a string, not {said(raw)}.", "/currency")
        return default
    if money.find_scale(currency) is None:
        findings.fault(f"{money.shown(currency)} is not an ISO 4217 currency code such as USD.", "/currency")
        return default
    return currency


def _name_repeated(document: bytes, findings: Findings) -> None:
    found = scan(document)
    for pointer, _ in found.duplicates:
        findings.fault("This key stands more than once in its object.", pointer)
    findings.unlisted(found.duplicate_count - len(found.duplicates))
