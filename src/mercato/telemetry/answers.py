"""Requests answered, counted and timed: by plain numbers in one process, in files where several share a port.

Every request is counted. A counter and a histogram of prometheus_client take two locks and a walk over the buckets for
it, which is a seventh of what a short answer costs.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from prometheus_client import Counter, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from mercato.telemetry import shared
from mercato.telemetry.declared import SECONDS, Declared

COUNTED: Final = ("mercato_requests", "Requests answered.", "operation", "status")
TIMED: Final = ("mercato_request_seconds", "Seconds from a request's head to its answer.", "operation")

_BOUNDS: Final = [*map(floatToGoString, SECONDS), "+Inf"]


class Answers(Protocol):
    """Where answers are counted."""

    def add(self, operation: str, status: int, seconds: float) -> None:
        """Count one answer."""


def answers(made: Declared) -> Answers:
    """Declare the figures; return where answers are counted."""
    return _InFiles(made) if shared.is_joined() else _InMemory(made)


class _Tally:
    """An operation's answers. `buckets` are not summed up yet, the last is of what took longer than any bound."""

    __slots__ = ("began", "buckets", "seconds", "statuses")

    def __init__(self) -> None:
        self.began = time.time()
        self.buckets = [0] * len(_BOUNDS)
        self.seconds = 0.0
        self.statuses: dict[int, int] = {}


class _InMemory:
    """Counts of this process. One event loop adds to them and reads them, so that there is nothing to lock."""

    def __init__(self, made: Declared) -> None:
        self._tallies: dict[str, _Tally] = {}
        made.collected("counter", *COUNTED, collector=_Collector(self._counted))
        made.collected("histogram", *TIMED, collector=_Collector(self._timed))

    def add(self, operation: str, status: int, seconds: float) -> None:
        tally = self._tallies.get(operation)
        if tally is None:
            tally = self._tallies[operation] = _Tally()
        tally.buckets[bisect_left(SECONDS, seconds)] += 1
        tally.seconds += seconds
        statuses = tally.statuses
        statuses[status] = statuses.get(status, 0) + 1

    def _counted(self) -> Metric:
        name, told, *labels = COUNTED
        family = CounterMetricFamily(name, told, labels=labels)
        for operation, tally in self._tallies.items():
            for status, count in tally.statuses.items():
                family.add_metric((operation, str(status)), count, created=tally.began)
        return family

    def _timed(self) -> Metric:
        name, told, *labels = TIMED
        family = HistogramMetricFamily(name, told, labels=labels)
        for operation, tally in self._tallies.items():
            sums, total = [], 0
            for count in tally.buckets:
                total += count
                sums.append(float(total))
            family.add_metric((operation,), list(zip(_BOUNDS, sums, strict=True)), tally.seconds)
            family.add_sample(f"{name}_created", {labels[0]: operation}, tally.began)
        return family


class _Collector(Collector):
    """What a registry asks for a figure."""

    def __init__(self, read: Callable[[], Metric]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        yield self._read()


class _InFiles:
    """Counts that another process reads, and that outlive this one: each goes where it is kept, at once."""

    def __init__(self, made: Declared) -> None:
        self._requests = made.counter(*COUNTED)
        self._seconds = made.histogram(*TIMED)
        self._counters: dict[tuple[str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def add(self, operation: str, status: int, seconds: float) -> None:
        counter = self._counters.get((operation, status))
        if counter is None:
            counter = self._counters[operation, status] = self._requests.labels(operation, str(status))
        histogram = self._histograms.get(operation)
        if histogram is None:
            histogram = self._histograms[operation] = self._seconds.labels(operation)
        counter.inc()
        histogram.observe(seconds)
