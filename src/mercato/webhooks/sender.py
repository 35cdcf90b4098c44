"""One attempt of a delivery: prepare (what is sent), perform (the only network), settle (what follows)."""

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from mercato import crash
from mercato.clock import Clock
from mercato.db.compression import decompress
from mercato.db.engine import Database, Write
from mercato.jobs import Again, Done, Ending, Finished, Handler, Job, fence
from mercato.outbound.client import Outbound
from mercato.outbound.results import RequestFailed
from mercato.outbound.signing import webhook_headers
from mercato.partners.model import Surface
from mercato.telemetry import Metrics, tells_details, tracing
from mercato.telemetry.acting import act_for
from mercato.webhooks import queries, sending
from mercato.webhooks.credentials import WebhookCredentials
from mercato.webhooks.deliveries import not_called
from mercato.webhooks.model import (
    REPLY_KEPT,
    DeliverJob,
    Delivery,
    GiveUp,
    Outcome,
    Retry,
    Succeeded,
    Verdict,
    decide,
    error_of,
    excerpt,
)
from mercato.webhooks.settling import Ended, Settling, Unwritten, failed
from mercato.wire import redacted

log = structlog.get_logger("mercato.webhooks")

_SLACK: Final = timedelta(seconds=15)
"""What a run may take beside the call itself: reading, signing, and waiting for the writer."""

_IN_LINE: Final = 16
"""Deliveries of a lane that are claimed at once."""

_COUNTED: Final[dict[type, str]] = {Succeeded: "succeeded", Retry: "retried", GiveUp: "given_up"}

_OURS: Final = "A fault on our side kept it from being sent. Redeliver it."


@redacted("headers", "token", "body")
class Attempt(Struct, frozen=True, kw_only=True):
    """A call that is ready to be made."""

    delivery: Delivery
    body: bytes
    headers: dict[str, str]
    token: str | None
    at: datetime


def prepare(delivery: Delivery, *, secrets: Sequence[str], token: str | None, now: datetime) -> Attempt:
    """Return the call: signed anew with every secret; an event URL never gets the token."""
    token = token if delivery.surface is Surface.COMMERCE else None
    body = decompress(delivery.body, base=delivery.base)
    headers = webhook_headers(
        webhook_id=str(delivery.webhook_id),
        timestamp=int(now.timestamp()),
        body=body,
        secrets=secrets,
        token=token,
        traceparent=delivery.traceparent,
    )
    return Attempt(delivery=delivery, body=body, headers=headers, token=token, at=now)


async def perform(outbound: Outbound, attempt: Attempt, *, seconds: float) -> Outcome:
    """Make the call and return what came of it, at most `seconds` later."""
    delivery = attempt.delivery
    told = {"delivery_id": delivery.id, "partner_id": delivery.partner_id}
    try:
        with tracing.span("webhook.deliver", parent=delivery.traceparent, kind="CLIENT", **told):
            reply = await outbound.post(
                delivery.url,
                headers=attempt.headers | {"traceparent": tracing.current(delivery.traceparent)},
                body=attempt.body,
                timeout=seconds,
                max_reply=REPLY_KEPT,
                truncate=True,
            )
    except RequestFailed as failed:
        return Outcome(ms=failed.elapsed_ms, status=failed.status, error=failed.message)
    return Outcome(
        ms=reply.elapsed_ms,
        status=reply.status,
        error=error_of(reply.status),
        reply=excerpt(reply.body, hidden=(attempt.token or "",)),
        retry_after=None if reply.retry_after is None else timedelta(seconds=reply.retry_after),
    )


class Sender:
    """Carries deliveries out."""

    def __init__(
        self,
        *,
        db: Database,
        outbound: Outbound,
        credentials: WebhookCredentials,
        clock: Clock,
        chance: Callable[[], float],
        seconds: float,
        metrics: Metrics | None = None,
    ) -> None:
        """`chance` returns a number in [0, 1); `seconds` bound one call, connecting included."""
        self._db = db
        self._outbound = outbound
        self._credentials = credentials
        self._clock = clock
        self._chance = chance
        self._seconds = seconds
        self._metrics = metrics or Metrics()
        self._settling = Settling(db, clock)
        self._timeout = timedelta(seconds=seconds) + _SLACK
        # When an endpoint was last disabled here, on the event loop's clock. Other lines may be its, too: what they
        # have read before is read again.
        self._disabled = -math.inf

    def handler(self, *, concurrency: int, per_partner: int | None = None) -> Handler[DeliverJob]:
        """Return what the worker needs for the kind `KIND`.

        `concurrency` bounds the calls of one worker. `per_partner` bounds a partner's over all workers, so that
        one with many dead receivers can't hold every place for as long as they take to time out.
        """
        return Handler(
            fn=self.handle,
            payload=DeliverJob,
            timeout=self._timeout,
            concurrency=concurrency,
            per_group=per_partner,
            in_line=_IN_LINE,
            bring=sending.list_small,
            on_dead=self.give_up,
        )

    async def handle(self, job: Job[DeliverJob]) -> Done | Finished | Ending | Again:
        """Make one attempt. A crash before it is settled makes it again, with the same webhook-id."""
        attempt = await self._prepare(job)
        if attempt is not None:
            outcome = await perform(self._outbound, attempt, seconds=self._seconds)
            crash.point("webhook.sent")
            return await self._settle(job, attempt, outcome)
        return Done()

    async def give_up(self, tx: Write, job: Job[DeliverJob], reason: str) -> None:
        """End a delivery whose job failed too often: none stays pending without a job."""
        delivery = await sending.find_open(tx, job.payload)
        log.error("webhook delivery given up", delivery_id=str(job.payload.delivery_id), reason=reason)
        if delivery is not None:
            await sending.move_delivery(tx, delivery, now=self._clock(), **failed(_OURS))

    async def _prepare(self, job: Job[DeliverJob]) -> Attempt | None:
        """Return the call to make; None when there is none to be made any more."""
        now = self._clock()
        delivery: Delivery | None = job.brought
        if delivery is None or job.deadline < self._disabled + self._timeout.total_seconds():
            async with self._db.write() as tx:
                delivery = await sending.find_open(tx, job.payload)
        if delivery is None:
            return None
        act_for(partner_id=delivery.partner_id, traceparent=delivery.traceparent)
        if delivery.disabled_reason is not None:
            if await self._left(job, delivery):
                return None
            delivery = msgspec.structs.replace(delivery, disabled_reason=None, failing_since=None)
        signs = self._credentials.cached(delivery.partner_id)
        if signs is None:
            signs = await self._credentials.get(delivery.partner_id)
        return prepare(delivery, secrets=signs.secrets, token=signs.token_for(delivery.url), now=now)

    async def _left(self, job: Job[DeliverJob], delivery: Delivery) -> bool:
        """End a delivery whose endpoint was disabled while it waited; False if it is enabled again."""
        async with self._db.write() as tx:
            await fence(tx, job)
            reason = await queries.find_disabled_reason(tx, delivery.partner_id, delivery.url)
            if reason is None:
                return False
            await sending.move_delivery(tx, delivery, now=self._clock(), **failed(not_called(reason)))
        return True

    def _decide(self, delivery: Delivery, outcome: Outcome) -> Verdict:
        return decide(
            outcome,
            number=delivery.number,
            failing_since=delivery.failing_since,
            now=self._clock(),
            chance=self._chance(),
        )

    async def _settle(
        self, job: Job[DeliverJob], attempt: Attempt, outcome: Outcome
    ) -> Finished | Ending | Again:
        delivery = attempt.delivery
        verdict = self._decide(delivery, outcome)
        if isinstance(verdict, GiveUp) and verdict.disable and delivery.failing_since is not None:
            # Those ahead in its line may have succeeded since that was read.
            since = await self._settling.find_failing_since(delivery)
            verdict = self._decide(msgspec.structs.replace(delivery, failing_since=since), outcome)
        ended = Ended(job=job, delivery=delivery, outcome=outcome, verdict=verdict, at=attempt.at)
        _note(delivery, outcome, verdict)
        self._metrics.delivered(_COUNTED[type(verdict)], outcome.ms / 1000)
        if isinstance(verdict, Succeeded) and job.held_by is not None:
            return Ending(self._settling.begin(ended, soon=True))
        try:
            await self._settling.settle(ended)
        except Unwritten:
            return Again(timedelta(0))
        if isinstance(verdict, GiveUp) and verdict.disable:
            self._disabled = asyncio.get_running_loop().time()
        return Finished()


def _note(delivery: Delivery, outcome: Outcome, verdict: Verdict) -> None:
    """Say in the log what came of it: not the URL, whose query may hold what grants access."""
    if outcome.error is None and not tells_details():
        return
    say = log.debug if outcome.error is None else log.info
    say(
        "webhook attempt",
        delivery_id=str(delivery.id),
        partner_id=str(delivery.partner_id),
        number=delivery.attempts + 1,
        status=outcome.status,
        ms=outcome.ms,
        verdict=type(verdict).__name__,
    )
