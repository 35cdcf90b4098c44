"""The background half of a placement: it resends what a crash or a silent store left open, or cancels it.

The first background attempt of an order and the later ones are two kinds of job, so that each has places of its own:
an order that was never resent doesn't wait behind the tenth attempts of others.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato import crash
from mercato.clock import Clock
from mercato.db.engine import Database, Write
from mercato.jobs import Done, Finished, Handler, Job, Outcome, enqueue, fence, finish
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
"""The first background attempt of an order."""

LATER_KIND: Final = "order.resend"
"""Every further one."""

EVERY: Final = timedelta(seconds=15)
"""Between two attempts: a store that comes back is told soon, and forty attempts are no burden to it."""

LEAST: Final = timedelta(seconds=1)

RECENT: Final = timedelta(seconds=20)
"""An order isn't given up before an attempt that ended so recently: one every `EVERY`, and a little for the queue."""

STORE_LANES: Final = 8
"""Orders of one store that are resent at one time. In their lanes the stores of a partner take turns."""

_SLACK: Final = timedelta(seconds=15)


class SubmitJob(Wire, frozen=True):
    """The order whose store has to be told. What it is told is kept, sealed, beside the order."""

    order_id: UUID
    attempted_at: datetime | None = None
    """When the last background attempt ended."""


async def schedule(
    tx: Write,
    order_id: UUID,
    *,
    store_id: UUID,
    partner_id: UUID,
    wait: timedelta,
    attempted_at: datetime | None = None,
) -> None:
    """Enqueue the next background attempt: the first, or one after an attempt that ended at `attempted_at`."""
    kind = KIND if attempted_at is None else LATER_KIND
    await enqueue(
        tx,
        kind,
        SubmitJob(order_id=order_id, attempted_at=attempted_at),
        run_at=wait,
        lane=f"{kind}:{store_id.hex}:{order_id.int % STORE_LANES}",
        group=partner_id.hex,
        dedup=order_id.hex,
    )


class Resender(Struct, frozen=True):
    """Finishes placements. `seconds` bound one call."""

    db: Database
    clock: Clock
    submitter: Submitter
    changes: Changes
    seconds: float

    def handler(self, *, concurrency: int) -> Handler[SubmitJob]:
        """Return what the worker needs for either kind, `KIND` and `LATER_KIND`."""
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
        if _is_exhausted(submission, job.payload.attempted_at, self.clock()):
            async with self.db.write() as tx:
                await fence(tx, job)
                await self._cancel(tx, submission.order_id, submission.base_url)
            return Done()
        called, said = await self.submitter.attempt(submission, seconds=self.seconds)
        crash.point("order.resent")
        async with self.db.write() as tx:
            await finish(tx, job)
            await self.submitter.settle(tx, submission, Told(said, (called,)), tells_fault=False)
            if isinstance(said, Fault):
                await self._go_on(tx, submission)
        return Finished()

    async def _go_on(self, tx: Write, submission: Submission) -> None:
        """Enqueue the next attempt, or give the order up if this was the last one."""
        now = self.clock()
        if now >= submission.give_up_at:
            await self._cancel(tx, submission.order_id, submission.base_url)
            return
        await schedule(
            tx,
            submission.order_id,
            store_id=submission.store_id,
            partner_id=submission.partner_id,
            wait=max(LEAST, min(EVERY, submission.give_up_at - now)),
            attempted_at=now,
        )

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


def _is_exhausted(submission: Submission, attempted_at: datetime | None, now: datetime) -> bool:
    """Tell whether the order's time is over, and a recent attempt was its last one."""
    is_recent = attempted_at is not None and now - attempted_at <= RECENT
    return is_recent and now >= submission.give_up_at
