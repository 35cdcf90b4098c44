"""The events feed and the changes of stores: what a partner reads at its own pace, in the order of commits."""

from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from mercato_contract.wire import REPEATABLE, Instant, Wire

FEED_PAGE: Final = 100
"""Entries of a page when the request names no `limit`."""

MAX_FEED_PAGE: Final = 500

MAX_WAIT: Final = 25
"""Seconds for which an answer may be held until there is an entry."""

After = Annotated[
    str,
    Meta(
        max_length=128,
        description="The `nextCursor` of the page before; without it, from the oldest that is kept.",
    ),
]
"""The query parameter `after`: `after: After | None = None`."""


class FeedQuery(Wire, frozen=True):
    """Where to go on reading, and how long to wait for something new."""

    after: After | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_FEED_PAGE, description="Entries a page may have.")] = FEED_PAGE
    wait: Annotated[
        int,
        Meta(ge=0, le=MAX_WAIT, description="Seconds to hold an empty answer until there is something new."),
    ] = 0


class EventsQuery(FeedQuery, frozen=True):
    """Which events to read. Filters don't change what a cursor means: it may be used with others."""

    types: (
        Annotated[
            str,
            Meta(
                max_length=400,
                description="Only events of these types: divided by commas, or each in a parameter of its own.",
                extra=REPEATABLE,
            ),
        ]
        | None
    ) = None
    store_id: Annotated[UUID, Meta(description="Only events of this store.")] | None = None


class FeedEvent(Wire, frozen=True, kw_only=True):
    """What happened, whether or not a webhook was sent. `type`, `timestamp` and `data` are the webhook's."""

    event_id: Annotated[UUID, Meta(description="The `webhook-id` of its webhook.")]
    type: str
    timestamp: Instant
    store_id: UUID | None
    store_sequence: Annotated[
        int | None,
        Meta(
            description="Counts the store's events for this account from 1, without a gap; null without a store.",
            extra_json_schema={"format": "int32"},
        ),
    ]
    data: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object", "additionalProperties": True})]


class EventPage(Wire, frozen=True):
    """Events in the order of their commits. `nextCursor` is always there: read on from it, now or later."""

    events: list[FeedEvent]
    next_cursor: str
    has_more: Annotated[bool, Meta(description="Whether there may be more now.")]


class StoreChangeKind(StrEnum):
    """What changed: the store's own members, whether it takes orders, its CatalogSet, or items sold out or back.

    `gone`: storefronts don't see the store any more.
    """

    PROFILE = "profile"
    STATUS = "status"
    CATALOG = "catalog"
    ITEMS = "items"
    GONE = "gone"


class StoreChange(Wire, frozen=True):
    """What changed of a store since the cursor: one entry, however often it changed."""

    store_id: UUID
    at: Annotated[Instant, Meta(description="When it changed last.")]
    kinds: list[StoreChangeKind]


class StoreChangePage(Wire, frozen=True):
    """Changed stores in the order of their last change. `nextCursor` is always there."""

    changes: list[StoreChange]
    next_cursor: str
    has_more: Annotated[bool, Meta(description="Whether there may be more now.")]
