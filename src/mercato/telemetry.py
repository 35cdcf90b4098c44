"""Logs and metrics: structured lines for operators, counters for Prometheus."""

import logging
import re
import sys
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
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

    def render(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self.registry)
