"""Limits concurrent calls to stores: a few per store, and fewer for each when many hang."""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

PER_STORE: Final = 20
"""Concurrent calls of one store."""

WAITING: Final = 100
"""Calls of one store that may wait for a slot; the next one is refused at once."""

TOTAL: Final = 1024
"""Concurrent calls of all stores: a connection and a file descriptor each."""

STORE_SHARE: Final = 4
"""A store gets at most this fraction of what its partner may still have, so that the other stores get slots."""


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
