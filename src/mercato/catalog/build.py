"""The one function that a worker process calls: a document in, what is to be stored of it out."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from mercato.catalog.built import BuildFailed, Built, Unchanged
from mercato.catalog.compile import compile_catalog
from mercato.catalog.findings import Findings
from mercato.catalog.model import CatalogSummary
from mercato.catalog.search import pack_search
from mercato.catalog.served import content_hash, served_pieces
from mercato.catalog.source import Source
from mercato.catalog.validate import validate

__all__ = ["BuildFailed", "Built", "Unchanged", "build"]


def build(
    document: bytes,
    *,
    onboarding_id: UUID,
    catalog_set_id: UUID,
    store_id: UUID,
    default_currency: str,
    previous_hash: str | None,
) -> BuildFailed | Unchanged | Built:
    """Return what became of the document. Pure: the same arguments give the same result; faults never raise."""
    # The work is a call of its own, so that all it made is gone before the collector could look at it.
    with _without_collector():
        return build_alone(
            document,
            onboarding_id=onboarding_id,
            catalog_set_id=catalog_set_id,
            store_id=store_id,
            default_currency=default_currency,
            previous_hash=previous_hash,
        )


def build_alone(
    document: bytes,
    *,
    onboarding_id: UUID,
    catalog_set_id: UUID,
    store_id: UUID,
    default_currency: str,
    previous_hash: str | None,
) -> BuildFailed | Unchanged | Built:
    """Do what `build` does, in a process that runs no collector. A document of which the caller keeps no reference
    leaves memory as soon as it's validated, and what was read of it before the served bytes are joined.
    """
    valid, findings = validate(document, onboarding_id=onboarding_id, default_currency=default_currency)
    del document
    if valid is None:
        return BuildFailed(
            findings.faults(), findings.warnings(), findings.fault_rules(), findings.warning_rules()
        )
    # White space and escapes are no content: a document that is only laid out anew gives the same bytes.
    pieces = served_pieces(valid.source, catalog_set_id=catalog_set_id, store_id=store_id)
    digest = content_hash(pieces, valid.source.currency)
    if digest == previous_hash:
        return Unchanged(digest, findings.warnings(), findings.warning_rules())
    compiled, search = compile_catalog(valid), pack_search(valid)
    summary = _summary(valid.source, findings)
    del valid
    return Built(
        content_hash=digest,
        body=b"".join(pieces),
        compiled=compiled,
        summary=summary,
        warnings=findings.warnings(),
        search=search,
        warning_rules=findings.warning_rules(),
    )


def _summary(source: Source, findings: Findings) -> CatalogSummary:
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
    """Keep the collector from walking a hundred thousand new objects again and again; none of them is a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
