"""Assigns positions to what was committed, so that a reader who goes on after a position never misses one before it.

Ids and sequences are assigned before commits, so they don't tell in which order rows become visible. Here one process
at a time takes what it sees committed and numbers it, under the lock of one row until its own commit: a position is
visible only after all that are smaller.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Final, NamedTuple
from uuid import UUID

import structlog
from sqlalchemy import (
    ColumnElement,
    Insert,
    Integer,
    Text,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    or_,
    select,
)

from mercato.features.events.log import ALL_KINDS, WRITTEN
from mercato.features.events.tables import (
    STATE_ID,
    event_positions,
    events,
    new_events,
    new_store_changes,
    sequencer,
    store_changes,
    store_sequences,
)
from mercato.platform.db.engine import AnyRow, Database, Write
from mercato.platform.db.errors import repeat
from mercato.platform.db.statements import conflicting_insert, prepared, prepared_update
from mercato.platform.db.types import Dialect, Id
from mercato_contract.clock import Clock
from mercato_contract.feeds import StoreChangeKind

log = structlog.get_logger("mercato.events")

BATCH: Final = 500
"""Events, and changes of stores, that one transaction numbers."""

POLL_SECONDS: Final = 0.5
"""How often a process looks for what another one committed and didn't number: a command, or one that was killed."""

REST_SECONDS: Final = 0.03
"""After a transaction, so that under load one numbers the events of many commits, and a run sends several of the
deliveries that it enqueued. The first of them doesn't wait."""

_LOCK: Final = prepared(select(sequencer.c.last).where(sequencer.c.id == STATE_ID).with_for_update())
_BATCH: Final[ColumnElement[int]] = literal_column(str(BATCH))
_n = new_events.c
_NEW_EVENTS: Final = prepared(
    select(
        *(_n.number, _n.event_id, _n.partner_id, _n.surface, _n.store_id, _n.traceparent),
        *(events.c.type, events.c.order_id),
    )
    .join(events, events.c.id == _n.event_id, isouter=True)
    .order_by(_n.number)
    .limit(_BATCH)
)
_NEW_CHANGES: Final = prepared(select(new_store_changes).order_by(new_store_changes.c.number).limit(_BATCH))
_IS_ANY_LEFT: Final = prepared(
    select(or_(exists(select(new_events.c.number)), exists(select(new_store_changes.c.number))))
)
_PARTNER: Final = bindparam("partner", type_=Id)
_SURFACE: Final = bindparam("audience", type_=Text)
_STORE: Final = bindparam("store", type_=Id)
_SEQUENCE: Final = (
    select(store_sequences.c.last)
    .where(
        store_sequences.c.partner_id == _PARTNER,
        store_sequences.c.surface == _SURFACE,
        store_sequences.c.store_id == _STORE,
    )
    .scalar_subquery()
)
_INSERT_POSITION: Final = prepared(
    insert(event_positions).values(
        partner_id=_PARTNER,
        surface=_SURFACE,
        position=bindparam("number"),
        event_id=bindparam("event"),
        store_id=_STORE,
        # So many of the store's events in this transaction come later. NULL without a store.
        store_sequence=_SEQUENCE - bindparam("later", type_=Integer),
        at=bindparam("now"),
    )
)
_DELETE_EVENT: Final = prepared(delete(new_events).where(new_events.c.number == bindparam("where_number")))
_DELETE_CHANGE: Final = prepared(
    delete(new_store_changes).where(new_store_changes.c.number == bindparam("where_number"))
)
_SET_LAST: Final = prepared_update(sequencer, "last", where=(sequencer.c.id == bindparam("where_id"),))


def _count_events(dialect: Dialect) -> Insert:
    new = conflicting_insert(store_sequences, dialect).values(
        {column.name: bindparam(column.name) for column in store_sequences.c}
    )
    counted: Insert = new.on_conflict_do_update(
        index_elements=["partner_id", "surface", "store_id"],
        set_={"last": store_sequences.c.last + new.excluded.last},
    )
    return prepared(counted)


_COUNT_EVENTS: Final[dict[Dialect, Insert]] = {
    dialect: _count_events(dialect) for dialect in ("sqlite", "postgresql")
}


class FeedKey(NamedTuple):
    """Whose feed."""

    partner_id: UUID
    surface: str


class FeedOfStore(NamedTuple):
    """The events of a store in a feed; of None those that are about no store."""

    feed: FeedKey
    store_id: UUID | None


class Numbered(NamedTuple):
    """What one transaction numbered: the feeds that have new events, whether stores changed, and if there is more."""

    feeds: frozenset[FeedOfStore]
    stores: bool
    is_full: bool


class WrittenEvent(NamedTuple):
    """An event that gets a position. `number` is that of its row; `type` is None if its partner is being deleted."""

    number: int
    event_id: UUID
    partner_id: UUID
    surface: str
    store_id: UUID | None
    traceparent: str | None
    type: str | None
    order_id: UUID | None


FanOut = Callable[[Write, Sequence[WrittenEvent], int, datetime], Awaitable[None]]
"""Enqueues the deliveries of the events that a transaction numbers.

Gets the events in their order, the position before them, and the time.
"""


class Sequencer:
    """Numbers what this process commits at once, and what others left within a second."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        on_numbered: Callable[[Numbered], None],
        *,
        fan_out: FanOut | None = None,
    ) -> None:
        self._db = db
        self._fan_out = fan_out
        self._clock = clock
        self._on_numbered = on_numbered
        self._written = asyncio.Event()
        db.signals.listen(WRITTEN, lambda _value: self._written.set())

    async def run(self) -> None:
        """Number until cancelled. While the database is unavailable, it tries again."""
        await repeat(
            self._number_new,
            seconds=POLL_SECONDS,
            pause=self._wait,
            log=log,
            unavailable="the events feed waits for the database",
            bug="bug in the events feed",
        )

    async def _number_new(self) -> None:
        if self._written.is_set() or await self._is_any_left():
            await self.number_all()
            await asyncio.sleep(REST_SECONDS)

    async def _wait(self, seconds: float) -> None:
        """Wait for a commit of this process, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._written.wait()

    async def _is_any_left(self) -> bool:
        """Return whether there is something to number. An idle database is only read."""
        async with self._db.read() as tx:
            return bool(await tx.scalar(_IS_ANY_LEFT))

    async def number_all(self) -> None:
        """Number everything that is committed now."""
        # Before anything is read: what is committed from now on sets it again.
        self._written.clear()
        is_full = True
        while is_full:
            async with self._db.write() as tx:
                numbered = await number(tx, now=self._clock(), fan_out=self._fan_out)
            self._on_numbered(numbered)
            is_full = numbered.is_full


async def number(tx: Write, *, now: datetime, fan_out: FanOut | None = None) -> Numbered:
    """Assign positions to at most BATCH events and BATCH changes of stores, oldest first.

    `fan_out` runs in the same transaction, so that every event is fanned out once, whatever is killed when.
    """
    last = await _lock(tx)
    # After the lock, so that each statement sees what the holder before has committed.
    written = [WrittenEvent(*row) for row in await tx.all(_NEW_EVENTS)]
    changed = await tx.all(_NEW_CHANGES)
    position = last
    if written:
        position = await _number_events(tx, written, after=position, now=now)
        if fan_out is not None:
            await fan_out(tx, written, last, now)
    if changed:
        position = await _number_changes(tx, changed, after=position)
    if position != last:
        await tx.execute(_SET_LAST, {"where_id": STATE_ID, "last": position})
    return Numbered(
        feeds=frozenset(FeedOfStore(FeedKey(row.partner_id, row.surface), row.store_id) for row in written),
        stores=bool(changed),
        is_full=len(written) == BATCH or len(changed) == BATCH,
    )


async def _lock(tx: Write) -> int:
    """Return the last position; from now on no other process assigns any until this transaction ends."""
    last: int | None = await tx.scalar(_LOCK)
    if last is None:
        first = {"id": STATE_ID, "last": 0, "events_deleted_to": 0, "stores_deleted_to": 0}
        insert = conflicting_insert(sequencer, tx.dialect)
        await tx.execute(insert.values(first).on_conflict_do_nothing())
        last = await tx.scalar(_LOCK)
        assert last is not None
    return last


async def _number_events(tx: Write, written: Sequence[WrittenEvent], *, after: int, now: datetime) -> int:
    later = Counter(_sequence_key(row) for row in written if row.store_id is not None)
    if later:
        counts = [
            {"partner_id": partner_id, "surface": surface, "store_id": store_id, "last": count}
            for (partner_id, surface, store_id), count in later.items()
        ]
        await tx.execute(_COUNT_EVENTS[tx.dialect], counts)
    rows = []
    for position, row in enumerate(written, start=after + 1):
        later[_sequence_key(row)] -= 1
        rows.append(
            {
                "partner": row.partner_id,
                "audience": row.surface,
                "number": position,
                "event": row.event_id,
                "store": row.store_id,
                "later": later[_sequence_key(row)],
                "now": now,
            }
        )
    await tx.execute(_INSERT_POSITION, rows)
    await tx.execute(_DELETE_EVENT, [{"where_number": row.number} for row in written])
    return after + len(written)


def _sequence_key(row: WrittenEvent) -> tuple[UUID, str, UUID | None]:
    """Return what counts an event of a store: the event's partner and surface, and the store."""
    return row.partner_id, row.surface, row.store_id


class _Mark(NamedTuple):
    """What changed of a store. `is_gone` is None if that stays as it is: a store that is gone may still be changed."""

    position: int
    at: datetime
    is_gone: bool | None
    kinds: frozenset[str]


async def _number_changes(tx: Write, changed: Sequence[AnyRow], *, after: int) -> int:
    marks: dict[UUID, _Mark] = {}
    for position, row in enumerate(changed, start=after + 1):
        kinds = frozenset(row.kinds.split(","))
        is_gone = True if StoreChangeKind.GONE in kinds else False if kinds.issuperset(ALL_KINDS) else None
        before = marks.pop(row.store_id, None)
        if before is not None:
            kinds |= before.kinds
            is_gone = before.is_gone if is_gone is None else is_gone
        marks[row.store_id] = _Mark(position, row.at, is_gone, kinds)
    for store_id, mark in marks.items():
        await _mark(tx, store_id, mark)
    await tx.execute(_DELETE_CHANGE, [{"where_number": row.number} for row in changed])
    return after + len(changed)


async def _mark(tx: Write, store_id: UUID, mark: _Mark) -> None:
    changes = [kind for kind in ALL_KINDS if kind in mark.kinds]
    marked: dict[str, object] = {"store_id": store_id, "position": mark.position, "at": mark.at}
    marked |= {str(kind): mark.position if kind in changes else 0 for kind in ALL_KINDS}
    marked["is_gone"] = bool(mark.is_gone)
    await tx.execute(_mark_of(tx.dialect, *changes, *([] if mark.is_gone is None else ["is_gone"])), marked)


@cache
def _mark_of(dialect: Dialect, *changes: str) -> Insert:
    """Return the statement that marks a store with these changes, of which there are few combinations."""
    new = conflicting_insert(store_changes, dialect).values(
        {column.name: bindparam(column.name) for column in store_changes.c}
    )
    marked: Insert = new.on_conflict_do_update(
        index_elements=["store_id"],
        set_={name: new.excluded[name] for name in ("position", "at", *changes)},
    )
    return prepared(marked)
