"""Figures for Prometheus: of one process, asked for when they are read."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)

METRICS_TYPE: Final = CONTENT_TYPE_LATEST


class Metrics:
    """The figures of one process. Children are bound once: a label look-up a request would cost more than it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "mercato_requests", "Requests answered.", ["operation", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "mercato_request_seconds",
            "Seconds from a request's head to its answer.",
            ["operation"],
            registry=self.registry,
            buckets=LATENCY_BUCKETS,
        )
        # Of stores no label says which: they are too many, and who runs them is nobody's business here.
        self._store_calls = Counter(
            "mercato_store_calls",
            "Calls to stores that somebody waits for, by what came of them.",
            ["outcome"],
            registry=self.registry,
        )
        self._cut_offs = Counter(
            "mercato_store_breaker_openings",
            "Times that an address of a store was cut off because its calls failed.",
            registry=self.registry,
        )
        self._cut_off_now = Gauge(
            "mercato_store_breakers_open",
            "Addresses of stores that are cut off at present.",
            registry=self.registry,
        )
        self._outcomes: dict[str, Counter] = {}
        self._counters: dict[tuple[str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count one answer."""
        counter = self._counters.get((operation, status))
        if counter is None:
            counter = self._counters[operation, status] = self._requests.labels(operation, str(status))
        histogram = self._histograms.get(operation)
        if histogram is None:
            histogram = self._histograms[operation] = self._seconds.labels(operation)
        counter.inc()
        histogram.observe(seconds)

    def called_store(self, outcome: str) -> None:
        """Count one call to a store; `outcome` is one of a few words of ours."""
        counter = self._outcomes.get(outcome)
        if counter is None:
            counter = self._outcomes[outcome] = self._store_calls.labels(outcome)
        counter.inc()

    def cut_off(self) -> None:
        """Count that an address of a store was cut off."""
        self._cut_offs.inc()

    def watch_cut_off(self, count: Callable[[], int]) -> None:
        """Ask `count` how many addresses are cut off whenever the figures are read."""
        self._cut_off_now.set_function(count)

    def render(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self.registry)
