"""Sends deliveries: those due to one address, one after the other, until one fails or the run has lasted its time."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato.features.compression import decompress
from mercato.features.metrics import CommerceMetrics
from mercato.features.partners.model import Surface
from mercato.features.partners.vault import Vault
from mercato.features.webhooks import attempts, endpoint_health
from mercato.features.webhooks.calls import failed_result, post_signed
from mercato.features.webhooks.credentials import WebhookCredentials, open_credentials
from mercato.features.webhooks.model import (
    CallResult,
    Decision,
    DeliverJob,
    Delivery,
    GiveUp,
    InternalFault,
    Moved,
    Retry,
    Succeeded,
    decide,
    error_of,
)
from mercato.features.webhooks.recorder import INTERNAL_FAULT, Attempt, ResultRecorder, Settle
from mercato.platform import processes
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import is_unavailable
from mercato.platform.jobs import (
    Done,
    Handler,
    Job,
    JobOutcome,
    Settled,
    fence,
    finish,
    put_back,
    put_off,
)
from mercato.platform.telemetry import is_debug_enabled
from mercato.platform.telemetry.context import set_partner
from mercato_contract.clock import Clock, new_id
from mercato_contract.excerpts import EXCERPT_BYTES, excerpt
from mercato_contract.wire import redacted
from mercato_outbound.client import Outbound
from mercato_outbound.results import RequestFailed

log = structlog.get_logger("mercato.webhooks")

# --- addresses that fail slowly --------------------------------------------------------------------------

SLOW_FAILURE_SECONDS: Final = 1.0
"""A failure that takes less holds no slot for long, and the schedule of retries is enough."""

PAUSE_SECONDS: Final = 5.0
"""The pause after the first slow failure; each one after a trial doubles it."""

MAX_PAUSE_SECONDS: Final = 60.0

TRIAL_SECONDS: Final = 30.0
"""How long the others wait for a trial: longer than any call may take."""

MAX_ADDRESSES: Final = 10_000

EndpointKey = tuple[UUID, str]
"""A partner and a URL."""


class _Slow(Struct):
    failures: int
    since: float
    until: float


class SlowAddresses:
    """Pauses for addresses that keep calls waiting and then fail, so that they hold no slots that others need.

    Those of this process. Every instant is in seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._slow: OrderedDict[EndpointKey, _Slow] = OrderedDict()

    def wait(self, address: EndpointKey, now: float) -> float:
        """Return how long not to call the address; 0 if it may be called. Of a slow one, that is the only call then."""
        slow = self._slow.get(address)
        if slow is None:
            return 0.0
        if now < slow.until:
            return slow.until - now
        slow.until = now + TRIAL_SECONDS
        return 0.0

    def record(self, address: EndpointKey, *, began: float, now: float, failed: bool) -> None:
        """Record a call. One that began before the pause says nothing new."""
        slow = self._slow.get(address)
        if slow is not None and began < slow.since and failed:
            return
        if not failed or now - began < SLOW_FAILURE_SECONDS:
            self._slow.pop(address, None)
            return
        failures = 0 if slow is None else slow.failures
        pause = min(PAUSE_SECONDS * 2**failures, MAX_PAUSE_SECONDS)
        self._slow[address] = _Slow(min(failures + 1, 10), now, now + pause)
        self._slow.move_to_end(address)
        if len(self._slow) > MAX_ADDRESSES:
            self._slow.popitem(last=False)


# --- the sender ------------------------------------------------------------------------------------------

MAX_BATCH: Final = 32
"""Deliveries of one run: on SQLite recording them blocks the event loop for a millisecond."""

_BATCH_SECONDS: Final = 0.25
"""After this a run starts no further delivery: other ordering keys wait for its slot."""

_SLOW_SECONDS: Final = 0.05
"""While a call takes longer, the deliveries before it are recorded."""

_SLACK: Final = timedelta(seconds=15)
"""The time of a run besides its last call: reading, signing, and waiting for the writer."""

_BODIES: Final = 32
_OPEN: Final = 1_000
"""Small bodies, and credentials of endpoints, that stay in memory after they were used."""

_PARTNER_DELETED: Final = "The partner was deleted."

_LABELS: Final[dict[type, str]] = {Succeeded: "succeeded", Retry: "retried", GiveUp: "given_up"}


@redacted("secrets", "token", "headers")
class _CallsWith(Struct, frozen=True):
    """What a call carries besides its body: the secrets that sign it, the partner's token, the endpoint's headers."""

    secrets: tuple[str, ...]
    token: str | None
    headers: Mapping[str, str]


class Sender:
    """Sends deliveries."""

    def __init__(
        self,
        *,
        db: Database,
        outbound: Outbound,
        credentials: WebhookCredentials,
        vault: Vault,
        clock: Clock,
        random: Callable[[], float],
        seconds: float,
        metrics: CommerceMetrics | None = None,
    ) -> None:
        """`random` returns a number in [0, 1); `seconds` bound one call, including the connection."""
        self._db = db
        self._outbound = outbound
        self._credentials = credentials
        self._open = lru_cache(maxsize=_OPEN)(partial(open_credentials, vault))
        self._clock = clock
        self._random = random
        self._seconds = seconds
        self._metrics = metrics or CommerceMetrics()
        self._recorder = ResultRecorder(db, clock)
        self._slow = SlowAddresses()
        # When an endpoint was last disabled here, in seconds of the event loop's clock. Other runs may send to it: they
        # end, and read again.
        self._disabled_at = -math.inf

    def handler(self, *, concurrency: int, per_partner: int | None = None) -> Handler[DeliverJob]:
        """Return the handler of the kind `KIND`.

        `concurrency` limits the calls of one worker; `per_partner` those of a partner over all workers, so that one
        with many dead receivers can't hold every slot until they time out. The partner's addresses share those.
        """
        return Handler(
            fn=self.handle,
            payload=DeliverJob,
            timeout=timedelta(seconds=self._seconds) + _SLACK,
            concurrency=concurrency,
            group_concurrency=per_partner,
            coalesces=True,
            partitions=True,
            on_dead=self.give_up,
        )

    async def handle(self, job: Job[DeliverJob]) -> JobOutcome:
        """Send the due deliveries one after the other. After a crash they are sent again with the same ids."""
        # A delivery over which workers vanish is sent alone, so that no other is sent again with it.
        limit = 1 if job.losses else MAX_BATCH
        began = asyncio.get_running_loop().time()
        async with self._db.read() as tx:
            due = await attempts.list_due(tx, job.payload, through=job.run_at, limit=limit + 1)
        if not due:
            return Done()
        if due[0].refusal is not None:
            return await self._fail_due(job, due[0])
        if wait := self._slow.wait((job.payload.partner_id, job.payload.url), began):
            async with self._db.write() as tx:
                await put_off(tx, job, timedelta(seconds=wait))
            return Settled()
        sent: list[Attempt] = []
        just_accepted = False
        for delivery in due[:limit]:
            sent.append(await self._send_and_record(job, delivery, sent, just_accepted=just_accepted))
            decision = sent[-1].decision
            just_accepted = isinstance(decision, Succeeded)
            if not isinstance(decision, Succeeded | Moved) or self._ends(began):
                break
        await self._record(job, sent, finish if delivery is due[-1] else put_back)
        return Settled()

    def _ends(self, began: float) -> bool:
        """Return whether a run that began then should end: its time is over, or its endpoint may be disabled."""
        return asyncio.get_running_loop().time() > began + _BATCH_SECONDS or self._disabled_at > began

    async def _send_and_record(
        self, job: Job[DeliverJob], delivery: Delivery, sent: list[Attempt], *, just_accepted: bool
    ) -> Attempt:
        """Make an attempt. While it takes long, record what was sent before, and clear that list."""
        set_partner(partner_id=delivery.partner_id, traceparent=delivery.traceparent)
        recording: list[asyncio.Task[None]] = []

        def record_sent() -> None:
            recording.append(asyncio.create_task(self._record(job, [*sent], fence)))
            sent.clear()

        # Few calls are slow: a timer that is cancelled costs less than a task for each call.
        timer = asyncio.get_running_loop().call_later(_SLOW_SECONDS, record_sent) if sent else None
        try:
            return await self._send(delivery, just_accepted=just_accepted)
        finally:
            if timer is not None:
                timer.cancel()
            for task in recording:
                await task

    async def give_up(self, tx: Write, job: Job[DeliverJob], reason: str) -> None:
        """Fail the first delivery of a dead job, and enqueue a job for the others."""
        due = await attempts.list_due(tx, job.payload, through=job.run_at, limit=2)
        if due:
            delivery = due[0]
            log.error("webhook delivery given up", delivery_id=str(delivery.id), reason=reason)
            await attempts.update_delivery(
                tx,
                delivery,
                attempts.DeliveryFailed(INTERNAL_FAULT),
                attempts=delivery.attempts,
                now=self._clock(),
            )
        if len(due) > 1:
            await attempts.enqueue_attempt(tx, job.payload, new_id())

    async def _fail_due(self, job: Job[DeliverJob], refused: Delivery) -> JobOutcome:
        """Fail what is due to an endpoint that was disabled or deleted since the push, unless it is enabled again."""
        async with self._db.write() as tx:
            await put_back(tx, job)
            # Read again in this transaction. The others of the job, if there are any, are for its next run.
            for first in await attempts.list_due(tx, job.payload, through=job.run_at, limit=1):
                if first.refusal is not None and first.endpoint_id == refused.endpoint_id:
                    await attempts.fail_due(
                        tx,
                        job.payload,
                        endpoint_id=first.endpoint_id,
                        through=job.run_at,
                        reason=first.refusal,
                        now=self._clock(),
                    )
        return Settled()

    async def _send(self, delivery: Delivery, *, just_accepted: bool) -> Attempt:
        """Make an attempt. With `just_accepted`, the endpoint has just accepted another delivery."""
        if delivery.refusal is not None:
            return Attempt(delivery, None, GiveUp(delivery.refusal, disable=False))
        if delivery.endpoint_url not in {None, delivery.url}:
            return Attempt(delivery, None, Moved(delivery.endpoint_url))
        at, time = self._clock(), asyncio.get_running_loop().time
        began = time()
        try:
            calls_with = await self._calls_with(delivery, at)
            body = await self._body_of(delivery) if calls_with.secrets else None
            if body is None:
                # Since the delivery was read, or pushed at the same moment.
                log.info("webhook given up", delivery_id=str(delivery.id), reason=_PARTNER_DELETED)
                return Attempt(delivery, None, GiveUp(_PARTNER_DELETED, disable=False))
            result = await self._perform(delivery, body, calls_with, at)
        except Exception as error:
            if is_unavailable(error):
                raise
            log.exception("webhook not sent", delivery_id=str(delivery.id))
            return Attempt(delivery, None, InternalFault())
        processes.crash_point("webhook.sent")
        self._slow.record(
            (delivery.partner_id, delivery.url), began=began, now=time(), failed=result.error is not None
        )
        decision = await self._decide(delivery, result, just_accepted=just_accepted)
        _log(delivery, result, decision)
        self._metrics.delivered(_LABELS[type(decision)], result.ms / 1000)
        return Attempt(delivery, result, decision)

    async def _body_of(self, delivery: Delivery) -> bytes | None:
        """Return what is sent; None if the delivery was deleted."""
        if delivery.body is not None:
            return _body(delivery.body, delivery.base)
        async with self._db.read() as tx:
            found = await attempts.find_body(tx, delivery.id)
        return None if found is None else decompress(found[0], base=found[1])

    async def _calls_with(self, delivery: Delivery, at: datetime) -> _CallsWith:
        """Return what the call carries. There is no secret if the partner was deleted, with all that it had."""
        if delivery.endpoint_id is not None and delivery.endpoint_credentials is not None:
            opened = self._open(delivery.endpoint_id, delivery.endpoint_credentials)
            return _CallsWith(opened.secrets_at(at), None, opened.headers)
        credentials = await self._credentials.get(delivery.partner_id)
        # An event URL never gets the token.
        token = credentials.token_for(delivery.url) if delivery.surface is Surface.COMMERCE else None
        return _CallsWith(credentials.secrets, token, {})

    async def _perform(
        self, delivery: Delivery, body: bytes, calls_with: _CallsWith, at: datetime
    ) -> CallResult:
        try:
            reply = await post_signed(
                self._outbound,
                delivery.url,
                webhook_id=delivery.webhook_id,
                body=body,
                secrets=calls_with.secrets,
                token=calls_with.token,
                more_headers=calls_with.headers,
                at=at,
                traceparent=delivery.traceparent,
                span="webhook.deliver",
                ids={"delivery_id": delivery.id, "partner_id": delivery.partner_id},
                timeout=self._seconds,
                max_reply=EXCERPT_BYTES,
                truncate=True,
            )
        except RequestFailed as failure:
            return failed_result(at, failure)
        return CallResult(
            at=at,
            ms=reply.elapsed_ms,
            status=reply.status,
            error=error_of(reply.status),
            reply=excerpt(reply.body, hidden=(calls_with.token or "", *calls_with.headers.values())),
            retry_after=reply.retry_after,
        )

    async def _record(self, job: Job[DeliverJob], sent: Sequence[Attempt], settle: Settle) -> None:
        await self._recorder.record(job, sent, settle)
        if any(isinstance(attempt.decision, GiveUp) and attempt.decision.disable for attempt in sent):
            self._disabled_at = asyncio.get_running_loop().time()

    async def _decide(self, delivery: Delivery, result: CallResult, *, just_accepted: bool) -> Decision:
        since = None if just_accepted else delivery.failing_since
        decided = partial(decide, result, number=delivery.number, now=self._clock(), random=self._random())
        decision = decided(failing_since=since)
        if isinstance(decision, GiveUp) and decision.disable and since is not None:
            # A run of another partition may have succeeded since that was read.
            async with self._db.read() as tx:
                since = await endpoint_health.find_failing_since(tx, delivery.partner_id, delivery.url)
            decision = decided(failing_since=since)
        return decision


@lru_cache(maxsize=_BODIES)
def _body(stored: bytes, base: bytes | None) -> bytes:
    """Return a small body. The deliveries of an event to several endpoints, which send the same, are sent together."""
    return decompress(stored, base=base)


def _log(delivery: Delivery, result: CallResult, decision: Decision) -> None:
    """Log the attempt without the URL, whose query may be a credential."""
    if result.error is None and not is_debug_enabled():
        return
    write = log.debug if result.error is None else log.info
    write(
        "webhook attempt",
        delivery_id=str(delivery.id),
        partner_id=str(delivery.partner_id),
        number=delivery.attempts + 1,
        status=result.status,
        ms=result.ms,
        verdict=type(decision).__name__,
    )
