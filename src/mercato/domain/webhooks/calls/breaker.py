"""Whether an address that keeps failing is called at all: a circuit breaker. Pure, the clock is given."""

from collections import deque
from typing import Final

WINDOW: Final = 60
"""Whole seconds that count."""

LEAST_CALLS: Final = 10
"""Fewer calls than these say nothing."""

OPEN_SECONDS: Final = 10.0
"""How long nothing is called before one call is tried."""

TRIAL_SECONDS: Final = 30.0
"""A trial that was not heard of for so long is lost, and another is made: longer than any call may take."""

Permit = int
"""Leave for one call, to be settled or given up."""


class Breaker:
    """Cuts an address off when half of its calls failed, at least 10 within 60 s; 10 s later one is tried.

    Every `now` is in monotonic seconds. What it remembers is bounded: a pair of counts for each second.
    """

    __slots__ = ("_calls", "_closed", "_counts", "_epoch", "_failed", "_until")

    def __init__(self) -> None:
        # Second, calls, failures; the oldest first.
        self._counts: deque[list[int]] = deque()
        self._calls = 0
        self._failed = 0
        self._closed = True
        # Until when nothing is let through while it isn't closed: the pause, or the trial that is under way.
        self._until = 0.0
        # Of what was let through before the last change the result is old news: its permit is of another epoch.
        self._epoch = 0

    @property
    def is_open(self) -> bool:
        """Return whether it is cut off, or on trial."""
        return not self._closed

    def wait(self, now: float) -> float:
        """Return the seconds in which no call is let through; 0 when one is."""
        return 0.0 if self._closed else max(self._until - now, 0.0)

    def admit(self, now: float) -> Permit | None:
        """Let a call through, or return None. Its permit is settled, or given up if nobody knows how it ended."""
        if not self._closed:
            if now < self._until:
                return None
            self._epoch += 1
            self._until = now + TRIAL_SECONDS
        return self._epoch

    def settle(self, permit: Permit, now: float, *, failed: bool) -> bool:
        """Note how a call ended. Return whether that opened or closed the breaker."""
        if permit != self._epoch:
            return False
        if not self._closed:
            return self._open(now) if failed else self._close()
        self._count(int(now), failed=failed)
        if self._calls >= LEAST_CALLS and self._failed * 2 >= self._calls:
            return self._open(now)
        return False

    def give_up(self, permit: Permit, now: float) -> None:
        """Note that a call's end says nothing of the address; if it was the trial, the next call is one."""
        if permit == self._epoch and not self._closed:
            self._epoch += 1
            self._until = now

    def _open(self, now: float) -> bool:
        changed = self._closed
        self._closed = False
        self._until = now + OPEN_SECONDS
        self._forget()
        return changed

    def _close(self) -> bool:
        self._closed = True
        self._forget()
        return True

    def _forget(self) -> None:
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
