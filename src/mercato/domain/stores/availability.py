"""Whether a store accepts orders, and which of its items are sold out."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from mercato.domain.stores.address import Text255
from mercato.kernel.wire import MAX_ENTRIES, Instant, Wire
from mercato.kernel.wire.checks import Objection, validator
from mercato.kernel.wire.parts import read_shallow


class StoreStatusValue(StrEnum):
    """Whether a store accepts orders."""

    ONLINE = "online"
    PAUSED = "paused"


NULL: Final = Raw(b"null")


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


class _SentStatus(Wire):
    status: Annotated[str, Meta(min_length=1)]
    pause_reason: Raw = NULL
    resume_at: Raw = NULL


_read_status: Final = msgspec.json.Decoder(_SentStatus).decode


def read_status_update(body: bytes) -> StoreStatusUpdate:
    """Decode like msgspec, but of a list or an object in place of a text read only its type.

    With `online` these members may hold anything, and msgspec takes a second for 1 MiB of floats.
    """
    sent = _read_status(body)
    return StoreStatusUpdate(
        status=sent.status,
        pause_reason=read_shallow(bytes(sent.pause_reason)),
        resume_at=read_shallow(bytes(sent.resume_at)),
    )


class StoreStatusResponse(Wire):
    """A store's availability now: a pause whose `resumeAt` has passed is over."""

    status: StoreStatusValue
    pause_reason: str | None
    resume_at: Instant | None


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


class SoldOut(Struct, frozen=True):
    """An item that is sold out until an instant, or until further notice."""

    item_id: UUID
    until: datetime | None
