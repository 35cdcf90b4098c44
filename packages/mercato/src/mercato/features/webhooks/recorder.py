"""Records the results of attempts: those of a run in one transaction that settles its job, or each by itself.

Apart from the sender, which makes the calls: here no network is touched, and everything is fenced by the job.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.features.webhooks import attempts, endpoint_health
from mercato.features.webhooks.attempts import (
    DeliveryChange,
    DeliveryFailed,
    DeliveryPostponed,
    DeliveryRedirected,
    DeliveryRetried,
)
from mercato.features.webhooks.model import (
    MAX_FAULTS,
    CallResult,
    Decision,
    DeliverJob,
    Delivery,
    GiveUp,
    InternalFault,
    Moved,
    Retry,
    Succeeded,
)
from mercato.features.webhooks.notifications import push_disabled
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import is_unavailable
from mercato.platform.jobs import Job, JobLost, fence
from mercato.platform.jobs.run import exponential
from mercato_contract.clock import Clock, new_id

log = structlog.get_logger("mercato.webhooks")

Settle = Callable[[Write, Job[DeliverJob]], Awaitable[None]]
"""Settles the job in the transaction that records its deliveries: `fence`, `finish` or `put_back`."""

INTERNAL_FAULT: Final = "A fault on our side kept it from being sent. Redeliver it."


class Attempt(Struct, frozen=True):
    """A delivery and the result of its attempt; None if a fault of this service kept it from being made."""

    delivery: Delivery
    result: CallResult | None
    decision: Decision | Moved | InternalFault


class BatchConflict(Exception):  # noqa: N818  # a state, not a bug
    """Another transaction has changed one of several deliveries: none is recorded."""


class ResultRecorder(Struct, frozen=True):
    """Records results, fenced by their job."""

    db: Database
    clock: Clock

    async def record(self, job: Job[DeliverJob], sent: Sequence[Attempt], settle: Settle) -> None:
        """Record results in one transaction that also settles the job.

        If that fails, each is recorded separately, so that none blocks another.
        """
        try:
            await self._write(job, sent, settle)
        except Exception as error:
            if isinstance(error, JobLost) or is_unavailable(error):
                raise
            if not isinstance(error, BatchConflict):
                log.exception("webhooks recorded one by one")
            for attempt in sent:
                await self._record_alone(job, attempt)
            await self._write(job, [], settle)

    async def _record_alone(self, job: Job[DeliverJob], sent: Attempt) -> None:
        try:
            await self._write(job, [sent], fence)
        except Exception as error:
            if isinstance(error, JobLost) or is_unavailable(error):
                raise
            log.exception("webhook result not recorded", delivery_id=str(sent.delivery.id))
            await self._write(job, [replace(sent, result=None, decision=InternalFault())], fence)

    async def _write(self, job: Job[DeliverJob], sent: Sequence[Attempt], settle: Settle) -> None:
        now = self.clock()
        async with self.db.write() as tx:
            await settle(tx, job)
            if succeeded := [attempt for attempt in sent if isinstance(attempt.decision, Succeeded)]:
                await _write_succeeded(tx, succeeded, now=now)
            for attempt in sent:
                if not isinstance(attempt.decision, Succeeded):
                    await _write_failed(tx, job.payload, attempt, now=now)
            processes.crash_point("webhook.written")


async def _write_succeeded(tx: Write, sent: Sequence[Attempt], *, now: datetime) -> None:
    if not await attempts.update_succeeded(tx, [attempt.delivery for attempt in sent], now=now):
        if len(sent) == 1:
            return  # a redelivery has begun a new round meanwhile, and its attempts count
        raise BatchConflict
    results = [(attempt.delivery, attempt.result) for attempt in sent if attempt.result is not None]
    await attempts.insert_attempt_of_each(tx, results)
    # All have one endpoint.
    await endpoint_health.forget_failures(tx, sent[0].delivery.partner_id, sent[0].delivery.url)


async def _write_failed(tx: Write, job: DeliverJob, sent: Attempt, *, now: datetime) -> None:
    """Record a failed attempt, and that the endpoint fails, and is disabled if that is the decision."""
    delivery, result, decision = sent.delivery, sent.result, sent.decision
    number = delivery.attempts if result is None else delivery.attempts + 1
    change = await _follow_up(tx, job, sent, number=number, now=now)
    is_updated = await attempts.update_delivery(tx, delivery, change, attempts=number, now=now)
    if not is_updated or result is None:
        return  # not updated: a redelivery has begun a new round meanwhile, and its attempts count
    await attempts.insert_attempt_of_each(tx, [(delivery, result)])
    await endpoint_health.insert_failing(tx, delivery.partner_id, delivery.url, since=result.at)
    if (
        isinstance(decision, GiveUp)
        and decision.disable
        and await endpoint_health.disable(
            tx, delivery.partner_id, delivery.url, reason=decision.reason, now=now
        )
    ):
        detail = {"enabled": False, "deliveryId": delivery.id}
        await audit(tx, "endpoint", partner_id=delivery.partner_id, detail=detail)
        await push_disabled(
            tx, delivery.partner_id, delivery.url, reason=decision.reason, now=now, new_id=new_id
        )
        ids = {"partner_id": str(delivery.partner_id), "delivery_id": str(delivery.id)}
        tx.after_commit(partial(log.warning, "endpoint disabled", **ids, reason=decision.reason))


async def _follow_up(
    tx: Write, job: DeliverJob, sent: Attempt, *, number: int, now: datetime
) -> DeliveryChange:
    """Enqueue the next attempt, if there is one, and return what follows from the last."""
    delivery = sent.delivery
    match sent.decision:
        case GiveUp(reason=reason):
            return DeliveryFailed(reason)
        case Retry(at=at):
            due = await attempts.enqueue_attempt(
                tx, job, delivery.id, round=delivery.round, attempts=number, delay=at - now
            )
            return DeliveryRetried(at, None if sent.result is None else sent.result.error, due)
        case Moved(url=url):
            faults = delivery.faults + 1
            due = await attempts.enqueue_attempt(
                tx, replace(job, url=url), delivery.id, round=delivery.round, attempts=number, faults=faults
            )
            return DeliveryRedirected(url, faults, due)
    faults = delivery.faults + 1
    if faults >= MAX_FAULTS:
        log.error("webhook delivery given up", delivery_id=str(delivery.id), reason="internal faults")
        return DeliveryFailed(INTERNAL_FAULT)
    due = await attempts.enqueue_attempt(
        tx,
        job,
        delivery.id,
        round=delivery.round,
        attempts=number,
        faults=faults,
        delay=exponential(faults),
    )
    return DeliveryPostponed(faults, due)
