"""Writes what happens, in the transaction that makes it true. The sequencer assigns its position after the commit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.compression import compress
from mercato.features.events.tables import events, new_events, new_store_changes
from mercato.features.partners.model import Surface
from mercato.platform.db.engine import Write
from mercato.platform.db.statements import prepared_insert
from mercato_contract.events import EventType
from mercato_contract.feeds import StoreChangeKind
from mercato_contract.wire import redacted

WRITTEN: Final = "events.written"
"""The signal that this process has committed an event or a change of a store."""

ALL_KINDS: Final = (
    StoreChangeKind.PROFILE,
    StoreChangeKind.STATUS,
    StoreChangeKind.CATALOG,
    StoreChangeKind.ITEMS,
)
"""What is new of a store that storefronts have not seen before, or see again."""

_INSERT_EVENT: Final = prepared_insert(events)
_INSERT_NEW: Final = prepared_insert(
    new_events, "event_id", "partner_id", "surface", "store_id", "traceparent"
)
_INSERT_CHANGE: Final = prepared_insert(new_store_changes, "store_id", "kinds", "at")


@redacted("body")
class Event(Struct, frozen=True, kw_only=True):
    """An event for a partner on one surface. `order_content` is the content of its order as it is stored."""

    id: UUID
    partner_id: UUID
    surface: Surface
    type: EventType
    body: bytes
    store_id: UUID | None = None
    order_id: UUID | None = None
    order_content: bytes = b""
    traceparent: str | None = None


def append(tx: Write, event: Event) -> None:
    """Add an event to its partner's feed, in the caller's transaction.

    Two events keep their order if their transactions lock the same row before they append, and within a transaction if
    it runs a statement between them. Else they happened at the same time.
    """
    body = compress(event.body, base=event.order_content)
    tx.defer(_INSERT_EVENT, {"id": event.id, "type": event.type, "order_id": event.order_id, "body": body})
    tx.defer(
        _INSERT_NEW,
        {
            "event_id": event.id,
            "partner_id": event.partner_id,
            "surface": event.surface,
            "store_id": event.store_id,
            "traceparent": event.traceparent,
        },
    )
    _signal(tx)


def mark_store(tx: Write, store_id: UUID, kinds: Sequence[StoreChangeKind], *, at: datetime) -> None:
    """Tell storefronts that these kinds of a store's data have changed, in the caller's transaction."""
    tx.defer(_INSERT_CHANGE, {"store_id": store_id, "kinds": ",".join(kinds), "at": at})
    _signal(tx)


def _signal(tx: Write) -> None:
    tx.after_commit(lambda: tx.database.signals.publish(WRITTEN, ""))
