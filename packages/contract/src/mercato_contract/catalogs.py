"""CatalogSets as they are served, their runs and dry runs, faults, warnings and differences."""

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import force_setattr

from mercato_contract.carts import Amount
from mercato_contract.wire import Instant, Wire


class CatalogFault(Wire, kw_only=True):
    """Why a document can't be served.

    `code` is the id of the rule, or of what went wrong with the run; `path` the RFC 6901 pointer into the document as
    fetched. A fault that was stored before faults had codes has the code `other`.
    """

    code: str = "other"
    message: str
    path: str = ""
    pointer: Annotated[
        str,
        Meta(description="The same as `path`, which replaces it.", extra_json_schema={"deprecated": True}),
    ] = ""

    def __post_init__(self) -> None:
        # One of them is enough to make or to read a fault: what was stored earlier has the other one alone.
        force_setattr(self, "path", self.path or self.pointer)
        force_setattr(self, "pointer", self.path)


class PartnerWarning(CatalogFault, kw_only=True):
    """A probable mistake that a partner should check: `path` points into the document, or into the registration."""


class CatalogSummary(Wire):
    """Counts of a set. `warnings` counts all of them, also those that a list left out."""

    currency: str
    catalogs: int
    sections: int
    items: int
    modifier_groups: int
    warnings: int


class DiffEntry(Wire):
    """An item, group, section or catalog that differs."""

    id: str
    name: str


class DiffList(Wire):
    """One kind of change: the count of all, and the first of them."""

    count: int
    entries: tuple[DiffEntry, ...]


class PriceChange(Wire):
    """An item at another price: decimal strings, null for an item without one."""

    id: str
    name: str
    before: str | None
    after: str | None


class PriceChanges(Wire):
    """Price changes: the count of all, and the first of them."""

    count: int
    entries: tuple[PriceChange, ...]


class CurrencyChange(Wire):
    before: str
    after: str


class ItemDiff(Wire):
    """`reoptioned`: other modifier groups. `changed`: name, availability, maximum or the partner's own id."""

    added: DiffList
    removed: DiffList
    repriced: PriceChanges
    reoptioned: DiffList
    changed: DiffList


class EntityDiff(Wire):
    """What was added, removed and changed of a set's modifier groups, sections or catalogs."""

    added: DiffList
    removed: DiffList
    changed: DiffList


class CatalogDiff(Wire):
    """What a set changes in prices, choices and structure. Descriptions and images aren't compared."""

    identical: bool
    currency: CurrencyChange | None
    items: ItemDiff
    modifier_groups: EntityDiff
    sections: EntityDiff
    catalogs: EntityDiff


class RunStatus(StrEnum):
    """Where a run is. `succeeded` and `failed` are terminal."""

    QUEUED = "queued"
    PULLING = "pulling"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


IdsByDocumentId = Annotated[
    dict[str, UUID], Meta(description="The id that the merchant's document has → the id that is served.")
]


ActivateAt = Annotated[
    str,
    Meta(
        extra_json_schema={"format": "date-time"},
        examples=["2026-02-01T05:00:00Z"],
        description="When the store switches to the set: at most 90 days ahead. It is checked and built at once.",
    ),
]


class CatalogSetNotification(Wire):
    """The URL from which the CatalogSet is pulled, and when the store is to switch to it: at once if that is absent."""

    callback_url: Annotated[str, Meta(extra_json_schema={"format": "uri", "minLength": 1})]
    activate_at: ActivateAt | None = None


class CatalogIngestAccepted(Wire):
    """The run is queued: poll `statusUrl`."""

    catalog_ingest_id: UUID
    status_url: str


class CatalogIngestStatusResponse(Wire):
    """The status of a run; `errors` are set once it has failed, `warnings` once it has ended.

    A run that is `processing` with an `activateAt` and a `catalogSetId` is built, and switches at that instant.
    """

    catalog_ingest_id: UUID
    status: RunStatus
    updated_at: Instant
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...] = ()
    catalog_set_id: UUID | UnsetType = UNSET
    activate_at: Instant | UnsetType = UNSET


class CatalogIngestRun(Wire, kw_only=True):
    """A run in a store's history. One whose document was sent, or that switched back, has no `callbackUrl`."""

    catalog_ingest_id: UUID
    status: RunStatus
    callback_url: str | UnsetType = UNSET
    catalog_set_id: UUID | UnsetType = UNSET
    created_at: Instant
    updated_at: Instant
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...] = ()
    activate_at: Instant | UnsetType = UNSET


class CatalogIngestPage(Wire):
    """A page of a store's runs, newest first."""

    runs: list[CatalogIngestRun]
    next_cursor: str | None


class CatalogSetPeriod(Wire, kw_only=True):
    """When a store served a CatalogSet. `isKept`: the store can still switch back to the set."""

    catalog_set_id: UUID
    catalog_ingest_id: Annotated[
        UUID | None, Meta(description="The run that switched to it; null for the onboarding's own pull.")
    ]
    begins_at: Instant = field(name="from")
    ends_at: Annotated[Instant | None, Meta(description="Null for the set that is served now.")] = field(
        name="to"
    )
    rolled_back_from: Annotated[
        UUID | None, Meta(description="The set that was served before, if this one was activated again.")
    ]
    is_kept: bool


class CatalogSetHistory(Wire):
    """A page of the CatalogSets that a store has served, the last one first."""

    catalog_sets: list[CatalogSetPeriod]
    next_cursor: str | None


class CatalogSetActivated(Wire):
    """The set that the store serves now, and the one that it served before it switched back."""

    catalog_set_id: UUID
    rolled_back_from: UUID | None


class StoreIds(Wire):
    """The ids of a store's current CatalogSet: those in the merchant's document, and those that are served."""

    items: IdsByDocumentId
    modifier_groups: IdsByDocumentId


class CatalogValidation(Wire):
    """What a run would report of the document. `diff` compares it with the store's current set."""

    valid: bool
    errors: tuple[CatalogFault, ...]
    warnings: tuple[PartnerWarning, ...]
    summary: CatalogSummary | None
    diff: CatalogDiff | None


class AvailabilityWindow(Wire):
    """An open span of a day, local to the store's time zone; `end` 00:00:00 is the end of that day."""

    day_of_week: str
    start: str
    end: str


Text = str | UnsetType | None


class CatalogSet(Wire, kw_only=True):
    """What a store sells: four dictionaries by id, with every reference resolved.

    Members that are not named here are served as the merchant sent them.
    """

    catalog_set_id: UUID
    store_id: UUID
    currency: (
        Annotated[str, Meta(description="ISO 4217; absent means the service's default.")] | UnsetType | None
    ) = UNSET
    catalogs: dict[str, "CatalogEntry"]
    sections: dict[str, "CatalogSection"] | UnsetType | None = UNSET
    items: dict[str, "CatalogItem"]
    modifier_groups: dict[str, "CatalogModifierGroup"] | UnsetType | None = UNSET


class CatalogEntry(Wire, kw_only=True):
    """A catalog: its sections, and when they are available."""

    catalog_id: str
    name: Text = UNSET
    description: Text = UNSET
    section_ids: list[str] | UnsetType | None = UNSET
    availability: Annotated[
        list[AvailabilityWindow], Meta(description="In the store's time zone; an empty list means never.")
    ]


class CatalogSection(Wire, kw_only=True):
    """Items under one heading, and sections within it."""

    section_id: str
    name: Text = UNSET
    description: Text = UNSET
    image_url: Text = UNSET
    item_ids: list[str] | UnsetType | None = UNSET
    section_ids: list[str] | UnsetType | None = UNSET


class CatalogItem(Wire, kw_only=True):
    """Something that is sold by itself or as a modifier. Without `basePrice` it is only a modifier."""

    item_id: str
    name: Text = UNSET
    description: Text = UNSET
    image_url: Text = UNSET
    base_price: Amount | UnsetType | None = UNSET
    modifier_group_ids: list[str] | UnsetType | None = UNSET
    is_available: Annotated[bool, Meta(description="Absent or null is true.")] | UnsetType | None = UNSET
    tags: list[Any] | UnsetType | None = UNSET
    partner_item_id: Annotated[str, Meta(description="The merchant's own id.")] | UnsetType | None = UNSET
    maximum_quantity: int | UnsetType | None = UNSET


class CatalogModifierGroup(Wire, kw_only=True):
    """Choices for an item. The bounds count units."""

    modifier_group_id: str
    name: Text = UNSET
    minimum_allowed: Annotated[int, Meta(description="Absent or null is 0.")] | UnsetType | None = UNSET
    maximum_allowed: Annotated[int, Meta(description="Absent or null is no limit.")] | UnsetType | None = (
        UNSET
    )
    item_ids: list[str] | UnsetType | None = UNSET
    maximum_per_item: Annotated[int, Meta(description="Units of one choice.")] | UnsetType | None = UNSET
    free_quantity: (
        Annotated[int, Meta(description="The number of cheapest units that cost nothing.")] | UnsetType | None
    ) = UNSET
    price_overrides: (
        Annotated[dict[str, Amount | None], Meta(description="Prices in this group, by item.")]
        | UnsetType
        | None
    ) = UNSET
