"""Builds a CatalogSet from its document. Pure: faults never raise, and the same arguments give the same result."""

import codecs
import gc
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Raw

from mercato.features.catalogs.building.compile import compile_catalog
from mercato.features.catalogs.building.model import BuildFailed, BuildRequest, Built, Result, Unchanged
from mercato.features.catalogs.model import Finding, place_id
from mercato.features.catalogs.validation.findings import Findings, Rule, clean
from mercato.features.catalogs.validation.hours import ALWAYS
from mercato.features.catalogs.validation.scan import BOM
from mercato.features.catalogs.validation.validate import ValidDocument, validate
from mercato.features.catalogs.words import WEEK, SetSearch, merge_windows, words_of
from mercato_contract.catalogs import CatalogSummary
from mercato_contract.wire import as_json

_SERVICE_MEMBERS: Final = ("catalogSetId", "storeId")
_IMPLIED_NAME: Final = "Menu"


def served_pieces(valid: ValidDocument, *, catalog_set_id: UUID, store_id: UUID) -> list[bytes]:
    """Return the copy that storefronts get, in pieces: the service's ids are the first, so that they can be replaced.

    It is the document as fetched, with the few changes that give all copies one shape: four dictionaries, prices as
    strings at scale, served ids, whole weeks written out, and a catalog if there is none.
    """
    source = valid.source
    tables = {table.kind.member: table for table in source.tables}
    pieces = {
        name: tables[name].write() if name in tables else as_json(value)
        for name, value in source.top.items()
        if name not in _SERVICE_MEMBERS
    }
    if not source.catalogs:
        pieces["catalogs"] = as_json(_implied_catalog(valid))
    # Joined, not encoded with the tables inside: that would copy megabytes again and again as they grow.
    joined = [_prefix(catalog_set_id, store_id)]
    for name, piece in pieces.items():
        joined += (as_json(name), b":", piece, b",")
    return [*joined[:-1], b"}"]


def content_hash(pieces: list[bytes], currency: str) -> str:
    """Return the hash of a set's served bytes without the service's ids, and of its currency."""
    digest = hashlib.sha256(currency.encode() + b"\0")
    for piece in pieces[1:]:
        digest.update(piece)
    return digest.hexdigest()


def with_ids(body: bytes, *, catalog_set_id: UUID, store_id: UUID) -> bytes:
    """Return served bytes with other ids, for a set that was built before its store existed."""
    return b"".join((_prefix(catalog_set_id, store_id), memoryview(body)[_PREFIX:]))


def _implied_catalog(valid: ValidDocument) -> dict[str, Any]:
    """Return the catalog of a document without catalogs: all sections that aren't within another."""
    held = {child for below in valid.references.section_sections.values() for child in below}
    catalog_id = place_id(valid.source.onboarding_id, "/catalogs")
    return {
        catalog_id: {
            "catalogId": catalog_id,
            "name": _IMPLIED_NAME,
            "sectionIds": [key for key in valid.source.sections.members if key not in held],
            "availability": ALWAYS,
        }
    }


def _prefix(catalog_set_id: UUID, store_id: UUID) -> bytes:
    return f'{{"catalogSetId":"{catalog_set_id}","storeId":"{store_id}",'.encode()


_PREFIX: Final = len(_prefix(UUID(int=0), UUID(int=0)))
"""Bytes before the content; all ids have one length."""


def build(document: bytes, request: BuildRequest) -> Result:
    """Build the document."""
    # A call of its own, so that everything it made is freed before the collector runs again.
    with _without_collector():
        return build_uncollected(document, request)


def build_uncollected(document: bytes, request: BuildRequest) -> Result:
    """Build the document in a process that runs no garbage collector.

    The document is freed once it is validated if the caller keeps no reference, the parsed tables before the served
    bytes are joined.
    """
    valid, findings = validate(
        document, onboarding_id=request.onboarding_id, default_currency=request.default_currency
    )
    if valid is None:
        faults = findings.faults()
        shown = excerpts(document, faults, broken_at=findings.broken_at)
        return BuildFailed(faults, findings.warnings(), shown)
    del document
    # White space and escapes aren't content: a document that is only formatted differently gives the same bytes.
    pieces = served_pieces(valid, catalog_set_id=request.catalog_set_id, store_id=request.store_id)
    digest = content_hash(pieces, valid.source.currency)
    if digest == request.previous_hash:
        return Unchanged(digest, findings.warnings())
    compiled, search, summary = compile_catalog(valid), pack_search(valid), _summary(valid, findings)
    del valid
    return Built(
        content_hash=digest,
        body=b"".join(pieces),
        compiled=compiled,
        summary=summary,
        warnings=findings.warnings(),
        search=search,
    )


def pack_search(valid: ValidDocument) -> bytes:
    """Return the packed SetSearch of a validated document."""
    source = valid.source
    words = words_of(source.sections.names() + source.items.names())
    spans: list[tuple[int, int]] = [] if source.catalogs else list(WEEK)
    for windows in valid.windows:
        spans += WEEK if windows is None else windows
    return msgspec.msgpack.encode(SetSearch(tuple(words), merge_windows(spans)))


def _summary(valid: ValidDocument, findings: Findings) -> CatalogSummary:
    source = valid.source
    return CatalogSummary(
        currency=source.currency,
        catalogs=len(source.catalogs),
        sections=len(source.sections),
        items=len(source.items),
        modifier_groups=len(source.groups),
        warnings=findings.warning_count,
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector, which would walk a hundred thousand new objects repeatedly; none is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


MAX_TEXT: Final = 300
"""Characters of an excerpt."""

MAX_LEVELS: Final = 12
"""Levels of a pointer that are followed: each costs one pass over the document at most, however many faults it has."""

MAX_COMMAS: Final = 1_000_000
"""Commas of a document that gets excerpts. A member takes 70 bytes and more while it is looked up."""

MARK: Final = "▶"
"""Stands before the place where broken JSON ends."""

_CUT: Final = "…"
_MAX_KEY: Final = 80
_MAX_NAME: Final = 60
_AROUND: Final = MAX_TEXT // 2
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""Bytes inside a character of UTF-8."""

_gap: Final = re.compile(r"[ \t\r\n]{2,}|[\t\r\n]")
_value: Final = msgspec.json.Decoder(Raw).decode
_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_array: Final = msgspec.json.Decoder(list[Raw]).decode

Members = dict[str, Raw] | list[Raw]


def excerpts(document: bytes, faults: Iterable[Finding], *, broken_at: int | None) -> tuple[str, ...]:
    """Return an excerpt for each fault, empty where there is nothing to show.

    It is the value that contains what the pointer names, or that member of it if it is long. Of a document that can't
    be read, it is the text around `broken_at`, an offset after a byte order mark.
    """
    text = document.removeprefix(BOM)
    if broken_at is not None:
        return tuple(_around(text, broken_at) for _ in faults)
    if text.count(b",") > MAX_COMMAS:
        return tuple("" for _ in faults)
    try:
        reader = _Reader(_value(text))
        return tuple(reader.excerpt(one.path) if one.rule != Rule.NOT_LISTED.id else "" for one in faults)
    except (msgspec.DecodeError, RecursionError):
        return tuple("" for _ in faults)


class _Reader:
    """Follows pointers, and keeps what it opens: values of one level don't overlap."""

    def __init__(self, top: Raw) -> None:
        self._top = top
        self._opened: dict[tuple[str, ...], Members | None] = {}

    def excerpt(self, pointer: str) -> str:
        value = self._top
        path: tuple[str, ...] = ()
        shown: tuple[Raw, Members, str] | None = None
        for step in pointer.split("/")[1 : MAX_LEVELS + 1]:
            name = step.replace("~1", "/").replace("~0", "~")
            members = self._open(path, value)
            child = None if members is None else _get(members, name)
            if members is None or child is None:
                return _cut(value)
            shown = value, members, name
            value, path = child, (*path, name)
        if shown is None or _is_short(shown[0]):
            return _cut(value if shown is None else shown[0])
        return _member(shown[1], shown[2], value)

    def _open(self, path: tuple[str, ...], value: Raw) -> Members | None:
        if path not in self._opened:
            self._opened[path] = _members(value)
        return self._opened[path]


def _members(value: Raw) -> Members | None:
    first = bytes(memoryview(value)[:1])
    if first == b"{":
        return _object(value)
    return _array(value) if first == b"[" else None


def _get(members: Members, name: str) -> Raw | None:
    if isinstance(members, dict):
        return members.get(name)
    return members[int(name)] if name.isdecimal() and int(name) < len(members) else None


def _member(members: Members, name: str, value: Raw) -> str:
    """Return a member of a long value, with the value's name, which its author knows it by."""
    if isinstance(members, list):
        return f"[{_CUT} {_cut(value, MAX_TEXT - 6)} {_CUT}]"
    title = members.get("name") if name != "name" else None
    title_text = "" if title is None else f'"name": {_cut(title, _MAX_NAME)} {_CUT} '
    key = _shorten(as_json(name).decode(), _MAX_KEY)
    before = f"{{{_CUT} {title_text}{key}: "
    return before + _cut(value, MAX_TEXT - len(before) - 3) + f" {_CUT}}}"


def _is_short(value: Raw) -> bool:
    return len(memoryview(value)) <= MAX_TEXT


def _cut(value: Raw, most: int = MAX_TEXT) -> str:
    """Return the beginning of a value, in one line."""
    # Indentation is left out, so more is read than is shown.
    return _shorten(_decoded(bytes(memoryview(value)[: 8 * most])), most)


def _shorten(text: str, most: int) -> str:
    line = clean(_gap.sub(_without_break, text))
    return line if len(line) <= most else line[: most - 1] + _CUT


def _without_break(gap: re.Match[str]) -> str:
    return " " if gap[0].strip(" ") else gap[0]


def _around(text: bytes, at: int) -> str:
    start = max(at - _AROUND, 0)
    # Not the rest of a character that begins before.
    piece = text[start:at].lstrip(_CONTINUATIONS) if start else text[:at]
    before = (_CUT if start else "") + _shorten(_decoded(piece), MAX_TEXT) + (MARK if at else "")
    return before + _shorten(_decoded(text[at : at + 4 * MAX_TEXT]), MAX_TEXT - len(before))


def _decoded(part: bytes) -> str:
    """Return the text of the bytes, without a character that is cut at their end."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(part)
