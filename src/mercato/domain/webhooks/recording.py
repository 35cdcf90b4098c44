"""What came of deliveries is recorded: all that a run has sent in one transaction, or each by itself."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.domain.webhooks import attempts, endpoints
from mercato.domain.webhooks.model import (
    MAX_FAULTS,
    DeliverJob,
    Delivery,
    DeliveryStatus,
    Fault,
    GiveUp,
    Outcome,
    Retry,
    Succeeded,
    Verdict,
)
from mercato.kernel import crash
from mercato.kernel.clock import Clock
from mercato.kernel.db.audit import audit
from mercato.kernel.db.engine import Database, Write
from mercato.kernel.db.errors import is_unavailable
from mercato.kernel.jobs import Job, JobLost, fence
from mercato.kernel.jobs.model import exponential

log = structlog.get_logger("mercato.webhooks")

Settle = Callable[[Write, Job[DeliverJob]], Awaitable[None]]
"""What becomes of the job in the transaction that records its deliveries: `fence`, `finish` or `put_back`."""

OURS: Final = "A fault on our side kept it from being sent. Redeliver it."


class Sent(Struct, frozen=True):
    """A delivery and what came of it; `outcome` is None when no attempt was made."""

    delivery: Delivery
    at: datetime
    outcome: Outcome | None
    verdict: Verdict | Fault


class Moved(Exception):  # noqa: N818  # a verdict: nothing is wrong with most of them
    """One of several deliveries was moved by somebody else: none of them is recorded."""


class Recorder(Struct, frozen=True):
    """Writes what came of deliveries, behind the fence of their job."""

    db: Database
    clock: Clock

    async def record(self, job: Job[DeliverJob], sent: Sequence[Sent], settle: Settle) -> None:
        """Write what came of deliveries, in one transaction that keeps, ends or puts back their job.

        If that can't be done each is written by itself, so that none keeps another from it.
        """
        try:
            await self._write(job, sent, settle)
        except JobLost:
            raise
        except Exception as error:
            if is_unavailable(error):
                raise
            if not isinstance(error, Moved):
                log.exception("webhooks recorded one by one")
            for one in sent:
                await self._record_alone(job, one)
            await self._write(job, [], settle)

    async def _record_alone(self, job: Job[DeliverJob], sent: Sent) -> None:
        try:
            await self._write(job, [sent], fence)
        except JobLost:
            raise
        except Exception as error:
            if is_unavailable(error):
                raise
            log.exception("webhook not recorded for a fault of ours", delivery_id=str(sent.delivery.id))
            await self._write(job, [replace(sent, outcome=None, verdict=Fault())], fence)

    async def _write(self, job: Job[DeliverJob], sent: Sequence[Sent], settle: Settle) -> None:
        now = self.clock()
        async with self.db.write() as tx:
            await settle(tx, job)
            if arrived := [one for one in sent if isinstance(one.verdict, Succeeded)]:
                await _write_arrived(tx, arrived, now=now)
            for one in sent:
                if not isinstance(one.verdict, Succeeded):
                    await _write_not_arrived(tx, job.payload, one, now=now)
            crash.point("webhook.written")


async def _write_arrived(tx: Write, sent: Sequence[Sent], *, now: datetime) -> None:
    if not await attempts.move_succeeded(tx, [one.delivery for one in sent], now=now):
        if len(sent) == 1:
            return  # a redelivery has begun a new round meanwhile, and its attempts are the ones that count
        raise Moved
    await attempts.insert_attempts(
        tx, [(one.delivery, one.outcome, one.at) for one in sent if one.outcome is not None]
    )
    # All are one endpoint's.
    await endpoints.forget_failures(tx, sent[0].delivery.partner_id, sent[0].delivery.url)


async def _write_not_arrived(tx: Write, job: DeliverJob, sent: Sent, *, now: datetime) -> None:
    delivery, outcome = sent.delivery, sent.outcome
    number = delivery.attempts if outcome is None else delivery.attempts + 1
    columns = await _columns(tx, job, sent, number=number, now=now)
    # Not moved: a redelivery has begun a new round meanwhile, and its attempts are the ones that count.
    if (
        await attempts.move_delivery(tx, delivery, now=now, attempts=number, **columns)
        and outcome is not None
    ):
        await attempts.insert_attempts(tx, [(delivery, outcome, sent.at)])
        await _write_failing(tx, sent, now=now)


async def _columns(
    tx: Write, job: DeliverJob, sent: Sent, *, number: int, now: datetime
) -> dict[str, object]:
    """Return what is written of the delivery, once the job of its next attempt is enqueued, if there is one."""
    delivery = sent.delivery
    match sent.verdict:
        case Retry(at=at):
            due = await attempts.enqueue_attempt(
                tx, job, delivery.id, round=delivery.round, attempts=number, delay=at - now
            )
            error = None if sent.outcome is None else sent.outcome.error
            return {"error": error, "next_attempt_at": at, "faults": 0} | (due or {})
        case Fault() if (faults := delivery.faults + 1) < MAX_FAULTS:
            due = await attempts.enqueue_attempt(
                tx,
                job,
                delivery.id,
                round=delivery.round,
                attempts=number,
                faults=faults,
                delay=exponential(faults),
            )
            return {"faults": faults} | (due or {})
        case GiveUp(reason=reason):
            return failed(reason)
        case _:
            log.error("webhook delivery given up", delivery_id=str(delivery.id), reason="faults of ours")
            return failed(OURS)


async def _write_failing(tx: Write, sent: Sent, *, now: datetime) -> None:
    """Write that the endpoint fails, and is disabled if that is the verdict."""
    partner_id, url = sent.delivery.partner_id, sent.delivery.url
    await endpoints.insert_failing(tx, partner_id, url, since=sent.at)
    verdict = sent.verdict
    if not isinstance(verdict, GiveUp) or not verdict.disable:
        return
    if await endpoints.disable(tx, partner_id, url, reason=verdict.reason, now=now):
        detail = {"enabled": False, "deliveryId": sent.delivery.id}
        await audit(tx, "endpoint", partner_id=partner_id, detail=detail)
        tx.after_commit(partial(_log_disabled, sent.delivery, verdict.reason))


def _log_disabled(delivery: Delivery, reason: str) -> None:
    log.warning(
        "endpoint disabled", partner_id=str(delivery.partner_id), delivery_id=str(delivery.id), reason=reason
    )


def failed(reason: str) -> dict[str, object]:
    """Return the columns of a delivery that is not tried again."""
    return {
        "status": DeliveryStatus.FAILED,
        "error": reason,
        "next_attempt_at": None,
        "due_at": None,
        "job_id": None,
    }
