"""Submit the orders again whose stores haven't answered, or whose requests ended in a crash; cancel them in the end.

An order is stored with its submission and without a job. One that still waits when its request's claim has ended gets
its first job from `enqueue_due`. Each attempt that isn't the last one enqueues the next.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato.features.orders import queries
from mercato.features.orders.lifecycle import STORE_UNREACHABLE, Lifecycle, OrderGivenUp
from mercato.features.orders.record import StoreAnswer
from mercato.features.orders.submission import Submission, SubmissionOutcome, Submitter, end_submission
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import repeat
from mercato.platform.jobs import (
    Done,
    Handler,
    Handlers,
    Job,
    JobOutcome,
    Settled,
    enqueue,
    fence,
    finish,
)
from mercato.platform.telemetry.context import set_partner
from mercato_contract.clock import Clock
from mercato_contract.wire import Wire

log = structlog.get_logger("mercato.orders")

SUBMIT_KIND: Final = "order.submission"
"""The job of an order's first background attempt."""

RESEND_KIND: Final = "order.resubmission"
"""The job of every further attempt."""

EARLIER_KINDS: Final = ("order.submit", "order.resend")
"""The kinds of the previous release, which would find no submission in a delivery and so must not run its jobs.

Jobs that it has enqueued run here. The next release needs them no longer.
"""

STORE_PARTITIONS: Final = 8
"""Orders of one store that are resent at the same time. Their ordering keys let a partner's stores take turns."""

RETRY_INTERVAL: Final = timedelta(seconds=15)
"""Between two attempts: short for a store that recovers, and forty calls in ten minutes don't load it."""

MIN_WAIT: Final = timedelta(seconds=1)

RECENT: Final = timedelta(seconds=20)
"""An order is given up only after an attempt that ended so recently: `RETRY_INTERVAL` and a wait in the queue."""

POLL_SECONDS: Final = 2.0
"""Between two looks for orders that wait without a job."""

SKEW: Final = timedelta(minutes=1)
"""How much the clocks of two servers may differ. An order from later was stored before the clock was set back."""

BATCH: Final = 100
"""Orders that get their jobs in one transaction."""

_SLACK: Final = timedelta(seconds=15)


class SubmitJob(Wire, frozen=True):
    """The order to submit. Its body is a delivery's, and its payment is sealed there."""

    order_id: UUID
    attempted_at: datetime | None = None
    """The end of the last background attempt."""


async def schedule(
    tx: Write,
    order_id: UUID,
    *,
    store_id: UUID,
    partner_id: UUID,
    wait: timedelta | None = None,
    attempted_at: datetime | None = None,
) -> None:
    """Enqueue the next background attempt, the first one without `attempted_at`."""
    kind = SUBMIT_KIND if attempted_at is None else RESEND_KIND
    await enqueue(
        tx,
        kind,
        SubmitJob(order_id=order_id, attempted_at=attempted_at),
        run_at=wait,
        ordering_key=f"{kind}:{store_id.hex}:{order_id.int % STORE_PARTITIONS}",
        group=partner_id.hex,
        dedup=order_id.hex,
    )


class Resubmissions(Struct, frozen=True):
    """Submits orders whose stores don't answer, or after a crash, and cancels them in the end.

    `lease` is the lifetime of a request's claim, in which it submits its order itself; `seconds` the timeout of one
    call. The first background attempt of an order and the later ones are two kinds of job, each with its own
    concurrency: a new order doesn't wait behind the tenth attempts of others.
    """

    db: Database
    clock: Clock
    submitter: Submitter
    lifecycle: Lifecycle
    seconds: float
    lease: timedelta

    async def run(self) -> None:
        """Enqueue first attempts when they are due, until cancelled. While the database is unavailable, try again."""
        await repeat(
            self.enqueue_due,
            seconds=POLL_SECONDS,
            log=log,
            unavailable="unanswered orders wait for the database",
            bug="bug in finding unanswered orders",
        )

    async def enqueue_due(self) -> None:
        """Enqueue the first attempt of every order whose store hasn't answered its request, and that has no job.

        Several processes may do it at once. An order that has been answered meanwhile is found so by its job.
        """
        while True:
            now = self.clock()
            async with self.db.read() as tx:
                due = await queries.list_unattended(
                    tx,
                    before=now - self.lease,
                    after=now + SKEW,
                    kinds=(SUBMIT_KIND, RESEND_KIND),
                    limit=BATCH,
                )
            if due:
                async with self.db.write() as tx:
                    for order in due:
                        await schedule(tx, order.id, store_id=order.store_id, partner_id=order.partner_id)
            if len(due) < BATCH:
                return

    def handlers(self, *, concurrency: int) -> Handlers:
        """Return the handler of each kind of job. `concurrency` is that of each kind of attempt."""
        attempt = Handler(
            fn=self.resend,
            payload=SubmitJob,
            timeout=timedelta(seconds=self.seconds) + _SLACK,
            concurrency=concurrency,
            on_dead=self.end,
        )
        return dict.fromkeys((SUBMIT_KIND, RESEND_KIND, *EARLIER_KINDS), attempt)

    async def resend(self, job: Job[SubmitJob]) -> JobOutcome:
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

    async def _continue(self, tx: Write, submission: Submission) -> None:
        """Enqueue the next attempt, or cancel the order if this was the last one."""
        now = self.clock()
        if now >= submission.give_up_at:
            await self._cancel(tx, submission.call.webhook_id, submission.base_url)
        else:
            wait = max(MIN_WAIT, min(RETRY_INTERVAL, submission.give_up_at - now))
            call = submission.call
            await schedule(
                tx,
                call.webhook_id,
                store_id=call.store_id,
                partner_id=call.partner_id,
                wait=wait,
                attempted_at=now,
            )

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
