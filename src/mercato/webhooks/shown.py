"""Rows of deliveries and attempts as their partner reads them."""

from typing import Any

from sqlalchemy import Row

from mercato.webhooks.model import DeliveryStatus
from mercato.webhooks.wire import DeliveryAttempt
from mercato.wire import instant


def members_of(row: Row[Any]) -> dict[str, Any]:
    """Return the members that a delivery has in lists and by itself."""
    return {
        "delivery_id": row.id,
        "id": row.id,
        "type": row.type,
        "webhook_id": row.webhook_id,
        "url": row.url,
        "store_id": row.store_id,
        "order_id": row.order_id,
        "status": DeliveryStatus(row.status),
        "attempts": row.attempts,
        "next_attempt_at": instant(row.next_attempt_at),
        "error": row.error,
        "endpoint_disabled": row.disabled_reason,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
    }


def attempt_of(row: Row[Any]) -> DeliveryAttempt:
    """Return one attempt."""
    return DeliveryAttempt(
        number=row.number,
        at=instant(row.at) or "",
        status=row.status,
        ms=row.ms,
        error=row.error,
        reply=row.reply,
    )
