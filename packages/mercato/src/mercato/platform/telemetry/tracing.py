"""OpenTelemetry, if an endpoint for traces is set: spans of requests, jobs and calls to partners.

Rows of work for later have a `traceparent` with or without it. Without an endpoint OpenTelemetry isn't
imported, and a span costs one comparison.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from secrets import token_hex
from threading import Thread
from typing import Any, Final, Literal

_OFF: Final[AbstractContextManager[None]] = nullcontext()

_tracer: Any = None
"""Set while spans are exported: one for the process, as in OpenTelemetry."""

SHUTDOWN_SECONDS: Final = 3.0
"""How long the shutdown waits for a collector; OpenTelemetry would wait for 25 seconds for one that is unavailable."""

SpanKind = Literal["SERVER", "CLIENT", "CONSUMER"]


class TracingUnavailableError(Exception):
    """Traces should be exported, but the exporter isn't installed."""


def is_on() -> bool:
    """Return whether spans are exported."""
    return _tracer is not None


def span(
    name: str, *, parent: str | None, kind: SpanKind, **attributes: object
) -> AbstractContextManager[Any]:
    """Open a span, with a `traceparent` as its parent; yields it, or None if spans aren't exported.

    The attributes that aren't None become `mercato.<name>`. Never pass what may be secret: no URLs, no bodies.
    """
    return _OFF if _tracer is None else _span(name, parent, kind, attributes)


def new_trace() -> str:
    """Return the `traceparent` of work that no request caused."""
    return f"00-{token_hex(16)}-{token_hex(8)}-00"


def current(default: str) -> str:
    """Return the `traceparent` of the current span, or the default if there is none."""
    if _tracer is None:
        return default
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return default
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@contextmanager
def export_spans(endpoint: str | None, *, share: float, exporter: Any = None) -> Iterator[None]:
    """Export spans during the block, by OTLP over HTTP; nothing without an endpoint.

    `share` of the traces that begin here are exported; for others their `traceparent` decides.
    Raises TracingUnavailableError.
    """
    global _tracer  # noqa: PLW0603  # it belongs to the process
    if endpoint is None and exporter is None:
        yield
        return
    provider = _provider(endpoint, share, exporter)
    _tracer = provider.get_tracer("mercato", version("mercato"))
    try:
        yield
    finally:
        _tracer = None
        # In a thread, because it retries as long as spans are left, with pauses.
        thread = Thread(target=provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(SHUTDOWN_SECONDS)


def _provider(endpoint: str | None, share: float, exporter: Any) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise TracingUnavailableError(
            "MERCATO_TRACES_ENDPOINT needs an extra: pip install 'mercato[otel]'"
        ) from error
    provider = TracerProvider(
        resource=Resource.create({"service.name": "mercato", "service.version": version("mercato")}),
        sampler=ParentBased(TraceIdRatioBased(share)),
        shutdown_on_exit=False,
    )
    if exporter is not None:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    else:
        address = f"{(endpoint or '').rstrip('/')}/v1/traces"
        # It exports in a separate thread, and drops spans while the collector is unavailable.
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address, timeout=5)))
    return provider


@contextmanager
def _span(name: str, parent: str | None, kind: SpanKind, attributes: Mapping[str, object]) -> Iterator[Any]:
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": parent or ""})
    texts = {f"mercato.{key}": str(value) for key, value in attributes.items() if value is not None}
    with _tracer.start_as_current_span(
        name, context=context, kind=SpanKind[kind], attributes=texts, record_exception=False
    ) as opened:
        yield opened
