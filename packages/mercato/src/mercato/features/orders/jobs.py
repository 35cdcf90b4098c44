"""The jobs of orders: resend those whose store doesn't answer, or after a crash, and cancel them in the end.

The first background attempt of an order and the later ones are two kinds of job, each with its own concurrency: a new
order doesn't wait behind the tenth attempts of others.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato.features.orders import queries
from mercato.features.orders.lifecycle import CANCELLED, STORE_UNREACHABLE, Lifecycle, OrderGivenUp
from mercato.features.orders.record import StoreAnswer
from mercato.features.orders.submission import (
    EARLIER_KINDS,
    RESEND_KIND,
    SUBMIT_KIND,
    Submission,
    SubmissionOutcome,
    SubmitJob,
    Submitter,
    end_submission,
    schedule,
)
from mercato.platform import processes
from mercato.platform.clock import Clock
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.jobs import Done, Handler, Job, Outcome, Settled, fence, finish
from mercato.platform.telemetry.context import set_partner
from mercato_contract.orders import Actor

log = structlog.get_logger("mercato.orders")

RETRY_INTERVAL: Final = timedelta(seconds=15)
"""Between two attempts: short for a store that recovers, and forty calls in ten minutes don't load it."""

MIN_WAIT: Final = timedelta(seconds=1)

RECENT: Final = timedelta(seconds=20)
"""An order is given up only after an attempt that ended so recently: `RETRY_INTERVAL` and a wait in the queue."""

_SLACK: Final = timedelta(seconds=15)


CANCELLED_KIND: Final = "order.cancelled"
"""The job that records an operator's cancellation."""


class CancelledJob(Struct, frozen=True):
    """The payload of a `CANCELLED_KIND` job."""

    order_id: UUID


class OrderJobs(Struct, frozen=True):
    """Finishes placements. `seconds` is the timeout of one call."""

    db: Database
    clock: Clock
    submitter: Submitter
    lifecycle: Lifecycle
    seconds: float

    def handlers(self, *, concurrency: int) -> Mapping[str, Handler[Any]]:
        """Return the handler of each kind of job. `concurrency` is that of each kind of attempt."""
        attempt = Handler(
            fn=self.resend,
            payload=SubmitJob,
            timeout=timedelta(seconds=self.seconds) + _SLACK,
            concurrency=concurrency,
            on_dead=self.end,
        )
        cancelled = Handler(fn=self.record_cancelled, payload=CancelledJob)
        attempts = dict.fromkeys((SUBMIT_KIND, RESEND_KIND, *EARLIER_KINDS), attempt)
        return attempts | {CANCELLED_KIND: cancelled}

    async def resend(self, job: Job[SubmitJob]) -> Outcome:
        """Make one attempt, and cancel the order if it was the last one."""
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
        called, reply = await self.submitter.attempt(submission, seconds=self.seconds)
        self.lifecycle.activity.record(
            "order resent", call.webhook_id, call.store_id, answered=called.error is None
        )
        processes.crash_point("order.resent")
        async with self.db.write() as tx:
            await finish(tx, job)
            outcome = SubmissionOutcome(reply, (called,))
            await self.submitter.record(tx, submission, outcome, notify_unanswered=False)
            if not reply.is_final:
                await self._continue(tx, submission)
        return Settled()

    async def record_cancelled(self, job: Job[CancelledJob]) -> Outcome:
        """Log and count an order that an operator cancelled."""
        async with self.db.read() as tx:
            row = await queries.get_order(tx, job.payload.order_id)
        set_partner(partner_id=row.partner_id, store_id=row.store_id, traceparent=row.traceparent)
        self.lifecycle.record(CANCELLED, row, Actor.SERVICE)
        return Done()

    async def _continue(self, tx: Write, submission: Submission) -> None:
        """Enqueue the next attempt, or cancel the order if this was the last one."""
        now = self.clock()
        if now >= submission.give_up_at:
            await self._cancel(tx, submission.call.webhook_id, submission.base_url)
        else:
            wait = max(MIN_WAIT, min(RETRY_INTERVAL, submission.give_up_at - now))
            await schedule(tx, submission.call, wait=wait, attempted_at=now)

    async def end(self, tx: Write, job: Job[SubmitJob], reason: str) -> None:
        """Cancel the order of a dead job, which nothing else would close."""
        log.error("order submission failed", order_id=str(job.payload.order_id), reason=reason)
        stored = await queries.find_submission(tx, job.payload.order_id)
        if stored is not None:
            await self._cancel(tx, job.payload.order_id, stored.base_url)

    async def _cancel(self, tx: Write, order_id: UUID, url: str) -> None:
        order = await queries.get_order(tx, order_id, lock=True)
        if order.answer is StoreAnswer.WAITING:
            now = self.clock()
            await end_submission(tx, order, delivered=False, now=now)
            await self.lifecycle.apply(tx, order, OrderGivenUp(at=now, tells_store=True, webhook_url=url))
            detail = {"cancelReason": STORE_UNREACHABLE}
            await audit(tx, "order", order.id, partner_id=order.partner_id, detail=detail)


def _is_exhausted(submission: Submission, attempted_at: datetime | None, now: datetime) -> bool:
    """Return whether the order's time is over and a recent attempt was the last one."""
    is_recent = attempted_at is not None and now - attempted_at <= RECENT
    return is_recent and now >= submission.give_up_at
