"""Catalog runs and dry runs on the wire: what is asked, what is answered, and what the event of a run's end says."""

from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato.domain.catalog.model import (
    CatalogDiff,
    CatalogFault,
    CatalogSummary,
    CatalogWarning,
    PartnerWarning,
)
from mercato.domain.catalog.runs import RunStatus
from mercato.kernel.wire import Instant, Wire

IdsByDocumentId = Annotated[
    dict[str, UUID], Meta(description="The id that the merchant's document has → the id that is served.")
]


class CatalogSetNotification(Wire):
    """Where the CatalogSet is to be pulled from."""

    callback_url: Annotated[str, Meta(extra_json_schema={"format": "uri", "minLength": 1})]


class CatalogIngestAccepted(Wire):
    """The run was accepted, not yet carried out: poll `statusUrl`."""

    catalog_ingest_id: UUID
    status_url: str


class CatalogIngestStatusResponse(Wire):
    """Where a run is; `errors` are there only when it has failed, `warnings` when it has ended."""

    catalog_ingest_id: UUID
    status: RunStatus
    updated_at: Instant
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...] = ()


class CatalogIngestRun(Wire, kw_only=True):
    """A run in a store's history."""

    catalog_ingest_id: UUID
    status: RunStatus
    callback_url: str
    catalog_set_id: UUID | UnsetType = UNSET
    created_at: Instant
    updated_at: Instant
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...] = ()


class CatalogIngestPage(Wire):
    """A page of a store's runs, newest first."""

    runs: list[CatalogIngestRun]
    next_cursor: str | None


class StoreIds(Wire):
    """The ids of a store's current CatalogSet: as the merchant's document has them, and as carts name them."""

    items: IdsByDocumentId
    modifier_groups: IdsByDocumentId


class CatalogValidation(Wire):
    """What a run would say of the document. `diff` is against the store's current set."""

    valid: bool
    errors: tuple[CatalogFault, ...]
    warnings: tuple[CatalogWarning, ...]
    summary: CatalogSummary | None
    diff: CatalogDiff | None


class CatalogSyncWebhookData(Wire):
    """What a `catalog.sync.…` event says: the same errors and warnings as the status resource."""

    catalog_ingest_id: UUID
    store_id: UUID
    status: RunStatus
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...] = ()
