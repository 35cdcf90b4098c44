"""A store's webhookUrl: the token for its origin, and the event about a new origin."""

from datetime import datetime
from uuid import UUID

from mercato.domain.partners import webhook_tokens
from mercato.domain.partners.queries import find_event_url
from mercato.domain.partners.vault import Vault
from mercato.domain.partners.webhook_tokens import TooManyOriginsError, list_token_origins
from mercato.domain.stores.model import StoreRow
from mercato.domain.webhooks.outbox import announce_change, origin_changed
from mercato.domain.webhooks.wire import Endpoint, EndpointChangedData
from mercato.kernel.clock import MakeId
from mercato.kernel.db.engine import Write
from mercato.kernel.outbound.urls import origin_of
from mercato.kernel.wire.checks import refuse


async def bind_token(tx: Write, vault: Vault, partner_id: UUID, url: str, *, token: str | None) -> None:
    """Bind the partner's token to the origin of a store's URL. Raises ValidationFailed."""
    try:
        await webhook_tokens.bind_token(tx, vault, partner_id, url, token=token)
    except TooManyOriginsError as error:
        refuse([("/webhookToken", str(error))])


async def announce_webhook_url(
    tx: Write, *, before: StoreRow, after: StoreRow, now: datetime, new_id: MakeId, trace: str
) -> None:
    """Notify the partner when a store's webhookUrl has a new origin."""
    if not origin_changed(before.webhook_url, after.webhook_url):
        return
    origin = None if after.webhook_url is None else origin_of(after.webhook_url)
    data = EndpointChangedData(
        endpoint=Endpoint.WEBHOOK_URL,
        store_id=after.id,
        partner_store_id=after.partner_store_id,
        previous_origin=None if before.webhook_url is None else origin_of(before.webhook_url),
        origin=origin,
        token_sent=origin is not None and origin in await list_token_origins(tx, after.partner_id),
    )
    await announce_change(
        tx,
        data,
        partner_id=after.partner_id,
        event_url=await find_event_url(tx, after.partner_id),
        webhook_url=before.webhook_url,
        now=now,
        new_id=new_id,
        trace=trace,
    )
