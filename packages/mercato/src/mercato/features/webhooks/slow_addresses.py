"""Pauses for addresses that keep calls waiting and then fail, so that they hold no slots that others need."""

from collections import OrderedDict
from typing import Final
from uuid import UUID

from msgspec import Struct

SLOW_SECONDS: Final = 1.0
"""A failure that takes less holds no slot for long, and the schedule of retries is enough."""

PAUSE_SECONDS: Final = 5.0
"""The pause after the first slow failure; each one after a trial doubles it."""

MAX_PAUSE_SECONDS: Final = 60.0

TRIAL_SECONDS: Final = 30.0
"""How long the others wait for a trial: longer than any call may take."""

MAX_ADDRESSES: Final = 10_000

Address = tuple[UUID, str]
"""A partner and a URL."""


class _Slow(Struct):
    failures: int
    since: float
    until: float


class SlowAddresses:
    """Those of this process. Every instant is in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._slow: OrderedDict[Address, _Slow] = OrderedDict()

    def wait(self, address: Address, now: float) -> float:
        """Return how long not to call the address; 0 if it may be called. Of a slow one, that is the only call then."""
        slow = self._slow.get(address)
        if slow is None:
            return 0.0
        if now < slow.until:
            return slow.until - now
        slow.until = now + TRIAL_SECONDS
        return 0.0

    def record(self, address: Address, *, began: float, now: float, failed: bool) -> None:
        """Record a call. One that began before the pause says nothing new."""
        slow = self._slow.get(address)
        if slow is not None and began < slow.since and failed:
            return
        if not failed or now - began < SLOW_SECONDS:
            self._slow.pop(address, None)
            return
        failures = 0 if slow is None else slow.failures
        pause = min(PAUSE_SECONDS * 2**failures, MAX_PAUSE_SECONDS)
        self._slow[address] = _Slow(min(failures + 1, 10), now, now + pause)
        self._slow.move_to_end(address)
        if len(self._slow) > MAX_ADDRESSES:
            self._slow.popitem(last=False)
