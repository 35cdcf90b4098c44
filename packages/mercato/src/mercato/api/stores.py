"""Stores: merchants register, read and change their own, storefronts find and read them."""

from datetime import MAXYEAR, MINYEAR
from typing import Annotated, Any, Final

from msgspec import Meta

from mercato.features.stores.model import (
    OnboardingActive,
    OnboardingNotFailed,
    OnboardingNotReady,
    StoreAlreadyRegistered,
    StoreNotFound,
    StoreRow,
)
from mercato.features.stores.onboarding import PATH
from mercato.features.stores.rules import read_status_batch, read_status_update
from mercato.features.stores.views import availability_of, store_of, storefront_of
from mercato.http.operations import Access, Answer, Call, Operations, Rate
from mercato.http.routing import COMMERCE_STORES
from mercato.platform.problem_details import detail_within
from mercato_catalog.model import CompiledCatalog
from mercato_contract.decoding.decode import read_cursor
from mercato_contract.discovery import DiscoverRequest, DiscoverResponse
from mercato_contract.pages import Page
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.stores import (
    ItemAvailabilityRequest,
    ItemAvailabilityResponse,
    MarketfrontStore,
    OnboardingPage,
    OnboardingRequest,
    OnboardingStatus,
    RetryRequest,
    Store,
    StoreAvailability,
    StorePage,
    StoreStatusBatch,
    StoreStatusResponse,
    StoreStatusResult,
    StoreStatusResults,
    StoreStatusUpdate,
    StoreStatusValue,
    StoreUpdate,
)
from mercato_contract.wire import Wire, as_json, instant_fault, parse_instant, validator

onboarding = Operations(access=Access.COMMERCE, tag="Commerce")
commerce_stores = Operations(access=Access.COMMERCE, tag="Commerce")
marketfront_stores = Operations(access=Access.MARKETFRONT, tag="Marketfront")
discovery = Operations(access=Access.MARKETFRONT, tag="Marketfront")

_NO_STORE: Final = ((b"cache-control", b"no-store"),)


@onboarding.post(
    PATH,
    summary="Register Store",
    names_unknown=True,
    status=201,
    answer_headers=("Location",),
    problems=(StoreAlreadyRegistered,),
)
async def register_store(call: Call[OnboardingRequest, None]) -> Answer[OnboardingStatus]:
    """Start the onboarding of a store. The catalog is pulled at once; poll Get Onboarding Status."""
    status = await call.app.onboardings.register(
        call.caller, call.body, trace=call.trace, unknown=call.unknown
    )
    return Answer(status, headers=((b"location", f"{PATH}/{status.onboarding_id}".encode()),))


@onboarding.get(PATH, summary="List Onboardings")
async def list_onboardings(call: Call[None, Page]) -> OnboardingPage:
    """Return the onboardings that aren't cancelled, newest first."""
    before = read_cursor(call.query.cursor)
    return await call.app.onboardings.list(call.caller, before=before, limit=call.query.limit)


@onboarding.get(PATH + "/{onboardingId}", summary="Get Onboarding Status")
async def get_onboarding_status(call: Call[None, None]) -> OnboardingStatus:
    """Return the status of an onboarding; if its catalog has failed, every error with a pointer."""
    return await call.app.onboardings.get(call.caller, call.ids["onboardingId"])


@onboarding.delete(
    PATH + "/{onboardingId}", summary="Cancel Onboarding", status=204, problems=(OnboardingActive,)
)
async def cancel_onboarding(call: Call[None, None]) -> None:
    """Cancel an onboarding that isn't active. A running pull is abandoned; the onboarding is then not found."""
    await call.app.onboardings.cancel(call.caller, call.ids["onboardingId"])


@onboarding.post(
    PATH + "/{onboardingId}/retry",
    summary="Retry Onboarding",
    names_unknown=True,
    problems=(OnboardingNotFailed, StoreAlreadyRegistered),
)
async def retry_onboarding(call: Call[RetryRequest | None, None]) -> OnboardingStatus:
    """Pull the catalog of a failed onboarding again, from another URL if one is given.

    An onboarding that began in the console has no URL: give one, or upload the menu there again.
    """
    url = call.body.catalog_callback_url if call.body is not None else None
    return await call.app.onboardings.retry(call.caller, call.ids["onboardingId"], url, trace=call.trace)


@onboarding.post(
    PATH + "/{onboardingId}/activate",
    summary="Activate Store",
    problems=(OnboardingNotReady,),
)
async def activate_store(call: Call[None, None]) -> Store:
    """Make the store live with the validated catalog. The status must be ready_to_activate.

    If the onboarding is active already, the refusal has the `storeId` of its store. One that began in the console is
    activated there, with the charges that were typed.
    """
    row = await call.app.onboardings.activate(call.caller, call.ids["onboardingId"])
    return store_of(row, call.app.clock())


# --- merchants ------------------------------------------------------------------------------------


def _status_fault(text: str) -> str | None:
    return None if text.lower() in tuple(StoreStatusValue) else "status must be online or paused."


class StoresQuery(Page):
    """Filters of the list of stores."""

    status: (
        Annotated[str, Meta(description="`online` or `paused`, in any case.", extra=validator(_status_fault))]
        | None
    ) = None
    partner_store_id: Annotated[str, Meta(description="The partner's own id of a store.")] | None = None


@commerce_stores.get(COMMERCE_STORES, summary="List Stores")
async def list_stores(call: Call[None, StoresQuery]) -> StorePage:
    """Return the account's live stores, newest first."""
    return await call.app.stores.list(
        call.caller,
        before=read_cursor(call.query.cursor),
        limit=call.query.limit,
        status=None if call.query.status is None else StoreStatusValue(call.query.status.lower()),
        partner_store_id=call.query.partner_store_id,
    )


@commerce_stores.get(COMMERCE_STORES + "/{storeId}", summary="Get Store")
async def get_store(call: Call[None, None]) -> Store:
    """Return a store."""
    return await call.app.stores.get(call.caller, call.ids["storeId"])


@commerce_stores.put(COMMERCE_STORES + "/{storeId}", summary="Update Store", names_unknown=True)
async def update_store(call: Call[StoreUpdate, None]) -> Store:
    """Change the members that are present; null clears those that may be empty.

    A `webhookUrl` of another origin (scheme, host, port) is called without your Authorization token unless
    `webhookToken` comes with it. The event `endpoint.changed` says that it changed.
    """
    return await call.app.stores.update(
        call.caller, call.ids["storeId"], call.body, trace=call.trace, unknown=call.unknown
    )


@commerce_stores.get(COMMERCE_STORES + "/{storeId}/status", summary="Get Store Status")
async def get_store_status(call: Call[None, None]) -> StoreStatusResponse:
    """Return whether the store accepts orders now."""
    return await call.app.stores.get_status(call.caller, call.ids["storeId"])


@commerce_stores.post(
    COMMERCE_STORES + "/{storeId}/status",
    summary="Set Store Status",
    names_unknown=True,
    reader=read_status_update,
)
async def set_store_status(call: Call[StoreStatusUpdate, None]) -> StoreStatusResponse:
    """Pause the store, until `resumeAt` or until further notice, or bring it online."""
    return await call.app.stores.set_status(call.caller, call.ids["storeId"], call.body)


@commerce_stores.post(
    COMMERCE_STORES + "/status",
    summary="Set Many Stores' Status",
    names_unknown=True,
    id="setStoreStatuses",
    reader=read_status_batch,
)
async def set_store_statuses(call: Call[StoreStatusBatch, None]) -> StoreStatusResults:
    """Pause or resume up to 100 stores in one transaction; the answer has a result for each update, in their order.

    Each update is one of Set Store Status. One that is refused has a `problem` and changes nothing; the others happen.
    Updates of the same store are applied one after the other. The request counts as one write.
    """
    updates = call.body.updates
    outcomes = await call.app.stores.set_statuses(call.caller, updates)
    origin, now = call.head.origin(), call.app.clock()
    results = []
    for index, (update, outcome) in enumerate(zip(updates, outcomes, strict=True)):
        if isinstance(outcome, Problem):
            problem = detail_within(outcome, origin, f"/updates/{index}", at=now)
            results.append(StoreStatusResult(store_id=update.store_id, problem=problem))
        else:
            results.append(StoreStatusResult(store_id=update.store_id, status=outcome))
    return StoreStatusResults(results=results)


@commerce_stores.post(
    COMMERCE_STORES + "/{storeId}/item-availability",
    summary="Set Item Availability",
    names_unknown=True,
)
async def set_item_availability(call: Call[ItemAvailabilityRequest, None]) -> ItemAvailabilityResponse:
    """Mark items as sold out or available, without a new catalog."""
    sold_out = await call.app.stores.set_items(call.caller, call.ids["storeId"], call.body)
    return ItemAvailabilityResponse(unavailable_item_ids=sold_out)


# --- storefronts ----------------------------------------------------------------------------------


@discovery.post(
    "/v1/marketfront/stores/discover",
    summary="Discover Stores",
    answer_headers=("Cache-Control",),
    rate=Rate.DISCOVERY,
)
async def discover_stores(call: Call[DiscoverRequest, None]) -> Answer[DiscoverResponse]:
    """Find stores: by location, nearest first; else by query, best match first; else all by name.

    With a location each store has its `distance` in metres. `totalCount` is the number of
    matches. It is exact to 1,000. If there are more, it is 1,000 and `totalCountIsLowerBound` is true.
    """
    return Answer(raw=as_json(await call.app.discovery.discover(call.body)), headers=_NO_STORE)


class AtQuery(Wire):
    """The instant of the availability; the default is now."""

    at: (
        Annotated[
            str,
            Meta(
                description="The instant; the default is now.",
                extra_json_schema={"format": "date-time"},
            ),
        ]
        | None
    ) = None


@marketfront_stores.get(
    "/v1/marketfront/stores/{storeId}",
    summary="Get Store",
    id="getMarketfrontStore",
    answer_headers=("Cache-Control",),
)
async def get_marketfront_store(call: Call[None, None]) -> Answer[MarketfrontStore]:
    """Return a store as it is now. Sold-out items and opening may change at any moment."""
    row, catalog = await _store(call)
    return Answer(storefront_of(row, catalog, call.app.clock()), headers=_NO_STORE)


@marketfront_stores.get(
    "/v1/marketfront/stores/{storeId}/availability",
    summary="Get Store Availability",
    answer_headers=("Cache-Control",),
)
async def get_store_availability(call: Call[None, AtQuery]) -> Answer[StoreAvailability]:
    """Return whether the store is open at an instant, and why."""
    row, catalog = await _store(call)
    at = call.app.clock()
    if call.query.at is not None:
        parsed = parse_instant(call.query.at)
        if parsed is None:
            raise ValidationFailed.at(None, instant_fault("at", call.query.at))
        # The first and last day of the calendar lack a local time in some zones.
        if not MINYEAR < parsed.year < MAXYEAR:
            raise ValidationFailed.at(None, f"at must be of the years {MINYEAR + 1} to {MAXYEAR - 1}.")
        at = parsed
    return Answer(availability_of(row, catalog, at), headers=_NO_STORE)


async def _store(call: Call[None, Any]) -> tuple[StoreRow, CompiledCatalog]:
    row = await call.app.cache.find(call.ids["storeId"])
    if row is None:
        raise StoreNotFound(call.ids["storeId"])
    return row, await call.app.compiled.get(row.catalog_set_id)
