"""Publish the end of a catalog run in its transaction: the store's change, and the event."""

from typing import Final

from msgspec import Struct

from mercato.domain.catalog.ingest import Finished
from mercato.domain.catalog.runs import RunStatus
from mercato.domain.catalog.wire import CatalogSyncWebhookData
from mercato.domain.partners.model import Surface
from mercato.domain.stores import places, queries
from mercato.domain.stores.changes import OnChange, publish_change
from mercato.domain.webhooks.deliveries import CATALOG_SYNC, push
from mercato.domain.webhooks.event_types import EventType
from mercato.kernel.clock import MakeId
from mercato.kernel.db.engine import Write
from mercato.kernel.telemetry import tracing

SYNC_EVENTS: Final = {
    RunStatus.SUCCEEDED: EventType.CATALOG_SYNC_SUCCEEDED,
    RunStatus.FAILED: EventType.CATALOG_SYNC_FAILED,
}


class StoreEvents(Struct, frozen=True):
    """Listens to catalog runs."""

    new_id: MakeId
    on_change: OnChange

    async def finished(self, tx: Write, finished: Finished) -> None:
        """Publish the store's change; push the event if the partner requested the run and has a webhookUrl."""
        run = finished.run
        if finished.built is not None:
            await publish_change(tx, run.owner.store_id, self.on_change)
        if not run.notified:
            return
        store = await queries.find_store(tx, run.owner.store_id)
        if store is None or store.webhook_url is None:
            return
        await push(
            tx,
            delivery_id=self.new_id(),
            partner_id=run.owner.partner_id,
            store_id=run.owner.store_id,
            base_url=store.webhook_url,
            suffix=CATALOG_SYNC,
            type=SYNC_EVENTS[finished.status],
            webhook_id=run.id,
            data=CatalogSyncWebhookData(
                catalog_ingest_id=run.id,
                store_id=run.owner.store_id,
                status=finished.status,
                errors=finished.errors,
                warnings=(*places.warnings_of(store), *finished.warnings),
            ),
            occurred_at=finished.at,
            now=finished.at,
            traceparent=tracing.current(run.traceparent),
            surface=Surface.COMMERCE,
        )
