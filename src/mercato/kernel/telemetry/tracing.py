"""OpenTelemetry, where an address for traces is set: spans of requests, of catalog runs and of calls to partners.

What causes what goes from process to process as a `traceparent` in the rows of runs, orders and deliveries, with or
without this. Without an address nothing of OpenTelemetry is imported, and a span costs a look at one name.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from secrets import token_hex
from threading import Thread
from typing import Any, Final, Literal

_OFF: Final[AbstractContextManager[None]] = nullcontext()

_tracer: Any = None
"""Set while spans are exported: one for the process, as OpenTelemetry itself has it."""

LAST_SECONDS: Final = 3.0
"""How long the end waits for a collector to take what is left: one that is away would hold it for 25 seconds."""

Kind = Literal["SERVER", "CLIENT", "CONSUMER"]


class TracingUnavailableError(Exception):
    """Traces are to be exported, and what exports them is not installed."""


def is_on() -> bool:
    """Tell whether spans are exported."""
    return _tracer is not None


def span(name: str, *, parent: str | None, kind: Kind, **told: object) -> AbstractContextManager[Any]:
    """Measure what the block does, as caused by a `traceparent`; gives the span, or None where none is exported.

    `told` are its attributes, None left out, each as `mercato.<name>`. Never what may be secret: no URLs, no bodies.
    """
    return _OFF if _tracer is None else _span(name, parent, kind, told)


def new_trace() -> str:
    """Return the `traceparent` of work that no request has caused."""
    return f"00-{token_hex(16)}-{token_hex(8)}-00"


def current(otherwise: str) -> str:
    """Return the `traceparent` of the span that is measured now, or the other one where none is."""
    if _tracer is None:
        return otherwise
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return otherwise
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@contextmanager
def exported(endpoint: str | None, *, share: float, exporter: Any = None) -> Iterator[None]:
    """Export spans while the block runs, by OTLP over HTTP; nothing without an endpoint.

    `share` of the traces that begin here are exported; of those that begin elsewhere, whatever their
    `traceparent` says. Raises TracingUnavailableError.
    """
    global _tracer  # noqa: PLW0603  # see above
    if endpoint is None and exporter is None:
        yield
        return
    provider = _provider(endpoint, share, exporter)
    _tracer = provider.get_tracer("mercato", version("mercato"))
    try:
        yield
    finally:
        _tracer = None
        # In a thread, because it tries for as long as there is anything left, with pauses in between.
        last = Thread(target=provider.shutdown, name="traces", daemon=True)
        last.start()
        last.join(LAST_SECONDS)


def _provider(endpoint: str | None, share: float, exporter: Any) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise TracingUnavailableError(
            "MERCATO_TRACES_ENDPOINT needs what exports traces: pip install 'mercato[otel]'"
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
        # In a thread of its own; what a collector that is away can't take is dropped, and nobody waits.
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address, timeout=5)))
    return provider


@contextmanager
def _span(name: str, parent: str | None, kind: Kind, told: Mapping[str, object]) -> Iterator[Any]:
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": parent or ""})
    attributes = {f"mercato.{key}": str(value) for key, value in told.items() if value is not None}
    with _tracer.start_as_current_span(
        name, context=context, kind=SpanKind[kind], attributes=attributes, record_exception=False
    ) as made:
        yield made
