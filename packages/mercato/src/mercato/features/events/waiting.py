"""Requests that wait for something new in a feed: bounded, and woken by what any process numbers."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import structlog
from sqlalchemy import bindparam, select

from mercato.features.events.sequencer import STATE_ID, FeedKey, Numbered
from mercato.features.events.tables import event_positions, sequencer, store_changes
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import is_unavailable
from mercato.platform.db.statements import prepared

log = structlog.get_logger("mercato.events")

PER_PARTNER: Final = 16
"""Requests of one partner that may wait in a process at a time; the others are answered at once."""

IN_ALL: Final = 1_000

POLL_SECONDS: Final = 0.03
"""While requests wait, how often a process looks for what others have numbered."""

UNAVAILABLE_SECONDS: Final = 1.0

_MANY: Final = 200
"""New events whose feeds are looked up; for more, all who wait look for themselves."""

_LAST: Final = prepared(select(sequencer.c.last).where(sequencer.c.id == STATE_ID))
_FEEDS: Final = prepared(
    select(event_positions.c.partner_id, event_positions.c.surface)
    .where(event_positions.c.position > bindparam("after"))
    .order_by(event_positions.c.position)
    .limit(_MANY)
)
_STORES: Final = prepared(
    select(store_changes.c.position).where(store_changes.c.position > bindparam("after")).limit(1)
)


class Waiters:
    """Who waits in this process, and for which feed: a partner's events, or None for the changes of stores."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[FeedKey | None, set[asyncio.Event]] = defaultdict(set)
        self._partners: Counter[UUID] = Counter()
        self._someone = asyncio.Event()
        self.is_closed = False

    @contextmanager
    def waiting(self, partner_id: UUID, feed: FeedKey | None) -> Iterator[asyncio.Event | None]:
        """Yield an event that is set when the feed has something new; None if too many wait already."""
        if self.is_closed or self._partners[partner_id] >= PER_PARTNER or self.count >= IN_ALL:
            yield None
            return
        woken = asyncio.Event()
        self._waiting[feed].add(woken)
        self._partners[partner_id] += 1
        self._someone.set()
        try:
            yield woken
        finally:
            self._waiting[feed].discard(woken)
            if not self._waiting[feed]:
                del self._waiting[feed]
            self._partners -= Counter({partner_id: 1})
            if not self._partners:
                self._someone.clear()

    @property
    def count(self) -> int:
        """How many requests wait."""
        return self._partners.total()

    def wake(self, numbered: Numbered) -> None:
        """Wake those whose feeds have something new."""
        for feed in numbered.feeds:
            self._wake(feed)
        if numbered.stores:
            self._wake(None)

    def close(self) -> None:
        """Answer everybody who waits, and let nobody wait from now on: the process is stopping."""
        self.is_closed = True
        self._wake_all()

    async def run(self) -> None:
        """Wake for what other processes number, until cancelled."""
        seen = 0
        while True:
            await self._someone.wait()
            try:
                seen = await self._look(after=seen)
            except Exception as error:  # those who wait end by their own time
                if not is_unavailable(error):
                    log.exception("bug in the events feed")
                await asyncio.sleep(UNAVAILABLE_SECONDS)
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self, *, after: int) -> int:
        async with self._db.read() as tx:
            last = int(await tx.scalar(_LAST) or 0)
            if last == after:
                return last
            rows = await tx.all(_FEEDS, {"after": after})
            stores = await tx.scalar(_STORES, {"after": after}) is not None
        if len(rows) == _MANY:
            self._wake_all()
        else:
            feeds = frozenset(FeedKey(row.partner_id, row.surface) for row in rows)
            self.wake(Numbered(feeds, stores, is_full=False))
        return last

    def _wake_all(self) -> None:
        for feed in tuple(self._waiting):
            self._wake(feed)

    def _wake(self, feed: FeedKey | None) -> None:
        for woken in self._waiting.get(feed, ()):
            woken.set()
