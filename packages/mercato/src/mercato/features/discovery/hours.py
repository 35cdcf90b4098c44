"""Opening hours: spans of the local week, as bytes for searches; whether they are open, and until when."""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from datetime import MAXYEAR, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from mercato.features.catalogs.model import DAY_SECONDS, Windows, second_of_week
from mercato.platform.clock import from_ms, to_ms, zone

INDEFINITELY: Final = 2**63 - 1
"""The end of a pause until further notice."""

_WEEK_SECONDS: Final = 7 * DAY_SECONDS
_DAY: Final = timedelta(days=1)
_HORIZON: Final = timedelta(days=15)
"""Hours that change at all change within it: a change of the clock can skip a weekly window once."""


class HoursChange(NamedTuple):
    """When a closed store opens, or when an open one closes. Both are None if neither is known."""

    opens_at: datetime | None
    closes_at: datetime | None


def next_change(at: datetime, timezone: str, edges: Sequence[int], *, since: datetime | None) -> HoursChange:
    """Return the next change of hours with these openings and closings.

    `since` is the end of the store's pause, None if that isn't known; `at` itself if the store isn't paused.
    """
    if since is None or since.year >= MAXYEAR:
        return HoursChange(None, None)
    local = zone(timezone)
    is_open = _is_open(since, local, edges)
    if is_open and since > at:
        return HoursChange(since, None)
    changed = _next_change(since, local, edges, was_open=is_open)
    return HoursChange(None, changed) if is_open else HoursChange(changed, None)


def _next_change(at: datetime, local: ZoneInfo, edges: Sequence[int], *, was_open: bool) -> datetime | None:
    """Return the first instant after `at` at which the hours are open where they were closed, or the reverse."""
    # The end of Saturday is the beginning of Sunday: hours across it don't change there.
    is_continuous = bool(edges) and edges[0] == 0 and edges[-1] == _WEEK_SECONDS
    changes = sorted(edge % _WEEK_SECONDS for edge in (edges[1:-1] if is_continuous else edges))
    if not changes:
        return None
    instant, end = at.replace(microsecond=0), at + _HORIZON
    while instant < end:
        before = instant.astimezone(local)
        second = second_of_week(before)
        after = bisect_right(changes, second)
        change = changes[after] if after < len(changes) else changes[0] + _WEEK_SECONDS
        ahead = timedelta(seconds=change - second)
        step = instant + min(ahead, _DAY)
        if _offset(step, local) != before.utcoffset():
            # The clock changes on the way, which may skip or repeat a part of the hours.
            instant = _clock_change(instant, step, local)
            if _is_open(instant, local, edges) != was_open:
                return instant
        elif ahead <= _DAY:
            return step
        else:
            instant = step
    return None


def _is_open(at: datetime, local: ZoneInfo, edges: Sequence[int]) -> bool:
    return _is_within(edges, second_of_week(at.astimezone(local)))


def _is_within(edges: Sequence[int], second: int) -> bool:
    # Spans don't touch each other, so between an opening and its closing the number of edges passed is odd.
    return bisect_right(edges, second) % 2 == 1


def _offset(at: datetime, local: ZoneInfo) -> timedelta | None:
    return at.astimezone(local).utcoffset()


def _clock_change(before: datetime, after: datetime, local: ZoneInfo) -> datetime:
    """Return the first second with another offset than `before`; at `after` it is another."""
    offset, low, high = _offset(before, local), 0, (after - before) // timedelta(seconds=1)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(before + timedelta(seconds=middle), local) == offset:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def edges_of(spans: Windows) -> list[int]:
    """Return every opening and closing, in order."""
    return [edge for span in spans for edge in span]


def pack_spans(spans: Windows) -> bytes:
    """Return the spans as four bytes for each opening and closing."""
    edges = edges_of(spans)
    return struct.pack(f"<{len(edges)}I", *edges)


def key_of(timezone: str, spans: bytes) -> int:
    """Return the key of opening hours: equal hours have equal keys."""
    digest = blake2b(timezone.encode() + b"\0" + spans, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Openings:
    """Tests opening hours at one instant; each time zone's local time is computed once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._seconds: dict[str, int] = {}
        self._changes: dict[tuple[str, bytes], HoursChange] = {}

    def is_open(self, timezone: str, spans: bytes) -> bool:
        """Return whether hours from `pack_spans` are open now in the time zone."""
        return _is_within(_edges(spans), self._second(timezone))

    def next_change(self, timezone: str, spans: bytes, *, paused_until: int) -> HoursChange:
        """Return the next change; `paused_until` in milliseconds, in the past for a store that isn't paused."""
        if paused_until > to_ms(self._now):
            since = None if paused_until == INDEFINITELY else from_ms(paused_until)
            return next_change(self._now, timezone, _edges(spans), since=since)
        key = timezone, spans
        change = self._changes.get(key)
        if change is None:
            change = next_change(self._now, timezone, _edges(spans), since=self._now)
            self._changes[key] = change
        return change

    def next_opening(self, timezone: str, spans: bytes) -> int | None:
        """Return the second of the local week at which closed hours open next, None if there are none."""
        openings = _edges(spans)[::2]
        second = self._second(timezone)
        return next((opening for opening in openings if opening > second), openings[0] if openings else None)

    def _second(self, timezone: str) -> int:
        second = self._seconds.get(timezone)
        if second is None:
            second = self._seconds[timezone] = second_of_week(self._now.astimezone(zone(timezone)))
        return second


@lru_cache(maxsize=4096)
def _edges(spans: bytes) -> tuple[int, ...]:
    """Return every opening and closing; cached, because many stores share the same hours."""
    return struct.unpack(f"<{len(spans) // 4}I", spans)
