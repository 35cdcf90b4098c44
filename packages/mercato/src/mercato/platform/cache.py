"""Keeps read values in memory: bounded by weight, least recently used evicted first, invalidated by the change feed."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from functools import partial
from time import monotonic
from typing import Final, Generic, TypeVar, TypeVarTuple

from msgspec import Struct

from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.errors import is_unavailable
from mercato.platform.telemetry import Lookups

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Ts = TypeVarTuple("Ts")

READ_ATTEMPTS: Final = 3
"""Reads of a value that a change may overtake; the result of the last one is returned but not kept."""


class _Entry(Struct, Generic[V]):
    value: V
    weight: int
    until: float | None  # in monotonic seconds; None if it doesn't age


class Cache(Generic[K, V]):
    """Values by key. A value that was read before a change of its key isn't kept after it.

    `capacity` bounds the sum of what `weigh` returns (1 for each value by default), but one value is always kept.
    A value older than `seconds` is read again. With `outage_pause`, such a value is returned while the database is
    unavailable, and the database is tried again at most once in that many seconds.

    Use integers for UUIDs as keys: a UUID hashes and compares in Python, an integer in C.
    """

    def __init__(
        self,
        *,
        capacity: int,
        weigh: Callable[[V], int] | None = None,
        seconds: float | None = None,
        outage_pause: float | None = None,
    ) -> None:
        self._capacity = capacity
        self._weigh = weigh
        self._seconds = seconds
        self._outage_pause = outage_pause
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._weight = 0
        self._reads: dict[K, asyncio.Task[V | None]] = {}
        # Incremented by every change: a value read before a change must not be kept after it.
        self._changes = 0
        self.lookups = Lookups()

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> Iterator[V]:
        """Return all values, outdated ones too."""
        return (entry.value for entry in self._entries.values())

    def find(self, key: K) -> V | None:
        """Return the value if it is in memory. Never waits."""
        entry = self._entries.get(key)
        if entry is None or (entry.until is not None and entry.until <= monotonic()):
            self.lookups.misses += 1
            return None
        self.lookups.hits += 1
        self._entries.move_to_end(key)
        return entry.value

    async def get(self, key: K, read: Callable[[*Ts], Awaitable[V | None]], *args: *Ts) -> V | None:
        """Return the value from memory, else what `read(*args)` returns: None if there is none, which isn't kept.

        A hit doesn't suspend the caller. Raises the errors of `read`.
        """
        # As `find`, without its call: every request gets several values.
        entry = self._entries.get(key)
        if entry is not None and (entry.until is None or entry.until > monotonic()):
            self.lookups.hits += 1
            self._entries.move_to_end(key)
            return entry.value
        self.lookups.misses += 1
        return await self.read_shared(key, read, *args)

    async def read_shared(self, key: K, read: Callable[[*Ts], Awaitable[V | None]], *args: *Ts) -> V | None:
        """Return what `read(*args)` returns, or the result of a read of the key that is under way.

        A caller that is cancelled doesn't cancel the read for the others.
        """
        task = self._reads.get(key)
        joined = task is not None
        if task is None:
            task = self._reads[key] = asyncio.create_task(self.refresh(key, read, *args))
            task.add_done_callback(partial(self._end, key))
        try:
            value = await asyncio.shield(task)
        except Exception as error:
            entry = self._entries.get(key)
            if entry is None or self._outage_pause is None or not is_unavailable(error):
                raise
            entry.until = monotonic() + self._outage_pause
            return entry.value
        # What didn't exist when the shared read began may exist by now.
        return await self.refresh(key, read, *args) if value is None and joined else value

    async def refresh(self, key: K, read: Callable[[*Ts], Awaitable[V | None]], *args: *Ts) -> V | None:
        """Return what `read(*args)` returns, with everything that was committed before this call, and keep it."""
        for _ in range(READ_ATTEMPTS):
            changes, began = self._changes, monotonic()
            value = await read(*args)
            if changes == self._changes:
                self._drop(key)
                if value is not None:
                    self._keep(key, value, began)
                break
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value that no change can have outdated."""
        self._drop(key)
        self._keep(key, value, monotonic())

    def forget(self, key: K) -> None:
        """Drop a value that has changed."""
        self._changes += 1
        self._drop(key)
        # A read that began before the change may return what was before it.
        self._reads.pop(key, None)

    def forget_if(self, outdated: Callable[[V], bool]) -> None:
        """Drop all values for which `outdated` returns true, and don't keep values that are being read."""
        self._changes += 1
        for key in [key for key, entry in self._entries.items() if outdated(entry.value)]:
            self._drop(key)
        self._reads.clear()

    def forget_all(self) -> None:
        """Read all values again, because any may have changed; what an outage may return stays for that."""
        self._changes += 1
        self._reads.clear()
        if self._outage_pause is None:
            self._entries.clear()
            self._weight = 0
        for entry in self._entries.values():
            entry.until = 0.0

    def follow(self, feed: ChangeFeed, topic: str, key_of: Callable[[str], K]) -> None:
        """Forget what the topic's changes outdate."""

        def forget(changed: str | None) -> None:
            if changed is None:
                self.forget_all()
            else:
                self.forget(key_of(changed))

        feed.subscribe(topic, forget)

    def _keep(self, key: K, value: V, at: float) -> None:
        until = None if self._seconds is None else at + self._seconds
        weight = 1 if self._weigh is None else self._weigh(value)
        self._entries[key] = _Entry(value, weight, until)
        self._weight += weight
        while self._weight > self._capacity and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._weight -= oldest.weight

    def _drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry.weight

    def _end(self, key: K, task: asyncio.Task[V | None]) -> None:
        if self._reads.get(key) is task:
            del self._reads[key]
        if not task.cancelled():
            task.exception()  # retrieved; those that await the task get it
