"""Builds and runs the service from its settings: the only composition root."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog
from msgspec import Struct

from mercato.features.catalogs import ingest as catalog_ingest
from mercato.features.catalogs.builder import Builder
from mercato.features.catalogs.dry_run import DryRuns
from mercato.features.catalogs.ingest import Ingest
from mercato.features.catalogs.menu_files import MenuFiles
from mercato.features.catalogs.queries import CompiledCatalogs
from mercato.features.catalogs.switches import Switches
from mercato.features.discovery.service import Discovery
from mercato.features.events.cursors import CURSORS, Cursors
from mercato.features.events.feed import Feeds, Waiters
from mercato.features.events.sequencer import Sequencer
from mercato.features.metrics import Activity, CommerceMetrics
from mercato.features.orders import idempotency, validation
from mercato.features.orders import search as order_search
from mercato.features.orders.by_hand import Acceptances
from mercato.features.orders.cancellation import Cancellations
from mercato.features.orders.cancellation_calls import CANCEL_KIND, CancellationCalls
from mercato.features.orders.checks import OrderChecker
from mercato.features.orders.lifecycle import Lifecycle
from mercato.features.orders.operators import HourlyOrders
from mercato.features.orders.placement import Placements
from mercato.features.orders.reports import OrderReports
from mercato.features.orders.resubmission import Resubmissions
from mercato.features.orders.service import Adjustments, Orders
from mercato.features.orders.submission import Submitter
from mercato.features.orders.summaries import Summaries
from mercato.features.orders.validation import OrderTokens, Validations
from mercato.features.partners import encryption
from mercato.features.partners.callers import PURPOSE, Callers, Tokens
from mercato.features.partners.limits import Failures, Limiter, Visitors, limiter_of
from mercato.features.partners.queries import StorageQuota
from mercato.features.partners.vault import Vault
from mercato.features.quotes import rules as quote_rules
from mercato.features.quotes.approvals import Approvals
from mercato.features.quotes.rules import ApprovalSecrets
from mercato.features.quotes.service import Quotes
from mercato.features.requests.log import RequestLog
from mercato.features.stores.cache import Menus, StoreCache
from mercato.features.stores.catalogs import CatalogBodies, IdMappings, MenuPlaces
from mercato.features.stores.events import StoreEvents
from mercato.features.stores.menu_index import MenuIndexes
from mercato.features.stores.onboarding import Onboardings
from mercato.features.stores.places import TimezoneLookup
from mercato.features.stores.search import StoreReindex
from mercato.features.stores.service import Stores
from mercato.features.upkeep import Upkeep
from mercato.features.webhooks import model as webhooks
from mercato.features.webhooks.calls import StoreCalls
from mercato.features.webhooks.credentials import WebhookCredentials
from mercato.features.webhooks.endpoints import WebhookEndpoints
from mercato.features.webhooks.notifications import Notifications
from mercato.features.webhooks.outbox import fan_out
from mercato.features.webhooks.redelivery import Redeliveries
from mercato.features.webhooks.sender import Sender
from mercato.features.webhooks.store_health import StoreHealth
from mercato.features.webhooks.trouble import find_trouble
from mercato.features.webhooks.validation_log import ValidationLog
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database, open_database
from mercato.platform.db.health import WriteProbe, measure_replication
from mercato.platform.db.url import database_url
from mercato.platform.jobs import Handlers, Worker
from mercato.platform.jobs.maintenance import find_depths
from mercato.platform.processes import trim_memory
from mercato.platform.telemetry import multiprocess, tracing
from mercato.platform.telemetry.exposition import serve_metrics
from mercato.platform.telemetry.logs import EventLog
from mercato.platform.telemetry.metrics import Traffic
from mercato.services import Core, Services
from mercato.settings import Settings, SettingsError
from mercato_contract import clock
from mercato_contract.clock import Clock
from mercato_contract.texts import Secret
from mercato_outbound.client import Outbound
from mercato_outbound.document import DocumentSpace, NewDocument
from mercato_outbound.guard import AddressPolicy, is_loopback
from mercato_outbound.results import Options

if TYPE_CHECKING:
    # Imported if they are set: they need extras.
    from mercato.features.partners.shared_limits import SharedLimiter
    from mercato.features.sign_in.sign_on import SignOn


log = structlog.get_logger("mercato.app")

GRACE: Final = timedelta(seconds=20)
"""How long running jobs may take to finish when the worker stops."""


def _is_local(settings: Settings) -> bool:
    host = settings.host if settings.public_url is None else urlsplit(settings.public_url).hostname
    return is_loopback(host)


def address_policy(settings: Settings) -> AddressPolicy:
    """Return which addresses pulls and webhooks may reach."""
    return AddressPolicy(
        allow_private=settings.allow_private_networks,
        names_setting=not settings.allow_private_networks and _is_local(settings),
    )


@asynccontextmanager
async def opened(
    settings: Settings, *, now: Clock = clock.now, with_replica: bool = False
) -> AsyncIterator[Core]:
    """Open the database, and build what needs nothing else: all that most commands need. Nothing runs."""
    db = open_database(settings) if with_replica else Database.open(database_url(settings))
    async with db:
        event_log = EventLog()
        activity = Activity(event_log)
        lifecycle = Lifecycle(clock.new_id, activity)
        yield Core(
            settings=settings,
            clock=now,
            new_id=clock.new_id,
            db=db,
            event_log=event_log,
            activity=activity,
            lifecycle=lifecycle,
            orders=Orders(db, now, lifecycle),
        )


@asynccontextmanager
async def running(
    settings: Settings, *, works: bool = True, now: Clock = clock.now, policy: AddressPolicy | None = None
) -> AsyncIterator[Services]:
    """Build the service, and run its tasks during the block; with `works`, also the background jobs.

    `policy` says which addresses pulls and webhooks may reach; by default, the settings decide.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(tracing.export_spans(settings.traces_endpoint, share=settings.traces_share))
        core = await stack.enter_async_context(opened(settings, now=now, with_replica=True))
        db = core.db
        feed = ChangeFeed(db)
        documents = DocumentSpace()
        outbound = Outbound(
            Options(policy=policy or address_policy(settings), new_document=documents.document)
        )
        stack.push_async_callback(outbound.close)
        builder = Builder(settings.build_memory)
        stack.push_async_callback(builder.close)
        # Raises for a wrong key: a process must not seal data that others can't open.
        async with db.read() as tx:
            is_bound, vault = await encryption.is_bound(tx), await core.open_vault(tx)
        if not is_bound:
            async with db.write() as tx:
                vault = await core.bind_vault(tx)
        app = build(
            core,
            feed=feed,
            vault=vault,
            outbound=outbound,
            builder=builder,
            new_document=documents.document,
        )
        await stack.enter_async_context(_serving_metrics(app))
        tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "changes": feed.run,
            "event log": app.event_log.run,
            "request log": app.request_log.run,
            "validation log": app.validation_log.run,
            "store health": app.store_health.run,
            "callers": app.callers.run,
            "metrics": app.metrics.run,
            "traffic": app.traffic.run,
            "memory": trim_memory,
            "events": app.sequencer.run,
            "waiting readers": app.feeds.waiters.run,
            "phone numbers": partial(asyncio.to_thread, order_search.load),
        }
        if db.replica is not None:
            tasks["replica"] = db.replica.run
        for name, run in tasks.items():
            await stack.enter_async_context(_alongside(run(), name))
        if app.shared_limiter is not None:
            await app.shared_limiter.start()
            stack.push_async_callback(app.shared_limiter.close)
        if app.sign_on is not None:
            stack.push_async_callback(app.sign_on.close)
        if works:
            await stack.enter_async_context(_alongside(_upkeep(app).run(), "upkeep"))
            notifications = Notifications(db, app.clock, app.new_id)
            await stack.enter_async_context(_alongside(notifications.run(), "notifications"))
            await stack.enter_async_context(_alongside(app.resubmissions.run(), "unanswered orders"))
            await stack.enter_async_context(_working(app.worker))
        yield app


def _upkeep(app: Services) -> Upkeep:
    settings = app.settings
    return Upkeep(
        app.db,
        app.clock,
        catalog_days=settings.catalog_retention_days,
        delivery_days=settings.delivery_retention_days,
        run_days=settings.run_retention_days,
        customer_days=settings.customer_data_days,
        audit_days=settings.audit_retention_days,
    )


@asynccontextmanager
async def _serving_metrics(app: Services) -> AsyncIterator[None]:
    """Register the caches and the queue with the metrics, and serve these on their own port if one is set."""
    app.metrics.watch_cache("callers", app.callers.lookups)
    app.metrics.watch_cache("stores", app.cache.lookups)
    app.metrics.watch_cache("catalogs", app.compiled.lookups)
    app.metrics.watch_cache("bodies", app.bodies.lookups)
    app.metrics.watch_activity(app.activity.take)
    app.metrics.watch_queue(partial(find_depths, app.db))
    app.metrics.watch_trouble(partial(find_trouble, app.db, app.clock))
    app.metrics.watch_replication(partial(measure_replication, app.db))
    port, token = app.settings.metrics_port, _revealed(app.settings.metrics_token)
    if port is None or not multiprocess.owns_metrics_port():
        yield
        return
    async with serve_metrics(app.metrics, host=app.settings.host, port=port, token=token):
        yield


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


@asynccontextmanager
async def _alongside(task: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run an endless task during the block."""
    running_task = asyncio.create_task(_log_failure(task, name), name=name)
    try:
        yield
    finally:
        running_task.cancel()
        await asyncio.gather(running_task, return_exceptions=True)


async def _log_failure(task: Coroutine[Any, Any, None], name: str) -> None:
    try:
        await task
    except Exception:  # the rest of the service goes on
        log.exception("bug: a background task has failed", task=name)


@asynccontextmanager
async def _working(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run(), name="worker")
    try:
        yield
    finally:
        await worker.stop(grace=GRACE)
        await task


def build(
    core: Core,
    *,
    feed: ChangeFeed,
    vault: Vault,
    outbound: Outbound,
    builder: Builder,
    new_document: NewDocument,
) -> Services:
    """Return the service with the resources that have been opened for it. Nothing runs yet."""
    settings, now, db, activity = core.settings, core.clock, core.db, core.activity
    cache = StoreCache(db, feed)
    compiled, bodies = CompiledCatalogs(db), CatalogBodies(db, feed)
    limits = settings.pull_limits
    metrics = CommerceMetrics()
    quota = StorageQuota(settings.stored_bytes_per_day if settings.rate_limits else 0)
    switches = Switches(
        db=db,
        clock=now,
        new_id=clock.new_id,
        on_finished=StoreEvents(clock.new_id).finished,
        metrics=metrics,
        activity=activity,
    )
    ingest = Ingest(
        db=db,
        outbound=outbound,
        builder=builder,
        limits=limits,
        default_currency=settings.default_currency,
        clock=now,
        new_id=clock.new_id,
        new_document=new_document,
        switches=switches,
        quota=quota,
        metrics=metrics,
    )
    credentials = WebhookCredentials(db, feed, vault, now)
    sender = Sender(
        db=db,
        outbound=outbound,
        credentials=credentials,
        vault=vault,
        clock=now,
        random=random.random,
        seconds=settings.webhook_seconds,
        metrics=metrics,
    )
    menus = Menus(db, cache, compiled)
    store_health = StoreHealth(db)
    calls = StoreCalls(
        outbound=outbound, credentials=credentials, clock=now, metrics=metrics, record=store_health.record
    )
    ordering = _ordering(core, vault=vault, menus=menus, calls=calls, quota=quota, metrics=metrics)
    limiter = limiter_of(settings, now)
    waiters = Waiters(db)
    callers = Callers(
        db,
        feed,
        Tokens(vault.derive(PURPOSE)),
        now,
        timeout=timedelta(seconds=settings.database_pool_seconds),
    )
    quotes = Quotes(
        db=db,
        clock=now,
        new_id=clock.new_id,
        vault=vault,
        secrets=ApprovalSecrets(vault.derive(quote_rules.PURPOSE)),
        menus=menus,
        validations=ordering.placements.validations,
        placements=ordering.placements,
        quota=quota,
    )
    return Services(
        **vars(core),
        metrics=metrics,
        feed=feed,
        vault=vault,
        callers=callers,
        quota=quota,
        failures=Failures(now) if settings.rate_limits else None,
        visitors=Visitors(now) if settings.rate_limits else None,
        limiter=limiter,
        shared_limiter=_shared_limiter(settings, now, limiter),
        outbound=outbound,
        builder=builder,
        cache=cache,
        compiled=compiled,
        bodies=bodies,
        places=MenuPlaces(bodies, compiled),
        menu_indexes=MenuIndexes(bodies, compiled),
        menus=menus,
        onboardings=Onboardings(db, now, clock.new_id, vault, outbound.policy, quota),
        stores=Stores(
            db,
            now,
            clock.new_id,
            cache,
            compiled,
            IdMappings(compiled),
            settings.ingest_waiting_per_store,
            vault=vault,
            quota=quota,
            switches=switches,
            new_document=new_document,
            policy=outbound.policy,
        ),
        discovery=Discovery(db, now),
        dry_runs=DryRuns(outbound, builder, compiled, limits, settings.default_currency, new_document),
        menu_files=MenuFiles(),
        validations=ordering.placements.validations,
        placements=ordering.placements,
        cancellations=ordering.cancellations,
        resubmissions=ordering.resubmissions,
        adjustments=Adjustments(
            db=core.db,
            clock=core.clock,
            new_id=core.new_id,
            lifecycle=core.lifecycle,
            secrets=vault.derive(idempotency.PURPOSE),
        ),
        quotes=quotes,
        approvals=Approvals(quotes=quotes, callers=callers),
        worker=Worker(
            db,
            _handlers(core, ingest, TimezoneLookup(db, now), sender, ordering)
            | switches.handlers()
            | Redeliveries(db, vault, now).handlers()
            | StoreReindex(db).handlers()
            | order_search.OrderReindex(db, ordering.placements.contacts).handlers(),
            observe=metrics.ran,
        ),
        write_probe=WriteProbe(db),
        request_log=RequestLog(
            db, core.event_log, metrics, clock=now, new_id=clock.new_id, mode=settings.request_log
        ),
        store_health=store_health,
        validation_log=ordering.placements.validations.log,
        traffic=Traffic(metrics.totals, now),
        hourly_orders=HourlyOrders(now),
        order_reports=OrderReports(db),
        order_summaries=Summaries(db, now),
        feeds=Feeds(db, Cursors(vault.derive(CURSORS)), waiters),
        sequencer=Sequencer(db, now, waiters.wake, fan_out=fan_out),
        endpoints=WebhookEndpoints(vault, now, clock.new_id, outbound.policy),
        redeliveries=Redeliveries(db, vault, now),
        sign_on=_sign_on(settings, vault, now),
    )


class _Ordering(Struct, frozen=True):
    placements: Placements
    cancellations: Cancellations
    resubmissions: Resubmissions


def _ordering(
    core: Core,
    *,
    vault: Vault,
    menus: Menus,
    calls: StoreCalls,
    quota: StorageQuota,
    metrics: CommerceMetrics,
) -> _Ordering:
    settings, now, db, activity = core.settings, core.clock, core.db, core.activity
    lifecycle = core.lifecycle
    contacts = order_search.contact_keys_of(vault)
    tokens = OrderTokens(vault.derive(validation.PURPOSE), clock.new_id)
    submitter = Submitter(db, now, clock.new_id, vault, calls, lifecycle)
    checker = OrderChecker(now, clock.new_id, menus)
    validations = Validations(
        db=db,
        clock=now,
        new_id=clock.new_id,
        checker=checker,
        calls=calls,
        tokens=tokens,
        seconds=settings.validate_seconds,
        quota=quota,
        activity=activity,
        log=ValidationLog(db, metrics, clock=now, new_id=clock.new_id),
    )
    placements = Placements(
        db=db,
        clock=now,
        new_id=clock.new_id,
        checker=checker,
        tokens=tokens,
        validations=validations,
        submitter=submitter,
        lifecycle=lifecycle,
        secrets=vault.derive(idempotency.PURPOSE),
        contacts=contacts,
        seconds=settings.place_seconds,
        resend=timedelta(seconds=settings.place_resend_seconds),
        quota=quota,
        activity=activity,
    )
    resubmissions = Resubmissions(db, now, submitter, lifecycle, settings.place_seconds, placements.lease)
    cancellations = Cancellations(
        db=db,
        clock=now,
        new_id=clock.new_id,
        calls=CancellationCalls(db, now, lifecycle, calls, settings.place_seconds),
        secrets=vault.derive(idempotency.PURPOSE),
        seconds=settings.place_seconds,
        resend=timedelta(seconds=settings.place_resend_seconds),
    )
    return _Ordering(placements, cancellations, resubmissions)


def _handlers(
    core: Core, ingest: Ingest, timezones: TimezoneLookup, sender: Sender, ordering: _Ordering
) -> Handlers:
    settings = core.settings
    return {
        catalog_ingest.KIND: ingest.handler(
            concurrency=settings.ingest_concurrency, per_partner=settings.ingest_concurrency_per_partner
        ),
        **core.orders.handlers(),
        **Acceptances(core.db, core.clock, core.lifecycle).handlers(),
        **ordering.resubmissions.handlers(concurrency=settings.resend_concurrency),
        CANCEL_KIND: ordering.cancellations.calls.handler(concurrency=settings.resend_concurrency),
        **timezones.handlers(),
        webhooks.KIND: sender.handler(
            concurrency=settings.delivery_concurrency, per_partner=settings.delivery_concurrency_per_partner
        ),
    }


def _shared_limiter(settings: Settings, now: Clock, own: Limiter | None) -> "SharedLimiter | None":
    """Return the limiter that counts requests in Redis, if one is set. Raises SettingsError."""
    if settings.redis_url is None or own is None:
        return None
    try:
        from mercato.features.partners.shared_limits import SharedLimiter
    except ImportError:
        raise SettingsError("MERCATO_REDIS_URL needs an extra: pip install 'mercato[redis]'") from None
    return SharedLimiter(settings.redis_url.reveal(), own, now)


def _sign_on(settings: Settings, vault: Vault, now: Clock) -> "SignOn | None":
    """Return the sign-in of operators with a provider, if one is set. Raises SettingsError."""
    if not settings.has_sign_on:
        return None
    from mercato.features.sign_in.sign_on import SignOn

    return SignOn(settings, vault, now)
