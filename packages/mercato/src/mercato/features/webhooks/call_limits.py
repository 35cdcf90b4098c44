"""When a store may be called: a circuit breaker for each address, and slots for concurrent calls. Without locks."""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

WINDOW: Final = 60
"""Whole seconds whose calls are counted."""

MIN_CALLS: Final = 10
"""With fewer calls the breaker stays closed."""

OPEN_SECONDS: Final = 10.0
"""Seconds without calls before a trial call."""

TRIAL_SECONDS: Final = 30.0
"""Seconds after which a trial without a result is lost, and another is made: longer than any call may take."""

Permit = int
"""Permission for one call, to be settled or given up."""

PER_STORE: Final = 20
"""Concurrent calls of one store."""

WAITING: Final = 100
"""Calls of one store that may wait for a slot; the next one is refused at once."""

TOTAL: Final = 1024
"""Concurrent calls of all stores: a connection and a file descriptor each."""

STORE_SHARE: Final = 4
"""A store gets at most this fraction of what its partner may still have, so that the other stores get slots."""


class Breaker:
    """Opens when half of the calls failed, of at least 10 within 60 s. After 10 s one trial call is admitted.

    Every `now` is in monotonic seconds. Memory is bounded: a pair of counts for each second.
    """

    __slots__ = ("_calls", "_closed", "_counts", "_epoch", "_failed", "_until")

    def __init__(self) -> None:
        # Second, calls, failures; oldest first.
        self._counts: deque[list[int]] = deque()
        self._calls = 0
        self._failed = 0
        self._closed = True
        # The end of the pause, or of the trial, while it isn't closed.
        self._until = 0.0
        # Results of calls that were admitted before the last change are ignored: their permits are of another epoch.
        self._epoch = 0

    @property
    def is_open(self) -> bool:
        """Return whether calls are stopped, or a trial is running."""
        return not self._closed

    def wait(self, now: float) -> float:
        """Return the seconds until a call may be admitted; 0 if one is admitted now."""
        return 0.0 if self._closed else max(self._until - now, 0.0)

    def admit(self, now: float) -> Permit | None:
        """Admit a call, or return None. The permit must be settled, or given up if the call has no result."""
        if not self._closed:
            if now < self._until:
                return None
            self._epoch += 1
            self._until = now + TRIAL_SECONDS
        return self._epoch

    def settle(self, permit: Permit, now: float, *, failed: bool) -> bool:
        """Record the result of a call. Return whether that opened or closed the breaker."""
        if permit != self._epoch:
            return False
        if not self._closed:
            return self._open(now) if failed else self._close()
        self._count(int(now), failed=failed)
        if self._calls >= MIN_CALLS and self._failed * 2 >= self._calls:
            return self._open(now)
        return False

    def give_up(self, permit: Permit, now: float) -> None:
        """Record that a call has no result. If it was the trial, the next call is one."""
        if permit == self._epoch and not self._closed:
            self._epoch += 1
            self._until = now

    def _open(self, now: float) -> bool:
        changed = self._closed
        self._closed = False
        self._until = now + OPEN_SECONDS
        self._reset()
        return changed

    def _close(self) -> bool:
        self._closed = True
        self._reset()
        return True

    def _reset(self) -> None:
        self._epoch += 1
        self._counts.clear()
        self._calls = self._failed = 0

    def _count(self, second: int, *, failed: bool) -> None:
        counts = self._counts
        while counts and counts[0][0] <= second - WINDOW:
            _, calls, failures = counts.popleft()
            self._calls -= calls
            self._failed -= failures
        if not counts or counts[-1][0] != second:
            counts.append([second, 0, 0])
        counts[-1][1] += 1
        counts[-1][2] += failed
        self._calls += 1
        self._failed += failed


class QueueFull(Exception):  # noqa: N818  # a state, not a bug
    """The store has as many waiting calls as allowed."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PartnerSlots:
    """A partner's running calls: at most half of the slots that it and all others leave, so a third of all."""

    running: int = 0


@dataclass(slots=True, eq=False)
class StoreSlots:
    """A store's running calls, and those that wait, oldest first."""

    partner: PartnerSlots = field(default_factory=PartnerSlots)
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting


class ConcurrencyLimiter:
    """Slots for calls on one event loop, without locks: only `acquire` waits."""

    def __init__(self, *, per_store: int = PER_STORE, waiting: int = WAITING, total: int = TOTAL) -> None:
        self._per_store = per_store
        self._waiting = waiting
        self._total = total
        self._running = 0
        # Stores with waiting calls that a free slot would help, in the order of their turns.
        self._blocked: OrderedDict[StoreSlots, None] = OrderedDict()

    async def acquire(self, store: StoreSlots, seconds: float) -> None:
        """Return when the call has a slot. Raises QueueFull at once, TimeoutError after that many seconds."""
        if not store.waiting and self._has_room(store):
            self._enter(store)
            return
        if len(store.waiting) >= self._waiting:
            raise QueueFull
        turn = asyncio.get_running_loop().create_future()
        store.waiting.append(turn)
        self._update_blocked(store)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # it got a slot in the moment in which it left
                self.release(store)
            elif turn in store.waiting:
                store.waiting.remove(turn)
                self._update_blocked(store)
            raise

    def release(self, store: StoreSlots) -> None:
        """Free the slot of a call, and start the next one."""
        store.running -= 1
        store.partner.running -= 1
        self._running -= 1
        self._update_blocked(store)
        for blocked in tuple(self._blocked):
            if self._has_room(blocked):
                self._start_waiting(blocked)

    def _has_room(self, store: StoreSlots) -> bool:
        # Limits that shrink with the free slots: the busier it is, the more of a slot goes to a store without one.
        room = (self._total - self._running + 1) // 2 - store.partner.running
        return room > 0 and store.running < min(self._per_store, max(room // STORE_SHARE, 1))

    def _enter(self, store: StoreSlots) -> None:
        store.running += 1
        store.partner.running += 1
        self._running += 1

    def _start_waiting(self, store: StoreSlots) -> None:
        """Start the store's waiting calls while there is room. Their slots count from now on."""
        while store.waiting and self._has_room(store):
            turn = store.waiting.popleft()
            if not turn.done():
                self._enter(store)
                turn.set_result(None)
        self._update_blocked(store)

    def _update_blocked(self, store: StoreSlots) -> None:
        """Move the store to the end of the blocked ones, or remove it."""
        if store.waiting and store.running < self._per_store:
            self._blocked[store] = None
            self._blocked.move_to_end(store)
        else:
            self._blocked.pop(store, None)
