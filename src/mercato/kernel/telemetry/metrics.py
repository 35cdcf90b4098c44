"""Metrics for Prometheus: of one process, or of all that share a port, and of the queue that every process shares.

No label says which partner or store: they are too many, and who operates the service must not learn it from a metric.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Final

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from mercato.kernel.telemetry import multiprocess

METRICS_TYPE: Final = CONTENT_TYPE_LATEST

QUEUE_SECONDS: Final = 5.0
"""How long the database's answer about the queue is reused: frequent scrapes don't ask it more often."""

UPDATE_SECONDS: Final = 5.0
"""Greatest age of another process's gauges and cache look-ups."""

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
"""Upper bounds of every histogram, in seconds."""


class Described(Struct, frozen=True, kw_only=True):
    """One metric, as documents show it: its name as it is read, with `_total`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


class Lookups:
    """How often a cache had what it was asked for. Counted in plain numbers: a request makes several look-ups."""

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0


class Depth(Struct, frozen=True, kw_only=True):
    """One kind of job in the queue. `oldest` is for how many seconds one has been due."""

    kind: str
    ready: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    oldest: float = 0.0


ReadQueue = Callable[[], Awaitable[Sequence[Depth] | None]]
"""Reads from the database what waits; None when it does not answer."""


class _Timed:
    """Counts and times work by its name. The children of both metrics are kept, for `labels()` locks and converts."""

    def __init__(self, counter: Counter, histogram: Histogram) -> None:
        self._counter, self._histogram = counter, histogram
        self._children: dict[tuple[str, int | str], tuple[Counter, Histogram]] = {}

    def observe(self, name: str, outcome: int | str, seconds: float) -> None:
        children = self._children.get((name, outcome))
        if children is None:
            children = self._counter.labels(name, outcome), self._histogram.labels(name)
            self._children[name, outcome] = children
        children[0].inc()
        children[1].observe(seconds)


class _QueueCollector(Collector):
    """The queue as the database last described it."""

    def __init__(self, described: Sequence[Described]) -> None:
        self.read: ReadQueue | None = None
        self._jobs, self._oldest, self._up = described
        self._depths: Sequence[Depth] | None = None
        self._read_at = -QUEUE_SECONDS

    async def update(self) -> None:
        """Read the queue, unless it was read just now."""
        if self.read is not None and monotonic() - self._read_at >= QUEUE_SECONDS:
            self._read_at = monotonic()
            self._depths = await self.read()

    def collect(self) -> Iterator[Metric]:
        jobs, oldest, up = map(_family, (self._jobs, self._oldest, self._up))
        for depth in self._depths or ():
            for state in ("ready", "waiting", "running", "dead"):
                jobs.add_metric((depth.kind, state), getattr(depth, state))
            oldest.add_metric((depth.kind,), depth.oldest)
        if self.read is not None:
            up.add_metric((), float(self._depths is not None))
        yield from (jobs, oldest, up)


def _family(described: Described) -> GaugeMetricFamily:
    return GaugeMetricFamily(described.name, described.help, labels=described.labels)


class Metrics:
    """The metrics of one process, and what is known of the others'."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self._described: list[Described] = []
        self.answered: Final = _Timed(
            self._counter("mercato_requests", "Requests answered.", "operation", "status"),
            self._histogram(
                "mercato_request_seconds", "Seconds from a request's head to its answer.", "operation"
            ),
        ).observe
        """Count one answer: operation, status and seconds."""
        self._ingests = self._counter(
            "mercato_ingest_runs", "Catalog runs that ended, by what came of them.", "outcome"
        )
        self._stages = self._histogram(
            "mercato_ingest_stage_seconds", "Seconds a catalog run spent in a stage.", "stage"
        )
        self.ran: Final = _Timed(
            self._counter(
                "mercato_job_runs", "Runs of background jobs, by what came of them.", "kind", "outcome"
            ),
            self._histogram("mercato_job_seconds", "Seconds a run of a job took.", "kind"),
        ).observe
        """Count one run of a job: kind, outcome and seconds."""
        self._deliveries = self._counter(
            "mercato_deliveries", "Attempts to deliver a webhook, by what came of them.", "outcome"
        )
        self._delivery_seconds = self._histogram(
            "mercato_delivery_seconds", "Seconds a receiver of a webhook took to answer, or to fail."
        )
        self._store_calls = self._counter(
            "mercato_store_calls", "Calls to stores that somebody waits for, by what came of them.", "outcome"
        )
        self._cut_offs = self._counter(
            "mercato_store_breaker_openings",
            "Times that an address of a store was cut off because its calls failed.",
        )
        self._cut_off_now = self._gauge(
            "mercato_store_breakers_open", "Addresses of stores that are cut off at present."
        )
        self._queue = _QueueCollector(
            [
                self._describe("gauge", "mercato_jobs", "Jobs in the queue.", "kind", "state"),
                self._describe(
                    "gauge", "mercato_jobs_oldest_seconds", "Seconds the oldest due job has waited.", "kind"
                ),
                self._describe(
                    "gauge",
                    "mercato_database_up",
                    "1 if the database answered when it was asked for the queue.",
                ),
            ]
        )
        self.registry.register(self._queue)
        self._lookups = self._counter(
            "mercato_cache_lookups", "Look-ups in memory before the database is asked.", "cache", "result"
        )
        self._updates: list[Callable[[], None]] = []
        """Copy into metrics what is kept elsewhere."""
        if multiprocess.is_joined():
            self._updates.append(multiprocess.ProcessMetrics().update)
        else:
            ProcessCollector(registry=self.registry)

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Measure a stage of a catalog run while the block runs."""
        return self._stages.labels(name).time()

    def ingested(self, outcome: str) -> None:
        """Count one catalog run that has ended."""
        self._ingests.labels(outcome).inc()

    def delivered(self, outcome: str, seconds: float) -> None:
        """Count one attempt to deliver a webhook; `outcome` is one of a few words of ours."""
        self._deliveries.labels(outcome).inc()
        self._delivery_seconds.observe(seconds)

    def called_store(self, outcome: str) -> None:
        """Count one call to a store; `outcome` is one of a few words of ours."""
        self._store_calls.labels(outcome).inc()

    def cut_off(self) -> None:
        """Count that an address of a store was cut off."""
        self._cut_offs.inc()

    def watch_cut_off(self, count: Callable[[], int]) -> None:
        """Call `count` for how many addresses are cut off whenever the metrics are read."""
        if multiprocess.is_joined():
            self._updates.append(lambda: self._cut_off_now.set(count()))
        else:
            self._cut_off_now.set_function(count)

    def watch_cache(self, name: str, lookups: Lookups) -> None:
        """Count a cache's look-ups whenever the metrics are read."""
        hits, misses = (self._lookups.labels(name, result) for result in ("hit", "miss"))

        def update() -> None:
            hits.inc(lookups.hits)
            misses.inc(lookups.misses)
            lookups.hits = lookups.misses = 0

        self._updates.append(update)

    def watch_queue(self, read: ReadQueue) -> None:
        """Call `read` for what waits whenever the metrics are read."""
        self._queue.read = read

    async def read(self) -> bytes:
        """Return everything in the text format of Prometheus, the queue included."""
        await self._queue.update()
        self._update()
        return (
            multiprocess.render(self._queue) if multiprocess.is_joined() else generate_latest(self.registry)
        )

    async def run(self) -> None:
        """Where several processes share a port, keep this one's files up to date, until cancelled."""
        while multiprocess.is_joined():
            self._update()
            await asyncio.sleep(UPDATE_SECONDS)

    def described(self) -> Sequence[Described]:
        """Return every metric of ours, in the order of declaration."""
        return self._described

    def _update(self) -> None:
        for update in self._updates:
            update()

    def _describe(self, kind: str, name: str, text: str, *labels: str) -> Described:
        described = Described(name=name, kind=kind, help=text, labels=labels)
        self._described.append(described)
        return described

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        self._describe("counter", f"{name}_total", text, *labels)
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        self._describe("gauge", name, text, *labels)
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="livesum")

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        self._describe("histogram", name, text, *labels)
        return Histogram(name, text, labels, registry=self.registry, buckets=BUCKETS)
