"""What partners read: their events, and the stores that have changed, each after a cursor."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import bindparam, select

from mercato.features.compression import decompress
from mercato.features.events.cursors import Cursors
from mercato.features.events.errors import CursorExpired
from mercato.features.events.log import ALL_KINDS
from mercato.features.events.sequencer import STATE_ID, FeedKey
from mercato.features.events.tables import event_positions, events, orders, sequencer, store_changes
from mercato.features.events.waiting import Waiters
from mercato.features.partners.model import Caller
from mercato.platform.db.engine import AnyRow, Database, Read
from mercato.platform.db.statements import prepared
from mercato.platform.errors import ValidationFailed
from mercato.platform.texts import shown
from mercato_contract.events import NOT_IN_FEEDS, EventType
from mercato_contract.feeds import (
    EventPage,
    EventsQuery,
    FeedEvent,
    FeedQuery,
    StoreChange,
    StoreChangeKind,
    StoreChangePage,
)
from mercato_contract.wire import Instant, Wire, rfc3339

P = TypeVar("P", EventPage, StoreChangePage)

SCANNED: Final = 5_000
"""Positions that one page with a filter looks at. It may find none and still name a cursor beyond them."""

TYPES: Final = tuple(sorted(type_ for type_ in EventType if type_ not in NOT_IN_FEEDS))
"""What the feed can have."""

_STORES: Final = "stores"

_p = event_positions.c
_AFTER: Final = (
    _p.partner_id == bindparam("partner_id"),
    _p.surface == bindparam("surface"),
    _p.position > bindparam("after"),
)
_STATE: Final = prepared(select(sequencer).where(sequencer.c.id == STATE_ID))
_WINDOW: Final = prepared(
    select(_p.position).where(*_AFTER).order_by(_p.position).offset(SCANNED - 1).limit(1)
)
_EVENTS: Final = (
    select(
        *(_p.position, _p.event_id, _p.store_id, _p.store_sequence),
        *(events.c.type, events.c.body, orders.c.content),
    )
    .join(events, events.c.id == _p.event_id)
    .join(orders, orders.c.id == events.c.order_id, isouter=True)
    .where(*_AFTER, _p.position <= bindparam("upto"))
    .order_by(_p.position)
)
_s = store_changes.c
_CHANGES: Final = (
    select(store_changes)
    .where(_s.position > bindparam("after"), _s.position <= bindparam("upto"))
    .order_by(_s.position)
)


class _Told(Wire):
    """What the feed repeats of an envelope."""

    timestamp: Instant
    data: msgspec.Raw


_told: Final = msgspec.json.Decoder(_Told)


class Feeds(Struct, frozen=True):
    """Reads pages, and holds those that would be empty for as long as their requests wish."""

    db: Database
    cursors: Cursors
    waiters: Waiters

    async def read_events(self, caller: Caller, query: EventsQuery) -> EventPage:
        """Return the caller's next events on this surface.

        Raises InvalidCursor, CursorExpired, and ValidationFailed for a type that doesn't exist.
        """
        feed = FeedKey(caller.partner_id, caller.surface)
        read = partial(self._read_events, feed=feed, query=query, types=_types(query.types))
        return await self._held(caller, feed, query, read, lambda page: bool(page.events) or page.has_more)

    async def read_changes(self, caller: Caller, query: FeedQuery) -> StoreChangePage:
        """Return the stores that have changed for storefronts. Raises InvalidCursor, CursorExpired."""
        read = partial(self._read_changes, query=query)
        return await self._held(caller, None, query, read, lambda page: bool(page.changes) or page.has_more)

    async def _held(
        self,
        caller: Caller,
        feed: FeedKey | None,
        query: FeedQuery,
        read: Callable[[Read], Awaitable[P]],
        has_news: Callable[[P], bool],
    ) -> P:
        """Return the page, if it has news or `wait` is over. No connection of the database is held meanwhile."""
        if not query.wait:
            return await self._page(read)
        # Before the first read: what is numbered after it must wake this request.
        with self.waiters.waiting(caller.partner_id, feed) as woken:
            page = await self._page(read)
            if woken is None:
                return page
            try:
                async with asyncio.timeout(query.wait):
                    while not has_news(page) and not self.waiters.is_closed:
                        await woken.wait()
                        woken.clear()
                        page = await self._page(read)
            except TimeoutError:
                pass  # the newest page says that there is nothing yet
        return page

    async def _page(self, read: Callable[[Read], Awaitable[P]]) -> P:
        async with self.db.read() as tx:
            return await read(tx)

    async def _read_events(
        self, tx: Read, *, feed: FeedKey, query: EventsQuery, types: tuple[str, ...]
    ) -> EventPage:
        name = f"{feed.partner_id}.{feed.surface}"
        state = await _state(tx)
        after = self._position(query.after, name, deleted_to=state.events_deleted_to, what="Events")
        # Read before the page: what is numbered meanwhile is for the next one.
        upto, scanned_all = state.last, True
        key = {"partner_id": feed.partner_id, "surface": feed.surface, "after": after}
        statement = _EVENTS
        if types or query.store_id is not None:
            window = await tx.scalar(_WINDOW, key)
            if window is not None and window < upto:
                upto, scanned_all = window, False
        if types:
            statement = statement.where(events.c.type.in_(types))
        if query.store_id is not None:
            statement = statement.where(_p.store_id == query.store_id)
        rows = await tx.all(statement.limit(query.limit + 1), {**key, "upto": upto})
        page, is_full = rows[: query.limit], len(rows) > query.limit
        following = page[-1].position if is_full else max(after, upto)
        return EventPage(
            events=[_event(row) for row in page],
            next_cursor=self.cursors.write(following, feed=name),
            has_more=is_full or not scanned_all,
        )

    async def _read_changes(self, tx: Read, *, query: FeedQuery) -> StoreChangePage:
        state = await _state(tx)
        after = self._position(
            query.after, _STORES, deleted_to=state.stores_deleted_to, what="Changes of stores"
        )
        statement = _CHANGES if after else _CHANGES.where(_s.is_gone.is_(False))
        rows = await tx.all(statement.limit(query.limit + 1), {"after": after, "upto": state.last})
        page, is_full = rows[: query.limit], len(rows) > query.limit
        following = page[-1].position if is_full else max(after, state.last)
        return StoreChangePage(
            changes=[_change(row, after) for row in page],
            next_cursor=self.cursors.write(following, feed=_STORES),
            has_more=is_full,
        )

    def _position(self, cursor: str | None, feed: str, *, deleted_to: int, what: str) -> int:
        if cursor is None:
            return 0
        position = self.cursors.read(cursor, feed=feed)
        if position < deleted_to:
            raise CursorExpired(what)
        return position


class _State(NamedTuple):
    """Until the first event, everything is 0."""

    last: int = 0
    events_deleted_to: int = 0
    stores_deleted_to: int = 0


async def _state(tx: Read) -> _State:
    row = await tx.first(_STATE)
    return _State() if row is None else _State(row.last, row.events_deleted_to, row.stores_deleted_to)


def _types(text: str | None) -> tuple[str, ...]:
    """Return the types that a request names. Raises ValidationFailed."""
    if text is None:
        return ()
    named = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in named:
        if name not in TYPES:
            raise ValidationFailed.at(None, f"types names {shown(name)}. The feed has {', '.join(TYPES)}.")
    return named


def _event(row: AnyRow) -> FeedEvent:
    told = _told.decode(decompress(row.body, base=row.content))
    return FeedEvent(
        event_id=row.event_id,
        type=row.type,
        timestamp=told.timestamp,
        store_id=row.store_id,
        store_sequence=row.store_sequence,
        data=told.data,
    )


def _change(row: AnyRow, after: int) -> StoreChange:
    kinds = (
        [StoreChangeKind.GONE] if row.is_gone else [kind for kind in ALL_KINDS if getattr(row, kind) > after]
    )
    return StoreChange(store_id=row.store_id, at=rfc3339(row.at), kinds=kinds)
