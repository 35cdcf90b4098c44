"""When hours change: spans of the local week, read at an instant in a time zone."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import MAXYEAR, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from mercato_catalog.model import DAY_SECONDS, Windows, second_of_week

_WEEK_SECONDS: Final = 7 * DAY_SECONDS
_DAY: Final = timedelta(days=1)
_HORIZON: Final = timedelta(days=15)
"""Hours that change at all change within it: a change of the clock can skip a weekly window once."""


class HoursChange(NamedTuple):
    """When a closed store opens, or when an open one closes. Both are None if neither is known."""

    opens_at: datetime | None
    closes_at: datetime | None


def next_change(at: datetime, local: tzinfo, edges: Sequence[int], *, since: datetime | None) -> HoursChange:
    """Return the next change of hours with these openings and closings.

    `since` is the end of the store's pause, None if that isn't known; `at` itself if the store isn't paused.
    """
    if since is None or since.year >= MAXYEAR:
        return HoursChange(None, None)
    is_open = _is_open(since, local, edges)
    if is_open and since > at:
        return HoursChange(since, None)
    changed = _next_change(since, local, edges, was_open=is_open)
    return HoursChange(None, changed) if is_open else HoursChange(changed, None)


def _next_change(at: datetime, local: tzinfo, edges: Sequence[int], *, was_open: bool) -> datetime | None:
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


def _is_open(at: datetime, local: tzinfo, edges: Sequence[int]) -> bool:
    return is_within(edges, second_of_week(at.astimezone(local)))


def is_within(edges: Sequence[int], second: int) -> bool:
    # Spans don't touch each other, so between an opening and its closing the number of edges passed is odd.
    return bisect_right(edges, second) % 2 == 1


def _offset(at: datetime, local: tzinfo) -> timedelta | None:
    return at.astimezone(local).utcoffset()


def _clock_change(before: datetime, after: datetime, local: tzinfo) -> datetime:
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
