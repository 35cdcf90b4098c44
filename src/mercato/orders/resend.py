"""The background half of a placement: it resends what a crash or a silent store left open, or cancels it."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato import crash
from mercato.clock import Clock
from mercato.db.engine import Database, Write
from mercato.jobs import Again, Done, Handler, Job, Outcome, fence
from mercato.orders import queries
from mercato.orders.changes import Changes
from mercato.orders.record import StoreAnswer
from mercato.orders.replies import Fault
from mercato.orders.submission import Outcome as Told
from mercato.orders.submission import Submission, Submitter, end_record
from mercato.telemetry.acting import act_for
from mercato.wire import Wire

log = structlog.get_logger("mercato.orders")

KIND: Final = "order.submit"

EVERY: Final = timedelta(seconds=15)
"""Between two attempts: a store that comes back is told soon, and forty attempts are no burden to it."""

LEAST: Final = timedelta(seconds=1)

_SLACK: Final = timedelta(seconds=15)


class SubmitJob(Wire, frozen=True):
    """The order whose store has to be told. What it is told is kept, sealed, beside the order."""

    order_id: UUID


class Resender(Struct, frozen=True):
    """Finishes placements. `seconds` bound one call."""

    db: Database
    clock: Clock
    submitter: Submitter
    changes: Changes
    seconds: float

    def handler(self) -> Handler[SubmitJob]:
        """Return what the worker needs for the kind `KIND`."""
        return Handler(
            fn=self.handle,
            payload=SubmitJob,
            timeout=timedelta(seconds=self.seconds) + _SLACK,
            concurrency=32,
            per_group=8,
            on_dead=self.end,
        )

    async def handle(self, job: Job[SubmitJob]) -> Outcome:
        """Make one attempt, or give the order up when its time is over."""
        async with self.db.read() as tx:
            order = await queries.find_order_by_id(tx, job.payload.order_id)
            submission = None
            if order is not None and order.answer is StoreAnswer.WAITING:
                submission = await self.submitter.find(tx, order)
        if submission is None:
            return Done()
        act_for(
            partner_id=submission.partner_id,
            store_id=submission.store_id,
            traceparent=submission.traceparent,
        )
        if self.clock() >= submission.give_up_at:
            async with self.db.write() as tx:
                await fence(tx, job)
                await self._cancel(tx, submission.order_id, submission.base_url)
            return Done()
        called, said = await self.submitter.attempt(submission, seconds=self.seconds)
        crash.point("order.resent")
        async with self.db.write() as tx:
            await fence(tx, job)
            await self.submitter.settle(tx, submission, Told(said, (called,)), tells_fault=False)
        if isinstance(said, Fault):
            return Again(_next(submission, self.clock()))
        return Done()

    async def end(self, tx: Write, job: Job[SubmitJob], reason: str) -> None:
        """Cancel an order whose job failed too often: none stays open without anybody working on it."""
        log.error("order submission given up", order_id=str(job.payload.order_id), reason=reason)
        order = await queries.find_order_by_id(tx, job.payload.order_id)
        kept = None if order is None else await queries.find_submission(tx, order.id)
        if order is not None and kept is not None:
            await self._cancel(tx, order.id, kept[0])

    async def _cancel(self, tx: Write, order_id: UUID, url: str) -> None:
        order = await queries.find_order_by_id(tx, order_id, lock=True)
        if order is not None and order.answer is StoreAnswer.WAITING:
            await queries.delete_submission(tx, order_id)
            await end_record(tx, order_id, delivered=False, now=self.clock())
            await self.changes.give_up(tx, order, url=url, now=self.clock())


def _next(submission: Submission, now: datetime) -> timedelta:
    """Return how long to wait: not past the end, so that the order is given up on time."""
    return max(LEAST, min(EVERY, submission.give_up_at - now))
