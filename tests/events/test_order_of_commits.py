"""A reader who follows `nextCursor` gets every event once, whatever is committed meanwhile."""

import asyncio
import random
from collections import defaultdict
from datetime import timedelta
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import select, text
from tests.events.support import caller, number_of, running_feeds, write_event
from tests.waiting import PATIENCE

from mercato.features.events import tables
from mercato.features.events.feed import Feeds
from mercato.features.events.log import delete_of_partner
from mercato.features.events.sequencer import number
from mercato.platform.db.engine import Database
from mercato_contract import clock
from mercato_contract.feeds import EventsQuery, FeedEvent


class RollBack(Exception):  # noqa: N818  # not a failure
    """Ends a transaction without a commit."""


WRITERS = 8
PATIENT = timedelta(seconds=PATIENCE)
"""What writers wait for each other on SQLite."""

STORES = 3
"""Stores of each writer."""


async def _write(db: Database, partner_id: UUID, stores: list[UUID], *, count: int, seed: int) -> list[UUID]:
    chance = random.Random(seed)
    written: list[UUID] = []
    while len(written) < count:
        rolls_back = chance.random() < 0.05
        batch: list[UUID] = []
        try:
            async with db.write() as tx:
                for _ in range(min(chance.randint(1, 10), count - len(written))):
                    number = len(written) + len(batch)
                    batch.append(write_event(tx, partner_id, store_id=chance.choice(stores), number=number))
                    # What is deferred runs before a statement: from here on its number is taken, and not committed.
                    await tx.scalar(text("SELECT 1"))
                await asyncio.sleep(chance.random() ** 4 * 0.1)
                _roll_back(rolls_back)
        except RollBack:
            continue
        written += batch
    return written


def _roll_back(really: bool) -> None:
    if really:
        raise RollBack


async def _follow(feeds: Feeds, partner_id: UUID, *, count: int, limit: int) -> list[FeedEvent]:
    found: list[FeedEvent] = []
    query = EventsQuery(limit=limit, wait=5)
    while len(found) < count:
        page = await feeds.read_events(caller(partner_id), query)
        found += page.events
        query = msgspec.structs.replace(query, after=page.next_cursor)
    # Whatever comes after the last one is one too many.
    page = await feeds.read_events(caller(partner_id), msgspec.structs.replace(query, wait=0))
    return found + page.events


async def _prove(url: str, *, each: int) -> None:
    """Let writers in two processes' databases write, and readers in both and in a third follow."""
    partner_id = clock.new_id()
    stores = [[clock.new_id() for _ in range(STORES)] for _ in range(WRITERS)]
    async with (
        Database.open(url, busy_timeout=PATIENT, pool_timeout=PATIENT) as one,
        Database.open(url, busy_timeout=PATIENT, pool_timeout=PATIENT) as other,
        running_feeds(one) as here,
        running_feeds(other) as there,
        running_feeds(other, works=False) as reading_only,
    ):
        async with asyncio.timeout(PATIENCE * max(1, each // 500)):
            async with asyncio.TaskGroup() as group:
                writers = [
                    group.create_task(
                        _write((one, other)[place % 2], partner_id, stores[place], count=each, seed=place)
                    )
                    for place in range(WRITERS)
                ]
                readers = [
                    group.create_task(_follow(feeds, partner_id, count=WRITERS * each, limit=limit))
                    for feeds, limit in ((here, 100), (there, 7), (reading_only, 500))
                ]
    expected = {event_id for task in writers for event_id in task.result()}
    assert len(expected) == WRITERS * each
    for reader in readers:
        found = reader.result()
        assert len(found) == len(expected), "none is repeated"
        assert {event.event_id for event in found} == expected, "none is skipped"
        of_store = defaultdict(list)
        for event in found:
            of_store[event.store_id].append(event)
        for events in of_store.values():
            assert [event.store_sequence for event in events] == list(range(1, len(events) + 1)), "no gap"
            numbers = [number_of(event) for event in events]
            assert numbers == sorted(numbers), "a store's events keep their order"


async def test_no_event_is_skipped_or_repeated_whatever_commits_meanwhile(database_url: str) -> None:
    await _prove(database_url, each=40)


@pytest.mark.long
async def test_of_100_000_events_none_is_skipped_or_repeated(database_url: str) -> None:
    await _prove(database_url, each=100_000 // WRITERS)


async def test_a_deleted_partners_events_are_deleted_although_they_are_being_numbered(database_url: str):
    earlier, partner_id = clock.new_id(), clock.new_id()
    async with Database.open(database_url, busy_timeout=PATIENT, pool_timeout=PATIENT) as db:

        async def write(of_partner: UUID) -> None:
            async with db.write() as tx:
                write_event(tx, of_partner, store_id=clock.new_id())

        async def delete(of_partner: UUID) -> None:
            async with db.write() as tx:
                await delete_of_partner(tx, of_partner, limit=500)

        await write(earlier)
        async with db.write() as tx:
            await number(tx, now=clock.now())
        await delete(earlier)
        await write(partner_id)
        async with db.write() as tx:
            await number(tx, now=clock.now())
            deleting = asyncio.create_task(delete(partner_id))
            await asyncio.sleep(0.1)
        await deleting
        async with db.read() as read:
            for name in ("events", "new_events", "event_positions", "store_sequences"):
                assert await read.all(select(getattr(tables, name))) == [], name
