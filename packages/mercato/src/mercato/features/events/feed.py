"""What partners read: their events, and the stores that have changed, each after a cursor.

Requests may wait for something new. They are bounded, and woken by what any process numbers.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct
from sqlalchemy import ColumnElement, ScalarSelect, Select, bindparam, or_, select

from mercato.features.compression import decompress
from mercato.features.events.cursors import CursorExpired, Cursors
from mercato.features.events.log import ALL_KINDS
from mercato.features.events.sequencer import FeedKey, FeedOfStore, Numbered
from mercato.features.events.tables import STATE_ID, event_positions, events, orders, sequencer, store_changes
from mercato.features.partners.model import Caller
from mercato.platform.db.engine import AnyRow, Database, Read
from mercato.platform.db.errors import is_unavailable
from mercato.platform.db.statements import prepared
from mercato_contract.clock import to_ms
from mercato_contract.decoding.decode import end_page
from mercato_contract.events import EVENTS, NOT_IN_FEEDS, Envelope
from mercato_contract.feeds import (
    EventPage,
    EventsQuery,
    FeedEvent,
    FeedQuery,
    StoreChange,
    StoreChangeKind,
    StoreChangePage,
)
from mercato_contract.refusals import ValidationFailed
from mercato_contract.texts import shown
from mercato_contract.wire import rfc3339

log = structlog.get_logger("mercato.events")

P = TypeVar("P", EventPage, StoreChangePage)


# --- waiting ----------------------------------------------------------------------------------------------

PER_PARTNER: Final = 16
"""Requests of one partner that may wait in a process at a time; the others are answered at once."""

IN_ALL: Final = 1_000

POLL_SECONDS: Final = 0.03
"""While requests wait, how often a process looks for what others have numbered."""

UNAVAILABLE_SECONDS: Final = 1.0

_MANY: Final = 200
"""New events whose feeds are looked up; if there are more, all waiting requests read their feeds."""

_LAST: Final = prepared(select(sequencer.c.last).where(sequencer.c.id == STATE_ID))
_FEEDS: Final = prepared(
    select(event_positions.c.partner_id, event_positions.c.surface, event_positions.c.store_id)
    .where(event_positions.c.position > bindparam("after"))
    .order_by(event_positions.c.position)
    .limit(_MANY)
)
_ANY_CHANGE: Final = prepared(
    select(store_changes.c.position).where(store_changes.c.position > bindparam("after")).limit(1)
)


class Waiters:
    """The requests that wait in this process, by feed: a partner's events, or None for the changes of stores.

    A request that waits for the events of one store, as a board does, isn't woken for those of another.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[FeedKey | None, dict[asyncio.Event, UUID | None]] = defaultdict(dict)
        self._readers: Counter[UUID] = Counter()
        self._someone = asyncio.Event()
        self.is_closed = False

    @contextmanager
    def waiting(
        self, reader: UUID, feed: FeedKey | None, *, store_id: UUID | None = None, most: int = PER_PARTNER
    ) -> Iterator[asyncio.Event | None]:
        """Yield an event that is set when the feed has something new; None if too many wait already.

        With `store_id`, only what isn't about another store sets it.

        At most `most` requests of a reader wait, who is a partner, or a session of the console.
        """
        if self.is_closed or self._readers[reader] >= most or self.count >= IN_ALL:
            yield None
            return
        woken = asyncio.Event()
        self._waiting[feed][woken] = store_id
        self._readers[reader] += 1
        self._someone.set()
        try:
            yield woken
        finally:
            del self._waiting[feed][woken]
            if not self._waiting[feed]:
                del self._waiting[feed]
            self._readers -= Counter({reader: 1})
            if not self._readers:
                self._someone.clear()

    @property
    def count(self) -> int:
        """How many requests wait."""
        return self._readers.total()

    def wake(self, numbered: Numbered) -> None:
        """Wake those whose feeds have something new."""
        for feed, store_id in numbered.feeds:
            self._wake(feed, store_id)
        if numbered.stores:
            self._wake(None)

    def close(self) -> None:
        """Answer all waiting requests, and let none wait from now on: the process is stopping."""
        self.is_closed = True
        self._wake_all()

    async def run(self) -> None:
        """Wake for what other processes number, until cancelled."""
        seen = 0
        while True:
            await self._someone.wait()
            try:
                seen = await self._look(after=seen)
            except Exception as error:  # the waiting requests end by their own timeout
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
            stores = await tx.scalar(_ANY_CHANGE, {"after": after}) is not None
        if len(rows) == _MANY:
            self._wake_all()
        else:
            feeds = frozenset(FeedOfStore(FeedKey(row.partner_id, row.surface), row.store_id) for row in rows)
            self.wake(Numbered(feeds, stores, is_full=False))
        return last

    def _wake_all(self) -> None:
        for feed in tuple(self._waiting):
            self._wake(feed)

    def _wake(self, feed: FeedKey | None, store_id: UUID | None = None) -> None:
        for woken, wanted in self._waiting.get(feed, {}).items():
            if store_id is None or wanted in {None, store_id}:
                woken.set()


# --- pages ------------------------------------------------------------------------------------------------


SCANNED: Final = 5_000
"""Positions that one page with a filter looks at. It may find none and still name a cursor beyond them."""

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of events after which a page ends: everybody waits while one is made, and 500 large orders would be 100 MB."""

TYPES: Final = tuple(
    sorted({type_ for event in EVENTS if event.to != "Operator" for type_ in event.types} - NOT_IN_FEEDS)
)
"""What partners' feeds can have. Operators' events go to their endpoints alone."""

_STORES: Final = "stores"

_p = event_positions.c
_AFTER: Final = (
    _p.partner_id == bindparam("partner_id"),
    _p.surface == bindparam("surface"),
    _p.position > bindparam("after"),
)
_s = store_changes.c


def _newest(*conditions: ColumnElement[bool], of: Any) -> ScalarSelect[datetime]:
    """Return when the newest entry of a table got its place, or, of a store, changed."""
    newest: Select[tuple[datetime]] = select(of.at).where(*conditions).order_by(of.position.desc()).limit(1)
    return newest.scalar_subquery()


_STATE: Final = prepared(
    select(
        *(sequencer.c.last, sequencer.c.events_deleted_to, sequencer.c.stores_deleted_to),
        *(_newest(of=table).label(f"newest_{name}") for name, table in (("event", _p), ("change", _s))),
        *(
            _newest(table.position <= bindparam("after"), of=table).label(f"passed_{name}")
            for name, table in (("event", _p), ("change", _s))
        ),
    ).where(sequencer.c.id == STATE_ID)
)

_SKEW: Final = timedelta(minutes=1)
"""By how much the clocks of processes may differ, and a change may be older than its position."""

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
_CHANGES: Final = (
    select(store_changes)
    .where(
        _s.position > bindparam("after"),
        or_(_s.is_gone.is_(False), _s.position > bindparam("seen_none_to")),
    )
    .order_by(_s.position)
)


_decode_envelope: Final = msgspec.json.Decoder(Envelope).decode


class _State(NamedTuple):
    """Until the first event, everything is 0.

    The times are those of the newest event and change of a store, and of the newest up to a cursor.
    """

    last: int = 0
    events_deleted_to: int = 0
    stores_deleted_to: int = 0
    newest_event: datetime | None = None
    newest_change: datetime | None = None
    passed_event: datetime | None = None
    passed_change: datetime | None = None

    @property
    def mark(self) -> int:
        """What a cursor remembers of when it was written, in milliseconds: the time of what is newest.

        Or of what it has passed, if a clock was ahead then.
        """
        times = (self.newest_event, self.newest_change, self.passed_event, self.passed_change)
        return max((to_ms(at) for at in times if at is not None), default=0)

    def is_another(self, position: int, marks: Sequence[int]) -> bool:
        """Return whether a cursor is of another past than this: an older copy of the database was restored since.

        Then its position is beyond everything; or, once as much has happened again, something up to it is newer than
        all was when it was written. `marks` is empty for a cursor of an earlier version.
        """
        if position > self.last:
            return True
        passed = (self.passed_event, self.passed_change)
        return bool(marks) and any(at is not None and to_ms(at - _SKEW) > marks[0] for at in passed)


class _Reading(NamedTuple):
    """Where a reader of the changed stores is.

    A store that changes again moves to the end of the list, past pages that were read. So until a page is the last one,
    its kinds are those since the reading began: `since`. A reader that began at nothing has seen no store that was gone
    by `seen_none_to`, and none of those is listed for it.
    """

    position: int
    since: int
    seen_none_to: int


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
        return await self._held(caller.partner_id, feed, query, read, _has_events, store_id=query.store_id)

    async def find_end(self, tx: Read, caller: Caller) -> str:
        """Return the cursor after the caller's last event: what is committed later than the read comes after it."""
        feed = FeedKey(caller.partner_id, caller.surface)
        state = await _state(tx)
        return self.cursors.write(state.last, state.mark, feed=_name(feed))

    async def has_events(self, caller: Caller, query: EventsQuery, *, reader: UUID, most: int) -> bool:
        """Return whether there are events after the cursor, once there are or `wait` is over. Raises as `read_events`.

        At most `most` requests of this reader wait, whatever the partner's programs do; others are answered at once.
        """
        feed = FeedKey(caller.partner_id, caller.surface)
        read = partial(self._read_events, feed=feed, query=query, types=_types(query.types))
        page = await self._held(reader, feed, query, read, _has_events, store_id=query.store_id, most=most)
        return _has_events(page)

    async def read_changes(self, caller: Caller, query: FeedQuery) -> StoreChangePage:
        """Return the stores that have changed for storefronts. Raises InvalidCursor, CursorExpired."""
        read = partial(self._read_changes, query=query)
        return await self._held(
            caller.partner_id, None, query, read, lambda page: bool(page.changes) or page.has_more
        )

    async def _held(
        self,
        reader: UUID,
        feed: FeedKey | None,
        query: FeedQuery,
        read: Callable[[Read], Awaitable[P]],
        has_news: Callable[[P], bool],
        *,
        store_id: UUID | None = None,
        most: int = PER_PARTNER,
    ) -> P:
        """Return the page, if it has news or `wait` is over. No connection of the database is held meanwhile."""
        if not query.wait:
            return await self._page(read)
        # Before the first read: what is numbered after it must wake this request.
        with self.waiters.waiting(reader, feed, store_id=store_id, most=most) as woken:
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
        name = _name(feed)
        after, *marks = (0,) if query.after is None else self.cursors.read(query.after, feed=name)
        state = await _state(tx, after)
        if query.after is not None:
            if after < state.events_deleted_to:
                raise CursorExpired("Events")
            if state.is_another(after, marks):
                # What has these numbers now is new to the reader.
                raise CursorExpired("Events", is_gone=True)
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
        bodies = ((row, decompress(row.body, base=row.content)) for row in rows)
        page, is_full = end_page(bodies, query.limit, lambda event: len(event[1]), most=MAX_PAGE_BYTES)
        following = page[-1][0].position if is_full else max(after, upto)
        return EventPage(
            events=[_event(row, body) for row, body in page],
            next_cursor=self.cursors.write(following, await _mark(tx, state, following), feed=name),
            has_more=is_full or not scanned_all,
        )

    async def _read_changes(self, tx: Read, *, query: FeedQuery) -> StoreChangePage:
        positions = None if query.after is None else self.cursors.read(query.after, feed=_STORES)
        state = await _state(tx, positions[0] if positions else 0)
        begun = _reading(positions, state)
        rows = await tx.all(
            _CHANGES.limit(query.limit + 1), {"after": begun.position, "seen_none_to": begun.seen_none_to}
        )
        page, is_full = end_page(rows, query.limit)
        changes = [_change(row, begun.since) for row in page]
        if is_full:
            begun = begun._replace(position=page[-1].position)
        else:
            # What was numbered after the state was read is on the page, and all that comes before it.
            end = max(begun.position, state.last, *(row.position for row in page[-1:]))
            begun = _Reading(end, since=end, seen_none_to=end)
        return StoreChangePage(
            changes=changes,
            next_cursor=self.cursors.write(*begun, await _mark(tx, state, begun.position), feed=_STORES),
            has_more=is_full,
        )


def _reading(positions: Sequence[int] | None, state: _State) -> _Reading:
    """Return where the reader is whose cursor has these positions. Raises CursorExpired."""
    if positions is None:
        return _Reading(position=0, since=0, seen_none_to=state.last)
    size = len(_Reading._fields)
    begun = _Reading(*positions[:size]) if len(positions) >= size else _Reading(*[positions[0]] * size)
    if max(begun.position, begun.seen_none_to) < state.stores_deleted_to:
        raise CursorExpired("Changes of stores")
    if state.is_another(begun.position, positions[size : size + 1]):
        raise CursorExpired("Changes of stores", is_gone=True)
    return begun


def _name(feed: FeedKey) -> str:
    """Return the name of a partner's feed, with which its cursors are signed."""
    return f"{feed.partner_id}.{feed.surface}"


def _has_events(page: EventPage) -> bool:
    return bool(page.events) or page.has_more


async def _state(tx: Read, after: int = 0) -> _State:
    row = await tx.first(_STATE, {"after": after})
    return _State() if row is None else _State(*row)


async def _mark(tx: Read, state: _State, position: int) -> int:
    """Return the mark of a cursor that is written for the position: at the end it has passed what is newest."""
    return state.mark if position >= state.last else (await _state(tx, position)).mark


def _types(text: str | None) -> tuple[str, ...]:
    """Return the types that a request names. Raises ValidationFailed."""
    if text is None:
        return ()
    named = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in named:
        if name not in TYPES:
            raise ValidationFailed.at(None, f"types names {shown(name)}. The feed has {', '.join(TYPES)}.")
    return named


def _event(row: AnyRow, body: bytes) -> FeedEvent:
    envelope = _decode_envelope(body)
    return FeedEvent(
        event_id=row.event_id,
        type=row.type,
        timestamp=envelope.timestamp,
        store_id=row.store_id,
        store_sequence=row.store_sequence,
        data=envelope.data,
    )


def _change(row: AnyRow, since: int) -> StoreChange:
    kinds = (
        [StoreChangeKind.GONE] if row.is_gone else [kind for kind in ALL_KINDS if getattr(row, kind) > since]
    )
    return StoreChange(store_id=row.store_id, at=rfc3339(row.at), kinds=kinds)
