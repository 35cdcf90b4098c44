"""Writes events and changes in the transaction that causes them, and deletes expired ones.

The sequencer assigns positions after the commit.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import and_, delete, or_, select, update

from mercato.features.compression import compress, decompress
from mercato.features.events.tables import (
    STATE_ID,
    event_positions,
    events,
    new_events,
    new_store_changes,
    orders,
    sequencer,
    store_changes,
    store_sequences,
)
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
    """Record for storefronts that these kinds of a store's data have changed, in the caller's transaction."""
    tx.defer(_INSERT_CHANGE, {"store_id": store_id, "kinds": ",".join(kinds), "at": at})
    _signal(tx)


def _signal(tx: Write) -> None:
    tx.after_commit(partial(tx.database.signals.publish, WRITTEN, ""))


# --- retention --------------------------------------------------------------------------------------------

KEPT: Final = timedelta(days=30)
"""How long partners can read an event, and that a store is gone, at least."""

RETRIES: Final = timedelta(days=3)
"""How long the deliveries of an event may go on after it."""


async def prune_events(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` events from before then, oldest first. Return how many."""
    oldest = await tx.all(
        select(event_positions.c.position, event_positions.c.event_id, event_positions.c.at)
        .order_by(event_positions.c.position)
        .limit(limit)
    )
    gone = [row for row in oldest if row.at < before]
    if not gone:
        return 0
    last = gone[-1].position
    # In order, so that the greatest deleted position shows which cursors have expired.
    await tx.execute(
        update(sequencer)
        .where(sequencer.c.id == STATE_ID, sequencer.c.events_deleted_to < last)
        .values(events_deleted_to=last)
    )
    await tx.execute(
        delete(event_positions).where(event_positions.c.position.in_([row.position for row in gone]))
    )
    await tx.execute(delete(events).where(events.c.id.in_([row.event_id for row in gone])))
    return len(gone)


async def prune_gone_stores(tx: Write, *, before: datetime, limit: int) -> int:
    """Forget at most `limit` stores that have been gone since before then. Return how many."""
    rows = await tx.all(
        select(store_changes.c.store_id, store_changes.c.position)
        .where(store_changes.c.is_gone, store_changes.c.at < before)
        .order_by(store_changes.c.position)
        .limit(limit)
    )
    if rows:
        last = rows[-1].position
        await tx.execute(
            update(sequencer)
            .where(sequencer.c.id == STATE_ID, sequencer.c.stores_deleted_to < last)
            .values(stores_deleted_to=last)
        )
        # One that came back meanwhile has another position.
        found = [
            and_(store_changes.c.store_id == row.store_id, store_changes.c.position == row.position)
            for row in rows
        ]
        await tx.execute(delete(store_changes).where(or_(*found)))
    return len(rows)


async def rewrite_of_orders(
    tx: Write, order_ids: Sequence[UUID], rewrite: Callable[[str, bytes], bytes]
) -> None:
    """Replace the bodies of all events about the orders: `rewrite` gets a type and a body, without the customer."""
    rows = await tx.all(
        select(events.c.id, events.c.type, events.c.body, orders.c.content)
        .join(orders, orders.c.id == events.c.order_id)
        .where(events.c.order_id.in_(order_ids))
    )
    for row in rows:
        body = rewrite(row.type, decompress(row.body, base=row.content))
        packed = compress(body, base=decompress(row.content))
        await tx.execute(update(events).where(events.c.id == row.id).values(body=packed))


async def delete_of_partner(tx: Write, partner_id: UUID, *, limit: int) -> int:
    """Delete at most `limit` of the partner's events. Return how many."""
    # Without the lock, a process that numbers events now would commit positions and sequences after these statements.
    await tx.scalar(select(sequencer.c.last).where(sequencer.c.id == STATE_ID).with_for_update())
    await tx.execute(delete(store_sequences).where(store_sequences.c.partner_id == partner_id))
    mine = event_positions.c.partner_id == partner_id
    rows = await tx.all(select(event_positions.c.event_id).where(mine).limit(limit))
    ids = [row.event_id for row in rows]
    ids += [
        row.event_id
        for row in await tx.all(select(new_events.c.event_id).where(new_events.c.partner_id == partner_id))
    ]
    await tx.execute(delete(event_positions).where(mine, event_positions.c.event_id.in_(ids)))
    await tx.execute(delete(new_events).where(new_events.c.partner_id == partner_id))
    await tx.execute(delete(events).where(events.c.id.in_(ids)))
    return len(rows)
