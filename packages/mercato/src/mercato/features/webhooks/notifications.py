"""What operators are told by webhook: that a partner is in trouble, and that an address was disabled.

The events go to endpoints of the operators, through the same feed, deliveries and retries as partners' events.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct
from sqlalchemy import delete, select

from mercato.features.metrics import PartnerTrouble
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_names
from mercato.features.webhooks.model import OPERATORS
from mercato.features.webhooks.outbox import NewEvent, Recipient, push_all
from mercato.features.webhooks.store_health import list_failing_stores_of
from mercato.features.webhooks.tables import failing_partners
from mercato.features.webhooks.trouble import MAX_PARTNERS, list_troubled_partners
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import repeat
from mercato.platform.db.statements import conflicting_insert
from mercato.platform.telemetry import tracing
from mercato_contract.clock import Clock, MakeId
from mercato_contract.events import EndpointDisabledData, EventType, PartnerFailingData
from mercato_contract.wire import rfc3339
from mercato_outbound.guard import origin_of

log = structlog.get_logger("mercato.webhooks")

EVERY_SECONDS: Final = 30.0
"""Between two looks for partners that got into trouble, or out of it."""

AT_ONCE: Final = 100
"""Partners about whom one look sends events, the worst; the next look goes on."""

MAX_STORES: Final = 20
"""Stores that an event names."""

_TO: Final = Recipient(OPERATORS, Surface.COMMERCE, None)


async def push_disabled(
    tx: Write, partner_id: UUID, url: str, *, reason: str, now: datetime, new_id: MakeId
) -> None:
    """Tell operators that an address was disabled, in the transaction that disables it."""
    data = EndpointDisabledData(
        partner_id=partner_id,
        partner=(await find_names(tx, {partner_id})).get(partner_id),
        origin=origin_of(url),
        reason=reason,
    )
    await push_all(tx, [(_event(EventType.ENDPOINT_DISABLED, data, new_id), _TO)], now=now)


def _event(type_: EventType, data: object, new_id: MakeId) -> NewEvent:
    event_id = new_id()
    return NewEvent(
        delivery_id=event_id, webhook_id=event_id, type=type_, data=data, traceparent=tracing.new_trace()
    )


class Notifications(Struct, frozen=True):
    """Tells operators once about each partner that gets into trouble. Several processes may do it at once."""

    db: Database
    clock: Clock
    new_id: MakeId

    async def run(self) -> None:
        """Run `once` again and again, until cancelled."""
        await repeat(
            self.once,
            seconds=EVERY_SECONDS,
            log=log,
            unavailable="partners in trouble wait for the database",
            bug="bug in finding partners in trouble",
        )

    async def once(self) -> None:
        """Push an event for each partner that is in trouble and wasn't, and forget those that no longer are."""
        async with self.db.read() as tx:
            troubled = await list_troubled_partners(tx, now=self.clock())
            known = {row.partner_id for row in await tx.all(select(failing_partners.c.partner_id))}
        new = [partner for partner in troubled if partner.partner_id not in known][:AT_ONCE]
        # With more than are looked at, one that isn't listed may still be in trouble.
        gone = known - {one.partner_id for one in troubled} if len(troubled) < MAX_PARTNERS else set()
        if not new and not gone:
            return
        async with self.db.write() as tx:
            for partner_id in sorted(gone):
                await tx.execute(delete(failing_partners).where(failing_partners.c.partner_id == partner_id))
            # In the order of their ids: two processes that insert the same rows don't wait for each other.
            ours = [
                partner
                for partner in sorted(new, key=lambda partner: partner.partner_id)
                if await self._insert(tx, partner)
            ]
            await self._push(tx, ours)

    async def _insert(self, tx: Write, partner: PartnerTrouble) -> bool:
        """Record that operators are told; return False if another process has."""
        new = conflicting_insert(failing_partners, tx.dialect).values(
            partner_id=partner.partner_id, since=partner.since
        )
        inserted = await tx.execute(new.on_conflict_do_nothing(index_elements=["partner_id"]))
        return inserted.rowcount == 1

    async def _push(self, tx: Write, troubled: Sequence[PartnerTrouble]) -> None:
        names = await find_names(tx, {partner.partner_id for partner in troubled})
        events = []
        for partner in troubled:
            failing = await list_failing_stores_of(tx, partner.partner_id, limit=MAX_STORES)
            data = PartnerFailingData(
                partner_id=partner.partner_id,
                partner=names.get(partner.partner_id, ""),
                since=rfc3339(partner.since),
                stores=partner.stores,
                addresses=partner.addresses,
                store_ids=tuple(store.store_id for store in failing),
            )
            events.append((_event(EventType.PARTNER_FAILING, data, self.new_id), _TO))
        if events:
            await push_all(tx, events, now=self.clock())
