"""Metrics for Prometheus: of one process, or of all that share a port, and of the job queue. Features declare theirs.

No label has a name of somebody's: features that have one by partner bound them, and use ids.

`Traffic` has requests per second and their durations in the last hour, for a page that somebody looks at. Nothing is
measured until the first look, and no longer than an hour after the last one: the history is this process's, in
memory, and begins with a look. Where several processes share a port, it is that of all of them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from time import monotonic
from typing import Any, Final, Generic, TypeVar

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

from mercato.platform.telemetry import multiprocess
from mercato_contract.clock import Clock

F = TypeVar("F")

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
        return [interval_of(earlier, later) for earlier, later in pairwise(samples)]

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


METRICS_TYPE: Final = CONTENT_TYPE_LATEST

QUEUE_SECONDS: Final = 5.0
"""How long the figures of the queue are reused: frequent scrapes must not load the database."""

UPDATE_SECONDS: Final = 5.0
"""Greatest age of another process's gauges and cache lookups."""


class MetricDescription(Struct, frozen=True, kw_only=True):
    """One metric as the documentation shows it: `name` is the scraped one, with `_total`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


class Lookups:
    """Hits and misses of a cache. Plain numbers, because a request makes several lookups."""

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0


class QueueDepth(Struct, frozen=True, kw_only=True):
    """One kind of job in the queue. `oldest` is the number of seconds that the oldest job has been due."""

    kind: str
    ready: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    oldest: float = 0.0


class ReplicaLag(Struct, frozen=True, kw_only=True):
    """A replica of PostgreSQL: bytes of the log and seconds by which it is behind, None if it can't be read."""

    name: str
    is_synchronous: bool
    bytes: int | None
    seconds: float | None


class Replication(Struct, frozen=True, kw_only=True):
    """How commits reach the replicas: `is_synchronous` if they wait for one, with `hosts` in the database's URL."""

    hosts: int
    is_synchronous: bool
    replicas: Sequence[ReplicaLag]


ReadReplication = Callable[[], Awaitable[Replication | None]]
"""Reads the replicas from PostgreSQL; None if it doesn't answer, or for SQLite."""

ReadQueue = Callable[[], Awaitable[Sequence[QueueDepth] | None]]
"""Reads the queue from the database; None if it doesn't answer."""


class _Timed:
    """Counts and times work by its name. What counts is cached, because `labels()` locks."""

    def __init__(self, counter: Counter, histogram: Histogram) -> None:
        self._counter, self._histogram = counter, histogram
        self._children: dict[tuple[str, int | str], tuple[Callable[[], None], Callable[[float], None]]] = {}

    def observe(self, name: str, outcome: int | str, seconds: float) -> None:
        children = self._children.get((name, outcome))
        if children is None:
            children = self._counter.labels(name, outcome).inc, self._histogram.labels(name).observe
            self._children[name, outcome] = children
        count, observe_seconds = children
        count()
        observe_seconds(seconds)


_QUEUE: Final = (
    ("mercato_jobs", "Jobs in the queue; at most 100,000 of a kind and state are counted.", "kind", "state"),
    ("mercato_jobs_oldest_seconds", "Seconds the oldest due job has waited.", "kind"),
    ("mercato_database_up", "1 if the database answered the last query for the queue."),
)


class DatabaseCollector(Collector, Generic[F]):
    """Figures as they were last read from the database: the same in every process."""

    def __init__(self, described: Sequence[MetricDescription]) -> None:
        self.read: Callable[[], Awaitable[F | None]] | None = None
        self._described = described
        self.found: F | None = None
        self._read_at = -QUEUE_SECONDS

    async def update(self) -> None:
        """Read them, unless that was done just now."""
        if self.read is not None and monotonic() - self._read_at >= QUEUE_SECONDS:
            self._read_at = monotonic()
            self.found = await self.read()

    def families(self) -> Iterator[GaugeMetricFamily]:
        return (
            GaugeMetricFamily(metric.name, metric.help, labels=metric.labels) for metric in self._described
        )


class _QueueCollector(DatabaseCollector[Sequence[QueueDepth]]):
    """The queue."""

    def collect(self) -> Iterator[Metric]:
        jobs, oldest, up = self.families()
        for depth in self.found or ():
            for state in ("ready", "waiting", "running", "dead"):
                jobs.add_metric((depth.kind, state), getattr(depth, state))
            oldest.add_metric((depth.kind,), depth.oldest)
        if self.read is not None:
            up.add_metric((), float(self.found is not None))
        yield from (jobs, oldest, up)


_REPLICATION: Final = (
    ("mercato_database_hosts", "Hosts in the URL of the PostgreSQL database."),
    ("mercato_database_synchronous", "1 if a commit waits for a replica."),
    ("mercato_database_replica_lag_bytes", "Bytes of the log that a replica has yet to replay.", "replica"),
    ("mercato_database_replica_lag_seconds", "Seconds by which a replica's rows are older.", "replica"),
)


class _ReplicationCollector(DatabaseCollector[Replication]):
    """The replicas of PostgreSQL."""

    def collect(self) -> Iterator[Metric]:
        hosts, synchronous, size, age = self.families()
        if self.found is not None:
            hosts.add_metric((), self.found.hosts)
            synchronous.add_metric((), float(self.found.is_synchronous))
            for replica in self.found.replicas:
                if replica.bytes is not None:
                    size.add_metric((replica.name,), replica.bytes)
                if replica.seconds is not None:
                    age.add_metric((replica.name,), replica.seconds)
        yield from (hosts, synchronous, size, age)


class Metrics:
    """The metrics of one process and, where several share a port, of all."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self._described: list[MetricDescription] = []
        self._updates: list[Callable[[], None]] = []
        self._requests = self.counter("mercato_requests", "Requests answered.", "operation", "status")
        self._request_seconds = self.histogram(
            "mercato_request_seconds", "Seconds from a request's head to its response.", "operation"
        )
        self.answered: Final = _Timed(self._requests, self._request_seconds).observe
        """Count one response: operation, status and seconds."""
        self.ran: Final = _Timed(
            self.counter("mercato_job_runs", "Runs of background jobs, by outcome.", "kind", "outcome"),
            self.histogram("mercato_job_seconds", "Seconds a run of a job took.", "kind"),
        ).observe
        """Count one run of a job: kind, outcome and seconds."""
        self._of_database: list[DatabaseCollector[Any]] = []
        self._queue = _QueueCollector(self.database_gauges(_QUEUE))
        self._replication = _ReplicationCollector(self.database_gauges(_REPLICATION))
        for collector in (self._queue, self._replication):
            self.watch_database(collector)
        self._lookups = self.counter(
            "mercato_cache_lookups", "Lookups in memory before the database is queried.", "cache", "result"
        )
        if multiprocess.is_joined():
            self.on_read(multiprocess.ProcessMetrics().update)
        else:
            ProcessCollector(registry=self.registry)

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Declare a counter; `name` is without `_total`."""
        self._describe("counter", f"{name}_total", text, *labels)
        return Counter(name, text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Declare a gauge, which is the sum over the processes."""
        self._describe("gauge", name, text, *labels)
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="livesum")

    def database_gauges(self, gauges: Sequence[tuple[str, ...]]) -> Sequence[MetricDescription]:
        """Declare gauges that are read from the database, each by its name, text and labels."""
        return [self._describe("gauge", *gauge) for gauge in gauges]

    def watch_database(self, collector: DatabaseCollector[Any]) -> None:
        """Read the collector's figures whenever the metrics are read."""
        self._of_database.append(collector)
        self.registry.register(collector)

    def histogram(self, name: str, text: str, *labels: str) -> Histogram:
        """Declare a histogram of seconds."""
        self._describe("histogram", name, text, *labels)
        return Histogram(name, text, labels, registry=self.registry, buckets=BUCKETS)

    def on_read(self, update: Callable[[], None]) -> None:
        """Call `update`, which copies figures into metrics, whenever the metrics are read."""
        self._updates.append(update)

    def watch_cache(self, name: str, lookups: Lookups) -> None:
        """Count a cache's lookups whenever the metrics are read."""
        hits, misses = (self._lookups.labels(name, result) for result in ("hit", "miss"))

        def update() -> None:
            hits.inc(lookups.hits)
            misses.inc(lookups.misses)
            lookups.hits = lookups.misses = 0

        self.on_read(update)

    def watch_queue(self, read: ReadQueue) -> None:
        """Call `read` for the figures of the queue whenever the metrics are read."""
        self._queue.read = read

    def watch_replication(self, read: ReadReplication) -> None:
        """Call `read` for the replicas of the database whenever the metrics are read."""
        self._replication.read = read

    async def read(self) -> bytes:
        """Return all metrics in the text format of Prometheus, those of the database included."""
        for collector in self._of_database:
            await collector.update()
        self._update()
        return (
            multiprocess.render(*self._of_database)
            if multiprocess.is_joined()
            else generate_latest(self.registry)
        )

    def totals(self) -> Totals:
        """Return the counts of requests, over all processes that share the port. It may read files."""
        if multiprocess.is_joined():
            families = multiprocess.collect()
        else:
            families = [*self._requests.collect(), *self._request_seconds.collect()]
        return totals_of(families)

    async def run(self) -> None:
        """Keep this process's files up to date where several processes share a port, until cancelled."""
        while multiprocess.is_joined():
            self._update()
            await asyncio.sleep(UPDATE_SECONDS)

    def described(self) -> Sequence[MetricDescription]:
        """Return every metric of the service, in the order of declaration."""
        return self._described

    def _update(self) -> None:
        for update in self._updates:
            update()

    def _describe(self, kind: str, name: str, text: str, *labels: str) -> MetricDescription:
        described = MetricDescription(name=name, kind=kind, help=text, labels=labels)
        self._described.append(described)
        return described
