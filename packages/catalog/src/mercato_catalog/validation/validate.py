"""Validates a document as fetched: every fault in it, or its tables, prices, references and windows."""

import codecs
import json
import re
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato_catalog.model import Windows
from mercato_catalog.validation.document import (
    CATALOGS,
    GROUPS,
    ITEMS,
    SECTIONS,
    Members,
    R,
    Source,
    Table,
    TableSchema,
)
from mercato_catalog.validation.findings import Findings, Rule
from mercato_catalog.validation.near_misses import warn_near_misses
from mercato_catalog.validation.references import (
    References,
    check_counts,
    refuse_cycles,
    resolve,
    warn_idle_overrides,
    warn_nameless,
    warn_negative_prices,
)
from mercato_catalog.validation.scan import BOM, positions, scan
from mercato_catalog.validation.tables import read_table
from mercato_catalog.validation.values import Prices, read_windows
from mercato_contract.catalog_documents import MAX_CATALOGS
from mercato_contract.json_texts import MAX_DEPTH, Foreign, foreign_format, is_too_deep
from mercato_contract.json_values import json_type
from mercato_contract.money import find_scale, get_scale, quote
from mercato_contract.wire import as_json

# --- reading JSON: or one sentence that says why it can't be read, never in the words of a library ------------

MAX_VALUES: Final = 2_000_000
"""Values in one document; each takes some hundred bytes while it is checked."""

_COUNTED_FROM: Final = 8 * 1024 * 1024
"""Bytes up to which values aren't counted: a document can't have too many."""

_CHUNK: Final = 1 << 16

_FOREIGN: Final = {
    Foreign.GZIP: Rule.COMPRESSED,
    Foreign.ZSTD: Rule.COMPRESSED,
    Foreign.UTF_16: Rule.NOT_UTF8,
    Foreign.UTF_32: Rule.NOT_UTF8,
}
"""Rules of documents that aren't text in UTF-8; the others break the rule of what isn't JSON."""


class UnreadableDocumentError(Exception):
    """The bytes aren't a JSON object; the message says why, for the document's author. `at` is the offset."""

    def __init__(self, rule: Rule, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.rule = rule
        self.at = at


def _keep_text(text: str) -> msgspec.Raw:
    """Return a number as its own text, which is served unchanged."""
    return msgspec.Raw(text.encode())


_decode: Final = msgspec.json.Decoder(float_hook=_keep_text).decode
_check_syntax: Final = msgspec.json.Decoder(msgspec.Raw).decode


def read(document: bytes, findings: Findings) -> Members | None:
    """Return the document's members, or None, having reported why, if it can't be read."""
    if document.startswith(BOM):
        message = "The document begins with a byte order mark, which isn't part of JSON."
        findings.warn(Rule.BYTE_ORDER_MARK, message, "")
    text = document.removeprefix(BOM)
    try:
        top = decode(text)
    except UnreadableDocumentError as fault:
        findings.fault(fault.rule, str(fault), "")
        findings.broken_at = fault.at
        return None
    if repeats_a_key(text, top):
        found = scan(text)
        for pointer, _ in found.duplicates:
            findings.fault(Rule.DUPLICATE_KEY, "This key is repeated in its object.", pointer)
        findings.count_unlisted(found.duplicate_count - len(found.duplicates))
    return top


def decode(text: bytes) -> Members:
    """Return the members of the top-level object. Raises UnreadableDocumentError."""
    _refuse_obvious(text)
    try:
        top = _decode(text)
    except msgspec.ValidationError:
        top = _decode_long_integers(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unreadable(text) from None
    if not isinstance(top, dict):
        raise UnreadableDocumentError(
            Rule.WRONG_TYPE, f"The document must be an object, not {json_type(top)}."
        )
    return top


def _refuse_obvious(text: bytes) -> None:
    if not text or text.isspace():
        raise UnreadableDocumentError(Rule.EMPTY, "The document is empty.")
    if (foreign := foreign_format(text)) is not None:
        rule = _FOREIGN.get(foreign, Rule.NOT_JSON)
        raise UnreadableDocumentError(rule, f"The document is {foreign.words}, not JSON. {foreign.advice}")
    if is_too_deep(text):
        raise UnreadableDocumentError(
            Rule.TOO_DEEP, f"The document is nested more than {MAX_DEPTH} levels deep."
        )
    if len(text) > _COUNTED_FROM and text.count(b",") > MAX_VALUES:
        raise UnreadableDocumentError(Rule.TOO_LARGE, f"The document has more than {MAX_VALUES:,} values.")


def _decode_long_integers(text: bytes) -> Any:
    """Decode text that the fast decoder refuses: integers of thousands of digits are kept as their text."""
    try:
        _check_syntax(text)
        return json.loads(text.decode(), parse_int=_keep_text, parse_float=_keep_text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unreadable(text) from None


def _unreadable(text: bytes) -> UnreadableDocumentError:
    at = not_utf8(text)
    if at is not None:
        line, column = positions(text, [at])[at]
        message = (
            f"The document is not UTF-8: the byte at line {line}, column {column} is not part of a character."
        )
        return UnreadableDocumentError(Rule.NOT_UTF8, message, at)
    found = scan(text)
    if found.broken is None:
        return UnreadableDocumentError(Rule.NOT_JSON, "The document is not JSON.")
    line, column = positions(text, [found.broken_at])[found.broken_at]
    message = f"The document is not JSON: at line {line}, column {column}, {found.broken}."
    return UnreadableDocumentError(Rule.NOT_JSON, message, found.broken_at)


def not_utf8(text: bytes) -> int | None:
    """Return the offset of the first wrong byte, None if all are UTF-8; it decodes in chunks to save memory."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(text), _CHUNK):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(text[start : start + _CHUNK], start + _CHUNK >= len(text))
        except UnicodeDecodeError as fault:
            return start - pending + fault.start
    return None


# --- repeated keys --------------------------------------------------------------------------------
#
# The decoder keeps the last of repeated keys without an error. So what it returned is encoded again, without white
# space and with the shortest escapes. If the result is as long as the document, no member was lost. Otherwise colons
# are counted: the document has more of them exactly if a member was lost. Only an escaped colon breaks that count; then
# the document is decoded a second time. This takes a tenth to two fifths of a validation's time, a second decoding of
# every document would take a third to two thirds.


_has_escaped_colon: Final = re.compile(rb"\\u003[aA]").search


class _RepeatedKeyError(Exception):
    pass


def repeats_a_key(text: bytes, top: Members) -> bool:
    """Return whether some object of the document repeats a key; `top` is what the decoder returned."""
    written = as_json(top)
    if len(written) == len(text):
        return False
    if _has_escaped_colon(text):
        return _decode_repeats(text)
    return text.count(b":") != written.count(b":")


def _decode_repeats(document: bytes) -> bool:
    try:
        json.loads(document, object_pairs_hook=_refuse_repeated, parse_int=len, parse_float=len)
    except _RepeatedKeyError:
        return True
    return False


def _refuse_repeated(pairs: Iterable[tuple[str, Any]]) -> None:
    listed = list(pairs)
    if len(dict(listed)) != len(listed):
        raise _RepeatedKeyError


# --- a document -------------------------------------------------------------------------------------------


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
    valid = _validate(document, onboarding_id, default_currency, findings)
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
    # Before the windows: where there are none, those that are served are written into the catalog.
    warn_near_misses(source, findings)
    windows = read_windows(source, findings)
    warn_nameless(source, findings)
    warn_idle_overrides(source, references, findings)
    if prices.any_negative():
        warn_negative_prices(source, item_prices, references, findings)
    return ValidDocument(source, item_prices, references, windows)


def _read_tables(top: Members, onboarding_id: UUID, default_currency: str, findings: Findings) -> Source:
    """Return the document's tables; what can't be read is reported and left out."""

    def table(schema: TableSchema[R]) -> Table[R]:
        return read_table(top.get(schema.member), schema, onboarding_id=onboarding_id, findings=findings)

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
