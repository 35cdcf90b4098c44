"""Ingests catalogs: a run is accepted in one transaction, pulled and built outside any, and switched in another."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct
from msgspec.structs import asdict

from mercato.features.catalogs import queries, uploads
from mercato.features.catalogs.builder import BUILD_SECONDS, Builder, BuildOverrunError
from mercato.features.catalogs.errors import AnotherMenu, TooManyActivations
from mercato.features.catalogs.runs import (
    OPEN,
    RETRY_AFTER,
    CurrentSet,
    NewSet,
    Owner,
    Run,
    faults_of,
    partner_warnings,
)
from mercato.features.catalogs.switches import INTERNAL_ERROR, EndedRun, Switches
from mercato.features.metrics import CommerceMetrics
from mercato.features.partners.queries import StorageQuota
from mercato.platform import errors, processes
from mercato.platform.db.engine import Database, Write
from mercato.platform.jobs import Done, Handler, Job, JobOutcome, enqueue, fence
from mercato.platform.telemetry import tracing
from mercato.platform.telemetry.context import set_partner
from mercato_catalog.model import BuildFailed, BuildRequest, Built, Unchanged
from mercato_catalog.validation.findings import Rule
from mercato_contract.catalogs import CatalogFault, PartnerWarning, RunStatus
from mercato_contract.clock import Clock, MakeId
from mercato_contract.wire import Wire, as_json
from mercato_outbound.client import Outbound
from mercato_outbound.document import NewDocument
from mercato_outbound.results import NotModified, PulledDocument, PullLimits, RequestFailed

log = structlog.get_logger("mercato.catalog")

KIND: Final = "catalog.ingest"
_SWITCH_SECONDS: Final = 60.0
"""The time limit of a run after its catalog is built: to compress, store and switch it."""

ATTEMPTS: Final = 3
"""Attempts at a run that fails through an error of the service, before it ends `failed`."""

MAX_SCHEDULED: Final = 20
"""Switches of one store that are scheduled at a time."""

_CANCELLED: Final = CatalogFault(code="cancelled", message="The onboarding was cancelled.")


def time_limit(limits: PullLimits, runs: int) -> timedelta:
    """Return the time limit of a run if there are `runs` at a time.

    A process builds one document after the other, so a run has the time for all other builds before its own: it
    doesn't fail because of what others have sent.
    """
    return timedelta(seconds=limits.total + runs * BUILD_SECONDS + _SWITCH_SECONDS)


class IngestJob(Wire):
    """The payload of a run's job; everything else is in the run's row."""

    run_id: UUID


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to accept. Without a `callback_url` its document was sent; `activate_at` is None to switch at once."""

    id: UUID
    owner: Owner
    callback_url: str = ""
    notified: bool = True
    traceparent: str
    activate_at: datetime | None = None


async def accept(tx: Write, new: NewRun, *, now: datetime) -> Run:
    """Insert a run and its job in the caller's transaction."""
    run = Run(**asdict(new), status=RunStatus.QUEUED, created_at=now, updated_at=now)
    await queries.insert_run(tx, run)
    job, owner = IngestJob(run_id=run.id), run.owner
    await enqueue(
        tx,
        KIND,
        job,
        ordering_key=f"catalog:{owner.id}",
        group=str(owner.partner_id),
        dedup=str(run.id),
    )
    return run


async def accept_notified(tx: Write, new: NewRun, *, waiting: int, now: datetime) -> Run:
    """Accept a run that a partner requests.

    Raises RateLimited if `waiting` runs of the store are queued, and TooManyActivations.
    """
    await queries.lock_owner(tx, new.owner.id)
    if await queries.count_waiting(tx, new.owner.id) >= waiting:
        raise errors.RateLimited(
            f"{waiting} catalog runs of this store are queued. Only the newest catalog matters in the end: "
            "poll the last run, then send the catalog again if it has changed.",
            retry_after=RETRY_AFTER,
        )
    if new.activate_at is not None and await queries.count_scheduled(tx, new.owner.id) >= MAX_SCHEDULED:
        raise TooManyActivations(MAX_SCHEDULED)
    return await accept(tx, new, now=now)


async def check_base(tx: Write, run: Run, based_on: UUID) -> None:
    """Raise AnotherMenu if the document of a run that was just accepted was made of a set that is served no more.

    Or won't be in a moment: what is new in the other one would be lost.
    """
    owner_id = run.owner.id
    is_served = await queries.find_current_set(tx, owner_id) == based_on
    if not is_served or await queries.is_set_coming(tx, owner_id, besides=run.id):
        raise AnotherMenu


class Ingest(Struct, frozen=True, kw_only=True):
    """Runs the ingest jobs."""

    db: Database
    outbound: Outbound
    builder: Builder
    limits: PullLimits
    default_currency: str
    clock: Clock
    new_id: MakeId
    new_document: NewDocument
    switches: Switches
    quota: StorageQuota
    metrics: CommerceMetrics

    def handler(self, *, concurrency: int, per_partner: int) -> Handler[IngestJob]:
        """Return the handler of the kind `KIND`: so many runs at a time over all workers, and of one partner."""
        return Handler(
            fn=self.handle,
            payload=IngestJob,
            timeout=time_limit(self.limits, concurrency),
            concurrency=concurrency,
            total_concurrency=concurrency,
            group_concurrency=per_partner,
            max_attempts=ATTEMPTS,
            blocks_key_while_waiting=True,
            on_dead=self.give_up,
        )

    async def handle(self, job: Job[IngestJob]) -> JobOutcome:
        """Perform the job's run to its end. After a crash at any point the job performs it again."""
        begun = await self._begin(job)
        if begun is None:
            return Done()
        run, current = begun
        owner = run.owner
        set_partner(partner_id=owner.partner_id, store_id=owner.store_id, traceparent=run.traceparent)
        with tracing.span("catalog.ingest", parent=run.traceparent, kind="CONSUMER", run_id=run.id):
            return await self._perform(job, run, current)

    async def _perform(self, job: Job[IngestJob], run: Run, current: CurrentSet | None) -> JobOutcome:
        try:
            pulled = await self._pull(run, current)
            if isinstance(pulled, NotModified):
                return await self._not_modified(job, run, current)
            with pulled.document:
                async with self._fenced(job) as tx:
                    is_open = await queries.move_run(tx, run.id, to=RunStatus.PROCESSING, now=self.clock())
                return await self._process(job, run, current, pulled) if is_open else Done()
        except RequestFailed as failure:
            fault = CatalogFault(code=Rule.NOT_FETCHED.id, message=failure.message)
        except BuildOverrunError as failure:
            fault = CatalogFault(code=Rule.TOO_LARGE.id, message=failure.message)
        except uploads.UploadGoneError as failure:
            fault = CatalogFault(code="document-gone", message=failure.message)
        except errors.RateLimited as refused:
            fault = CatalogFault(code="rate-limited", message=refused.detail)
        return await self._fail(job, run, (fault,))

    async def give_up(self, tx: Write, job: Job[IngestJob], reason: str) -> None:
        """Fail the run of a job that failed too often, so that it never stays in progress."""
        log.error("catalog run given up", run_id=str(job.payload.run_id), reason=reason)
        run = await queries.find_run(tx, job.payload.run_id)
        if run is not None and not run.is_scheduled:
            await self.switches.end(tx, EndedRun(run, RunStatus.FAILED, (INTERNAL_ERROR,), self.clock()))

    @asynccontextmanager
    async def _fenced(self, job: Job[IngestJob]) -> AsyncIterator[Write]:
        """Open a transaction of a job that is still held."""
        async with self.db.write() as tx:
            await fence(tx, job)
            yield tx

    async def _begin(self, job: Job[IngestJob]) -> tuple[Run, CurrentSet | None] | None:
        async with self._fenced(job) as tx:
            run = await queries.find_run(tx, job.payload.run_id)
            # After a crash the run may be scheduled already: its set is stored.
            if run is None or run.is_scheduled:
                return None
            if not await queries.move_run(tx, run.id, to=RunStatus.PULLING, now=self.clock()):
                return None
            return run, await queries.find_current(tx, run.owner.id)

    async def _pull(self, run: Run, current: CurrentSet | None) -> PulledDocument | NotModified:
        if not run.callback_url:
            return await self._read_upload(run)
        # An ETag belongs to its URL: another URL may use the same one for another document.
        same = current is not None and current.source_url == run.callback_url
        etag = current.source_etag if current is not None and same else None
        with self.metrics.stage("pull"):
            return await self.outbound.pull(run.callback_url, limits=self.limits, etag=etag)

    async def _read_upload(self, run: Run) -> PulledDocument:
        document = self.new_document()
        try:
            await uploads.read_upload(self.db, run.id, document)
        except BaseException:
            document.close()
            raise
        return PulledDocument(
            document=document,
            etag=None,
            content_type=None,
            encoding="identity",
            final_url="",
            redirects=0,
            raw_size=document.size,
            elapsed_ms=0,
        )

    async def _process(
        self, job: Job[IngestJob], run: Run, current: CurrentSet | None, pulled: PulledDocument
    ) -> JobOutcome:
        set_id = self.new_id()
        previous = None if current is None else current.content_hash
        request = BuildRequest(run.owner.id, set_id, run.owner.store_id, self.default_currency, previous)
        with self.metrics.stage("build"):
            result = await self.builder.build(pulled.document, request)
        pulled.document.close()
        if isinstance(result, BuildFailed):
            return await self._fail(
                job, run, faults_of(result.faults), partner_warnings(result.warnings), result.excerpts
            )
        if isinstance(result, Unchanged):
            assert current is not None
            async with self._serving(job, run) as tx:
                if tx is not None:
                    if run.callback_url:
                        await queries.touch_source(tx, current.id, url=run.callback_url, etag=pulled.etag)
                    warnings = partner_warnings(result.warnings)
                    await self.switches.serve(tx, run, current.id, warnings=warnings, now=self.clock())
            return Done()
        with self.metrics.stage("store"):
            return await self._store(job, run, pulled, set_id, result)

    async def _store(
        self, job: Job[IngestJob], run: Run, pulled: PulledDocument, set_id: UUID, built: Built
    ) -> JobOutcome:
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
            run_id=run.id if run.notified else None,
        )
        warnings = partner_warnings(built.warnings)
        async with self._serving(job, run) as tx:
            if tx is None:
                return Done()
            current = await queries.find_current(tx, owner.id)
            if current is not None and current.content_hash == built.content_hash:
                # While it was built, the store has switched back to a set with this content.
                await self.switches.serve(tx, run, current.id, warnings=warnings, now=now)
                return Done()
            await queries.insert_set(tx, new, parts)
            await self.quota.take(tx, owner.partner_id, sum(map(len, parts.values())), now=now)
            await self.switches.serve(tx, run, set_id, warnings=warnings, now=now)
            processes.crash_point("catalog.written")
        processes.crash_point("catalog.switched")
        return Done()

    @asynccontextmanager
    async def _serving(self, job: Job[IngestJob], run: Run) -> AsyncIterator[Write | None]:
        """Open the transaction in which the run serves its set; None if the run has ended: it was cancelled."""
        async with self._fenced(job) as tx:
            # A closed owner's onboarding was cancelled, and the document is discarded.
            is_open = await queries.lock_owner(tx, run.owner.id)
            found = await queries.find_run(tx, run.id) if is_open else None
            yield tx if found is not None and found.status in OPEN else None

    async def _fail(
        self,
        job: Job[IngestJob],
        run: Run,
        faults: tuple[CatalogFault, ...],
        warnings: tuple[PartnerWarning, ...] = (),
        excerpts: tuple[str, ...] = (),
    ) -> JobOutcome:
        finished = EndedRun(run, RunStatus.FAILED, faults, self.clock(), warnings, excerpts=excerpts)
        async with self._fenced(job) as tx:
            await self.switches.end(tx, finished)
        return Done()

    async def _not_modified(self, job: Job[IngestJob], run: Run, current: CurrentSet | None) -> JobOutcome:
        """Serve the set whose document is unchanged, with the warnings that it had."""
        async with self._serving(job, run) as tx:
            if tx is not None:
                assert current is not None, "only a set has an ETag"
                # A run that waits for its instant isn't pulling any more.
                await queries.move_run(tx, run.id, to=RunStatus.PROCESSING, now=self.clock())
                warnings = await queries.find_warnings(tx, run.owner.id, current.id)
                await self.switches.serve(tx, run, current.id, warnings=warnings, now=self.clock())
        return Done()


async def abandon(tx: Write, owner_id: UUID, *, now: datetime) -> None:
    """Close the owner and fail its open runs; the document of a pull in progress is discarded."""
    await queries.close_owner(tx, owner_id, now=now)
    await uploads.delete_uploads_of(tx, owner_id)
    await queries.end_open_runs(tx, owner_id, fault=_CANCELLED, now=now)
