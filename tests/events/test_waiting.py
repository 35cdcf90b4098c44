"""Requests that wait for the events of one store are left alone by those of another."""

import asyncio
from contextlib import ExitStack
from uuid import UUID

import pytest
from tests.events.support import running_feeds, write_event
from tests.waiting import PATIENCE

from mercato.features.events.sequencer import FeedKey, number
from mercato.features.partners.model import Surface
from mercato.platform.db.engine import Database
from mercato_contract import clock


@pytest.mark.parametrize("works", [True, False], ids=["numbered here", "numbered elsewhere"])
async def test_an_event_wakes_those_who_wait_for_its_store_or_for_all_and_nobody_else(
    database_url: str, works: bool
):
    partner_id, store, other = (clock.new_id() for _ in range(3))
    feed = FeedKey(partner_id, Surface.MARKETFRONT)
    async with Database.open(database_url) as db, running_feeds(db, works=works) as feeds:
        waiting = feeds.waiters.waiting
        with ExitStack() as stack:
            of_store, of_other, of_all, of_nobody = (
                stack.enter_context(waiting(partner_id, feed, store_id=one))
                for one in (store, other, None, clock.new_id())
            )
            assert of_store is not None
            assert of_other is not None
            assert of_all is not None
            assert of_nobody is not None
            await _write(db, partner_id, store, works=works)
            async with asyncio.timeout(PATIENCE):
                await of_store.wait()
            assert (of_all.is_set(), of_other.is_set(), of_nobody.is_set()) == (True, False, False)
            # What is about no store may be about each.
            await _write(db, partner_id, None, works=works)
            async with asyncio.timeout(PATIENCE):
                await of_other.wait()
            assert of_nobody.is_set()


async def _write(db: Database, partner_id: UUID, store_id: UUID | None, *, works: bool) -> None:
    """Write an event, and number it as another process does if this one doesn't."""
    async with db.write() as tx:
        write_event(tx, partner_id, store_id=store_id)
    if not works:
        async with db.write() as tx:
            await number(tx, now=clock.now())
