"""The change feed: writers insert a row for each change, and every process polls them to invalidate its caches."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from sqlalchemy import ColumnElement, bindparam, delete, insert, or_, select

from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import repeat
from mercato.platform.db.health import find_incarnation
from mercato.platform.db.statements import prepared
from mercato.platform.db.tables import changes
from mercato.platform.db.types import now_ms

log = structlog.get_logger("mercato.db")

Callback = Callable[[str | None], None]
"""Called with the key of what changed, or with None if changes may have been missed: drop all entries."""

INTERVAL: Final = 0.5
"""Seconds between polls: a write reaches every process within a second."""

GAP_SECONDS: Final = 90.0
"""Seconds to wait for a missing number: a statement is ended after 30 and an idle transaction after 60."""

RETENTION: Final = 120.0
"""Seconds a row is kept. A late commit is still visible for RETENTION - GAP_SECONDS."""

MAX_POLL_AGE: Final = RETENTION - GAP_SECONDS
"""Seconds without a poll after which rows may have been inserted and deleted unseen."""

BATCH: Final = 500
"""Rows that one statement reads or deletes."""

MAX_GAPS: Final = 1_000
"""Missing numbers waited for at one time: more than the connections that can hold one."""

BEFORE_FIRST: Final = 100
"""Numbers below the oldest row at the start that may belong to open transactions."""

PRUNE_SECONDS: Final = 30.0
"""Seconds between searches for rows to delete."""

POLL_SECONDS: Final = 5.0
"""A poll that takes longer fails: a network that drops packets must not stop the feed for ever."""

_SIGNAL: Final = "changes"

_INSERT: Final = prepared(
    insert(changes)
    .values(topic=bindparam("topic"), key=bindparam("key"), at=now_ms())
    .returning(changes.c.seq)
)


async def announce(tx: Write, topic: str, key: str) -> None:
    """Notify the topic's subscribers: in this process after the commit, elsewhere within a second."""
    assert " " not in topic
    number = await tx.scalar(_INSERT, {"topic": topic, "key": key})
    change = f"{number} {topic} {key}"
    tx.after_commit(lambda: tx.database.signals.publish(_SIGNAL, change))


class ChangeFeed:
    """Calls back for the changes of all processes, by polling; for those of this process without delay.

    A callback may run twice for a change. `run()` continues while the database is unavailable; `age()` is how long.
    """

    def __init__(self, db: Database, *, interval: float = INTERVAL) -> None:
        self._db = db
        self._interval = interval
        self._subscribers: dict[str, list[Callback]] = defaultdict(list)
        self._stopping = asyncio.Event()
        # The greatest number seen; None until there is a row.
        self._high: int | None = None
        # Missing numbers below `_high`, and when to stop waiting for each: rolled back, or of a transaction that is
        # still open, because PostgreSQL assigns numbers before the commit.
        self._gaps: dict[int, float] = {}
        # Numbers that no poll has seen yet, whose callbacks have run: changes of this process.
        self._delivered: set[int] = set()
        self._last_success: tuple[float, float] | None = None
        # Of the last restart, and whether a poll has failed since the last that succeeded.
        self._server: str | None = None
        self._interrupted = False
        db.signals.listen(_SIGNAL, self._deliver_own)

    def subscribe(self, topic: str, callback: Callback) -> None:
        """Call back with the key of every change of the topic, or with None when any may have been missed."""
        self._subscribers[topic].append(callback)

    def age(self) -> float:
        """Return the seconds since a poll last succeeded: how old a cache entry's check may be.

        The greater one by two clocks: the monotonic clock stops while a machine is suspended.
        """
        if self._last_success is None:
            return float("inf")
        monotonic, wall = self._last_success
        return max(time.monotonic() - monotonic, time.time() - wall)

    async def run(self) -> None:
        """Poll, and delete old rows from time to time, until `stop()`."""
        # In two tasks, because a delete may wait for a busy writer and a poll must not.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self.poll, self._interval))
            group.create_task(self._repeat(self.prune, PRUNE_SECONDS))

    def stop(self) -> None:
        self._stopping.set()

    async def poll(self) -> None:
        """Call back for everything committed so far. Raises what the database raises."""
        began = time.monotonic(), time.time()
        was_interrupted, self._interrupted = self._interrupted, True
        async with asyncio.timeout(POLL_SECONDS):
            if self.age() > MAX_POLL_AGE or (was_interrupted and await self._is_elsewhere()):
                await self._restart()
            else:
                await self._read_new()
        self._interrupted = False
        self._last_success = began
        self._gaps = {number: until for number, until in self._gaps.items() if until > began[0]}

    async def _is_elsewhere(self) -> bool:
        """Return whether another server has become the primary: its numbers may begin again below those seen."""
        async with self._db.read() as tx:
            return await find_incarnation(tx) != self._server

    async def _restart(self) -> None:
        """Start anew: changes up to now may have been missed, so all entries are dropped."""
        newest = select(changes.c.seq).order_by(changes.c.seq.desc()).limit(MAX_GAPS)
        async with self._db.read() as tx:
            self._server = await find_incarnation(tx)
            present = {row.seq for row in await tx.all(newest)}
        self._high = None
        self._gaps.clear()
        self._delivered.clear()
        for number in sorted(present):
            self._step_to(number)
        for callbacks in self._subscribers.values():
            _call(callbacks, None)

    async def _read_new(self) -> None:
        columns = select(changes.c.seq, changes.c.topic, changes.c.key).order_by(changes.c.seq).limit(BATCH)
        found = BATCH
        while found == BATCH:
            async with self._db.read() as tx:
                rows = await tx.all(columns.where(self._unseen()))
            for row in rows:
                self._step_to(row.seq)
                if row.seq in self._delivered:
                    self._delivered.discard(row.seq)
                else:
                    _call(self._subscribers.get(row.topic, ()), row.key)
            found = len(rows)

    def _unseen(self) -> ColumnElement[bool]:
        newer = changes.c.seq > (self._high or 0)
        return or_(newer, changes.c.seq.in_(list(self._gaps))) if self._gaps else newer

    def _step_to(self, seq: int) -> None:
        """Record that a row has been seen, and which numbers before it are missing."""
        self._gaps.pop(seq, None)
        if self._high is not None and seq < self._high:
            return
        first = seq - BEFORE_FIRST if self._high is None else max(self._high + 1, seq - MAX_GAPS)
        self._gaps |= dict.fromkeys(range(max(first, 1), seq), time.monotonic() + GAP_SECONDS)
        for oldest in list(self._gaps)[: max(len(self._gaps) - MAX_GAPS, 0)]:
            del self._gaps[oldest]
        self._high = seq

    def _deliver_own(self, change: str) -> None:
        """Call back for a change that this process has just committed; the poll then skips it."""
        seq, topic, key = change.split(" ", 2)
        if self._is_unseen(int(seq)) and len(self._delivered) < MAX_GAPS:
            self._delivered.add(int(seq))
        _call(self._subscribers.get(topic, ()), key)

    def _is_unseen(self, seq: int) -> bool:
        return seq in self._gaps or seq > (self._high or 0)

    async def prune(self) -> None:
        """Delete old rows in small batches. Reads first: an idle database is not written to."""
        cutoff = now_ms() - int(RETENTION * 1000)
        oldest = select(changes.c.seq).order_by(changes.c.seq).limit(1)
        async with self._db.read() as tx:
            due = await tx.scalar(
                select(changes.c.seq).where(changes.c.seq.in_(oldest), changes.c.at < cutoff)
            )
        if due is None:
            return
        # Rows of another process's batch are skipped, without waiting.
        batch = select(changes.c.seq).order_by(changes.c.seq).limit(BATCH).with_for_update(skip_locked=True)
        statement = delete(changes).where(changes.c.seq.in_(batch), changes.c.at < cutoff)
        deleted = BATCH
        while deleted == BATCH:
            async with self._db.write() as tx:
                deleted = (await tx.execute(statement)).rowcount

    async def _repeat(self, action: Callable[[], Awaitable[None]], seconds: float) -> None:
        await repeat(
            action,
            seconds=seconds,
            pause=self._pause,
            log=log,
            unavailable="the change feed waits for the database",
            bug="bug in the change feed",
        )

    async def _pause(self, seconds: float) -> bool:
        """Return whether the feed is to end."""
        try:
            async with asyncio.timeout(seconds * random.uniform(0.9, 1.1)):  # noqa: S311  # spreads processes
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True


def _call(callbacks: Iterable[Callback], key: str | None) -> None:
    for callback in tuple(callbacks):
        try:
            callback(key)
        except Exception:  # one cache's bug must not affect the others
            log.exception("bug in a callback of the change feed")
