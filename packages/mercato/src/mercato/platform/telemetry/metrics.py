"""Metrics for Prometheus: of one process, or of all that share a port, and of the job queue. Features declare theirs.

No label names a partner or store: there are too many, and metrics must not disclose them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
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

from mercato.platform.telemetry import multiprocess
from mercato.platform.telemetry.traffic import BUCKETS, Totals, totals_of

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


class _QueueCollector(Collector):
    """The queue as it was last read from the database."""

    def __init__(self, described: Sequence[MetricDescription]) -> None:
        self.read: ReadQueue | None = None
        self._described = described
        self._depths: Sequence[QueueDepth] | None = None
        self._read_at = -QUEUE_SECONDS

    async def update(self) -> None:
        """Read the queue, unless that was done just now."""
        if self.read is not None and monotonic() - self._read_at >= QUEUE_SECONDS:
            self._read_at = monotonic()
            self._depths = await self.read()

    def collect(self) -> Iterator[Metric]:
        jobs, oldest, up = (
            GaugeMetricFamily(one.name, one.help, labels=one.labels) for one in self._described
        )
        for depth in self._depths or ():
            for state in ("ready", "waiting", "running", "dead"):
                jobs.add_metric((depth.kind, state), getattr(depth, state))
            oldest.add_metric((depth.kind,), depth.oldest)
        if self.read is not None:
            up.add_metric((), float(self._depths is not None))
        yield from (jobs, oldest, up)


_REPLICATION: Final = (
    ("mercato_database_hosts", "Hosts in the URL of the PostgreSQL database."),
    ("mercato_database_synchronous", "1 if a commit waits for a replica."),
    ("mercato_database_replica_lag_bytes", "Bytes of the log that a replica has yet to replay.", "replica"),
    ("mercato_database_replica_lag_seconds", "Seconds by which a replica's rows are older.", "replica"),
)


class _ReplicationCollector(Collector):
    """The replicas as they were last read from PostgreSQL."""

    def __init__(self, described: Sequence[MetricDescription]) -> None:
        self.read: ReadReplication | None = None
        self._described = described
        self._found: Replication | None = None
        self._read_at = -QUEUE_SECONDS

    async def update(self) -> None:
        """Read them, unless that was done just now."""
        if self.read is not None and monotonic() - self._read_at >= QUEUE_SECONDS:
            self._read_at = monotonic()
            self._found = await self.read()

    def collect(self) -> Iterator[Metric]:
        hosts, synchronous, size, age = (
            GaugeMetricFamily(one.name, one.help, labels=one.labels) for one in self._described
        )
        if self._found is not None:
            hosts.add_metric((), self._found.hosts)
            synchronous.add_metric((), float(self._found.is_synchronous))
            for replica in self._found.replicas:
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
        self._queue = _QueueCollector([self._describe("gauge", *gauge) for gauge in _QUEUE])
        self.registry.register(self._queue)
        self._replication = _ReplicationCollector([self._describe("gauge", *gauge) for gauge in _REPLICATION])
        self.registry.register(self._replication)
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
        await self._queue.update()
        await self._replication.update()
        self._update()
        return (
            multiprocess.render(self._queue, self._replication)
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
