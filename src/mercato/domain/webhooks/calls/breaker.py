"""A circuit breaker: stops calls to an address that keeps failing. Pure: the clock is an argument."""

from collections import deque
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
