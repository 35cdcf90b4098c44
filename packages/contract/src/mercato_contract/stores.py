"""Onboardings and stores, for their merchants and for storefronts."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final
from uuid import UUID
from zoneinfo import available_timezones

from msgspec import UNSET, Meta, UnsetType

from mercato_contract.catalogs import AvailabilityWindow, CatalogFault, PartnerWarning
from mercato_contract.money import MoneyError, decimal_fault, decimal_to_minor, is_negative
from mercato_contract.pages import MAX_UPDATES
from mercato_contract.problems import ProblemDetail
from mercato_contract.texts import name_fault
from mercato_contract.wire import MAX_ENTRIES, Instant, Objection, Wire, redacted, validator

_LOCAL_ZONES: Final = {"localtime", "posixrules", "Factory"}
"""Files among the time zones that aren't zones: their meaning depends on the machine."""


def timezone_fault(text: str) -> str | None:
    """Return what is wrong with an IANA time zone name, or None."""
    if text in _zones():
        return None
    return f"timezone must be an IANA time zone name, like Europe/Berlin; {text[:64]!r} isn't one."


@cache
def _zones() -> set[str]:
    # Cached: listing the files of the time zones takes tens of milliseconds.
    return available_timezones() - _LOCAL_ZONES


MAX_TOKEN: Final = 4096
"""Characters of a webhook token."""


_TOKEN: Final = re.compile(rf"[\x21-\x7e]{{1,{MAX_TOKEN}}}")


def webhook_token_fault(token: str) -> str | None:
    """Return what is wrong with a webhook token, or None. The message never repeats it."""
    if _TOKEN.fullmatch(token) is None:
        return f"A webhook token has 1 to {MAX_TOKEN} visible ASCII characters, and no spaces."
    return None


Text255 = Annotated[str, Meta(min_length=1, max_length=255)]


Latitude = Annotated[float, Meta(ge=-90, le=90)]


Longitude = Annotated[float, Meta(ge=-180, le=180)]


StoreName = Annotated[str, Meta(min_length=1, max_length=255, extra=validator(name_fault))]


class Coordinates(Wire):
    """A place on earth, in degrees."""

    lat: Latitude
    lng: Longitude


class AddressRequest(Wire):
    """An address as it is sent. Every member is optional; `address1` means the same as `street`."""

    street: Text255 | None = None
    address1: Text255 | None = None
    address2: Text255 | None = None
    city: Text255 | None = None
    state: Text255 | None = None
    postal_code: Text255 | None = None
    country: Text255 | None = None
    coordinates: Coordinates | None = None


class Address(Wire):
    """An address as it is returned: the members that were sent."""

    street: str | UnsetType = UNSET
    address2: str | UnsetType = UNSET
    city: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    postal_code: str | UnsetType = UNSET
    country: str | UnsetType = UNSET
    coordinates: Coordinates | UnsetType = UNSET


class StoreStatusValue(StrEnum):
    """Whether a store accepts orders."""

    ONLINE = "online"
    PAUSED = "paused"


class StoreStatusUpdate(Wire):
    """`online` or `paused` in any case; the other two apply only to a pause."""

    status: Annotated[str, Meta(min_length=1)]
    pause_reason: Annotated[Any, Meta(extra_json_schema={"type": ["string", "null"]})] = None
    resume_at: Annotated[
        Any,
        Meta(
            extra_json_schema={"type": ["string", "null"], "format": "date-time"},
            description="A future instant; without it the pause lasts until it is ended.",
        ),
    ] = None


class StoreStatusResponse(Wire):
    """A store's availability now: a pause whose `resumeAt` has passed is over."""

    status: StoreStatusValue
    pause_reason: str | None
    resume_at: Instant | None


class StoreStatusEntry(StoreStatusUpdate, kw_only=True):
    """The status of one store among many."""

    store_id: UUID


class StoreStatusBatch(Wire):
    """Statuses of many stores, applied in their order. A store may occur more than once."""

    updates: Annotated[list[StoreStatusEntry], Meta(max_length=MAX_UPDATES)]


class StoreStatusResult(Wire, kw_only=True):
    """What became of one update: `status` is what Set Store Status answers, `problem` why nothing changed."""

    store_id: UUID
    status: StoreStatusResponse | UnsetType = UNSET
    problem: ProblemDetail | UnsetType = UNSET


class StoreStatusResults(Wire):
    """A result for each update, in their order."""

    results: list[StoreStatusResult]


class ItemAvailabilityEntry(Wire, kw_only=True):
    """One item, sold out until an instant or until further notice, or available again.

    It is named by `itemId`, or by `partnerItemId` as order lines have it: the id in the merchant's document.
    """

    item_id: Text255 | None = None
    partner_item_id: Text255 | None = None
    available: bool
    until: str | None = None


def item_name_fault(sent: Mapping[str, object]) -> Objection | None:
    """Return why an entry doesn't name one item, or None."""
    named = [name for name in ("itemId", "partnerItemId") if sent.get(name) is not None]
    if not named:
        return Objection("An entry needs itemId or partnerItemId.", form=True)
    if len(named) > 1:
        return Objection("An entry has itemId or partnerItemId, not both.", below="/partnerItemId")
    return None


class ItemAvailabilityRequest(Wire):
    """Items of the store's current CatalogSet."""

    items: Annotated[
        list[Annotated[ItemAvailabilityEntry, Meta(extra=validator(item_name_fault))]],
        Meta(min_length=1, max_length=MAX_ENTRIES),
    ]


class ItemAvailabilityResponse(Wire):
    """Every item that is sold out now."""

    unavailable_item_ids: tuple[UUID, ...]


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


class OrderHandling(StrEnum):
    """Who accepts a store's orders: its system at the `webhookUrl`, the service at once, or a person."""

    WEBHOOK = "webhook"
    AUTOMATIC = "automatic"
    MANUAL = "manual"


ACCEPT_WITHIN: Final = 10
"""Minutes within which a person accepts an order, unless the store says otherwise."""


HandlingChoice = Annotated[
    OrderHandling,
    Meta(
        description="`webhook`: the store's system is asked at its `webhookUrl`. `automatic`: the service accepts each "
        "valid order, and calls nobody. `manual`: a person accepts or refuses it, by Update Order Status or on the "
        "board. Null: `webhook` with a `webhookUrl`, else `automatic`."
    ),
]


AcceptWithin = Annotated[
    int,
    Meta(
        ge=1,
        le=60,
        description="With `manual`: the minutes after which an order that nobody has accepted is cancelled. Null: 10.",
    ),
]


class OnboardingState(StrEnum):
    """The state of an onboarding, derived from its newest run and its activation."""

    PENDING_CATALOG = "pending_catalog"
    CATALOG_INGESTING = "catalog_ingesting"
    CATALOG_FAILED = "catalog_failed"
    READY_TO_ACTIVATE = "ready_to_activate"
    ACTIVE = "active"


@redacted("webhook_token")
class OnboardingRequest(Wire):
    """The registration of a store. The service pulls the catalog from `catalogCallbackUrl` at once."""

    partner_store_id: Text255
    name: StoreName
    address: AddressRequest
    catalog_callback_url: Uri
    webhook_url: Uri | None = None
    timezone: Annotated[TimeZone, Meta(description="IANA name; else taken from the place.")] | None = None
    webhook_token: Annotated[WebhookToken, Meta(description=_AT_REGISTRATION)] | None = None
    order_handling: HandlingChoice | None = None
    accept_within: AcceptWithin | None = None


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
            description="Of address, webhookUrl and unknown members, with pointers into the request; of the catalog, "
            "into the document."
        ),
    ] = ()


class OnboardingPage(Wire):
    """A page of onboardings, newest first."""

    onboardings: list[OnboardingStatus]
    next_cursor: str | None


class FulfillmentMode(StrEnum):
    """How an order reaches its customer."""

    PICKUP = "PICKUP"
    DELIVERY_BY_MERCHANT = "DELIVERY_BY_MERCHANT"


class ChargeKind(StrEnum):
    """Which of the order's amounts a charge fills: `taxes` or `fees`."""

    TAX = "tax"
    FEE = "fee"


class ChargeBase(StrEnum):
    """What a rate is of: the order's items alone, or its items with its fees."""

    ITEMS = "items"
    ALL = "all"


RATE_SCALE: Final = 4
"""Decimals of a rate: 8.875 is one of three."""

MAX_CHARGES: Final = 10


MAX_CATEGORIES_LENGTH: Final = 12_750
"""Characters of all categories of a store together, so that a page of 100 stores stays small."""


def categories_fault(sent: Sequence[object]) -> str | None:
    """Return what is wrong with the length of all categories together, or None."""
    length = sum(len(category) for category in sent if isinstance(category, str))
    if length <= MAX_CATEGORIES_LENGTH:
        return None
    return f"categories may have at most {MAX_CATEGORIES_LENGTH:,} characters together, not {length:,}."


class Charge(Wire, kw_only=True):
    """A tax or a fee that the service adds to each order of a store, by a `rate` in percent or as a fixed `amount`."""

    kind: ChargeKind
    name: Annotated[str, Meta(min_length=1, max_length=120, description="What the customer reads.")]
    rate: (
        Annotated[str, Meta(max_length=16, description="Percent, as a decimal: `7`, `8.875`. At most 100.")]
        | None
    ) = None
    amount: Annotated[str, Meta(max_length=40, description="In the store's currency.")] | None = None
    included: Annotated[
        bool, Meta(description="Of a tax: the prices contain it already. It is shown and not added.")
    ] = False
    applies_to: Annotated[
        ChargeBase,
        Meta(description="Of a rate. `all`: also on the fees; of a fee, on those before it."),
    ] = ChargeBase.ITEMS
    mode: (
        Annotated[
            FulfillmentMode, Meta(description="Only for orders that are handed over so; null: for all.")
        ]
        | None
    ) = None


def charge_fault(sent: Mapping[str, object]) -> Objection | None:
    """Return what is wrong with a charge as it was sent, or None."""
    rate, amount, name = sent.get("rate"), sent.get("amount"), sent.get("name")
    if isinstance(name, str) and (not name.strip() or not name.isprintable()):
        return Objection("name must be on one line, without control characters.", below="/name")
    if (rate is None) is (amount is None):
        return Objection("A charge has either a rate or an amount.")
    if isinstance(rate, str) and (fault := _rate_fault(rate)) is not None:
        return Objection(fault, below="/rate")
    if isinstance(amount, str):
        fault = decimal_fault(amount) or ("it must not be negative." if is_negative(amount) else None)
        if fault is not None:
            return Objection(f"amount: {fault}", below="/amount")
    if sent.get("included") is True and sent.get("kind") != ChargeKind.TAX:
        return Objection("Only a tax can be included: the prices contain no fee.", below="/included")
    return None


def _rate_fault(text: str) -> str | None:
    try:
        rate = decimal_to_minor(text, RATE_SCALE)
    except MoneyError as fault:
        return f"rate {fault}"
    if not 0 < rate <= 100 * 10**RATE_SCALE:
        return "rate must be a percent above 0, and at most 100."
    return None


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
    order_handling: Annotated[OrderHandling, Meta(description="Who accepts its orders now.")]
    accept_within: (
        Annotated[int, Meta(description="Minutes; with `manual`, or if it was sent.")] | UnsetType
    ) = UNSET
    charges: tuple[Charge, ...] = ()
    minimum_order_amount: str | UnsetType = UNSET
    delivery_allowed: bool
    pickup_allowed: bool
    categories: tuple[str, ...]
    unavailable_item_ids: tuple[UUID, ...]
    created_at: Instant
    updated_at: Instant
    warnings: Annotated[
        tuple[PartnerWarning, ...],
        Meta(
            description="Of the address, the webhookUrl and unknown members of the last registration or update."
        ),
    ] = ()


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

    name: StoreName | UnsetType | None = UNSET
    phone: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    logo_url: Uri | UnsetType | None = UNSET
    description: Text2000 | UnsetType | None = UNSET
    address: AddressRequest | UnsetType | None = UNSET
    timezone: TimeZone | UnsetType | None = UNSET
    webhook_url: Uri | UnsetType | None = UNSET
    minimum_order_amount: Minimum | UnsetType | None = UNSET
    delivery_allowed: bool | UnsetType | None = UNSET
    pickup_allowed: bool | UnsetType | None = UNSET
    categories: (
        Annotated[
            list[Text255],
            Meta(
                max_length=MAX_ENTRIES,
                description=f"At most {MAX_CATEGORIES_LENGTH:,} characters together.",
                extra=validator(categories_fault),
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    webhook_token: Annotated[WebhookToken, Meta(description=_AT_UPDATE)] | UnsetType | None = UNSET
    order_handling: HandlingChoice | UnsetType | None = UNSET
    accept_within: AcceptWithin | UnsetType | None = UNSET
    charges: (
        Annotated[
            list[Annotated[Charge, Meta(extra=validator(charge_fault))]],
            Meta(max_length=MAX_CHARGES, description="They replace those before."),
        ]
        | UnsetType
        | None
    ) = UNSET


class PostalAddress(Wire):
    """An address with every member; null where it was not given."""

    address1: str | None
    address2: str | None
    city: str | None
    coordinates: Coordinates | None
    postal_code: str | None
    state: str | None


class StoreCard(Wire, kw_only=True):
    """What storefronts see of a store that doesn't depend on the present time."""

    store_id: UUID
    catalog_set_id: UUID
    name: str
    description: str | UnsetType = UNSET
    phone: str | UnsetType = UNSET
    logo_url: AnsweredUri | UnsetType = UNSET
    timezone: str
    address: PostalAddress
    availability: tuple[AvailabilityWindow, ...]
    categories: tuple[str, ...]
    fulfillment_types: tuple[FulfillmentMode, ...]
    minimum_order_amount: str | UnsetType = UNSET


OpensAt = Annotated[
    Instant | None,
    Meta(description="When a closed store takes orders next; null if it is open, or if that isn't known."),
]
ClosesAt = Annotated[
    Instant | None,
    Meta(description="When an open store closes by its hours; null if it is closed, or if it never closes."),
]


class MarketfrontStore(StoreCard, kw_only=True):
    """A store as storefronts see it."""

    status: StoreStatusValue
    is_open: bool
    opens_at: OpensAt
    closes_at: ClosesAt
    unavailable_item_ids: tuple[UUID, ...]


class AvailabilityReason(StrEnum):
    """Why a store is open or not."""

    OPEN = "OPEN"
    PAUSED = "PAUSED"
    OUTSIDE_HOURS = "OUTSIDE_HOURS"


class StoreAvailability(Wire):
    """Whether a store is open at an instant, and why. `localTime` is in its time zone, without an offset."""

    at: Instant
    is_open: bool
    opens_at: OpensAt
    closes_at: ClosesAt
    reason: AvailabilityReason
    detail: str
    timezone: str
    local_time: str
