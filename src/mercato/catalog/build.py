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
from mercato.catalog.served import content_hash, served_body
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
        return _build(document, onboarding_id, catalog_set_id, store_id, default_currency, previous_hash)


def _build(
    document: bytes,
    onboarding_id: UUID,
    catalog_set_id: UUID,
    store_id: UUID,
    default_currency: str,
    previous_hash: str | None,
) -> BuildFailed | Unchanged | Built:
    valid, findings = validate(document, onboarding_id=onboarding_id, default_currency=default_currency)
    if valid is None:
        return BuildFailed(
            findings.faults(), findings.warnings(), findings.fault_rules(), findings.warning_rules()
        )
    # White space and escapes are no content: a document that is only laid out anew gives the same bytes.
    body = served_body(valid.source, catalog_set_id=catalog_set_id, store_id=store_id)
    digest = content_hash(body, valid.source.currency)
    if digest == previous_hash:
        return Unchanged(digest, findings.warnings(), findings.warning_rules())
    return Built(
        content_hash=digest,
        body=body,
        compiled=compile_catalog(valid),
        summary=_summary(valid.source, findings),
        warnings=findings.warnings(),
        search=pack_search(valid),
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
