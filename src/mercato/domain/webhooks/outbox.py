"""The event that says that an address which a partner is called at has changed."""

from datetime import datetime
from uuid import UUID

from mercato.domain.partners.model import Surface
from mercato.domain.webhooks.deliveries import ENDPOINT_CHANGED, push
from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.wire import EndpointChangedData
from mercato.kernel.clock import MakeId
from mercato.kernel.db.engine import Write
from mercato.kernel.outbound.urls import origin_of


async def announce_change(
    tx: Write,
    data: EndpointChangedData,
    *,
    partner_id: UUID,
    event_url: str | None,
    webhook_url: str | None,
    now: datetime,
    new_id: MakeId,
    trace: str,
) -> None:
    """Send the event to the event URL, or without one below the webhookUrl that was in force until now."""
    base_url = event_url or webhook_url
    if base_url is None:
        return
    event_id = new_id()
    await push(
        tx,
        delivery_id=event_id,
        partner_id=partner_id,
        surface=Surface.COMMERCE if event_url is None else Surface.MARKETFRONT,
        store_id=data.store_id if isinstance(data.store_id, UUID) else None,
        base_url=base_url,
        suffix=ENDPOINT_CHANGED if event_url is None else "",
        type=EventType.ENDPOINT_CHANGED,
        webhook_id=event_id,
        data=data,
        occurred_at=now,
        now=now,
        traceparent=trace,
    )


def origin_changed(before: str | None, after: str | None) -> bool:
    """Tell whether two URLs differ in scheme, host or port; None is no URL at all."""
    if before is None or after is None:
        return before is not after
    return before != after and (origin_of(before) != origin_of(after) or origin_of(after) is None)
