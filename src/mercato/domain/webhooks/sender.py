"""Deliveries are sent: prepare (what is sent), perform (the only network), record (what follows).

One job sends what is due of one ordering key, an endpoint in one partition, in order, and records it together.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from msgspec import Struct

from mercato.domain.partners.model import Surface
from mercato.domain.webhooks import attempts, endpoints
from mercato.domain.webhooks.credentials import WebhookCredentials
from mercato.domain.webhooks.deliveries import not_called
from mercato.domain.webhooks.model import (
    REPLY_KEPT,
    DeliverJob,
    Delivery,
    Fault,
    GiveUp,
    Outcome,
    Retry,
    Succeeded,
    Verdict,
    decide,
    error_of,
    excerpt,
)
from mercato.domain.webhooks.recording import OURS, Recorder, Sent, Settle, failed
from mercato.kernel import crash
from mercato.kernel.clock import Clock, new_id
from mercato.kernel.db.compression import decompress
from mercato.kernel.db.engine import Database, Write
from mercato.kernel.db.errors import is_unavailable
from mercato.kernel.jobs import Done, Handler, Job, Settled, fence, finish, put_back
from mercato.kernel.jobs import Outcome as JobOutcome
from mercato.kernel.outbound.client import Outbound
from mercato.kernel.outbound.results import RequestFailed
from mercato.kernel.outbound.signing import webhook_headers
from mercato.kernel.telemetry import Metrics, is_debug_enabled, tracing
from mercato.kernel.telemetry.context import set_partner
from mercato.kernel.wire import redacted

log = structlog.get_logger("mercato.webhooks")

MAX_BATCH: Final = 32
"""Deliveries of one run: on SQLite the event loop waits for what is written of them, for a millisecond."""

_BATCH_SECONDS: Final = 0.25
"""After this no further delivery of the run is begun: other ordering keys wait for its place."""

_PROMPT_SECONDS: Final = 0.05
"""When a call takes longer, the deliveries before it are recorded meanwhile."""

_SLACK: Final = timedelta(seconds=15)
"""What a run may take beside its last call: reading, signing, and waiting for the writer."""

_COUNTED: Final[dict[type, str]] = {Succeeded: "succeeded", Retry: "retried", GiveUp: "given_up"}


@redacted("headers", "token", "body")
class Attempt(Struct, frozen=True, kw_only=True):
    """A call that is ready to be made."""

    delivery: Delivery
    body: bytes
    headers: dict[str, str]
    token: str | None


def prepare(
    delivery: Delivery, body: bytes, *, secrets: Sequence[str], token: str | None, now: datetime
) -> Attempt:
    """Return the call: signed anew with every secret; an event URL never gets the token."""
    token = token if delivery.surface is Surface.COMMERCE else None
    headers = webhook_headers(
        webhook_id=str(delivery.webhook_id),
        timestamp=int(now.timestamp()),
        body=body,
        secrets=secrets,
        token=token,
        traceparent=delivery.traceparent,
    )
    return Attempt(delivery=delivery, body=body, headers=headers, token=token)


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
    """Sends deliveries."""

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
        self._recorder = Recorder(db, clock)
        # When an endpoint was last disabled here, on the event loop's clock. Other runs may be of the same endpoint:
        # what they have read before is read again.
        self._disabled_at = -math.inf

    def handler(self, *, concurrency: int, per_partner: int | None = None) -> Handler[DeliverJob]:
        """Return what the worker needs for the kind `KIND`.

        `concurrency` bounds the calls of one worker. `per_partner` bounds a partner's over all workers, so that
        one with many dead receivers can't hold every place for as long as they take to time out.
        """
        return Handler(
            fn=self.handle,
            payload=DeliverJob,
            timeout=timedelta(seconds=self._seconds) + _SLACK,
            concurrency=concurrency,
            group_concurrency=per_partner,
            coalesces=True,
            on_dead=self.give_up,
        )

    async def handle(self, job: Job[DeliverJob]) -> JobOutcome:
        """Send what is due, one after the other. A crash before it is recorded sends it again, with the same ids."""
        # A delivery over which workers vanish goes by itself, so that no other is sent again with it.
        most = 1 if job.losses else MAX_BATCH
        began = asyncio.get_running_loop().time()
        async with self._db.read() as tx:
            due = await attempts.list_due(tx, job.payload, through=job.run_at, most=most + 1)
        if not due:
            return Done()
        if due[0].disabled_reason is not None:
            return await self._leave(job)
        sent: list[Sent] = []
        works = False
        for delivery in due[:most]:
            sent.append(await self._send_beside(job, delivery, sent, works=works))
            works = isinstance(sent[-1].verdict, Succeeded)
            if not works or self._ends(began):
                break
        await self._record(job, sent, finish if delivery is due[-1] else put_back)
        return Settled()

    def _ends(self, began: float) -> bool:
        """Tell whether a run that began then sends no more: it has had its time, or its endpoint may be disabled."""
        return asyncio.get_running_loop().time() > began + _BATCH_SECONDS or self._disabled_at > began

    async def _send_beside(
        self, job: Job[DeliverJob], delivery: Delivery, sent: list[Sent], *, works: bool
    ) -> Sent:
        """Make an attempt; if it takes long, record meanwhile what was sent before, and empty that list."""
        set_partner(partner_id=delivery.partner_id, traceparent=delivery.traceparent)
        call = asyncio.ensure_future(self._send(delivery, works=works))
        try:
            await asyncio.wait([call], timeout=_PROMPT_SECONDS)
            if sent and not call.done():
                await self._record(job, sent, fence)
                sent.clear()
            return await call
        finally:
            if not call.done():
                call.cancel()
                await asyncio.wait([call])

    async def give_up(self, tx: Write, job: Job[DeliverJob], reason: str) -> None:
        """End the first delivery of a job that failed too often, and go on with the others: none is left behind."""
        due = await attempts.list_due(tx, job.payload, through=job.run_at, most=2)
        for delivery in due[:1]:
            log.error("webhook delivery given up", delivery_id=str(delivery.id), reason=reason)
            await attempts.move_delivery(tx, delivery, now=self._clock(), **failed(OURS))
        if len(due) > 1:
            await attempts.enqueue_attempt(tx, job.payload, new_id())

    async def _leave(self, job: Job[DeliverJob]) -> JobOutcome:
        """End all that is due to an endpoint which was disabled since it was pushed, unless it is enabled again."""
        endpoint = job.payload
        async with self._db.write() as tx:
            reason = await endpoints.find_disabled_reason(tx, endpoint.partner_id, endpoint.url)
            if reason is None:
                await put_back(tx, job)
            else:
                await finish(tx, job)
                await attempts.fail_due(
                    tx, endpoint, through=job.run_at, reason=not_called(reason), now=self._clock()
                )
        return Settled()

    async def _send(self, delivery: Delivery, *, works: bool) -> Sent:
        """Make an attempt. `works` says that the endpoint has just taken another."""
        at = self._clock()
        try:
            attempt = await self._prepare(delivery, at)
            outcome = await perform(self._outbound, attempt, seconds=self._seconds)
        except Exception as error:
            if is_unavailable(error):
                raise
            log.exception("webhook not sent for a fault of ours", delivery_id=str(delivery.id))
            return Sent(delivery, at, None, Fault())
        crash.point("webhook.sent")
        verdict = await self._judge(delivery, outcome, works=works)
        _log(delivery, outcome, verdict)
        self._metrics.delivered(_COUNTED[type(verdict)], outcome.ms / 1000)
        return Sent(delivery, at, outcome, verdict)

    async def _prepare(self, delivery: Delivery, now: datetime) -> Attempt:
        body, base = delivery.body, delivery.base
        if body is None:
            async with self._db.read() as tx:
                body, base = await attempts.get_body(tx, delivery.id)
        signs = self._credentials.cached(delivery.partner_id)
        if signs is None:
            signs = await self._credentials.get(delivery.partner_id)
        return prepare(
            delivery,
            decompress(body, base=base),
            secrets=signs.secrets,
            token=signs.token_for(delivery.url),
            now=now,
        )

    async def _record(self, job: Job[DeliverJob], sent: Sequence[Sent], settle: Settle) -> None:
        await self._recorder.record(job, sent, settle)
        if any(isinstance(one.verdict, GiveUp) and one.verdict.disable for one in sent):
            self._disabled_at = asyncio.get_running_loop().time()

    async def _judge(self, delivery: Delivery, outcome: Outcome, *, works: bool) -> Verdict:
        since = None if works else delivery.failing_since
        verdict = self._decide(delivery, outcome, since)
        if isinstance(verdict, GiveUp) and verdict.disable and since is not None:
            # A run of another partition may have succeeded since that was read.
            async with self._db.read() as tx:
                since = await endpoints.find_failing_since(tx, delivery.partner_id, delivery.url)
            verdict = self._decide(delivery, outcome, since)
        return verdict

    def _decide(self, delivery: Delivery, outcome: Outcome, failing_since: datetime | None) -> Verdict:
        return decide(
            outcome,
            number=delivery.number,
            failing_since=failing_since,
            now=self._clock(),
            chance=self._chance(),
        )


def _log(delivery: Delivery, outcome: Outcome, verdict: Verdict) -> None:
    """Log the attempt: not the URL, whose query may hold what grants access."""
    if outcome.error is None and not is_debug_enabled():
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
