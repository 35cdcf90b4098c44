"""What is done very often, counted and timed: by plain numbers in one process, in files where many share a port.

Every request is counted, every job and every delivery. A counter and a histogram of prometheus_client take two locks
and a walk over the buckets for it, which is a seventh of what a short answer costs.
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

Figure = tuple[str, ...]
"""Its name, what it is, and its labels."""

_BOUNDS: Final = [*map(floatToGoString, SECONDS), "+Inf"]


class Tallies(Protocol):
    """Where it is counted what came of what, and how long it took."""

    def add(self, what: str, outcome: int | str, seconds: float) -> None:
        """Count one."""


def tallies(made: Declared, counted: Figure, timed: Figure) -> Tallies:
    """Declare both figures; return where they are counted.

    What was done is the first label of both, and the only one of the second; where that has none, it is of neither.
    """
    return (_InFiles if shared.is_joined() else _InMemory)(made, counted, timed)


class _Tally:
    """All of one kind. `buckets` are not summed up yet, the last is of what took longer than any bound."""

    __slots__ = ("began", "buckets", "outcomes", "seconds")

    def __init__(self) -> None:
        self.began = time.time()
        self.buckets = [0] * len(_BOUNDS)
        self.seconds = 0.0
        self.outcomes: dict[int | str, int] = {}


class _InMemory:
    """Counts of this process. One event loop adds to them and reads them, so that there is nothing to lock."""

    def __init__(self, made: Declared, counted: Figure, timed: Figure) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._counted = counted
        self._timed = timed
        self._labels = len(timed) - 2
        if not self._labels:
            # Read as nothing until there is something, as any figure without labels.
            self._tallies[""] = _Tally()
        made.collected("counter", *counted, collector=_Collector(self._counts))
        made.collected("histogram", *timed, collector=_Collector(self._times))

    def add(self, what: str, outcome: int | str, seconds: float) -> None:
        tally = self._tallies.get(what)
        if tally is None:
            tally = self._tallies[what] = _Tally()
        tally.buckets[bisect_left(SECONDS, seconds)] += 1
        tally.seconds += seconds
        outcomes = tally.outcomes
        outcomes[outcome] = outcomes.get(outcome, 0) + 1

    def _counts(self) -> Metric:
        name, told, *labels = self._counted
        family = CounterMetricFamily(name, told, labels=labels)
        for what, tally in self._tallies.items():
            for outcome, count in tally.outcomes.items():
                family.add_metric((*(what,)[: self._labels], str(outcome)), count, created=tally.began)
        return family

    def _times(self) -> Metric:
        name, told, *labels = self._timed
        family = HistogramMetricFamily(name, told, labels=labels)
        for what, tally in self._tallies.items():
            sums, total = [], 0
            for count in tally.buckets:
                total += count
                sums.append(float(total))
            its = (what,)[: self._labels]
            family.add_metric(its, list(zip(_BOUNDS, sums, strict=True)), tally.seconds)
            family.add_sample(f"{name}_created", dict(zip(labels, its, strict=True)), tally.began)
        return family


class _Collector(Collector):
    """What a registry asks for a figure."""

    def __init__(self, read: Callable[[], Metric]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        yield self._read()


class _InFiles:
    """Counts that another process reads, and that outlive this one: each goes where it is kept, at once."""

    def __init__(self, made: Declared, counted: Figure, timed: Figure) -> None:
        self._all = made.counter(*counted)
        self._seconds = made.histogram(*timed)
        self._labels = len(timed) - 2
        self._counters: dict[tuple[str, int | str], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def add(self, what: str, outcome: int | str, seconds: float) -> None:
        counter = self._counters.get((what, outcome))
        its = (what,)[: self._labels]
        if counter is None:
            counter = self._counters[what, outcome] = self._all.labels(*its, str(outcome))
        histogram = self._histograms.get(what)
        if histogram is None:
            made = self._seconds.labels(*its) if its else self._seconds
            histogram = self._histograms[what] = made
        counter.inc()
        histogram.observe(seconds)
