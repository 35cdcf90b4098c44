"""Builds and runs the service from its settings: the only composition root."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from mercato.domain.catalog.building.builder import Builder
from mercato.domain.partners.accounts import open_vault
from mercato.domain.upkeep import Upkeep
from mercato.kernel import clock
from mercato.kernel.clock import Clock
from mercato.kernel.db.changes import ChangeFeed
from mercato.kernel.db.engine import open_database
from mercato.kernel.jobs import Worker
from mercato.kernel.jobs.maintenance import find_depths
from mercato.kernel.outbound.addresses import AddressPolicy
from mercato.kernel.outbound.client import Outbound
from mercato.kernel.outbound.document import DocumentSpace
from mercato.kernel.processes import trim_memory
from mercato.kernel.settings import Secret, Settings
from mercato.kernel.telemetry import multiprocess, tracing
from mercato.kernel.telemetry.exposition import serve_metrics
from mercato.runtime.wiring import Runtime, build

__all__ = ["GRACE", "Runtime", "running"]

log = structlog.get_logger("mercato.runtime")

GRACE: Final = timedelta(seconds=20)
"""How long running jobs may take to finish when the worker stops."""

_LOOPBACK: Final = {"127.0.0.1", "::1", "localhost"}


def _is_local(settings: Settings) -> bool:
    host = settings.host if settings.public_url is None else urlsplit(settings.public_url).hostname
    return host in _LOOPBACK


def address_policy(settings: Settings) -> AddressPolicy:
    """Return which addresses pulls and webhooks may reach."""
    return AddressPolicy(
        allow_private=settings.allow_private_networks,
        names_setting=not settings.allow_private_networks and _is_local(settings),
    )


@asynccontextmanager
async def running(
    settings: Settings, *, works: bool = True, now: Clock = clock.now, policy: AddressPolicy | None = None
) -> AsyncIterator[Runtime]:
    """Build the service, and run its tasks during the block; with `works`, also the background jobs.

    `policy` says which addresses pulls and webhooks may reach; by default, the settings decide.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(tracing.export_spans(settings.traces_endpoint, share=settings.traces_share))
        db = await stack.enter_async_context(open_database(settings))
        feed = ChangeFeed(db)
        documents = DocumentSpace()
        outbound = Outbound(policy or address_policy(settings), new_document=documents.document)
        stack.push_async_callback(outbound.close)
        builder = Builder(settings.build_memory)
        stack.push_async_callback(builder.close)
        async with db.read() as tx:
            # Raises for a wrong key: a process must not seal data that others can't open.
            vault = await open_vault(tx, _revealed(settings.encryption_keys), settings.data_dir)
        app = build(
            settings,
            now=now,
            db=db,
            feed=feed,
            vault=vault,
            outbound=outbound,
            builder=builder,
            new_document=documents.document,
        )
        await stack.enter_async_context(_serving_metrics(app))
        tasks = {
            "changes": feed.run,
            "event log": app.event_log.run,
            "request log": app.request_log.run,
            "validation log": app.validation_log.run,
            "callers": app.callers.run,
            "metrics": app.metrics.run,
            "traffic": app.traffic.run,
            "memory": trim_memory,
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
            await stack.enter_async_context(_working(app.worker))
        yield app


def _upkeep(app: Runtime) -> Upkeep:
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
async def _serving_metrics(app: Runtime) -> AsyncIterator[None]:
    """Register the caches and the queue with the metrics, and serve these on their own port if one is set."""
    app.metrics.watch_cache("callers", app.callers.lookups)
    app.metrics.watch_cache("stores", app.cache.lookups)
    app.metrics.watch_cache("catalogs", app.compiled.lookups)
    app.metrics.watch_cache("bodies", app.bodies.lookups)
    app.metrics.watch_activity(app.activity.take)
    app.metrics.watch_queue(partial(find_depths, app.db))
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
