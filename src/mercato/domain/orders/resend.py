"""The background half of a placement: it resends what a crash or a silent store left open, or cancels it.

The first background attempt of an order and the later ones are two kinds of job, so that each has places of its own:
an order that was never resent doesn't wait behind the tenth attempts of others.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato.domain.orders import queries
from mercato.domain.orders.changes import Changes
from mercato.domain.orders.record import StoreAnswer
from mercato.domain.orders.replies import Fault
from mercato.domain.orders.submission import (
    Submission,
    SubmissionOutcome,
    SubmitJob,
    Submitter,
    end_record,
    schedule,
)
from mercato.kernel import crash
from mercato.kernel.clock import Clock
from mercato.kernel.db.engine import Database, Write
from mercato.kernel.jobs import Done, Handler, Job, Outcome, Settled, fence, finish
from mercato.kernel.telemetry.context import set_partner

log = structlog.get_logger("mercato.orders")

EVERY: Final = timedelta(seconds=15)
"""Between two attempts: a store that comes back is told soon, and forty attempts are no burden to it."""

LEAST: Final = timedelta(seconds=1)

RECENT: Final = timedelta(seconds=20)
"""An order isn't given up before an attempt that ended so recently: one every `EVERY`, and a little for the queue."""

_SLACK: Final = timedelta(seconds=15)


class Resender(Struct, frozen=True):
    """Finishes placements. `seconds` bound one call."""

    db: Database
    clock: Clock
    submitter: Submitter
    changes: Changes
    seconds: float

    def handler(self, *, concurrency: int) -> Handler[SubmitJob]:
        """Return what the worker needs for either kind of job."""
        return Handler(
            fn=self.handle,
            payload=SubmitJob,
            timeout=timedelta(seconds=self.seconds) + _SLACK,
            concurrency=concurrency,
            on_dead=self.end,
        )

    async def handle(self, job: Job[SubmitJob]) -> Outcome:
        """Make one attempt. It is the last one if the order's time is over: then the order is given up."""
        async with self.db.read() as tx:
            order = await queries.get_order(tx, job.payload.order_id)
            waits = order.answer is StoreAnswer.WAITING
            submission = await self.submitter.find(tx, order) if waits else None
        if submission is None:
            return Done()
        call = submission.call
        set_partner(partner_id=call.partner_id, store_id=call.store_id, traceparent=call.traceparent)
        if _is_exhausted(submission, job.payload.attempted_at, self.clock()):
            async with self.db.write() as tx:
                await fence(tx, job)
                await self._cancel(tx, call.webhook_id, submission.base_url)
            return Done()
        called, said = await self.submitter.attempt(submission, seconds=self.seconds)
        crash.point("order.resent")
        async with self.db.write() as tx:
            await finish(tx, job)
            outcome = SubmissionOutcome(said, (called,))
            await self.submitter.settle(tx, submission, outcome, announces_fault=False)
            if isinstance(said, Fault):
                await self._go_on(tx, submission)
        return Settled()

    async def _go_on(self, tx: Write, submission: Submission) -> None:
        """Enqueue the next attempt, or give the order up if this was the last one."""
        now = self.clock()
        if now >= submission.give_up_at:
            await self._cancel(tx, submission.call.webhook_id, submission.base_url)
        else:
            wait = max(LEAST, min(EVERY, submission.give_up_at - now))
            await schedule(tx, submission.call, wait=wait, attempted_at=now)

    async def end(self, tx: Write, job: Job[SubmitJob], reason: str) -> None:
        """Cancel an order whose job failed too often: none stays open without anybody working on it."""
        log.error("order submission given up", order_id=str(job.payload.order_id), reason=reason)
        kept = await queries.find_submission(tx, job.payload.order_id)
        if kept is not None:
            await self._cancel(tx, job.payload.order_id, kept[0])

    async def _cancel(self, tx: Write, order_id: UUID, url: str) -> None:
        order = await queries.get_order(tx, order_id, lock=True)
        if order.answer is StoreAnswer.WAITING:
            await queries.delete_submission(tx, order_id)
            await end_record(tx, order_id, delivered=False, now=self.clock())
            await self.changes.give_up(tx, order, url=url, now=self.clock())


def _is_exhausted(submission: Submission, attempted_at: datetime | None, now: datetime) -> bool:
    """Tell whether the order's time is over, and a recent attempt was its last one."""
    is_recent = attempted_at is not None and now - attempted_at <= RECENT
    return is_recent and now >= submission.give_up_at
