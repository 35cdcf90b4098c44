"""What needs a merchant's attention, for its agents: catalogs that fail, and webhooks that weren't delivered."""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import UNSET, Meta, Raw, UnsetType

from mercato.agents.merchant_stores import Cursor, StoreId
from mercato.agents.texts import described
from mercato.agents.tools import LARGE, READS, SMALL, Hints, ToolCall, Tools, query_of, take_within
from mercato.api.catalogs import commerce_catalogs
from mercato.api.stores import onboarding
from mercato.api.webhooks import commerce_webhooks
from mercato.features.partners.model import Surface
from mercato.http.calls import operation_of
from mercato_contract.catalogs import CatalogFault, CatalogSummary
from mercato_contract.pages import cursor_of
from mercato_contract.refusals import InvalidRequest
from mercato_contract.texts import count_of
from mercato_contract.webhooks import DeliveryStatus, WebhookDelivery, WebhookDeliveryPage
from mercato_contract.wire import Wire

tools: Final = Tools(Surface.COMMERCE)

LIMIT: Final = 10
MAX_LIMIT: Final = 100

_RUNS: Final = operation_of(commerce_catalogs, "listCatalogIngestRuns")
_CHECK: Final = operation_of(commerce_catalogs, "validateCatalogSet")
_ONBOARDING: Final = operation_of(onboarding, "getOnboardingStatus")
_FAILED: Final = operation_of(commerce_webhooks, "listCommerceWebhookDeliveries")
_REDELIVER: Final = operation_of(commerce_webhooks, "redeliverCommerceWebhook")

CHECKS: Final = Hints(read_only=True, destructive=False, idempotent=True, open_world=True)
SENDS: Final = Hints(read_only=False, destructive=False, idempotent=False, open_world=True)


# --- catalogs -------------------------------------------------------------------------------------


class Problem(Wire, kw_only=True):
    """A fault or a warning: the rule, what is wrong, and a pointer (RFC 6901) into the document."""

    code: str
    message: str
    path: str


class CatalogProblems(Wire, kw_only=True):
    """What is wrong with a catalog. `more…` have no room; correct what is listed, and ask again."""

    status: str
    updated_at: str | UnsetType = UNSET
    errors: list[Problem]
    more_errors: int | UnsetType = UNSET
    warnings: list[Problem]
    more_warnings: int | UnsetType = UNSET
    summary: CatalogSummary | UnsetType = UNSET


_ERRORS_SIZE: Final = 6_500
_WARNINGS_SIZE: Final = 4_000
"""Bytes that the errors, and the warnings, of a catalog have in an answer."""


def _line_of_problem(problem: Problem) -> str:
    return f"- {problem.code} at {problem.path or 'the document'}: {problem.message}"


def render_problems(found: CatalogProblems) -> str:
    """Return what is wrong with a catalog as text."""
    when = "" if found.updated_at is UNSET else f" at {found.updated_at}"
    lines = [f"The catalog is {found.status}{when}."]
    if found.summary is not UNSET:
        items, groups = found.summary.items, found.summary.modifier_groups
        lines.append(f"{count_of(items, 'item')}, {count_of(groups, 'modifier group')}.")
    for name, listed, more in (
        ("Errors", found.errors, found.more_errors),
        ("Warnings", found.warnings, found.more_warnings),
    ):
        if listed:
            lines += [f"{name}:", *map(_line_of_problem, listed)]
        if more:
            lines.append(f"and {more} more")
    return "\n".join(lines)


def _problems(
    status: str,
    errors: Sequence[CatalogFault],
    warnings: Sequence[CatalogFault],
    *,
    updated_at: str | UnsetType = UNSET,
    summary: CatalogSummary | UnsetType = UNSET,
) -> CatalogProblems:
    listed, _ = take_within(map(_problem, errors), _line_of_problem, most=_ERRORS_SIZE)
    warned, _ = take_within(map(_problem, warnings), _line_of_problem, most=_WARNINGS_SIZE)
    return CatalogProblems(
        status=status,
        updated_at=updated_at,
        errors=listed,
        more_errors=len(errors) - len(listed) or UNSET,
        warnings=warned,
        more_warnings=len(warnings) - len(warned) or UNSET,
        summary=summary,
    )


def _problem(fault: CatalogFault) -> Problem:
    return Problem(code=fault.code, message=described(fault.message), path=described(fault.path))


class GetCatalogProblems(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of get_catalog_problems: one of the two."""

    store_id: StoreId | None = None
    onboarding_id: Annotated[UUID, Meta(description="Of a store that isn't live yet")] | None = None


class _Run(Wire, kw_only=True):
    status: str
    updated_at: str
    errors: tuple[CatalogFault, ...]
    warnings: tuple[CatalogFault, ...] = ()


class _Runs(Wire):
    runs: list[_Run]


class _Onboarding(Wire, kw_only=True):
    status: str
    errors: tuple[CatalogFault, ...] = ()
    warnings: tuple[CatalogFault, ...] = ()


NO_RUN: Final = "as it was registered"
"""The status of a store's catalog that no notification has replaced."""


@tools.declare(
    title="Read a catalog's problems", calls=[_RUNS, _ONBOARDING], hints=READS, render=render_problems
)
async def get_catalog_problems(call: ToolCall[GetCatalogProblems]) -> CatalogProblems:
    """Read the errors and warnings of a store's newest catalog, each with a pointer into the document."""
    asked = call.body
    if (asked.store_id is None) == (asked.onboarding_id is None):
        raise InvalidRequest("Send either storeId or onboardingId.")
    onboarding_id = asked.onboarding_id
    if asked.store_id is not None:
        page = await call.perform(
            _RUNS, returns=_Runs, ids={"storeId": asked.store_id}, query=query_of(limit=1)
        )
        if page.runs:
            run = page.runs[0]
            return _problems(run.status, run.errors, run.warnings, updated_at=run.updated_at)
        store = await call.app.cache.get_own(call.caller, asked.store_id)
        onboarding_id = store.onboarding_id
    assert onboarding_id is not None
    found = await call.perform(_ONBOARDING, returns=_Onboarding, ids={"onboardingId": onboarding_id})
    return _problems(found.status if asked.store_id is None else NO_RUN, found.errors, found.warnings)


class CheckCatalog(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of check_catalog: one of callbackUrl and document."""

    callback_url: Annotated[str, Meta(max_length=2048, description="Where the document is")] | None = None
    document: (
        Annotated[Raw, Meta(extra_json_schema={"type": "object"}, description="A small CatalogSet itself")]
        | UnsetType
    ) = UNSET
    store_id: Annotated[UUID, Meta(description="To compare with what the store serves")] | None = None


class _Validation(Wire, kw_only=True):
    valid: bool
    errors: tuple[CatalogFault, ...]
    warnings: tuple[CatalogFault, ...]
    summary: CatalogSummary | None


@tools.declare(title="Check a catalog", calls=[_CHECK], hints=CHECKS, render=render_problems)
async def check_catalog(call: ToolCall[CheckCatalog]) -> CatalogProblems:
    """Check a CatalogSet as the network does when it is published, without any change."""
    asked = call.body
    document = b"" if isinstance(asked.document, UnsetType) else bytes(asked.document)
    if document == b"null":
        document = b""  # as if it were left out
    if (asked.callback_url is None) == (not document):
        raise InvalidRequest("Send either callbackUrl or document.")
    if document and not document.startswith(b"{"):
        raise InvalidRequest.at("/document", "document must be an object: a CatalogSet.")
    body: Any = Raw(document) if document else {"callbackUrl": asked.callback_url}
    found = await call.perform(_CHECK, body, returns=_Validation, query=query_of(store_id=asked.store_id))
    status = "valid" if found.valid else "invalid"
    return _problems(status, found.errors, found.warnings, summary=found.summary or UNSET)


# --- webhooks -------------------------------------------------------------------------------------


class ListFailedWebhooks(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of list_failed_webhooks."""

    store_id: UUID | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description=f"{LIMIT} by default")] | None = None
    cursor: Cursor | None = None


class FailedWebhook(Wire, kw_only=True):
    """A webhook that wasn't delivered. `disabled` says why its address is disabled."""

    delivery_id: UUID
    type: str
    url: str
    store_id: UUID | None
    order_id: UUID | None
    attempts: int
    error: str
    disabled: str | UnsetType = UNSET
    updated_at: str


class FailedWebhooks(Wire, kw_only=True):
    """The result of list_failed_webhooks, newest first."""

    webhooks: list[FailedWebhook]
    next_cursor: str | None


def _line_of_webhook(webhook: FailedWebhook) -> str:
    disabled = "" if webhook.disabled is UNSET else f"; the address is disabled: {webhook.disabled}"
    order = "" if webhook.order_id is None else f" of order {webhook.order_id}"
    return (
        f"- {webhook.type}{order} [{webhook.delivery_id}] to {webhook.url}: {webhook.error} "
        f"({count_of(webhook.attempts, 'attempt')}, {webhook.updated_at}){disabled}"
    )


def render_webhooks(found: FailedWebhooks) -> str:
    """Return webhooks that weren't delivered as text."""
    lines = list(map(_line_of_webhook, found.webhooks)) or ["No webhook has failed."]
    if found.next_cursor is not None:
        lines.append(f"More: cursor {found.next_cursor}")
    return "\n".join(lines)


@tools.declare(title="List failed webhooks", calls=[_FAILED], hints=READS, render=render_webhooks)
async def list_failed_webhooks(call: ToolCall[ListFailedWebhooks]) -> FailedWebhooks:
    """List webhooks to your systems that weren't delivered, with why, newest first."""
    asked = call.body
    limit = asked.limit or LIMIT
    query = query_of(
        status=DeliveryStatus.FAILED.value, store_id=asked.store_id, limit=limit, cursor=asked.cursor
    )
    page = await call.perform(_FAILED, returns=WebhookDeliveryPage, query=query)
    most = LARGE if limit > LIMIT else SMALL
    webhooks, are_left = take_within(map(_webhook, page.deliveries), _line_of_webhook, most=most)
    following = cursor_of(webhooks[-1].delivery_id) if are_left else page.next_cursor
    return FailedWebhooks(webhooks=webhooks, next_cursor=following)


def _webhook(delivery: WebhookDelivery) -> FailedWebhook:
    return FailedWebhook(
        delivery_id=delivery.delivery_id,
        type=delivery.type,
        url=described(delivery.url),
        store_id=delivery.store_id,
        order_id=delivery.order_id,
        attempts=delivery.attempts,
        error=described(delivery.error or ""),
        disabled=UNSET if delivery.endpoint_disabled is None else described(delivery.endpoint_disabled),
        updated_at=delivery.updated_at,
    )


class RedeliverWebhook(Wire, forbid_unknown_fields=True):
    """The arguments of redeliver_webhook."""

    delivery_id: Annotated[UUID, Meta(description="Of list_failed_webhooks")]


class Redelivery(Wire, kw_only=True):
    """The result of redeliver_webhook: it is sent soon."""

    delivery_id: UUID
    status: DeliveryStatus
    attempts: int
    next_attempt_at: str | None


def render_redelivery(found: Redelivery) -> str:
    """Return a redelivery as text."""
    when = "soon" if found.next_attempt_at is None else f"at {found.next_attempt_at}"
    return f"The webhook {found.delivery_id} is {found.status.value} and sent again {when}."


@tools.declare(title="Send a webhook again", calls=[_REDELIVER], hints=SENDS, render=render_redelivery)
async def redeliver_webhook(call: ToolCall[RedeliverWebhook]) -> Redelivery:
    """Send a webhook again that wasn't delivered, with the same webhook-id."""
    return await call.perform(_REDELIVER, returns=Redelivery, ids={"deliveryId": call.body.delivery_id})
