"""Builds a CatalogSet from its document. Pure: faults never raise, and the same arguments give the same result."""

import gc
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import msgspec

from mercato.features.catalogs import ids
from mercato.features.catalogs.building.compile import compile_catalog
from mercato.features.catalogs.building.excerpts import excerpts
from mercato.features.catalogs.building.model import BuildFailed, BuildRequest, Built, Result, Unchanged
from mercato.features.catalogs.search import WEEK, SetSearch, merge_windows
from mercato.features.catalogs.validation.findings import Findings
from mercato.features.catalogs.validation.hours import ALWAYS
from mercato.features.catalogs.validation.validate import ValidDocument, validate
from mercato.features.catalogs.words import words_of
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
    catalog_id = ids.place_id(valid.source.onboarding_id, "/catalogs")
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
