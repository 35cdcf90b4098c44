"""Catalogs: merchants publish and check them, and either side reads a CatalogSet."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import UNSET, Meta

from mercato.features.catalogs.codings import CODINGS
from mercato.features.catalogs.dry_run import Subject
from mercato.features.catalogs.errors import ActivationNotPending, CatalogSetExpired, TooManyActivations
from mercato.features.catalogs.runs import Period, Run, retry_after
from mercato.features.stores.catalogs import IDENTITY, Body
from mercato.features.stores.model import StoreNotFound
from mercato.http.body import best_coding
from mercato.http.head import Head
from mercato.http.operations import Access, Answer, Call, Operations, Upload
from mercato.http.routing import COMMERCE_STORES
from mercato.platform import errors
from mercato_catalog.carts.errors import MissingStoreId
from mercato_contract.catalogs import (
    ActivateAt,
    CatalogIngestAccepted,
    CatalogIngestPage,
    CatalogIngestRun,
    CatalogIngestStatusResponse,
    CatalogSet,
    CatalogSetActivated,
    CatalogSetHistory,
    CatalogSetNotification,
    CatalogSetPeriod,
    CatalogValidation,
    StoreIds,
)
from mercato_contract.decoding.decode import read_cursor
from mercato_contract.pages import Page
from mercato_contract.wire import Wire, instant, parse_http_date, parse_uuid

commerce_catalogs = Operations(access=Access.COMMERCE, tag="Commerce")
marketfront_catalogs = Operations(access=Access.MARKETFRONT, tag="Marketfront")

CONDITIONS: Final = ("If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since")

MAX_URL_LENGTH: Final = 8192
"""Characters of a callbackUrl in the list of runs, so that a page of a hundred stays small."""


class StoreQuery(Wire):
    """The store of a request."""

    store_id: (
        Annotated[str, Meta(description="The store's id.", extra_json_schema={"format": "uuid"})] | None
    ) = None


@commerce_catalogs.post(
    "/v1/commerce/catalogset-notification",
    summary="Notify Catalog Update",
    names_unknown=True,
    required_query=("storeId",),
    status=202,
    answer_headers=("Retry-After", "Location"),
    problems=(MissingStoreId, StoreNotFound, TooManyActivations),
)
async def notify_catalog_update(
    call: Call[CatalogSetNotification, StoreQuery],
) -> Answer[CatalogIngestAccepted]:
    """Queue a catalog run: the service pulls the CatalogSet from `callbackUrl`, checks it and switches to it.

    With `activateAt` it is pulled and checked at once, and the store switches at that instant.
    """
    store_id = _store_id(call.query)
    run = await call.app.stores.notify(call.caller, store_id, call.body, trace=call.trace)
    return _accepted(call.head, run, call.app.clock())


class ActivationQuery(Wire):
    """When the store is to switch to the document."""

    activate_at: ActivateAt | None = None


@commerce_catalogs.put(
    COMMERCE_STORES + "/{storeId}/catalog",
    summary="Put Catalog",
    schema=dict[str, Any],
    status=202,
    answer_headers=("Retry-After", "Location"),
    problems=(TooManyActivations,),
)
async def put_catalog(call: Call[Upload, ActivationQuery]) -> Answer[CatalogIngestAccepted]:
    """Queue a catalog run for the CatalogSet in the body: what a notification does, without a URL to pull from.

    The run is `pulling` while the service reads the document that it has stored. What is wrong with the document ends
    the run `failed`, as it does for one that is pulled.
    """
    run = await call.app.stores.replace_catalog(
        call.caller,
        call.ids["storeId"],
        call.body,
        activate_at=call.query.activate_at,
        trace=call.trace,
    )
    return _accepted(call.head, run, call.app.clock())


def _accepted(head: Head, run: Run, now: datetime) -> Answer[CatalogIngestAccepted]:
    url = f"{COMMERCE_STORES}/{run.owner.store_id}/catalog-ingest/{run.id}/status"
    headers = ((b"retry-after", b"%d" % retry_after(run, now)), (b"location", url.encode()))
    return Answer(
        CatalogIngestAccepted(catalog_ingest_id=run.id, status_url=head.path_prefix + url), headers=headers
    )


@commerce_catalogs.get(
    COMMERCE_STORES + "/{storeId}/catalog-ingest/{catalogIngestId}/status",
    summary="Get Catalog Ingest Status",
    answer_headers=("Retry-After",),
)
async def get_catalog_ingest_status(call: Call[None, None]) -> Answer[CatalogIngestStatusResponse]:
    """Return the status of a run. `succeeded` means that the store has switched to the new catalog.

    A run that waits for its `activateAt` has `Retry-After`: the time left, at most an hour.
    """
    run = await call.app.stores.get_run(call.caller, call.ids["storeId"], call.ids["catalogIngestId"])
    wait = b"%d" % retry_after(run, call.app.clock())
    headers = ((b"retry-after", wait),) if run.is_scheduled else ()
    return Answer(_status(run), headers=headers)


def _status(run: Run) -> CatalogIngestStatusResponse:
    return CatalogIngestStatusResponse(
        catalog_ingest_id=run.id,
        status=run.status,
        updated_at=instant(run.updated_at) or "",
        errors=run.errors,
        warnings=run.warnings,
        catalog_set_id=run.set_id or UNSET,
        activate_at=instant(run.activate_at) or UNSET,
    )


@commerce_catalogs.delete(
    COMMERCE_STORES + "/{storeId}/catalog-ingest/{catalogIngestId}/activation",
    summary="Cancel Catalog Activation",
    status=204,
    problems=(ActivationNotPending,),
)
async def cancel_catalog_activation(call: Call[None, None]) -> None:
    """Cancel the switch of a run with `activateAt`. The run ends `failed`; the store keeps its catalog."""
    await call.app.stores.cancel_activation(call.caller, call.ids["storeId"], call.ids["catalogIngestId"])


@commerce_catalogs.get(COMMERCE_STORES + "/{storeId}/catalog-sets", summary="List Catalog Sets")
async def list_catalog_sets(call: Call[None, Page]) -> CatalogSetHistory:
    """Return which CatalogSets a store has served, from when to when, the last one first."""
    before = read_cursor(call.query.cursor)
    periods, cursor = await call.app.stores.list_sets(
        call.caller, call.ids["storeId"], before=before, limit=call.query.limit
    )
    return CatalogSetHistory(catalog_sets=[_period_entry(period) for period in periods], next_cursor=cursor)


@commerce_catalogs.post(
    COMMERCE_STORES + "/{storeId}/catalog-sets/{catalogSetId}/activate",
    summary="Activate Catalog Set",
    problems=(CatalogSetExpired,),
)
async def activate_catalog_set(call: Call[None, None]) -> CatalogSetActivated:
    """Switch a store back to a CatalogSet that it served before, at once. A set that is served already stays."""
    return await call.app.stores.activate_set(
        call.caller, call.ids["storeId"], call.ids["catalogSetId"], trace=call.trace
    )


@commerce_catalogs.get(
    COMMERCE_STORES + "/{storeId}/catalog-ingest",
    summary="List Catalog Ingest Runs",
)
async def list_catalog_ingest_runs(call: Call[None, Page]) -> CatalogIngestPage:
    """Return the runs of a store, newest first, without the pulls of its onboarding."""
    before = read_cursor(call.query.cursor)
    runs, cursor = await call.app.stores.list_runs(
        call.caller, call.ids["storeId"], before=before, limit=call.query.limit
    )
    return CatalogIngestPage(runs=[_run_entry(run) for run in runs], next_cursor=cursor)


@commerce_catalogs.post(
    "/v1/commerce/catalogset-validation",
    summary="Validate CatalogSet",
    schema=dict[str, Any],
    problems=(StoreNotFound,),
)
async def validate_catalog_set(call: Call[Upload, StoreQuery]) -> CatalogValidation:
    """Check a CatalogSet as a run does, without any change.

    A body with `items` is the CatalogSet itself; any other body has a `callbackUrl` to pull it from. With `storeId`,
    `diff` lists what would change for that store.
    """
    subject = None
    if call.query.store_id is not None:
        store = await call.app.cache.get_own(call.caller, _store_id(call.query))
        subject = Subject(store.onboarding_id, store.id, store.catalog_set_id)
    return await call.app.dry_runs.check(call.body, partner_id=call.caller.partner_id, subject=subject)


@commerce_catalogs.get(
    "/v1/commerce/catalog-sets/{catalogSetId}",
    summary="Get CatalogSet",
    id="getCommerceCatalogSet",
    also=(304,),
    answer_headers=("ETag", "Last-Modified", "Vary", "Cache-Control", "Content-Encoding"),
    request_headers=CONDITIONS,
    problems=(errors.PreconditionFailed,),
)
async def get_commerce_catalog_set(call: Call[None, None]) -> Answer[CatalogSet]:
    """Return one of your own CatalogSets as storefronts get it. A superseded one stays readable for 30 days."""
    coding = best_coding(call.headers.get(b"accept-encoding", b""), CODINGS)
    body = await call.app.bodies.get_own(call.caller, call.ids["catalogSetId"], coding)
    return _answer(body, call.headers)


@commerce_catalogs.get(COMMERCE_STORES + "/{storeId}/ids", summary="Get Store Ids")
async def get_store_ids(call: Call[None, None]) -> Answer[StoreIds]:
    """Return the id under which the current CatalogSet serves each item and modifier group of your document."""
    return Answer(raw=await call.app.stores.get_ids(call.caller, call.ids["storeId"]))


@marketfront_catalogs.get(
    "/v1/marketfront/catalog-sets/{catalogSetId}",
    summary="Get CatalogSet",
    also=(304,),
    answer_headers=("ETag", "Last-Modified", "Vary", "Cache-Control", "Content-Encoding"),
    request_headers=CONDITIONS,
    problems=(errors.PreconditionFailed,),
)
async def get_catalog_set(call: Call[None, None]) -> Answer[CatalogSet]:
    """Return a CatalogSet. It never changes under its id, so cache it. A superseded one stays readable for 30 days."""
    coding = best_coding(call.headers.get(b"accept-encoding", b""), CODINGS)
    return _answer(await call.app.bodies.get(call.ids["catalogSetId"], coding), call.headers)


def _store_id(query: StoreQuery) -> UUID:
    if not query.store_id:
        raise MissingStoreId("Say which store: add ?storeId=<store_id> to the URL.")
    store_id = parse_uuid(query.store_id)
    if store_id is None:
        raise StoreNotFound(query.store_id)
    return store_id


def _run_entry(run: Run) -> CatalogIngestRun:
    return CatalogIngestRun(
        catalog_ingest_id=run.id,
        status=run.status,
        callback_url=run.callback_url[:MAX_URL_LENGTH] or UNSET,
        catalog_set_id=run.set_id or UNSET,
        created_at=instant(run.created_at) or "",
        updated_at=instant(run.updated_at) or "",
        errors=run.errors,
        warnings=run.warnings,
        activate_at=instant(run.activate_at) or UNSET,
    )


def _period_entry(period: Period) -> CatalogSetPeriod:
    return CatalogSetPeriod(
        catalog_set_id=period.set_id,
        catalog_ingest_id=period.run_id,
        begins_at=instant(period.activated_at) or "",
        ends_at=instant(period.superseded_at),
        rolled_back_from=period.rolled_back_from,
        is_kept=period.is_kept,
    )


# --- the bytes of a CatalogSet ------------------------------------------------------------------------

_FOREVER: Final = b"private, max-age=31536000, immutable"


def _answer(body: Body, headers: Mapping[bytes, bytes]) -> Answer[CatalogSet]:
    """Return the set, or 304 if the request has it. Raises PreconditionFailed.

    The preconditions are evaluated in the order of RFC 9110 (13.2.2).
    """
    if b"if-match" in headers or b"if-unmodified-since" in headers:
        _check_preconditions(body, headers)
    tag, answer_headers, unchanged = _headers(body.tag, body.coding, body.modified_at)
    known = headers.get(b"if-none-match")
    # Most clients send the one ETag that they got.
    if known is not None:
        if known == tag or "*" in (tags := _tags(known)) or _opaque(tags) & body.tags:
            return unchanged
    elif (since := _date(headers, b"if-modified-since")) is not None and body.modified_at <= since:
        return unchanged
    return Answer(raw=body.content, headers=answer_headers)


def _check_preconditions(body: Body, headers: Mapping[bytes, bytes]) -> None:
    """Raise PreconditionFailed unless the request is meant for this set, in any coding."""
    wanted = headers.get(b"if-match")
    if wanted is not None:
        # A weak tag never matches here: it isn't a tag of exact bytes.
        if not _tags(wanted) & {"*", *body.tags}:
            raise errors.PreconditionFailed(
                f"The CatalogSet has none of the tags of If-Match. Its ETag in this coding is {body.tag}."
            )
    elif (since := _date(headers, b"if-unmodified-since")) is not None and body.modified_at > since:
        made = format_datetime(body.modified_at, usegmt=True)
        raise errors.PreconditionFailed(
            f"The CatalogSet was made after the instant of If-Unmodified-Since: {made}."
        )


@lru_cache(maxsize=4096)
def _headers(
    tag: str, coding: str, modified_at: datetime
) -> tuple[bytes, tuple[tuple[bytes, bytes], ...], Answer[CatalogSet]]:
    """Return a body's ETag, its headers, and its 304."""
    encoded = tag.encode()
    modified = format_datetime(modified_at, usegmt=True).encode()
    of_unchanged = (
        (b"etag", encoded),
        (b"last-modified", modified),
        (b"vary", b"Accept-Encoding"),
        (b"cache-control", _FOREVER),
    )
    headers = of_unchanged if coding == IDENTITY else (*of_unchanged, (b"content-encoding", coding.encode()))
    return encoded, headers, Answer(status=304, headers=of_unchanged)


def _tags(value: bytes) -> set[str]:
    """Return the entity tags of a list, or `*`."""
    return {tag.strip() for tag in value.decode("latin-1").split(",")}


def _opaque(tags: Iterable[str]) -> set[str]:
    """Return the tags, weak ones as strong ones."""
    return {tag.removeprefix("W/") for tag in tags}


def _date(headers: Mapping[bytes, bytes], name: bytes) -> datetime | None:
    """Return a header's date. One that isn't a date is ignored, as RFC 9110 says."""
    value = headers.get(name)
    return None if value is None else parse_http_date(value.decode("latin-1"))
