"""The parts of the service, built from the settings."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from mercato.domain.catalog import ingest as catalog_ingest
from mercato.domain.catalog.building.builder import Builder
from mercato.domain.catalog.check import Checker
from mercato.domain.catalog.compiled import CompiledCatalogs
from mercato.domain.catalog.ingest import Ingest, IngestJob
from mercato.domain.discovery.index import refresh
from mercato.domain.discovery.service import Discovery
from mercato.domain.orders.changes import Changes
from mercato.domain.orders.placement import idempotency, submission
from mercato.domain.orders.placement.plan import Planner
from mercato.domain.orders.placement.replies import Replies
from mercato.domain.orders.placement.resend import Resender
from mercato.domain.orders.placement.service import Placements
from mercato.domain.orders.placement.submission import Submitter
from mercato.domain.orders.service import CANCELLED_KIND, CancelledJob, Orders
from mercato.domain.orders.validation import tokens as order_tokens
from mercato.domain.orders.validation.checks import OrderChecker
from mercato.domain.orders.validation.service import Validations
from mercato.domain.orders.validation.tokens import OrderTokens
from mercato.domain.partners.callers import Callers
from mercato.domain.partners.limits import Failures, Limiter, Visitors, limiter_of
from mercato.domain.partners.storage import StorageQuota
from mercato.domain.partners.tokens import PURPOSE, Tokens
from mercato.domain.partners.vault import Vault
from mercato.domain.requests.log import RequestLog
from mercato.domain.stores.cache import Menus, StoreCache
from mercato.domain.stores.catalogs import CatalogBodies, IdMappings
from mercato.domain.stores.events import StoreEvents
from mercato.domain.stores.menu_places import MenuPlaces
from mercato.domain.stores.onboarding import Onboardings
from mercato.domain.stores.places import TimezoneLookup
from mercato.domain.stores.service import Stores
from mercato.domain.webhooks import model as webhooks
from mercato.domain.webhooks.calls import StoreCalls
from mercato.domain.webhooks.credentials import WebhookCredentials
from mercato.domain.webhooks.sender import Sender
from mercato.domain.webhooks.validation_log import ValidationLog
from mercato.kernel import clock
from mercato.kernel.clock import Clock, MakeId
from mercato.kernel.db.changes import ChangeFeed
from mercato.kernel.db.engine import Database
from mercato.kernel.db.health import WriteProbe
from mercato.kernel.jobs import Handler, Handlers, Worker
from mercato.kernel.outbound.client import Outbound, PullLimits
from mercato.kernel.outbound.document import NewDocument
from mercato.kernel.settings import Settings, SettingsError
from mercato.kernel.telemetry import Metrics
from mercato.kernel.telemetry.activity import Activity, EventLog
from mercato.kernel.telemetry.traffic import Traffic

if TYPE_CHECKING:
    # Imported if they are set: they need extras.
    from mercato.domain.console.sign_on import SignOn
    from mercato.domain.partners.shared_limits import SharedLimiter


@dataclass(frozen=True)
class Runtime:
    """The parts that requests and jobs use."""

    settings: Settings
    clock: Clock
    new_id: MakeId
    db: Database
    metrics: Metrics
    feed: ChangeFeed
    vault: Vault
    callers: Callers
    limiter: Limiter | None
    shared_limiter: "SharedLimiter | None"
    quota: StorageQuota
    failures: Failures | None
    visitors: Visitors | None
    outbound: Outbound
    builder: Builder
    cache: StoreCache
    compiled: CompiledCatalogs
    bodies: CatalogBodies
    places: MenuPlaces
    menus: Menus
    onboardings: Onboardings
    stores: Stores
    discovery: Discovery
    checker: Checker
    validations: Validations
    placements: Placements
    orders: Orders
    worker: Worker
    write_probe: WriteProbe
    activity: Activity
    event_log: EventLog
    request_log: RequestLog
    validation_log: ValidationLog
    traffic: Traffic
    sign_on: "SignOn | None"


def build(
    settings: Settings,
    *,
    now: Clock,
    db: Database,
    feed: ChangeFeed,
    vault: Vault,
    outbound: Outbound,
    builder: Builder,
    new_document: NewDocument,
) -> Runtime:
    """Return the service with the resources that have been opened for it. Nothing runs yet."""
    cache = StoreCache(db, feed)
    compiled, bodies = CompiledCatalogs(db), CatalogBodies(db)
    limits = PullLimits.of(settings)
    metrics, event_log = Metrics(), EventLog()
    activity = Activity(event_log)
    quota = StorageQuota(settings.stored_bytes_per_day if settings.rate_limits else 0)
    ingest = Ingest(
        db=db,
        outbound=outbound,
        builder=builder,
        limits=limits,
        default_currency=settings.default_currency,
        clock=now,
        new_id=clock.new_id,
        on_finished=StoreEvents(clock.new_id, refresh).finished,
        quota=quota,
        metrics=metrics,
        activity=activity,
    )
    credentials = WebhookCredentials(db, feed, vault, now)
    sender = Sender(
        db=db,
        outbound=outbound,
        credentials=credentials,
        clock=now,
        random=random.random,
        seconds=settings.webhook_seconds,
        metrics=metrics,
    )
    menus = Menus(db, cache, compiled)
    calls = StoreCalls(outbound=outbound, credentials=credentials, clock=now, metrics=metrics)
    ordering = _ordering(
        settings,
        db=db,
        now=now,
        vault=vault,
        menus=menus,
        calls=calls,
        quota=quota,
        activity=activity,
        metrics=metrics,
    )
    limiter = limiter_of(settings, now)
    return Runtime(
        settings=settings,
        clock=now,
        new_id=clock.new_id,
        db=db,
        metrics=metrics,
        feed=feed,
        vault=vault,
        callers=Callers(db, feed, Tokens(vault.derive(PURPOSE)), now),
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
        menus=menus,
        onboardings=Onboardings(db, now, clock.new_id, refresh, vault),
        stores=Stores(
            db,
            now,
            clock.new_id,
            cache,
            compiled,
            IdMappings(compiled),
            settings.ingest_waiting_per_store,
            on_change=refresh,
            vault=vault,
            quota=quota,
        ),
        discovery=Discovery(db, now),
        checker=Checker(outbound, builder, compiled, limits, settings.default_currency, new_document),
        validations=ordering.placements.validations,
        placements=ordering.placements,
        orders=ordering.orders,
        worker=Worker(
            db,
            _handlers(settings, ingest, TimezoneLookup(db, refresh), sender, ordering),
            observe=metrics.ran,
        ),
        write_probe=WriteProbe(db),
        activity=activity,
        event_log=event_log,
        request_log=RequestLog(
            db, event_log, metrics, clock=now, new_id=clock.new_id, mode=settings.request_log
        ),
        validation_log=ordering.placements.validations.log,
        traffic=Traffic(metrics, now),
        sign_on=_sign_on(settings, vault, now),
    )


class _Ordering(Struct, frozen=True):
    placements: Placements
    orders: Orders
    resender: Resender


def _ordering(
    settings: Settings,
    *,
    db: Database,
    now: Clock,
    vault: Vault,
    menus: Menus,
    calls: StoreCalls,
    quota: StorageQuota,
    activity: Activity,
    metrics: Metrics,
) -> _Ordering:
    changes = Changes(clock.new_id, activity)
    tokens = OrderTokens(vault.derive(order_tokens.PURPOSE), clock.new_id)
    submitter = Submitter(db, now, clock.new_id, vault, calls, changes)
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
        planner=Planner(now, checker, tokens),
        validations=validations,
        submitter=submitter,
        changes=changes,
        secrets=vault.derive(idempotency.PURPOSE),
        seconds=settings.place_seconds,
        resend=timedelta(seconds=settings.place_resend_seconds),
        quota=quota,
        activity=activity,
        replies=Replies(now, activity),
    )
    resender = Resender(db, now, submitter, changes, settings.place_seconds)
    return _Ordering(placements, Orders(db, now, changes), resender)


def _handlers(
    settings: Settings, ingest: Ingest, timezones: TimezoneLookup, sender: Sender, ordering: _Ordering
) -> Handlers:
    resender = ordering.resender
    return {
        catalog_ingest.KIND: Handler(
            fn=ingest.handle,
            payload=IngestJob,
            timeout=timedelta(seconds=settings.pull_seconds + catalog_ingest.PROCESS_SECONDS),
            concurrency=settings.ingest_concurrency,
            total_concurrency=settings.ingest_concurrency,
            group_concurrency=settings.ingest_concurrency_per_partner,
            max_attempts=catalog_ingest.ATTEMPTS,
            blocks_key_while_waiting=True,
            on_dead=ingest.give_up,
        ),
        submission.SUBMIT_KIND: resender.handler(concurrency=settings.resend_concurrency),
        submission.RESEND_KIND: resender.handler(concurrency=settings.resend_concurrency),
        CANCELLED_KIND: Handler(fn=ordering.orders.record_cancelled, payload=CancelledJob),
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
        from mercato.domain.partners.shared_limits import SharedLimiter
    except ImportError:
        raise SettingsError("MERCATO_REDIS_URL needs an extra: pip install 'mercato[redis]'") from None
    return SharedLimiter(settings.redis_url.reveal(), own, now)


def _sign_on(settings: Settings, vault: Vault, now: Clock) -> "SignOn | None":
    """Return the sign-in of operators with a provider, if one is set. Raises SettingsError."""
    if not settings.has_sign_on:
        return None
    from mercato.domain.console.sign_on import SignOn

    return SignOn(settings, vault, now)
