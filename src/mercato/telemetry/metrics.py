"""Figures for Prometheus: of one process, and of the queue that all processes share.

No label says which partner or store: they are too many, and who runs them is nobody's business here.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from mercato.telemetry import shared
from mercato.telemetry.declared import Declared, Described, Sample
from mercato.telemetry.tallies import tallies

METRICS_TYPE: Final = CONTENT_TYPE_LATEST

QUEUE_SECONDS: Final = 5.0
"""How long what the database said of the queue is good: whoever scrapes often does not ask it more often."""


class Lookups:
    """How often a cache had what it was asked for. Counted where each look costs less than a metric would."""

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0


class Depth(Struct, frozen=True, kw_only=True):
    """One kind of job in the queue. `oldest` is for how many seconds one has been due."""

    kind: str
    ready: int
    waiting: int
    running: int
    dead: int
    oldest: float


ReadQueue = Callable[[], Awaitable[Sequence[Depth] | None]]
"""Asks the database what waits; None when it does not answer."""


class Metrics:
    """The figures of one process."""

    def __init__(self) -> None:
        made = self._made = Declared()
        ProcessCollector(registry=made.registry)
        self.answered: Final = tallies(
            made,
            ("mercato_requests", "Requests answered.", "operation", "status"),
            ("mercato_request_seconds", "Seconds from a request's head to its answer.", "operation"),
        ).add
        """Count one answer: operation, status and seconds."""
        self._ingests = made.counter(
            "mercato_ingest_runs", "Catalog runs that ended, by what came of them.", "outcome"
        )
        self._stages = made.histogram(
            "mercato_ingest_stage_seconds", "Seconds a catalog run spent in a stage.", "stage"
        )
        self.ran: Final = tallies(
            made,
            ("mercato_job_runs", "Runs of background jobs, by what came of them.", "kind", "outcome"),
            ("mercato_job_seconds", "Seconds a run of a job took.", "kind"),
        ).add
        """Count one run of a job: kind, outcome and seconds."""
        self._deliveries = tallies(
            made,
            ("mercato_deliveries", "Attempts to deliver a webhook, by what came of them.", "outcome"),
            ("mercato_delivery_seconds", "Seconds a receiver of a webhook took to answer, or to fail."),
        )
        self._store_calls = made.counter(
            "mercato_store_calls", "Calls to stores that somebody waits for, by what came of them.", "outcome"
        )
        self._cut_offs = made.counter(
            "mercato_store_breaker_openings",
            "Times that an address of a store was cut off because its calls failed.",
        )
        self._cut_off_now = made.gauge(
            "mercato_store_breakers_open", "Addresses of stores that are cut off at present."
        )
        made.asked("mercato_jobs", "Jobs in the queue.", "kind", "state", read=self._depths)
        made.asked(
            "mercato_jobs_oldest_seconds", "Seconds the oldest due job has waited.", "kind", read=self._ages
        )
        made.asked(
            "mercato_database_up",
            "1 if the database answered when it was asked for the queue.",
            read=self._up,
        )
        made.asked(
            "mercato_cache_lookups",
            "Look-ups in memory before the database is asked.",
            "cache",
            "result",
            read=self._lookups,
            grows=True,
        )
        self._caches: dict[str, Lookups] = {}
        self._read_queue: ReadQueue | None = None
        self._queue: Sequence[Depth] | None = None
        self._queue_read = -QUEUE_SECONDS

    @property
    def registry(self) -> CollectorRegistry:
        """Where the figures stand."""
        return self._made.registry

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Measure a stage of a catalog run while the block runs."""
        return self._stages.labels(name).time()

    def ingested(self, outcome: str) -> None:
        """Count one catalog run that has ended."""
        self._ingests.labels(outcome).inc()

    def delivered(self, outcome: str, seconds: float) -> None:
        """Count one attempt to deliver a webhook; `outcome` is one of a few words of ours."""
        self._deliveries.add("", outcome, seconds)

    def called_store(self, outcome: str) -> None:
        """Count one call to a store; `outcome` is one of a few words of ours."""
        self._store_calls.labels(outcome).inc()

    def cut_off(self) -> None:
        """Count that an address of a store was cut off."""
        self._cut_offs.inc()

    def watch_cut_off(self, count: Callable[[], int]) -> None:
        """Ask `count` how many addresses are cut off whenever the figures are read."""
        self._cut_off_now.set_function(count)

    def watch_cache(self, name: str, lookups: Lookups) -> None:
        """Tell of a cache's look-ups whenever the figures are read."""
        self._caches[name] = lookups

    def watch_queue(self, read: ReadQueue) -> None:
        """Ask `read` what waits whenever the figures are read."""
        self._read_queue = read

    async def read(self) -> bytes:
        """Return everything in the text format of Prometheus, the queue included."""
        if self._read_queue is not None and monotonic() - self._queue_read >= QUEUE_SECONDS:
            self._queue_read = monotonic()
            self._queue = await self._read_queue()
        return self.render()

    def render(self) -> bytes:
        """Return everything in the text format of Prometheus, the queue as it was when it was last asked for."""
        return shared.render(self._made.registry)

    async def run(self) -> None:
        """Tell the other processes that share the port of this one's figures, until cancelled."""
        await shared.keep_telling(self._made.registry)

    def described(self) -> Sequence[Described]:
        """Return what there is to be read, in the order of its declaration."""
        return self._made.all

    def _depths(self) -> Iterator[Sample]:
        for one in self._queue or ():
            for state in ("ready", "waiting", "running", "dead"):
                yield (one.kind, state), getattr(one, state)

    def _ages(self) -> Iterator[Sample]:
        for one in self._queue or ():
            yield (one.kind,), one.oldest

    def _up(self) -> Iterator[Sample]:
        if self._read_queue is not None:
            yield (), 0.0 if self._queue is None else 1.0

    def _lookups(self) -> Iterator[Sample]:
        for name, lookups in self._caches.items():
            yield (name, "hit"), lookups.hits
            yield (name, "miss"), lookups.misses
