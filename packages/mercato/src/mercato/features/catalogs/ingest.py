"""Ingests catalogs: a run is accepted in one transaction, pulled and built outside any, and switched in another.

The listener is called in the transaction that ends a run, so that its event and search entry are committed with the
switch.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato.features.catalogs import queries
from mercato.features.catalogs.building.builder import Builder, BuildOverrunError
from mercato.features.catalogs.model import BuildFailed, BuildRequest, Built, Unchanged
from mercato.features.catalogs.runs import CurrentSet, NewSet, Owner, Run, partner_warnings
from mercato.features.metrics import Activity, CommerceMetrics
from mercato.features.partners.queries import StorageQuota
from mercato.platform import errors, processes
from mercato.platform.clock import Clock, MakeId
from mercato.platform.db.engine import Database, Write
from mercato.platform.jobs import Done, Job, JobLost, Outcome, enqueue, fence
from mercato.platform.outbound.client import Outbound
from mercato.platform.outbound.results import NotModified, PulledDocument, PullLimits, RequestFailed
from mercato.platform.telemetry import tracing
from mercato.platform.telemetry.context import set_partner
from mercato_contract.catalogs import CatalogFault, PartnerWarning, RunStatus
from mercato_contract.wire import Wire, as_json

log = structlog.get_logger("mercato.catalog")

KIND: Final = "catalog.ingest"
RETRY_AFTER: Final = 2
"""Seconds between two polls of a run's status, for Retry-After."""

PROCESS_SECONDS: Final = 120.0
"""The time limit of a run after its pull: to wait for the building process, build, compress and switch."""

ATTEMPTS: Final = 3
"""Attempts at a run that fails through an error of the service, before it ends `failed`."""

_CANCELLED: Final = CatalogFault(message="The onboarding was cancelled.", path="")
_INTERNAL_ERROR: Final = CatalogFault(
    message="The run failed because of an error in the service. Notify the service of the catalog again.",
    path="",
)


class IngestJob(Wire):
    """The payload of a run's job; everything else is in the run's row."""

    run_id: UUID


class EndedRun(Struct, frozen=True):
    """A run that has just ended. `built` is set if the owner switched to a new set."""

    run: Run
    status: RunStatus
    errors: tuple[CatalogFault, ...]
    at: datetime
    warnings: tuple[PartnerWarning, ...] = ()
    built: Built | None = None
    excerpts: tuple[str, ...] = ()
    """What the document has at each of the errors."""


Listener = Callable[[Write, EndedRun], Awaitable[None]]
"""Called in the transaction that ends a run, succeeded or failed."""


async def accept(
    tx: Write,
    owner: Owner,
    callback_url: str,
    *,
    notified: bool,
    traceparent: str,
    now: datetime,
    run_id: UUID,
) -> Run:
    """Insert a run and its job in the caller's transaction."""
    run = Run(
        id=run_id,
        owner=owner,
        notified=notified,
        callback_url=callback_url,
        status=RunStatus.QUEUED,
        traceparent=traceparent,
        created_at=now,
        updated_at=now,
    )
    await queries.insert_run(tx, run)
    job, key = IngestJob(run_id=run.id), f"catalog:{owner.id}"
    await enqueue(tx, KIND, job, ordering_key=key, group=str(owner.partner_id), dedup=str(run.id))
    return run


async def accept_notified(
    tx: Write, owner: Owner, callback_url: str, *, waiting: int, traceparent: str, now: datetime, run_id: UUID
) -> Run:
    """Accept a run that a partner requests. Raises RateLimited if `waiting` runs of the store are queued."""
    await queries.lock_owner(tx, owner.id)
    if await queries.count_waiting(tx, owner.id) >= waiting:
        raise errors.RateLimited(
            f"{waiting} catalog runs of this store are queued. Each pulls the newest document, so another one "
            "changes nothing. Poll the last one, then notify again.",
            retry_after=RETRY_AFTER,
        )
    return await accept(
        tx, owner, callback_url, notified=True, traceparent=traceparent, now=now, run_id=run_id
    )


class Ingest(Struct, frozen=True, kw_only=True):
    """Runs the ingest jobs."""

    db: Database
    outbound: Outbound
    builder: Builder
    limits: PullLimits
    default_currency: str
    clock: Clock
    new_id: MakeId
    on_finished: Listener
    quota: StorageQuota
    metrics: CommerceMetrics
    activity: Activity

    async def handle(self, job: Job[IngestJob]) -> Outcome:
        """Perform the job's run to its end. After a crash at any point the job performs it again."""
        begun = await self._begin(job)
        if begun is None:
            return Done()
        run, current = begun
        owner = run.owner
        set_partner(partner_id=owner.partner_id, store_id=owner.store_id, traceparent=run.traceparent)
        with tracing.span("catalog.ingest", parent=run.traceparent, kind="CONSUMER", run_id=run.id):
            return await self._perform(job, run, current)

    async def _perform(self, job: Job[IngestJob], run: Run, current: CurrentSet | None) -> Outcome:
        try:
            pulled = await self._pull(run, current)
            if isinstance(pulled, NotModified):
                return await self._not_modified(job, run)
            with pulled.document:
                async with self._fenced(job) as tx:
                    is_open = await queries.move_run(tx, run.id, to=RunStatus.PROCESSING, now=self.clock())
                return await self._process(job, run, current, pulled) if is_open else Done()
        except (RequestFailed, BuildOverrunError) as failure:
            message = failure.message
        except errors.RateLimited as refused:
            message = refused.detail
        return await self._fail(job, run, (CatalogFault(message=message, path=""),))

    async def give_up(self, tx: Write, job: Job[IngestJob], reason: str) -> None:
        """Fail the run of a job that failed too often, so that it never stays in progress."""
        log.error("catalog run given up", run_id=str(job.payload.run_id), reason=reason)
        run = await queries.find_run(tx, job.payload.run_id)
        if run is not None:
            await self._end(tx, EndedRun(run, RunStatus.FAILED, (_INTERNAL_ERROR,), self.clock()))

    @asynccontextmanager
    async def _fenced(self, job: Job[IngestJob]) -> AsyncIterator[Write]:
        """Open a transaction of a job that is still held."""
        async with self.db.write() as tx:
            await fence(tx, job)
            yield tx

    async def _begin(self, job: Job[IngestJob]) -> tuple[Run, CurrentSet | None] | None:
        async with self._fenced(job) as tx:
            run = await queries.find_run(tx, job.payload.run_id)
            if run is None or not await queries.move_run(tx, run.id, to=RunStatus.PULLING, now=self.clock()):
                return None
            return run, await queries.find_current(tx, run.owner.id)

    async def _pull(self, run: Run, current: CurrentSet | None) -> PulledDocument | NotModified:
        # An ETag belongs to its URL: another URL may use the same one for another document.
        same = current is not None and current.source_url == run.callback_url
        etag = current.source_etag if current is not None and same else None
        with self.metrics.stage("pull"):
            return await self.outbound.pull(run.callback_url, limits=self.limits, etag=etag)

    async def _process(
        self, job: Job[IngestJob], run: Run, current: CurrentSet | None, pulled: PulledDocument
    ) -> Outcome:
        set_id = self.new_id()
        previous = None if current is None else current.content_hash
        request = BuildRequest(run.owner.id, set_id, run.owner.store_id, self.default_currency, previous)
        with self.metrics.stage("build"):
            result = await self.builder.build(pulled.document, request)
        pulled.document.close()
        if isinstance(result, BuildFailed):
            faults = tuple(CatalogFault(message=one.message, path=one.path) for one in result.faults)
            return await self._fail(job, run, faults, partner_warnings(result.warnings), result.excerpts)
        if isinstance(result, Unchanged):
            assert current is not None
            finished = EndedRun(run, RunStatus.SUCCEEDED, (), self.clock(), partner_warnings(result.warnings))
            async with self._fenced(job) as tx:
                await queries.touch_source(tx, current.id, url=run.callback_url, etag=pulled.etag)
                await self._end(tx, finished, current.id)
            return Done()
        with self.metrics.stage("store"):
            return await self._switch(job, run, current, pulled, set_id, result)

    async def _switch(
        self,
        job: Job[IngestJob],
        run: Run,
        current: CurrentSet | None,
        pulled: PulledDocument,
        set_id: UUID,
        built: Built,
    ) -> Outcome:
        with self.metrics.stage("compress"):
            parts = await self.builder.compress(built)
        parts |= {queries.COMPILED: built.compiled, queries.SEARCH: built.search}
        processes.crash_point("catalog.built")
        now, owner = self.clock(), run.owner
        new = NewSet(
            id=set_id,
            owner_id=owner.id,
            store_id=owner.store_id,
            partner_id=owner.partner_id,
            content_hash=built.content_hash,
            currency=built.summary.currency,
            summary=as_json(built.summary).decode(),
            source_url=run.callback_url,
            source_etag=pulled.etag,
            created_at=now,
        )
        async with self._fenced(job) as tx:
            if not await queries.lock_owner(tx, owner.id):
                # The onboarding was cancelled: its runs have ended, and the document is discarded.
                return Done()
            await queries.insert_set(tx, new, parts)
            await self.quota.take(tx, owner.partner_id, sum(map(len, parts.values())), now=now)
            leaves = None if current is None else current.id
            if not await queries.switch(tx, owner.id, leaves=leaves, to=set_id, now=now):
                raise JobLost("another run switched the owner")
            finished = EndedRun(run, RunStatus.SUCCEEDED, (), now, partner_warnings(built.warnings), built)
            await self._end(tx, finished, set_id)
            processes.crash_point("catalog.written")
        processes.crash_point("catalog.switched")
        return Done()

    async def _fail(
        self,
        job: Job[IngestJob],
        run: Run,
        faults: tuple[CatalogFault, ...],
        warnings: tuple[PartnerWarning, ...] = (),
        excerpts: tuple[str, ...] = (),
    ) -> Outcome:
        finished = EndedRun(run, RunStatus.FAILED, faults, self.clock(), warnings, excerpts=excerpts)
        async with self._fenced(job) as tx:
            await self._end(tx, finished)
        return Done()

    async def _not_modified(self, job: Job[IngestJob], run: Run) -> Outcome:
        """End a run whose document is unchanged, with the warnings of the current set."""
        async with self._fenced(job) as tx:
            current = await queries.find_current(tx, run.owner.id)
            set_id = None if current is None else current.id
            warnings = () if set_id is None else await queries.find_warnings(tx, run.owner.id, set_id)
            finished = EndedRun(run, RunStatus.SUCCEEDED, (), self.clock(), warnings)
            await self._end(tx, finished, set_id)
        return Done()

    async def _end(self, tx: Write, finished: EndedRun, set_id: UUID | None = None) -> None:
        ended = await queries.end_run(
            tx,
            finished.run.id,
            status=finished.status,
            errors=finished.errors,
            warnings=finished.warnings,
            excerpts=finished.excerpts,
            set_id=set_id,
            now=finished.at,
        )
        if ended:
            await self.on_finished(tx, finished)
            tx.after_commit(partial(self._count, finished))

    def _count(self, finished: EndedRun) -> None:
        self.metrics.ingested(finished.status.value)
        if finished.built is not None or finished.status is RunStatus.FAILED:
            self.activity.ingested(switched=finished.built is not None)


async def abandon(tx: Write, owner_id: UUID, *, now: datetime) -> None:
    """Close the owner and fail its open runs; the document of a pull in progress is discarded."""
    await queries.close_owner(tx, owner_id, now=now)
    await queries.end_open_runs(tx, owner_id, fault=_CANCELLED, now=now)
