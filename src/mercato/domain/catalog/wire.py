"""Catalog runs and dry runs on the wire: requests, responses, and the event at the end of a run."""

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
    """The URL from which the CatalogSet is pulled."""

    callback_url: Annotated[str, Meta(extra_json_schema={"format": "uri", "minLength": 1})]


class CatalogIngestAccepted(Wire):
    """The run is queued: poll `statusUrl`."""

    catalog_ingest_id: UUID
    status_url: str


class CatalogIngestStatusResponse(Wire):
    """The status of a run; `errors` are set once it has failed, `warnings` once it has ended."""

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
    """The ids of a store's current CatalogSet: those in the merchant's document, and those that are served."""

    items: IdsByDocumentId
    modifier_groups: IdsByDocumentId


class CatalogValidation(Wire):
    """What a run would report of the document. `diff` compares it with the store's current set."""

    valid: bool
    errors: tuple[CatalogFault, ...]
    warnings: tuple[CatalogWarning, ...]
    summary: CatalogSummary | None
    diff: CatalogDiff | None


class CatalogSyncWebhookData(Wire):
    """The data of a `catalog.sync.…` event: the same errors and warnings as the status resource."""

    catalog_ingest_id: UUID
    store_id: UUID
    status: RunStatus
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...] = ()
