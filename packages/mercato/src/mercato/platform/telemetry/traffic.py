"""Requests per second and their durations in the last hour, for a page that somebody looks at.

Nothing is measured until the first look, and no longer than an hour after the last one: the history is this process's,
in memory, and begins with a look. Where several processes share a port, it is that of all of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from time import monotonic
from typing import Final

from msgspec import Struct
from prometheus_client import Metric

from mercato.platform.clock import Clock

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
"""Upper bounds of every histogram, in seconds."""

CONSOLE: Final = "console"
"""The operation of the console's pages, which aren't partners' requests."""

INTERVAL: Final = timedelta(seconds=10)
"""The time between two samples."""

HISTORY: Final = timedelta(hours=1)
"""How much is kept, and for how long it goes on after the last look."""

_RECENT: Final = timedelta(minutes=1)


class Totals(Struct, frozen=True):
    """The requests of partners since the start: all, those with a status of 500 or more, and how many took how long.

    `buckets` are cumulative, for each of BUCKETS and for all.
    """

    requests: float
    failed: float
    buckets: tuple[float, ...]


def totals_of(families: Iterable[Metric]) -> Totals:
    """Return the totals of the metrics of requests."""
    requests = failed = 0.0
    buckets = dict.fromkeys((*BUCKETS, float("inf")), 0.0)
    for family in families:
        for sample in family.samples:
            if sample.labels.get("operation") == CONSOLE:
                continue
            if sample.name == "mercato_requests_total":
                requests += sample.value
                failed += sample.value if sample.labels["status"] >= "500" else 0
            elif sample.name == "mercato_request_seconds_bucket":
                buckets[float(sample.labels["le"])] += sample.value
    return Totals(requests, failed, tuple(buckets.values()))


class Interval(Struct, frozen=True, kw_only=True):
    """The requests between two samples. Durations are in milliseconds, None without a request."""

    until: datetime
    per_second: float
    failed_per_second: float
    median: float | None
    p95: float | None


class Traffic:
    """The samples, and the task that takes them."""

    def __init__(self, read: Callable[[], Totals], clock: Clock) -> None:
        """`read` may read files: it runs in a thread."""
        self._read = read
        self._clock = clock
        self._samples: deque[tuple[float, datetime, Totals]] = deque(maxlen=HISTORY // INTERVAL + 1)
        self._wanted = asyncio.Event()
        self._until = 0.0

    async def run(self) -> None:
        """Sample while somebody looks, until cancelled."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(INTERVAL.total_seconds())
            if monotonic() > self._until:
                self._wanted.clear()
                self._samples.clear()
            else:
                await self._sample()

    async def look(self) -> Sequence[Interval]:
        """Return the intervals of the last hour, the oldest first, up to this instant."""
        self._until = monotonic() + HISTORY.total_seconds()
        if not self._wanted.is_set():
            self._wanted.set()
            await self._sample()
        samples = list(self._samples)
        return [interval_of(one, other) for one, other in pairwise(samples)]

    async def recent(self) -> Interval | None:
        """Return the last minute in one interval, None before the second sample."""
        samples = list(self._samples)[-(_RECENT // INTERVAL + 1) :]
        return interval_of(samples[0], samples[-1]) if len(samples) > 1 else None

    async def _sample(self) -> None:
        totals = await asyncio.to_thread(self._read)
        self._samples.append((monotonic(), self._clock(), totals))


def interval_of(first: tuple[float, datetime, Totals], last: tuple[float, datetime, Totals]) -> Interval:
    """Return what happened between two samples."""
    seconds = max(last[0] - first[0], 0.001)
    before, after = first[2], last[2]
    buckets = tuple(b - a for a, b in zip(before.buckets, after.buckets, strict=True))
    return Interval(
        until=last[1],
        per_second=max(after.requests - before.requests, 0) / seconds,
        failed_per_second=max(after.failed - before.failed, 0) / seconds,
        median=quantile(buckets, 0.5),
        p95=quantile(buckets, 0.95),
    )


def quantile(buckets: Sequence[float], share: float) -> float | None:
    """Return a quantile in milliseconds, interpolated within its bucket; None if nothing was counted.

    `buckets` are cumulative counts, for each of BUCKETS and for all.
    """
    wanted = buckets[-1] * share
    if wanted <= 0:
        return None
    lower, below = 0.0, 0.0
    for upper, count in zip(BUCKETS, buckets, strict=False):
        if count >= wanted:
            return (lower + (upper - lower) * (wanted - below) / (count - below)) * 1000
        lower, below = upper, count
    return BUCKETS[-1] * 1000
