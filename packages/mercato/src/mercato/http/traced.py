"""A span for each request if traces are exported, around the edge."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mercato.http.body import Message, Receive
from mercato.http.edge import Edge
from mercato.platform.telemetry import tracing
from mercato.platform.telemetry.context import current_context

HEADER = b"traceparent"
FIRST_SERVER_ERROR = 500


class Traced:
    """The application with a span for each request, the parent of what the request causes."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    @property
    def in_flight(self) -> set[asyncio.Task[Any]]:
        return self._edge.in_flight

    async def __call__(
        self, scope: Any, receive: Receive, send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Serve one request."""
        sent = [value for name, value in scope["headers"] if name == HEADER]
        parent = sent[-1].decode("latin-1") if sent else None
        method = scope["method"]
        with tracing.span(method, parent=parent, kind="SERVER") as span:

            async def observed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, method, message["status"])
                await send(message)

            headers = [pair for pair in scope["headers"] if pair[0] != HEADER]
            headers.append((HEADER, tracing.current("").encode()))
            await self._edge({**scope, "headers": headers}, receive, observed)


def _describe(span: Any, method: str, status: int) -> None:
    """Set the span's name and attributes. Not the path, which may hold anything; the operation's id says as much."""
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.response.status_code", status)
    if status >= FIRST_SERVER_ERROR:
        from opentelemetry.trace import StatusCode

        span.set_status(StatusCode.ERROR)
    context = current_context()
    if context is not None:
        span.update_name(context.action)
        for name, value in context.log_fields():
            span.set_attribute(f"mercato.{name}", value)
