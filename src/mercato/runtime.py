"""The one place that builds everything: settings in, a running service out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy import text

from mercato import clock
from mercato.catalog import ingest as catalog_ingest
from mercato.catalog.builder import Builder
from mercato.catalog.check import Checker
from mercato.catalog.compiled import CompiledCatalogs
from mercato.catalog.ingest import Ingest, IngestJob
from mercato.clock import Clock, MakeId
from mercato.db.changes import ChangeFeed
from mercato.db.engine import Database
from mercato.db.errors import DatabaseAway
from mercato.db.url import database_url
from mercato.jobs import Handler, Worker
from mercato.outbound.client import Outbound, PullLimits
from mercato.outbound.guard import AddressPolicy
from mercato.partners.callers import Callers
from mercato.partners.limits import Limiter
from mercato.partners.vault import Vault, load_keys
from mercato.settings import Settings
from mercato.stores import places
from mercato.stores.cache import StoreCache
from mercato.stores.events import StoreEvents
from mercato.stores.onboarding import Onboardings
from mercato.stores.places import PlaceJob, Placer
from mercato.stores.service import Stores
from mercato.telemetry import Metrics

log = structlog.get_logger("mercato.runtime")

READY_SECONDS = 2.0


@dataclass(frozen=True)
class Runtime:
    """Everything a request or a job can need."""

    settings: Settings
    clock: Clock
    new_id: MakeId
    db: Database
    metrics: Metrics
    feed: ChangeFeed
    vault: Vault
    callers: Callers
    limiter: Limiter | None
    outbound: Outbound
    builder: Builder
    cache: StoreCache
    compiled: CompiledCatalogs
    onboardings: Onboardings
    stores: Stores
    checker: Checker
    worker: Worker

    async def check_ready(self) -> None:
        """Return when the database answers. Raises DatabaseAway."""
        try:
            async with asyncio.timeout(READY_SECONDS), self.db.read() as tx:
                await tx.scalar(text("SELECT 1"))
        except TimeoutError:
            raise DatabaseAway("the database did not answer in time") from None


@asynccontextmanager
async def running(
    settings: Settings, *, works: bool = True, now: Clock = clock.now, policy: AddressPolicy | None = None
) -> AsyncIterator[Runtime]:
    """Build the service and run what belongs to it: caches' news, and with `works` the background work.

    `policy` says which addresses pulls and webhooks may reach; by default the settings do.
    """
    async with AsyncExitStack() as stack:
        db = await stack.enter_async_context(Database.open(database_url(settings)))
        feed = ChangeFeed(db)
        outbound = Outbound(policy or AddressPolicy(allow_private=settings.allow_private_networks))
        stack.push_async_callback(outbound.close)
        builder = Builder()
        stack.push_async_callback(builder.close)
        app = _wire(settings, now=now, db=db, feed=feed, outbound=outbound, builder=builder)
        await stack.enter_async_context(_alongside(feed.run(), app.callers.run()))
        if works:
            await stack.enter_async_context(_working(app.worker))
        yield app


def _wire(
    settings: Settings, *, now: Clock, db: Database, feed: ChangeFeed, outbound: Outbound, builder: Builder
) -> Runtime:
    raise NotImplementedError
