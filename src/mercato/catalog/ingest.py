"""The walk of a catalog: accepted in one transaction, pulled and built with none open, switched in another.

Whoever wants to know of a run's end is called inside the transaction that ends it, so that what follows from it
(an event, a search entry) is there exactly when the switch is.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

from mercato import crash, errors
from mercato.catalog import queries
from mercato.catalog.builder import Builder, BuildOverrunError
from mercato.catalog.built import BuildFailed, Built, Unchanged
from mercato.catalog.model import CatalogFault, PartnerWarning
from mercato.catalog.partner_warnings import partner_warnings
from mercato.catalog.runs import CurrentSet, Owner, Run, RunStatus
from mercato.clock import Clock, MakeId
from mercato.db.engine import Database, Write
from mercato.jobs import Done, Job, JobLost, Outcome, enqueue, fence
from mercato.outbound.client import Outbound
from mercato.outbound.results import NotModified, Pulled, PullLimits, RequestFailed
from mercato.partners.storage import StorageQuota
from mercato.telemetry import Metrics, tracing
from mercato.telemetry.acting import act_for
from mercato.wire import Wire

log = structlog.get_logger("mercato.catalog")

KIND: Final = "catalog.ingest"
RETRY_AFTER: Final = 2
"""Seconds between two looks at a run's status; decided in the specification's decisions."""

PROCESS_SECONDS: Final = 120.0
"""How long a run may take beyond its pull: to wait for the one building process, build, compress and switch."""

ATTEMPTS: Final = 3
"""Times a run may stumble over a fault of ours before it is told so."""

_CANCELLED: Final = CatalogFault(message="The onboarding was cancelled.", path="")
_OURS: Final = CatalogFault(
    message="The run could not be finished because of a fault on our side. Notify us of the catalog again.",
    path="",
)


class IngestJob(Wire):
    """What the queue keeps of a run: everything else stands in its row."""

    run_id: UUID


class Finished(Struct, frozen=True):
    """A run that has just ended. `built` is there when a new set was switched to."""

    run: Run
    status: RunStatus
    errors: tuple[CatalogFault, ...]
    at: datetime
    warnings: tuple[PartnerWarning, ...] = ()
    built: Built | None = None


Listener = Callable[[Write, Finished], Awaitable[None]]
"""Called in the transaction that ends a run, whatever its end."""


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
    """Write down a run and the job that will carry it out, in the caller's transaction."""
    run = Run(
        id=run_id,
        owner=owner,
        notified=notified,
        callback_url=callback_url,
        status=RunStatus.QUEUED,
        errors=(),
        warnings=(),
        set_id=None,
        traceparent=traceparent,
        created_at=now,
        updated_at=now,
    )
    await queries.insert_run(tx, run)
    await enqueue(
        tx,
        KIND,
        IngestJob(run_id=run.id),
        lane=f"catalog:{owner.id}",
        group=str(owner.partner_id),
        dedup=str(run.id),
    )
    return run


async def accept_notified(
    tx: Write, owner: Owner, callback_url: str, *, waiting: int, traceparent: str, now: datetime, run_id: UUID
) -> Run:
    """Accept a run that a partner asks for. Raises RateLimited when `waiting` runs of the store wait already."""
    await queries.lock_owner(tx, owner.id)
    if await queries.count_waiting(tx, owner.id) >= waiting:
        raise errors.RateLimited(
            f"{waiting} catalog runs of this store wait already. Each pulls the newest document, so one more "
            "brings nothing: poll the last one, then notify again.",
            retry_after=RETRY_AFTER,
        )
    return await accept(
        tx, owner, callback_url, notified=True, traceparent=traceparent, now=now, run_id=run_id
    )


class Ingest:
    """Carries runs out."""

    def __init__(
        self,
        *,
        db: Database,
        outbound: Outbound,
        builder: Builder,
        limits: PullLimits,
        default_currency: str,
        clock: Clock,
        new_id: MakeId,
        on_finished: Listener,
        quota: StorageQuota,
        metrics: Metrics | None = None,
    ) -> None:
        self._db = db
        self._outbound = outbound
        self._builder = builder
        self._limits = limits
        self._currency = default_currency
        self._clock = clock
        self._new_id = new_id
        self._on_finished = on_finished
        self._quota = quota
        self._metrics = metrics or Metrics()

    async def handle(self, job: Job[IngestJob]) -> Outcome:
        """Bring the job's run to its end. A crash at any point leaves the run to be carried out again."""
        begun = await self._begin(job)
        if begun is None:
            return Done()
        run, current = begun
        owner = run.owner
        act_for(partner_id=owner.partner_id, store_id=owner.store_id, traceparent=run.traceparent)
        with tracing.span("catalog.ingest", parent=run.traceparent, kind="CONSUMER", run_id=run.id):
            return await self._carry_out(job, run, current)

    async def _carry_out(self, job: Job[IngestJob], run: Run, current: CurrentSet | None) -> Outcome:
        try:
            pulled = await self._pull(run, current)
        except RequestFailed as failure:
            return await self._fail(job, run, (CatalogFault(message=failure.message, path=""),))
        if isinstance(pulled, NotModified):
            return await self._not_modified(job, run)
        with pulled.document:
            if not await self._move(job, run, RunStatus.PROCESSING):
                return Done()
            return await self._process(job, run, current, pulled)

    async def give_up(self, tx: Write, job: Job[IngestJob], reason: str) -> None:
        """End the run of a job that failed too often: a run never stays in between."""
        log.error("catalog run given up", run_id=str(job.payload.run_id), reason=reason)
        run = await queries.find_run(tx, job.payload.run_id)
        if run is not None:
            await self._end(tx, Finished(run, RunStatus.FAILED, (_OURS,), self._clock()))

    async def _begin(self, job: Job[IngestJob]) -> tuple[Run, CurrentSet | None] | None:
        async with self._db.write() as tx:
            await fence(tx, job)
            run = await queries.find_run(tx, job.payload.run_id)
            if run is None or not await queries.move_run(tx, run.id, to=RunStatus.PULLING, now=self._clock()):
                return None
            return run, await queries.find_current(tx, run.owner.id)

    async def _pull(self, run: Run, current: CurrentSet | None) -> Pulled | NotModified:
        # The tag is good for the document it came with: another URL may use the same one for something else.
        same = current is not None and current.source_url == run.callback_url
        etag = current.source_etag if current is not None and same else None
        with self._metrics.stage("pull"):
            return await self._outbound.pull(run.callback_url, limits=self._limits, etag=etag)

    async def _process(
        self, job: Job[IngestJob], run: Run, current: CurrentSet | None, pulled: Pulled
    ) -> Outcome:
        set_id = self._new_id()
        try:
            with self._metrics.stage("build"):
                result = await self._builder.build(
                    pulled.document,
                    onboarding_id=run.owner.id,
                    catalog_set_id=set_id,
                    store_id=run.owner.store_id,
                    default_currency=self._currency,
                    previous_hash=None if current is None else current.content_hash,
                )
        except BuildOverrunError as overrun:
            return await self._fail(job, run, (CatalogFault(message=overrun.message, path=""),))
        pulled.document.close()
        if isinstance(result, BuildFailed):
            return await self._fail(job, run, result.faults, _warnings(result))
        if isinstance(result, Unchanged):
            assert current is not None
            return await self._unchanged(job, run, current, pulled, _warnings(result))
        with self._metrics.stage("store"):
            try:
                return await self._switch(job, run, current, pulled, set_id, result)
            except errors.RateLimited as refused:
                return await self._fail(job, run, (CatalogFault(message=refused.detail, path=""),))

    async def _unchanged(
        self,
        job: Job[IngestJob],
        run: Run,
        current: CurrentSet,
        pulled: Pulled,
        warnings: tuple[PartnerWarning, ...],
    ) -> Outcome:
        async with self._db.write() as tx:
            await fence(tx, job)
            await queries.touch_source(tx, current.id, url=run.callback_url, etag=pulled.etag)
            finished = Finished(run, RunStatus.SUCCEEDED, (), self._clock(), warnings)
            await self._end(tx, finished, set_id=current.id)
        return Done()

    async def _switch(
        self,
        job: Job[IngestJob],
        run: Run,
        current: CurrentSet | None,
        pulled: Pulled,
        set_id: UUID,
        built: Built,
    ) -> Outcome:
        with self._metrics.stage("compress"):
            parts = await self._builder.compress(built)
        parts |= {queries.COMPILED: built.compiled, queries.SEARCH: built.search}
        crash.point("catalog.built")
        now = self._clock()
        async with self._db.write() as tx:
            await fence(tx, job)
            if not await queries.lock_owner(tx, run.owner.id):
                # Cancelled meanwhile: its runs have ended, and what was pulled is thrown away.
                return Done()
            await queries.insert_set(
                tx,
                set_id=set_id,
                owner=run.owner,
                content_hash=built.content_hash,
                currency=built.summary.currency,
                summary=msgspec.json.encode(built.summary),
                source_url=run.callback_url,
                source_etag=pulled.etag,
                parts=parts,
                now=now,
            )
            size = sum(map(len, parts.values()))
            await self._quota.take(tx, run.owner.partner_id, size, now=now)
            leaves = None if current is None else current.id
            if not await queries.switch(tx, run.owner.id, leaves=leaves, to=set_id, now=now):
                raise JobLost("another run switched the owner")
            finished = Finished(run, RunStatus.SUCCEEDED, (), now, _warnings(built), built)
            await self._end(tx, finished, set_id=set_id)
            crash.point("catalog.written")
        crash.point("catalog.switched")
        return Done()

    async def _move(self, job: Job[IngestJob], run: Run, status: RunStatus) -> bool:
        async with self._db.write() as tx:
            await fence(tx, job)
            return await queries.move_run(tx, run.id, to=status, now=self._clock())

    async def _fail(
        self,
        job: Job[IngestJob],
        run: Run,
        faults: tuple[CatalogFault, ...],
        warnings: tuple[PartnerWarning, ...] = (),
    ) -> Outcome:
        async with self._db.write() as tx:
            await fence(tx, job)
            await self._end(tx, Finished(run, RunStatus.FAILED, faults, self._clock(), warnings))
        return Done()

    async def _not_modified(self, job: Job[IngestJob], run: Run) -> Outcome:
        """End a run whose document is the one of the current set, with that one's warnings."""
        async with self._db.write() as tx:
            await fence(tx, job)
            current = await queries.find_current(tx, run.owner.id)
            set_id = None if current is None else current.id
            warnings = () if set_id is None else await queries.find_warnings(tx, run.owner.id, set_id)
            finished = Finished(run, RunStatus.SUCCEEDED, (), self._clock(), warnings)
            await self._end(tx, finished, set_id=set_id)
        return Done()

    async def _end(self, tx: Write, finished: Finished, *, set_id: UUID | None = None) -> None:
        ended = await queries.end_run(
            tx,
            finished.run.id,
            status=finished.status,
            errors=finished.errors,
            warnings=finished.warnings,
            set_id=set_id,
            now=finished.at,
        )
        if ended:
            await self._on_finished(tx, finished)
            tx.after_commit(partial(self._metrics.ingested, finished.status.value))


def _warnings(result: Built | BuildFailed | Unchanged) -> tuple[PartnerWarning, ...]:
    return partner_warnings(result.warnings, result.warning_rules)


async def abandon(tx: Write, owner_id: UUID, *, now: datetime) -> None:
    """Close the owner and end its open runs: what a running pull brings is thrown away."""
    await queries.close_owner(tx, owner_id, now=now)
    await queries.end_open_runs(tx, owner_id, fault=_CANCELLED, now=now)
