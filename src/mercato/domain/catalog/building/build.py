"""Builds a CatalogSet from its document. Pure: faults never raise, and the same arguments give the same result."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from mercato.domain.catalog.building.compile import compile_catalog
from mercato.domain.catalog.building.excerpts import excerpts
from mercato.domain.catalog.building.model import BuildFailed, BuildRequest, Built, Result, Unchanged
from mercato.domain.catalog.building.served import content_hash, served_pieces
from mercato.domain.catalog.model import CatalogSummary
from mercato.domain.catalog.search import WEEK, SetSearch, merge_windows
from mercato.domain.catalog.validation.findings import Findings
from mercato.domain.catalog.validation.validate import ValidDocument, validate
from mercato.domain.catalog.words import words_of


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
