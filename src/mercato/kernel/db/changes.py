"""How caches in every process hear of a write: a row in the writer's transaction, and a cheap poll for rows."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from sqlalchemy import ColumnElement, bindparam, delete, insert, or_, select

from mercato.kernel.db.clock import now_ms
from mercato.kernel.db.engine import Database, Write
from mercato.kernel.db.errors import is_unavailable
from mercato.kernel.db.statements import prepared
from mercato.kernel.db.tables import changes

log = structlog.get_logger("mercato.db")

Callback = Callable[[str | None], None]
"""Hears the key of what changed; None means that anything may have changed unheard: forget all."""

INTERVAL: Final = 0.5
"""Seconds between polls: a write is known everywhere within a second."""

PATIENCE: Final = 90.0
"""Seconds to wait for a missing number: a statement is ended after 30 and an idle transaction after 60."""

RETENTION: Final = 120.0
"""Seconds a row is kept. A late commit is still visible for RETENTION - PATIENCE."""

FORGET_ALL_AFTER: Final = RETENTION - PATIENCE
"""Seconds without a poll after which rows may have come and gone unseen."""

BATCH: Final = 500
"""Rows that one statement reads or deletes."""

MOST_GAPS: Final = 1_000
"""Missing numbers waited for at one time; more than the connections that can hold one."""

BEFORE_FIRST: Final = 100
"""Numbers below the oldest row seen at the start that may belong to transactions still open."""

PRUNE_SECONDS: Final = 30.0
"""Seconds between looks for rows to delete."""

MOST_PAUSE: Final = 4.0
"""Seconds at most between polls while the database is away."""

POLL_SECONDS: Final = 5.0
"""A poll that takes longer has failed: a network that swallows packets must not stop the feed for ever."""

_SIGNAL: Final = "changes"

_INSERT: Final = prepared(
    insert(changes)
    .values(topic=bindparam("topic"), key=bindparam("key"), at=now_ms())
    .returning(changes.c.seq)
)


async def announce(tx: Write, topic: str, key: str) -> None:
    """Tell all who subscribed to the topic: in this process once the commit is done, elsewhere within a second."""
    assert " " not in topic
    number = await tx.scalar(_INSERT, {"topic": topic, "key": key})
    word = f"{number} {topic} {key}"
    tx.after_commit(lambda: tx.database.signals.say(_SIGNAL, word))


class ChangeFeed:
    """Calls back for changes made anywhere, by polling; those of this process come without delay.

    A change may be heard twice. `run()` survives the database going away; `age()` says for how long.
    """

    def __init__(self, db: Database, *, interval: float = INTERVAL) -> None:
        self._db = db
        self._interval = interval
        self._subscribers: dict[str, list[Callback]] = defaultdict(list)
        self._stopping = asyncio.Event()
        # The greatest number seen; None until a row is.
        self._high: int | None = None
        # Numbers below `_high` that were not there, and when to stop waiting for each: rolled back, or of a
        # transaction that is still open, because PostgreSQL hands numbers out before it commits.
        self._gaps: dict[int, float] = {}
        # Numbers above `_high` that this process has already told of.
        self._told: set[int] = set()
        self._last_success: tuple[float, float] | None = None
        db.signals.listen(_SIGNAL, self._hear)

    def subscribe(self, topic: str, callback: Callback) -> None:
        """Call back with the key of every change of the topic, or with None when any may have been missed."""
        self._subscribers[topic].append(callback)

    def age(self) -> float:
        """Return the seconds since a poll last succeeded: how far behind others a cache may be.

        By the clock on the wall too, because the other one stands still while a machine sleeps.
        """
        if self._last_success is None:
            return float("inf")
        steady, wall = self._last_success
        return max(time.monotonic() - steady, time.time() - wall)

    async def run(self) -> None:
        """Poll, and now and then delete old rows, until `stop()`."""
        # Apart, because a delete may wait for a busy writer and a poll must not.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self.poll, self._interval))
            group.create_task(self._repeat(self.prune, PRUNE_SECONDS))

    def stop(self) -> None:
        self._stopping.set()

    async def poll(self) -> None:
        """Hear once of everything committed so far. Raises what the database raises."""
        began = time.monotonic(), time.time()
        async with asyncio.timeout(POLL_SECONDS):
            if self.age() > FORGET_ALL_AFTER:
                await self._start_afresh()
            else:
                await self._read_on()
        self._last_success = began
        self._gaps = {number: until for number, until in self._gaps.items() if until > began[0]}

    async def _start_afresh(self) -> None:
        """Take a new footing: all numbers from here on are heard, and what came before is unknown."""
        newest = select(changes.c.seq).order_by(changes.c.seq.desc()).limit(MOST_GAPS)
        async with self._db.read() as tx:
            present = {row.seq for row in await tx.all(newest)}
        self._high = None
        self._gaps.clear()
        self._told.clear()
        for number in sorted(present):
            self._step_to(number)
        for callbacks in self._subscribers.values():
            _call(callbacks, None)

    async def _read_on(self) -> None:
        columns = select(changes.c.seq, changes.c.topic, changes.c.key).order_by(changes.c.seq).limit(BATCH)
        found = BATCH
        while found == BATCH:
            async with self._db.read() as tx:
                rows = await tx.all(columns.where(self._unseen()))
            for row in rows:
                self._step_to(row.seq)
                if row.seq in self._told:
                    self._told.discard(row.seq)
                else:
                    _call(self._subscribers.get(row.topic, ()), row.key)
            found = len(rows)

    def _unseen(self) -> ColumnElement[bool]:
        newer = changes.c.seq > (self._high or 0)
        return or_(newer, changes.c.seq.in_(list(self._gaps))) if self._gaps else newer

    def _step_to(self, seq: int) -> None:
        """Note that a row has been seen, and which numbers before it have not."""
        self._gaps.pop(seq, None)
        if self._high is not None and seq < self._high:
            return
        first = seq - BEFORE_FIRST if self._high is None else max(self._high + 1, seq - MOST_GAPS)
        self._gaps |= dict.fromkeys(range(max(first, 1), seq), time.monotonic() + PATIENCE)
        for oldest in list(self._gaps)[: max(len(self._gaps) - MOST_GAPS, 0)]:
            del self._gaps[oldest]
        self._high = seq

    def _hear(self, word: str) -> None:
        """Tell of a change that this process has just committed, and remember not to tell of it twice."""
        seq, topic, key = word.split(" ", 2)
        if self._is_unseen(int(seq)) and len(self._told) < MOST_GAPS:
            self._told.add(int(seq))
        _call(self._subscribers.get(topic, ()), key)

    def _is_unseen(self, seq: int) -> bool:
        return seq in self._gaps or seq > (self._high or 0)

    async def prune(self) -> None:
        """Delete old rows in small batches; a look comes first, for a quiet database is not to be written to."""
        cutoff = now_ms() - int(RETENTION * 1000)
        oldest = select(changes.c.seq).order_by(changes.c.seq).limit(1)
        async with self._db.read() as tx:
            due = await tx.scalar(
                select(changes.c.seq).where(changes.c.seq.in_(oldest), changes.c.at < cutoff)
            )
        if due is None:
            return
        # Rows of another process's batch are skipped and not waited for.
        batch = select(changes.c.seq).order_by(changes.c.seq).limit(BATCH).with_for_update(skip_locked=True)
        statement = delete(changes).where(changes.c.seq.in_(batch), changes.c.at < cutoff)
        deleted = BATCH
        while deleted == BATCH:
            async with self._db.write() as tx:
                deleted = (await tx.execute(statement)).rowcount

    async def _repeat(self, action: Callable[[], Awaitable[None]], seconds: float) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                await action()
                failures = 0
            except Exception as error:  # noqa: BLE001  # reported; a feed that ends would leave caches stale
                failures += 1
                _report(error, failures)
            await self._pause(min(seconds * 2 ** min(failures, 3), max(seconds, MOST_PAUSE)))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds * random.uniform(0.9, 1.1)):  # noqa: S311  # spreads processes
                await self._stopping.wait()
        except TimeoutError:
            return


def _report(error: Exception, failures: int) -> None:
    """Log the first failure of a row: an outage is one line, not two a second."""
    if failures > 1:
        return
    if is_unavailable(error) or isinstance(error, TimeoutError):
        log.warning("change feed waits for the database", error=type(error).__name__)
    else:
        log.error("bug in the change feed", exc_info=error)


def _call(callbacks: Iterable[Callback], key: str | None) -> None:
    for callback in tuple(callbacks):
        try:
            callback(key)
        except Exception:  # one cache's bug must not keep the word from the others
            log.exception("bug in a listener for changes")
