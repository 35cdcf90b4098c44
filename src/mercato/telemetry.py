"""Logs and metrics: structured lines for operators, counters for Prometheus."""

import logging
import re
import sys
from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)

# PostgreSQL quotes the row it refuses.
_DETAIL: Final = re.compile(r"^DETAIL: .*$", re.MULTILINE)

METRICS_TYPE: Final = CONTENT_TYPE_LATEST


def configure_logs(*, level: str, form: str) -> None:
    """Send log lines to standard error: JSON for machines, or a console form for people."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # Plain tracebacks: richer ones show local variables, which hold keys, tokens and customers' data.
        structlog.processors.format_exc_info,
        _without_rows,
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        # Asked at each line: whoever takes standard error over gets the lines from then on.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _without_rows(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    if isinstance(event.get("exception"), str):
        event["exception"] = _DETAIL.sub("DETAIL: (left out)", event["exception"])
    return event


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
