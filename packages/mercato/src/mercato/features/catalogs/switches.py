"""Ends runs, and switches the set that an owner serves: when a run ends, at an instant, or back to an earlier set.

Every switch locks the owner first, and is one conditional update. Of two at the same time the later one wins: it finds
the set that the earlier one has left. The listener is called in the same transaction, so that the event and the search
entry are committed with the switch.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato.features.catalogs import periods, queries, uploads
from mercato.features.catalogs.errors import ActivationNotPending, CatalogSetExpired, CatalogSetNotFound
from mercato.features.catalogs.runs import OPEN, Owner, Run
from mercato.features.metrics import Activity, CommerceMetrics
from mercato.platform import processes
from mercato.platform.db.engine import Database, Write
from mercato.platform.jobs import (
    Done,
    Handler,
    Handlers,
    Job,
    JobOutcome,
    Settled,
    delete_waiting,
    enqueue,
    fence,
    finish,
)
from mercato_contract.catalogs import CatalogFault, PartnerWarning, RunStatus
from mercato_contract.clock import Clock, MakeId
from mercato_contract.wire import Wire, rfc3339

log = structlog.get_logger("mercato.catalog")

KIND: Final = "catalog.activate"

RECHECK: Final = timedelta(minutes=1)
"""How long a switch waits at most before it looks again, if it is due by the database's clock and not by this one's."""

INTERNAL_ERROR: Final = CatalogFault(
    code="internal-error",
    message="The run failed because of an error in the service. Notify the service of the catalog again.",
)


def _superseded(at: datetime) -> CatalogFault:
    message = (
        f"The store has switched to a catalog of a later instant than {rfc3339(at)}, before this one was built, and "
        "keeps that one. Send this one again if the store should serve it."
    )
    return CatalogFault(code="superseded", message=message)


class ActivationJob(Wire):
    """The payload of the job that switches at an instant; everything else is in the run's row."""

    run_id: UUID


class EndedRun(Struct, frozen=True):
    """A run that has just ended. `switched`: the owner serves another set. `excerpts` are those of the errors."""

    run: Run
    status: RunStatus
    errors: tuple[CatalogFault, ...]
    at: datetime
    warnings: tuple[PartnerWarning, ...] = ()
    switched: bool = False
    excerpts: tuple[str, ...] = ()
    rolled_back_from: UUID | None = None


Listener = Callable[[Write, EndedRun], Awaitable[None]]
"""Called in the transaction that ends a run, succeeded or failed."""


class Switches(Struct, frozen=True, kw_only=True):
    """Ends runs, with the switch of their owner if they have one."""

    db: Database
    clock: Clock
    new_id: MakeId
    on_finished: Listener
    metrics: CommerceMetrics
    activity: Activity

    def handlers(self) -> Handlers:
        """Return the handler of scheduled switches."""
        return {KIND: Handler(fn=self.activate, payload=ActivationJob, on_dead=self.give_up)}

    async def serve(
        self, tx: Write, run: Run, set_id: UUID, *, warnings: tuple[PartnerWarning, ...], now: datetime
    ) -> None:
        """End the run with its owner serving the set, now or at the run's instant. The caller has locked the owner."""
        if run.activate_at is not None and now < run.activate_at:
            await queries.schedule_run(tx, run.id, set_id, warnings=warnings, now=now)
            await periods.need_set(tx, set_id, until=run.activate_at)
            await uploads.delete_upload(tx, run.id)
            await self._enqueue(tx, run, run.activate_at)
            return
        await self._serve_due(tx, run.owner.id, until=run.activate_at or now, now=now)
        if run.activate_at is not None and await queries.has_switched_after(
            tx, run.owner.id, run.activate_at
        ):
            # Its instant passed before it was built, and what was switched to meanwhile is newer.
            await periods.drop_set(tx, set_id, now=now)
            await self.end(
                tx, EndedRun(run, RunStatus.FAILED, (_superseded(run.activate_at),), now, warnings)
            )
            return
        await self._serve_now(tx, run, set_id, warnings=warnings, now=now)

    async def _serve_due(self, tx: Write, owner_id: UUID, *, until: datetime, now: datetime) -> None:
        """Make the scheduled switches of the owner up to the instant, in their order.

        A job may be late. A switch that is made now comes after those whose instant has passed: made later, they would
        replace a newer catalog by an older one.
        """
        for due in await queries.list_due(tx, owner_id, until=until):
            assert due.set_id is not None
            await self._serve_now(tx, due, due.set_id, warnings=due.warnings, now=now)

    async def _serve_now(
        self, tx: Write, run: Run, set_id: UUID, *, warnings: tuple[PartnerWarning, ...], now: datetime
    ) -> None:
        current = await queries.find_current_set(tx, run.owner.id)
        switched = current != set_id
        if switched and not await self._switch(tx, run, current, set_id, now=now):
            await self.end(tx, EndedRun(run, RunStatus.FAILED, (INTERNAL_ERROR,), now))
            return
        ended = EndedRun(run, RunStatus.SUCCEEDED, (), now, warnings, switched=switched)
        await self.end(tx, ended, set_id)

    async def _switch(
        self,
        tx: Write,
        run: Run,
        leaves: UUID | None,
        to: UUID,
        *,
        now: datetime,
        is_rollback: bool = False,
    ) -> bool:
        """Switch the owner; False if the set is no longer kept."""
        period_id = self.new_id()
        last = None if leaves is None else await periods.find_period_id(tx, leaves)
        if last is not None and period_id <= last:
            # The clock of the process that made the last switch may be ahead of this one.
            period_id = UUID(int=last.int + 1)
        begun = await periods.begin_period(
            tx,
            run.owner.id,
            to,
            period_id=period_id,
            run_id=run.id if run.notified else None,
            rolled_back_from=leaves if is_rollback else None,
            now=now,
        )
        if not begun:
            return False
        switched = await periods.switch(tx, run.owner.id, leaves=leaves, to=to, now=now)
        assert switched, "the owner is locked"
        return True

    async def end(self, tx: Write, finished: EndedRun, set_id: UUID | None = None) -> None:
        """End an open run and call the listener; one that has ended stays as it is."""
        run = finished.run
        ended = await queries.end_run(
            tx,
            run.id,
            status=finished.status,
            errors=finished.errors,
            warnings=finished.warnings,
            excerpts=finished.excerpts,
            set_id=set_id,
            now=finished.at,
        )
        if not ended:
            return
        await uploads.delete_upload(tx, run.id)
        if run.set_id is not None and set_id is None:
            await periods.drop_set(tx, run.set_id, now=finished.at)
        await self._finish(tx, finished)

    async def _finish(self, tx: Write, finished: EndedRun) -> None:
        await self.on_finished(tx, finished)
        tx.after_commit(partial(self._count, finished))

    def _count(self, finished: EndedRun) -> None:
        self.metrics.ingested(finished.status.value)
        if finished.switched or finished.status is RunStatus.FAILED:
            self.activity.ingested(switched=finished.switched)

    # --- back to an earlier set

    async def roll_back(
        self, tx: Write, owner: Owner, set_id: UUID, *, traceparent: str
    ) -> tuple[UUID | None, UUID | None]:
        """Serve an earlier set again; return the set that was left, and the run that records it.

        The set that is served already stays: the answer is that of the request that activated it, and there is no run.
        Raises CatalogSetNotFound for a set that the owner never served and doesn't keep, and CatalogSetExpired.
        """
        if not await queries.lock_owner(tx, owner.id):
            raise CatalogSetNotFound(set_id)
        now = self.clock()
        await self._serve_due(tx, owner.id, until=now, now=now)
        current = await queries.find_current_set(tx, owner.id)
        if current == set_id:
            period = await periods.find_period(tx, owner.id, set_id)
            return None if period is None else period.rolled_back_from, None
        run = Run(
            id=self.new_id(),
            owner=owner,
            notified=True,
            callback_url="",
            status=RunStatus.SUCCEEDED,
            warnings=await queries.find_warnings(tx, owner.id, set_id),
            set_id=set_id,
            traceparent=traceparent,
            created_at=now,
            updated_at=now,
        )
        if not await self._switch(tx, run, current, set_id, now=now, is_rollback=True):
            if await periods.find_period(tx, owner.id, set_id) is not None:
                raise CatalogSetExpired(set_id)
            raise CatalogSetNotFound(set_id)
        await queries.insert_run(tx, run)
        finished = EndedRun(
            run, RunStatus.SUCCEEDED, (), now, run.warnings, switched=True, rolled_back_from=current
        )
        await self._finish(tx, finished)
        processes.crash_point("catalog.rolled_back")
        return current, run.id

    # --- at an instant

    async def _enqueue(self, tx: Write, run: Run, at: datetime | timedelta) -> None:
        await enqueue(
            tx,
            KIND,
            ActivationJob(run_id=run.id),
            run_at=at,
            group=str(run.owner.partner_id),
            dedup=str(run.id),
        )

    async def activate(self, job: Job[ActivationJob]) -> JobOutcome:
        """Switch to the set of a run whose instant has come, and before it to those that were due earlier."""
        async with self.db.write() as tx:
            await fence(tx, job)
            run = await queries.find_run(tx, job.payload.run_id)
            # A closed owner serves nothing: its runs have ended.
            if run is None or run.activate_at is None or not await queries.lock_owner(tx, run.owner.id):
                return Done()
            now = self.clock()
            if run.activate_at > now:
                # Due by the database's clock, which was set back or is ahead of this one.
                await self._put_off(tx, job, run, run.activate_at - now)
                return Settled()
            await self._serve_due(tx, run.owner.id, until=run.activate_at, now=now)
            processes.crash_point("catalog.activated")
        return Done()

    async def _put_off(self, tx: Write, job: Job[ActivationJob], run: Run, remaining: timedelta) -> None:
        await finish(tx, job)
        await self._enqueue(tx, run, min(remaining, RECHECK))

    async def give_up(self, tx: Write, job: Job[ActivationJob], reason: str) -> None:
        """Fail the run of a switch that failed too often."""
        log.error("catalog run given up", run_id=str(job.payload.run_id), reason=reason)
        run = await queries.find_run(tx, job.payload.run_id)
        if run is not None:
            await self.end(tx, EndedRun(run, RunStatus.FAILED, (INTERNAL_ERROR,), self.clock()))

    async def cancel(self, tx: Write, owner: Owner, run_id: UUID) -> bool:
        """Cancel a switch that is scheduled, also before its set is built; False if the run has failed already.

        Raises ActivationNotPending for a run that has no instant, or that has switched.
        """
        # Before the run is read: a switch that is about to commit has locked it.
        await queries.lock_owner(tx, owner.id)
        run = await queries.find_run(tx, run_id)
        assert run is not None, "the caller has read it"
        if run.activate_at is None:
            raise ActivationNotPending(
                "This run has no activateAt: it switches as soon as its catalog is built. "
                "To serve the earlier catalog again, activate its CatalogSet."
            )
        if run.status is RunStatus.SUCCEEDED:
            raise ActivationNotPending(
                "The store has switched to this catalog. To serve the earlier one again, activate its CatalogSet."
            )
        if run.status not in OPEN:
            return False
        await delete_waiting(tx, KIND, str(run.id))
        message = f"The switch at {rfc3339(run.activate_at)} was cancelled. The store keeps its catalog."
        cancelled = CatalogFault(code="cancelled", message=message)
        await self.end(tx, EndedRun(run, RunStatus.FAILED, (cancelled,), self.clock()))
        return True
