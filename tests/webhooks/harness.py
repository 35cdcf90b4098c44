"""A partner, and its deliveries sent one attempt at a time, with a clock that the test sets."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace
from sqlalchemy import select, update
from tests.waiting import PATIENCE

from mercato.features.partners import accounts
from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.model import Caller, Limits, PartnerKind, Surface
from mercato.features.partners.vault import Vault
from mercato.features.partners.webhook_tokens import bind_token
from mercato.features.webhooks import deliveries
from mercato.features.webhooks.credentials import WebhookCredentials
from mercato.features.webhooks.model import KIND, DeliverJob
from mercato.features.webhooks.outbox import NewEvent, Recipient, push
from mercato.features.webhooks.sender import Sender
from mercato.features.webhooks.tables import deliveries as delivery_rows
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import AnyRow, Database, Write
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import Job, Worker
from mercato.platform.jobs.claim import Rotation, claim
from mercato.platform.jobs.run import Run
from mercato.platform.jobs.settle import settle
from mercato_contract import clock
from mercato_contract.clock import new_id
from mercato_contract.webhooks import WebhookDeliveryDetail
from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import Options

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TOKEN = "tk_what-the-partner-gave-us"
SECONDS = PATIENCE
"""What a call may take: no answer here is late because the machine is slow."""


@dataclass
class Harness:
    """Everything that a delivery needs. `now` is the time until the test changes it."""

    db: Database
    outbound: Outbound
    vault: Vault
    partner: NewPartner
    now: datetime = field(default_factory=clock.now)

    def sender(self, *, random: Callable[[], float] = lambda: 0.5, seconds: float = SECONDS) -> Sender:
        return Sender(
            db=self.db,
            outbound=self.outbound,
            credentials=WebhookCredentials(self.db, ChangeFeed(self.db), self.vault, lambda: self.now),
            vault=self.vault,
            clock=lambda: self.now,
            random=random,
            seconds=seconds,
        )

    def caller(self, surface: Surface = Surface.COMMERCE, partner_id: UUID | None = None) -> Caller:
        return Caller(
            partner_id=partner_id or self.partner.id, key_id=new_id(), surface=surface, limits=Limits()
        )

    async def push(self, base_url: str, **changes: Any) -> UUID:
        """Push one event in a transaction of its own and return the delivery's id."""
        async with self.db.write() as tx:
            return await self.push_in(tx, base_url, **changes)

    async def push_in(self, tx: Write, base_url: str, **changes: Any) -> UUID:
        delivery_id = new_id()
        surface = changes.pop("surface", Surface.COMMERCE)
        recipient = Recipient(changes.pop("partner_id", self.partner.id), surface, base_url)
        now = changes.pop("now", self.now)
        given: dict[str, Any] = {
            "delivery_id": delivery_id,
            "webhook_id": new_id(),
            "type": "catalog.sync.succeeded",
            "data": {"status": "succeeded", "errors": []},
            "traceparent": TRACE,
            "store_id": new_id(),
        }
        if surface is Surface.COMMERCE:
            await bind_token(tx, self.vault, self.partner.id, base_url, token=None)
        await push(tx, NewEvent(**given | changes), to=recipient, now=now)
        return delivery_id

    async def bind(self, url: str) -> None:
        """Bind the partner's token to the origin of the URL, as the registration of a store does."""
        async with self.db.write() as tx:
            await bind_token(tx, self.vault, self.partner.id, url, token=None)

    async def get(self, delivery_id: UUID, surface: Surface = Surface.COMMERCE) -> WebhookDeliveryDetail:
        async with self.db.read() as tx:
            return await deliveries.get_delivery(tx, self.caller(surface), delivery_id)

    async def redeliver(self, delivery_id: UUID) -> WebhookDeliveryDetail:
        async with self.db.write() as tx:
            return await deliveries.redeliver(tx, self.caller(), delivery_id, now=self.now)

    async def claim(self) -> Job[str]:
        """Claim the only ready job, as a worker does."""
        async with self.db.write() as tx:
            [claimed] = await claim(
                tx,
                KIND,
                self.sender().handler(concurrency=8),
                worker="w",
                lease=timedelta(seconds=60),
                free=8,
                rotation=Rotation(),
            )
        return claimed

    async def attempt(self, sender: Sender | None = None) -> None:
        """Run the only ready job to its end."""
        handler = (sender or self.sender()).handler(concurrency=8)
        run = Run(await self.claim(), handler)
        await settle(self.db, run.job, handler, await run.result())

    async def wait_for_retry(self) -> timedelta:
        """Set the time to that of the only waiting retry. Return the delay."""
        async with self.db.write() as tx:
            await tx.execute(update(jobs).where(jobs.c.state == "waiting").values(state="ready"))
            row = await tx.first(
                select(delivery_rows.c.next_attempt_at).where(delivery_rows.c.status == "pending")
            )
        assert row is not None
        waited: timedelta = row.next_attempt_at - self.now
        self.now = row.next_attempt_at
        return waited

    async def jobs(self) -> list[AnyRow]:
        async with self.db.read() as tx:
            return list(await tx.all(select(jobs).order_by(jobs.c.id)))


@asynccontextmanager
async def working(harness: Harness, *, seconds: float = SECONDS) -> AsyncIterator[None]:
    """Send deliveries as a process does whose calls may take so long."""
    worker = Worker(harness.db, {KIND: harness.sender(seconds=seconds).handler(concurrency=8)})
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.stop(grace=timedelta(seconds=5))
        await running


def job_of(claimed: Job[str]) -> Job[DeliverJob]:
    job: Job[Any] = claimed
    return replace(job, payload=msgspec.json.decode(claimed.payload, type=DeliverJob))


@asynccontextmanager
async def open_harness(db: Database, *, allow_private: bool = True) -> AsyncIterator[Harness]:
    """Yield a harness with one partner of both kinds that has a token."""
    vault = Vault([base64.b64decode("A" * 43 + "=")])
    async with db.write() as tx:
        partner = await accounts.create_partner(
            tx, vault, name="Pizza", kind=PartnerKind.BOTH, webhook_token=TOKEN
        )
    async with Outbound(Options(policy=AddressPolicy(allow_private=allow_private))) as outbound:
        yield Harness(db=db, outbound=outbound, vault=vault, partner=partner)
