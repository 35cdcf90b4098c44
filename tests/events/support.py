"""Feeds on a database without the rest of the service, and the partners who read them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import msgspec

from mercato.features.events.cursors import Cursors
from mercato.features.events.feed import Feeds, Waiters
from mercato.features.events.log import Event, append
from mercato.features.events.sequencer import Sequencer
from mercato.features.partners.model import Caller, Limits, Surface
from mercato.platform.db.engine import Database, Write
from mercato_contract import clock
from mercato_contract.events import EventType
from mercato_contract.feeds import FeedEvent

KEYS = [b"k" * 32]


@asynccontextmanager
async def running_feeds(db: Database, *, works: bool = True) -> AsyncIterator[Feeds]:
    """Run feeds as a process does; without `works` others have to number what is written."""
    waiters = Waiters(db)
    tasks = [asyncio.create_task(waiters.run())]
    if works:
        tasks.append(asyncio.create_task(Sequencer(db, clock.now, waiters.wake).run()))
    try:
        yield Feeds(db, Cursors(KEYS), waiters)
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def caller(partner_id: UUID, surface: Surface = Surface.MARKETFRONT) -> Caller:
    return Caller(partner_id, clock.new_id(), surface, Limits())


def write_event(
    tx: Write,
    partner_id: UUID,
    *,
    store_id: UUID | None = None,
    number: int = 0,
    type_: EventType = EventType.ORDER_UPDATED,
    surface: Surface = Surface.MARKETFRONT,
) -> UUID:
    """Write an event whose data has the number; return its id."""
    event_id = clock.new_id()
    body = msgspec.json.encode(
        {"type": type_, "timestamp": "2026-11-23T12:00:00.000Z", "data": {"number": number}}
    )
    append(
        tx,
        Event(id=event_id, partner_id=partner_id, surface=surface, type=type_, body=body, store_id=store_id),
    )
    return event_id


def number_of(event: FeedEvent) -> int:
    number: int = msgspec.json.decode(event.data)["number"]
    return number
