"""Events for merchants: the end of a catalog run, and a webhookUrl with a new origin. Bind tokens to origins."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct

from mercato.features.catalogs.switches import EndedRun
from mercato.features.partners import webhook_tokens
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_event_url
from mercato.features.partners.vault import Vault
from mercato.features.partners.webhook_tokens import TooManyOriginsError, list_token_origins
from mercato.features.stores import queries, views
from mercato.features.stores.cache import publish_change
from mercato.features.stores.model import StoreRow
from mercato.features.webhooks.outbox import NewEvent, Recipient, announce_change, origin_changed, push
from mercato.platform.db.engine import Write
from mercato.platform.telemetry import tracing
from mercato_contract.clock import MakeId
from mercato_contract.decoding.checks import refuse
from mercato_contract.events import SYNC_EVENTS, CatalogSyncWebhookData, EndpointChangedData, EndpointKind
from mercato_contract.feeds import StoreChangeKind
from mercato_outbound.guard import origin_of


class StoreEvents(Struct, frozen=True):
    """Listens to catalog runs."""

    new_id: MakeId

    async def finished(self, tx: Write, finished: EndedRun) -> None:
        """Publish the store's change, and push the event if the partner requested the run."""
        run = finished.run
        if finished.switched:
            await publish_change(tx, run.owner.store_id, (StoreChangeKind.CATALOG,), at=finished.at)
        if not run.notified:
            return
        store = await queries.find_store(tx, run.owner.store_id)
        if store is None:
            return
        event = NewEvent(
            delivery_id=self.new_id(),
            webhook_id=run.id,
            type=SYNC_EVENTS[finished.status],
            store_id=run.owner.store_id,
            data=CatalogSyncWebhookData(
                catalog_ingest_id=run.id,
                store_id=run.owner.store_id,
                status=finished.status,
                errors=finished.errors,
                warnings=(*views.warnings_of(store), *finished.warnings),
                rolled_back_from=finished.rolled_back_from or UNSET,
            ),
            traceparent=tracing.current(run.traceparent),
        )
        recipient = Recipient(run.owner.partner_id, Surface.COMMERCE, store.webhook_url)
        await push(tx, event, to=recipient, now=finished.at)


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
        endpoint=EndpointKind.WEBHOOK_URL,
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
