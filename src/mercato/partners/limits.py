"""Requests a minute: fixed windows in memory, for each partner and each kind of request."""

import time
from collections.abc import Callable
from typing import Final

import msgspec

from mercato.clock import Clock, now
from mercato.partners.model import Caller

WINDOW: Final = 60
"""Seconds: all partners' windows begin with the minute, so that turning the page forgets everybody at once."""

MOST_PARTNERS: Final = 100_000
"""Counters held of one kind. Past it those of the minute start anew: too generous for once, never too much memory."""


class Quota(msgspec.Struct, frozen=True, gc=False):
    """What is left to a partner in this window. `wait` seconds, if not None, refuse the request."""

    limit: int
    remaining: int
    reset: int
    wait: int | None = None


class Limiter:
    """Counts one process's requests; its share is the limit divided by the processes that serve.

    What it shows is the whole limit, and of the rest only the share that this process can promise.
    """

    def __init__(
        self,
        *,
        reads: int,
        writes: int,
        discovery: int,
        workers: int = 1,
        clock: Clock = now,
    ) -> None:
        self._limits: dict[str, int] = {"reads": reads, "writes": writes, "discovery": discovery}
        self._workers = workers
        # Whole seconds will do: the usual clock's datetime would cost twice what the counting does.
        self._seconds: Callable[[], float] = time.time if clock is now else lambda: clock().timestamp()
        self._minute = 0
        # By the UUID's integer: a UUID hashes and compares in Python, an integer does not.
        self._taken: dict[str, dict[int, int]] = {name: {} for name in self._limits}

    def take(self, caller: Caller, rate: str) -> Quota:
        """Count one request (`reads`, `writes` or `discovery`) of the caller's partner; a `wait` refuses it."""
        second = int(self._seconds())
        minute = second // WINDOW
        if minute != self._minute:
            self._turn_to(minute)
        own: int | None = getattr(caller.limits, rate)
        limit = self._limits[rate] if own is None else own
        share = -(-limit // self._workers)
        counts, partner = self._taken[rate], caller.partner_id.int
        taken = counts.get(partner, 0)
        reset = (minute + 1) * WINDOW
        if taken >= share:
            return Quota(limit, 0, reset, reset - second)
        if taken == 0 and len(counts) >= MOST_PARTNERS:
            counts.clear()
        counts[partner] = taken + 1
        return Quota(limit, share - taken - 1, reset)

    def _turn_to(self, minute: int) -> None:
        self._minute = minute
        for counts in self._taken.values():
            counts.clear()
