"""The HTTP request of every webhook: signed now, traced, and sent through the guard."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from mercato.domain.webhooks.model import CallResult
from mercato.kernel.outbound.client import Outbound, Reply, RequestFailed
from mercato.kernel.outbound.signing import webhook_headers
from mercato.kernel.telemetry import tracing


async def post_signed(
    outbound: Outbound,
    url: str,
    *,
    webhook_id: UUID,
    body: bytes,
    secrets: Sequence[str],
    token: str | None,
    at: datetime,
    traceparent: str,
    span: str,
    ids: dict[str, UUID],
    **options: Any,
) -> Reply:
    """Post the body, signed with every secret. `options` are those of `Outbound.post`. Raises RequestFailed."""
    headers = webhook_headers(
        webhook_id=str(webhook_id),
        timestamp=int(at.timestamp()),
        body=body,
        secrets=secrets,
        token=token,
        traceparent=traceparent,
    )
    with tracing.span(span, parent=traceparent, kind="CLIENT", **ids):
        headers["traceparent"] = tracing.current(traceparent)
        return await outbound.post(url, headers=headers, body=body, **options)


def failed_result(at: datetime, failure: RequestFailed) -> CallResult:
    """Return the result of a request without a reply."""
    return CallResult(at=at, ms=failure.elapsed_ms, status=failure.status, error=failure.message)
