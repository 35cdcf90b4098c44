"""Onboardings and stores: requests, responses and rows."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from mercato.domain.catalog.model import CatalogFault, PartnerWarning
from mercato.domain.catalog.money import decimal_fault, is_negative, to_text
from mercato.domain.catalog.runs import Run, RunStatus
from mercato.domain.partners.model import MAX_TOKEN, webhook_token_fault
from mercato.domain.stores.address import Address, AddressRequest, Text255
from mercato.domain.stores.availability import SoldOut, StoreStatusValue
from mercato.kernel.wire import Instant, Wire, redacted
from mercato.kernel.wire.checks import timezone_fault, validator

MINIMUM_NEGATIVE: Final = "minimumOrderAmount must not be negative."

Text2000 = Annotated[str, Meta(max_length=2000)]
AnsweredUri = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
Uri = Annotated[str, Meta(min_length=1, max_length=2048, extra_json_schema={"format": "uri"})]
WebhookToken = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TOKEN,
        extra=validator(webhook_token_fault),
        extra_json_schema={"writeOnly": True},
    ),
]
_AT_REGISTRATION: Final = (
    "What calls to this origin (scheme, host, port) carry as `Authorization: Bearer`. Needed for an origin other than "
    "the one that your token was given for: without it, calls carry no token."
)
_AT_UPDATE: Final = (
    "What calls to the origin (scheme, host, port) of `webhookUrl` carry as `Authorization: Bearer`. Needed when its "
    "origin changes: without it, calls carry no token."
)
TimeZone = Annotated[str, Meta(max_length=64, extra=validator(timezone_fault))]


# --- onboarding -----------------------------------------------------------------------------------


class OnboardingState(StrEnum):
    """The state of an onboarding, derived from its newest run and its activation."""

    PENDING_CATALOG = "pending_catalog"
    CATALOG_INGESTING = "catalog_ingesting"
    CATALOG_FAILED = "catalog_failed"
    READY_TO_ACTIVATE = "ready_to_activate"
    ACTIVE = "active"


STATE_OF_RUN: Final = {
    RunStatus.QUEUED: OnboardingState.PENDING_CATALOG,
    RunStatus.PULLING: OnboardingState.CATALOG_INGESTING,
    RunStatus.PROCESSING: OnboardingState.CATALOG_INGESTING,
    RunStatus.SUCCEEDED: OnboardingState.READY_TO_ACTIVATE,
    RunStatus.FAILED: OnboardingState.CATALOG_FAILED,
}


@redacted("webhook_token")
class OnboardingRequest(Wire):
    """The registration of a store. The service pulls the catalog from `catalogCallbackUrl` at once."""

    partner_store_id: Text255
    name: Text255
    address: AddressRequest
    catalog_callback_url: Uri
    webhook_url: Uri | None = None
    timezone: Annotated[TimeZone, Meta(description="IANA name; else taken from the place.")] | None = None
    webhook_token: Annotated[WebhookToken, Meta(description=_AT_REGISTRATION)] | None = None


class RetryRequest(Wire):
    """An optional new URL to pull the catalog from."""

    catalog_callback_url: Uri | None = None


class OnboardingStatus(Wire, kw_only=True):
    """The state of an onboarding; `error` and `errors` say what is wrong with the catalog."""

    onboarding_id: UUID
    partner_store_id: str
    status: OnboardingState
    store_id: UUID | UnsetType = UNSET
    error: str | UnsetType = UNSET
    errors: tuple[CatalogFault, ...] = ()
    created_at: Instant
    warnings: Annotated[
        tuple[PartnerWarning, ...],
        Meta(
            description="Of the address, with pointers into the request, and of the catalog, into the document."
        ),
    ] = ()


class OnboardingPage(Wire):
    """A page of onboardings, newest first."""

    onboardings: list[OnboardingStatus]
    next_cursor: str | None


class Onboarding(Struct, frozen=True):
    """An onboarding as it is stored."""

    id: UUID
    store_id: UUID
    partner_id: UUID
    partner_store_id: str
    name: str
    address: Address
    latitude: float | None
    longitude: float | None
    timezone: str
    timezone_given: bool
    catalog_callback_url: str
    webhook_url: str | None
    created_at: datetime
    activated_at: datetime | None
    cancelled_at: datetime | None
    holds_name: bool


def state_of(onboarding: Onboarding, newest: Run) -> OnboardingState:
    """Return the state. A later run never changes `active`."""
    return OnboardingState.ACTIVE if onboarding.activated_at is not None else STATE_OF_RUN[newest.status]


def first_error(faults: tuple[CatalogFault, ...]) -> str:
    """Return the first message and the number of others."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0].message}{more}" if faults else "The catalog could not be ingested."


# --- stores ---------------------------------------------------------------------------------------


class Store(Wire, kw_only=True):
    """A store as its merchant sees it."""

    store_id: UUID
    onboarding_id: UUID
    partner_store_id: str
    catalog_set_id: UUID
    name: str
    address: Address
    phone: str | UnsetType = UNSET
    timezone: str
    logo_url: AnsweredUri | UnsetType = UNSET
    description: str | UnsetType = UNSET
    status: StoreStatusValue
    pause_reason: str | None
    resume_at: Instant | None
    webhook_url: AnsweredUri | UnsetType = UNSET
    minimum_order_amount: str | UnsetType = UNSET
    delivery_allowed: bool
    pickup_allowed: bool
    categories: tuple[str, ...]
    unavailable_item_ids: tuple[UUID, ...]
    created_at: Instant
    updated_at: Instant
    warnings: tuple[PartnerWarning, ...] = ()


class StorePage(Wire):
    """A page of stores, newest first."""

    stores: list[Store]
    next_cursor: str | None


def _minimum_fault(text: str) -> str | None:
    """Return what is wrong in any currency; the store's own currency is checked later."""
    fault = decimal_fault(text)
    if fault is not None:
        return f"minimumOrderAmount: {fault}"
    return MINIMUM_NEGATIVE if is_negative(text) else None


Minimum = Annotated[str, Meta(max_length=40, extra=validator(_minimum_fault))]


@redacted("webhook_token")
class StoreUpdate(Wire):
    """The members of a store to change. Null clears the optional ones."""

    name: Text255 | UnsetType | None = UNSET
    phone: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    logo_url: Uri | UnsetType | None = UNSET
    description: Text2000 | UnsetType | None = UNSET
    address: AddressRequest | UnsetType | None = UNSET
    timezone: TimeZone | UnsetType | None = UNSET
    webhook_url: Uri | UnsetType | None = UNSET
    minimum_order_amount: Minimum | UnsetType | None = UNSET
    delivery_allowed: bool | UnsetType | None = UNSET
    pickup_allowed: bool | UnsetType | None = UNSET
    categories: Annotated[list[Text255], Meta(max_length=50)] | UnsetType | None = UNSET
    webhook_token: Annotated[WebhookToken, Meta(description=_AT_UPDATE)] | UnsetType | None = UNSET


class StoreRow(Struct, frozen=True):
    """A store as it is stored, with its current set.

    Nothing in it is older than `version`: a store with another version has changed since.
    """

    id: UUID
    onboarding_id: UUID
    partner_id: UUID
    partner_store_id: str
    name: str
    address: Address
    latitude: float | None
    longitude: float | None
    phone: str | None
    timezone: str
    timezone_given: bool
    logo_url: str | None
    description: str | None
    webhook_url: str | None
    categories: tuple[str, ...]
    delivery_allowed: bool
    pickup_allowed: bool
    minimum_order_amount: int | None
    minimum_order_currency: str | None
    paused: bool
    pause_reason: str | None
    resume_at: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int
    catalog_set_id: UUID
    currency: str
    sold_out: tuple[SoldOut, ...]

    @property
    def minimum_text(self) -> str | None:
        """The minimum order as a decimal at its own currency's scale."""
        if self.minimum_order_amount is None or self.minimum_order_currency is None:
            return None
        return to_text(self.minimum_order_amount, self.minimum_order_currency)

    def paused_at(self, now: datetime) -> bool:
        """Return whether the store is paused: an expired pause counts as online."""
        return self.paused and (self.resume_at is None or self.resume_at > now)

    def unavailable_at(self, now: datetime) -> tuple[UUID, ...]:
        """Return the items that are sold out at the instant."""
        if not self.sold_out:
            return ()
        return tuple(item.item_id for item in self.sold_out if item.until is None or item.until > now)
