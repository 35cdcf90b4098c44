"""Catalogs and stores on the Commerce surface. A handler reads, calls and replies."""

from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import UNSET, Meta

from mercato import errors
from mercato.catalog.check import Subject
from mercato.catalog.ingest import RETRY_AFTER
from mercato.catalog.runs import Run
from mercato.catalog.wire import (
    CatalogIngestAccepted,
    CatalogIngestPage,
    CatalogIngestRun,
    CatalogIngestStatusResponse,
    CatalogSetNotification,
    CatalogValidation,
    StoreIds,
)
from mercato.discovery.catalogs import CatalogSet
from mercato.stores.model import (
    ItemAvailabilityRequest,
    ItemAvailabilityResponse,
    Store,
    StorePage,
    StoreStatusResponse,
    StoreStatusUpdate,
    StoreStatusValue,
    StoreUpdate,
    read_status_update,
)
from mercato.web.catalog_sets import answer, coding_for
from mercato.web.operations import Access, Answer, Call, Operations, Upload
from mercato.wire import Wire, instant, parse_uuid
from mercato.wire.checks import validator
from mercato.wire.cursor import Page, read_cursor

commerce = Operations(access=Access.COMMERCE, tag="Commerce")

STORES = "/v1/commerce/stores"
_store = {"storeId": errors.StoreNotFound}
_run = {"storeId": errors.StoreNotFound, "catalogIngestId": errors.CatalogIngestNotFound}


MOST_URL: Final = 8192
"""Characters of a callbackUrl that the history repeats: a page of a hundred must stay a page."""


def _status_fault(text: str) -> str | None:
    return None if text.lower() in tuple(StoreStatusValue) else "status must be online or paused."


class StoresQuery(Page):
    """Which stores: a page of all, of one status, or of one partnerStoreId."""

    status: (
        Annotated[str, Meta(description="`online` or `paused`, in any case.", extra=validator(_status_fault))]
        | None
    ) = None
    partner_store_id: Annotated[str, Meta(description="The partner's own id of a store.")] | None = None


class StoreQuery(Wire):
    """The store that a request is about."""

    store_id: (
        Annotated[str, Meta(description="The store's id.", extra_json_schema={"format": "uuid"})] | None
    ) = None


# --- catalogs -------------------------------------------------------------------------------------


@commerce.post(
    "/v1/commerce/catalogset-notification",
    summary="Notify Catalog Update",
    takes=CatalogSetNotification,
    query=StoreQuery,
    required_query=("storeId",),
    returns=CatalogIngestAccepted,
    status=202,
    reply_headers=("Retry-After", "Location"),
    problems=(errors.MissingStoreId, errors.StoreNotFound),
)
async def notify_catalog_update(call: Call[CatalogSetNotification, StoreQuery]) -> Answer:
    """Accept a catalog run: the service pulls the CatalogSet from `callbackUrl`, checks it and switches to it."""
    store_id = _query_store(call.query)
    run = await call.app.stores.notify(call.caller, store_id, call.body.callback_url, trace=call.trace)
    url = f"{STORES}/{store_id}/catalog-ingest/{run.id}/status"
    headers = ((b"retry-after", b"%d" % RETRY_AFTER), (b"location", url.encode()))
    return Answer(CatalogIngestAccepted(catalog_ingest_id=run.id, status_url=url), headers=headers)


@commerce.get(
    STORES + "/{storeId}/catalog-ingest/{catalogIngestId}/status",
    summary="Get Catalog Ingest Status",
    returns=CatalogIngestStatusResponse,
    missing=_run,
    problems=(errors.StoreNotFound, errors.CatalogIngestNotFound),
)
async def get_catalog_ingest_status(call: Call[None, None]) -> CatalogIngestStatusResponse:
    """Return where a run is. `succeeded` means that the store has switched to the new catalog."""
    run = await call.app.stores.get_run(call.caller, call.ids["storeId"], call.ids["catalogIngestId"])
    return CatalogIngestStatusResponse(
        catalog_ingest_id=run.id,
        status=run.status,
        updated_at=instant(run.updated_at) or "",
        errors=run.errors,
        warnings=run.warnings,
    )


@commerce.get(
    STORES + "/{storeId}/catalog-ingest",
    summary="List Catalog Ingest Runs",
    query=Page,
    returns=CatalogIngestPage,
    missing=_store,
    problems=(errors.StoreNotFound,),
)
async def list_catalog_ingest_runs(call: Call[None, Page]) -> CatalogIngestPage:
    """Return the runs of a store, newest first. The onboarding's own pulls are not among them."""
    before = read_cursor(call.query.cursor)
    runs, cursor = await call.app.stores.list_runs(
        call.caller, call.ids["storeId"], before=before, limit=call.query.limit
    )
    return CatalogIngestPage(runs=[_history(run) for run in runs], next_cursor=cursor)


@commerce.post(
    "/v1/commerce/catalogset-validation",
    summary="Validate CatalogSet",
    takes=dict[str, Any],
    streams_body=True,
    query=StoreQuery,
    returns=CatalogValidation,
    problems=(errors.StoreNotFound,),
)
async def validate_catalog_set(call: Call[Upload, StoreQuery]) -> CatalogValidation:
    """Check a CatalogSet as a run would, and change nothing.

    A body with `items` is the CatalogSet itself; any other names a `callbackUrl` to pull it from. With `storeId`,
    `diff` says what would change for that store.
    """
    subject = None
    if call.query.store_id is not None:
        store = await call.app.cache.get_own(call.caller, _query_store(call.query))
        subject = Subject(store.onboarding_id, store.id, store.catalog_set_id)
    return await call.app.checker.check(call.body, partner_id=call.caller.partner_id, subject=subject)


@commerce.get(
    "/v1/commerce/catalog-sets/{catalogSetId}",
    summary="Get CatalogSet",
    id="getCommerceCatalogSet",
    returns=CatalogSet,
    also=(304,),
    reply_headers=("ETag", "Vary", "Cache-Control", "Content-Encoding"),
    request_headers=("If-None-Match",),
    missing={"catalogSetId": errors.CatalogSetNotFound},
    problems=(errors.CatalogSetNotFound,),
)
async def get_commerce_catalog_set(call: Call[None, None]) -> Answer:
    """Return one of your own CatalogSets, as storefronts get it. A superseded one is readable for 30 days."""
    set_id, coding = call.ids["catalogSetId"], coding_for(call.headers)
    return answer(await call.app.bodies.get_own(call.caller, set_id, coding), call.headers)


@commerce.get(
    STORES + "/{storeId}/ids",
    summary="Get Store Ids",
    returns=StoreIds,
    missing=_store,
    problems=(errors.StoreNotFound,),
)
async def get_store_ids(call: Call[None, None]) -> Answer:
    """Return under which id each item and modifier group of your document is served, in the current CatalogSet."""
    return Answer(raw=await call.app.stores.ids(call.caller, call.ids["storeId"]))


# --- stores ---------------------------------------------------------------------------------------


@commerce.get(STORES, summary="List Stores", query=StoresQuery, returns=StorePage)
async def list_stores(call: Call[None, StoresQuery]) -> StorePage:
    """Return the account's live stores, newest first."""
    status = _status(call.query.status)
    return await call.app.stores.list(
        call.caller,
        before=read_cursor(call.query.cursor),
        limit=call.query.limit,
        status=status,
        partner_store_id=call.query.partner_store_id,
    )


@commerce.get(
    STORES + "/{storeId}",
    summary="Get Store",
    returns=Store,
    missing=_store,
    problems=(errors.StoreNotFound,),
)
async def get_store(call: Call[None, None]) -> Store:
    """Return a store."""
    return await call.app.stores.get(call.caller, call.ids["storeId"])


@commerce.put(
    STORES + "/{storeId}",
    summary="Update Store",
    takes=StoreUpdate,
    returns=Store,
    missing=_store,
    problems=(errors.StoreNotFound,),
)
async def update_store(call: Call[StoreUpdate, None]) -> Store:
    """Change the members that are present; null clears those that may be empty.

    A `webhookUrl` of another origin (scheme, host, port) is called without your Authorization token unless
    `webhookToken` comes with it. The event `endpoint.changed` says that it changed.
    """
    return await call.app.stores.update(call.caller, call.ids["storeId"], call.body, trace=call.trace)


@commerce.get(
    STORES + "/{storeId}/status",
    summary="Get Store Status",
    returns=StoreStatusResponse,
    missing=_store,
    problems=(errors.StoreNotFound,),
)
async def get_store_status(call: Call[None, None]) -> StoreStatusResponse:
    """Return whether the store accepts orders now."""
    return await call.app.stores.get_status(call.caller, call.ids["storeId"])


@commerce.post(
    STORES + "/{storeId}/status",
    summary="Set Store Status",
    takes=StoreStatusUpdate,
    reader=read_status_update,
    returns=StoreStatusResponse,
    missing=_store,
    problems=(errors.StoreNotFound,),
)
async def set_store_status(call: Call[StoreStatusUpdate, None]) -> StoreStatusResponse:
    """Pause the store, until `resumeAt` or until further notice, or bring it online."""
    return await call.app.stores.set_status(call.caller, call.ids["storeId"], call.body)


@commerce.post(
    STORES + "/{storeId}/item-availability",
    summary="Set Item Availability",
    takes=ItemAvailabilityRequest,
    returns=ItemAvailabilityResponse,
    missing=_store,
    problems=(errors.StoreNotFound,),
)
async def set_item_availability(call: Call[ItemAvailabilityRequest, None]) -> ItemAvailabilityResponse:
    """Mark items as sold out, or as to be had again, without a new catalog."""
    gone = await call.app.stores.set_items(call.caller, call.ids["storeId"], call.body)
    return ItemAvailabilityResponse(unavailable_item_ids=gone)


def _query_store(query: StoreQuery) -> UUID:
    if not query.store_id:
        raise errors.MissingStoreId("Say which store: add ?storeId=<store_id> to the URL.")
    store_id = parse_uuid(query.store_id)
    if store_id is None:
        raise errors.StoreNotFound(query.store_id)
    return store_id


def _status(text: str | None) -> StoreStatusValue | None:
    return None if text is None else StoreStatusValue(text.lower())


def _history(run: Run) -> CatalogIngestRun:
    return CatalogIngestRun(
        catalog_ingest_id=run.id,
        status=run.status,
        callback_url=run.callback_url[:MOST_URL],
        catalog_set_id=run.set_id or UNSET,
        created_at=instant(run.created_at) or "",
        updated_at=instant(run.updated_at) or "",
        errors=run.errors,
        warnings=run.warnings,
    )
