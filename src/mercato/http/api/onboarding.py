"""Onboarding of stores on the Commerce surface."""

from mercato.domain.stores.model import (
    OnboardingPage,
    OnboardingRequest,
    OnboardingStatus,
    RetryRequest,
    Store,
)
from mercato.domain.stores.onboarding import PATH
from mercato.domain.stores.service import store_of
from mercato.http.operations import Access, Answer, Call, Operations
from mercato.kernel import errors
from mercato.kernel.wire.cursor import Page, read_cursor

onboarding = Operations(access=Access.COMMERCE, tag="Commerce")


@onboarding.post(
    PATH,
    summary="Register Store",
    takes=OnboardingRequest,
    returns=OnboardingStatus,
    status=201,
    reply_headers=("Location",),
    problems=(errors.StoreAlreadyRegistered,),
)
async def register_store(call: Call[OnboardingRequest, None]) -> Answer:
    """Start the onboarding of a store. The catalog is pulled at once; poll Get Onboarding Status."""
    status = await call.app.onboardings.register(call.caller, call.body, trace=call.trace)
    return Answer(status, headers=((b"location", f"{PATH}/{status.onboarding_id}".encode()),))


@onboarding.get(PATH, summary="List Onboardings", query=Page, returns=OnboardingPage)
async def list_onboardings(call: Call[None, Page]) -> OnboardingPage:
    """Return the onboardings that aren't cancelled, newest first."""
    before = read_cursor(call.query.cursor)
    return await call.app.onboardings.list(call.caller, before=before, limit=call.query.limit)


@onboarding.get(PATH + "/{onboardingId}", summary="Get Onboarding Status", returns=OnboardingStatus)
async def get_onboarding_status(call: Call[None, None]) -> OnboardingStatus:
    """Return the status of an onboarding; if its catalog has failed, every error with a pointer."""
    return await call.app.onboardings.get(call.caller, call.ids["onboardingId"])


@onboarding.delete(
    PATH + "/{onboardingId}", summary="Cancel Onboarding", status=204, problems=(errors.OnboardingActive,)
)
async def cancel_onboarding(call: Call[None, None]) -> None:
    """Cancel an onboarding that isn't active. A running pull is abandoned; the onboarding is then not found."""
    await call.app.onboardings.cancel(call.caller, call.ids["onboardingId"])


@onboarding.post(
    PATH + "/{onboardingId}/retry",
    summary="Retry Onboarding",
    takes=RetryRequest,
    body_optional=True,
    returns=OnboardingStatus,
    problems=(errors.OnboardingNotFailed, errors.StoreAlreadyRegistered),
)
async def retry_onboarding(call: Call[RetryRequest | None, None]) -> OnboardingStatus:
    """Pull the catalog of a failed onboarding again, from another URL if one is given."""
    url = call.body.catalog_callback_url if call.body is not None else None
    return await call.app.onboardings.retry(call.caller, call.ids["onboardingId"], url, trace=call.trace)


@onboarding.post(
    PATH + "/{onboardingId}/activate",
    summary="Activate Store",
    returns=Store,
    problems=(errors.OnboardingNotReady,),
)
async def activate_store(call: Call[None, None]) -> Store:
    """Make the store live with the validated catalog. The status must be ready_to_activate."""
    row = await call.app.onboardings.activate(call.caller, call.ids["onboardingId"])
    return store_of(row, call.app.clock())
