"""Calls to stores while a customer waits, bounded for each address: queue, circuit breaker, time-out."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from time import monotonic
from typing import Any, Final
from uuid import UUID
from weakref import WeakValueDictionary

import structlog

from mercato.features.metrics import CommerceMetrics
from mercato.features.webhooks.credentials import Credentials, WebhookCredentials
from mercato.features.webhooks.model import CallResult, StoreCall, error_of
from mercato.features.webhooks.store_health import Record
from mercato.platform.telemetry import tracing
from mercato_contract.clock import Clock
from mercato_contract.excerpts import EXCERPT_BYTES, excerpt, masked
from mercato_contract.signing import webhook_headers
from mercato_contract.wire import uuid_text
from mercato_outbound.client import Outbound
from mercato_outbound.results import EndpointResponse, Fault, RequestFailed

WINDOW: Final = 60
"""Whole seconds whose calls are counted."""

MIN_CALLS: Final = 10
"""With fewer calls the breaker stays closed."""

OPEN_SECONDS: Final = 10.0
"""Seconds without calls before a trial call."""

TRIAL_SECONDS: Final = 30.0
"""Seconds after which a trial without a result is lost, and another is made: longer than any call may take."""

Permit = int
"""Permission for one call, to be settled or given up."""

PER_STORE: Final = 20
"""Concurrent calls of one store."""

WAITING: Final = 100
"""Calls of one store that may wait for a slot; the next one is refused at once."""

TOTAL: Final = 1024
"""Concurrent calls of all stores: a connection and a file descriptor each."""

STORE_SHARE: Final = 4
"""A store gets at most this fraction of what its partner may still have, so that the other stores get slots."""


class Breaker:
    """Opens when half of the calls failed, of at least 10 within 60 s. After 10 s one trial call is admitted.

    Every `now` is in monotonic seconds. Memory is bounded: a pair of counts for each second.
    """

    __slots__ = ("_calls", "_closed", "_counts", "_epoch", "_failed", "_until")

    def __init__(self) -> None:
        # Second, calls, failures; oldest first.
        self._counts: deque[list[int]] = deque()
        self._calls = 0
        self._failed = 0
        self._closed = True
        # The end of the pause, or of the trial, while it isn't closed.
        self._until = 0.0
        # Results of calls that were admitted before the last change are ignored: their permits are of another epoch.
        self._epoch = 0

    @property
    def is_open(self) -> bool:
        """Return whether calls are stopped, or a trial is running."""
        return not self._closed

    def wait(self, now: float) -> float:
        """Return the seconds until a call may be admitted; 0 if one is admitted now."""
        return 0.0 if self._closed else max(self._until - now, 0.0)

    def admit(self, now: float) -> Permit | None:
        """Admit a call, or return None. The permit must be settled, or given up if the call has no result."""
        if not self._closed:
            if now < self._until:
                return None
            self._epoch += 1
            self._until = now + TRIAL_SECONDS
        return self._epoch

    def record(self, permit: Permit, now: float, *, failed: bool) -> bool:
        """Record the result of a call. Return whether that opened or closed the breaker."""
        if permit != self._epoch:
            return False
        if not self._closed:
            return self._open(now) if failed else self._close()
        self._count(int(now), failed=failed)
        if self._calls >= MIN_CALLS and self._failed * 2 >= self._calls:
            return self._open(now)
        return False

    def give_up(self, permit: Permit, now: float) -> None:
        """Record that a call has no result. If it was the trial, the next call is one."""
        if permit == self._epoch and not self._closed:
            self._epoch += 1
            self._until = now

    def _open(self, now: float) -> bool:
        changed = self._closed
        self._closed = False
        self._until = now + OPEN_SECONDS
        self._reset()
        return changed

    def _close(self) -> bool:
        self._closed = True
        self._reset()
        return True

    def _reset(self) -> None:
        self._epoch += 1
        self._counts.clear()
        self._calls = self._failed = 0

    def _count(self, second: int, *, failed: bool) -> None:
        counts = self._counts
        while counts and counts[0][0] <= second - WINDOW:
            _, calls, failures = counts.popleft()
            self._calls -= calls
            self._failed -= failures
        if not counts or counts[-1][0] != second:
            counts.append([second, 0, 0])
        counts[-1][1] += 1
        counts[-1][2] += failed
        self._calls += 1
        self._failed += failed


class QueueFull(Exception):  # noqa: N818  # a state, not a bug
    """The store has as many waiting calls as allowed."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PartnerSlots:
    """A partner's running calls: at most half of the slots that it and all others leave, so a third of all."""

    running: int = 0


@dataclass(slots=True, eq=False)
class StoreSlots:
    """A store's running calls, and those that wait, oldest first."""

    partner: PartnerSlots = field(default_factory=PartnerSlots)
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting


class ConcurrencyLimiter:
    """Slots for calls on one event loop, without locks: only `acquire` waits."""

    def __init__(self, *, per_store: int = PER_STORE, waiting: int = WAITING, total: int = TOTAL) -> None:
        self._per_store = per_store
        self._waiting = waiting
        self._total = total
        self._running = 0
        # Stores with waiting calls that a free slot would help, in the order of their turns.
        self._blocked: OrderedDict[StoreSlots, None] = OrderedDict()

    async def acquire(self, store: StoreSlots, seconds: float) -> None:
        """Return when the call has a slot. Raises QueueFull at once, TimeoutError after that many seconds."""
        if not store.waiting and self._has_room(store):
            self._enter(store)
            return
        if len(store.waiting) >= self._waiting:
            raise QueueFull
        turn = asyncio.get_running_loop().create_future()
        store.waiting.append(turn)
        self._update_blocked(store)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # it got a slot in the moment in which it left
                self.release(store)
            elif turn in store.waiting:
                store.waiting.remove(turn)
                self._update_blocked(store)
            raise

    def release(self, store: StoreSlots) -> None:
        """Free the slot of a call, and start the next one."""
        store.running -= 1
        store.partner.running -= 1
        self._running -= 1
        self._update_blocked(store)
        for blocked in tuple(self._blocked):
            if self._has_room(blocked):
                self._start_waiting(blocked)

    def _has_room(self, store: StoreSlots) -> bool:
        # Limits that shrink with the free slots: the busier it is, the more of a slot goes to a store without one.
        room = (self._total - self._running + 1) // 2 - store.partner.running
        return room > 0 and store.running < min(self._per_store, max(room // STORE_SHARE, 1))

    def _enter(self, store: StoreSlots) -> None:
        store.running += 1
        store.partner.running += 1
        self._running += 1

    def _start_waiting(self, store: StoreSlots) -> None:
        """Start the store's waiting calls while there is room. Their slots count from now on."""
        while store.waiting and self._has_room(store):
            turn = store.waiting.popleft()
            if not turn.done():
                self._enter(store)
                turn.set_result(None)
        self._update_blocked(store)

    def _update_blocked(self, store: StoreSlots) -> None:
        """Move the store to the end of the blocked ones, or remove it."""
        if store.waiting and store.running < self._per_store:
            self._blocked[store] = None
            self._blocked.move_to_end(store)
        else:
            self._blocked.pop(store, None)


log = structlog.get_logger("mercato.webhooks")

MAX_STORES: Final = 10_000
"""Stores in memory, half a kilobyte each, 6 with calls every second. The least recently called is dropped."""

MAX_ADDRESSES: Final = 8
"""Addresses of one store in memory: two, and those that it had before."""

MIN_SECONDS: Final = 0.5
"""A call that waited until less was left says nothing about the store if it times out."""

MIN_SECONDS_TO_SEND: Final = 0.05
"""A call with less left is not sent: no reply would arrive in time."""

RETRY_SECONDS: Final = 1.0
"""When to retry if too many calls of the store are waiting."""

_FULL: Final = "The store was not called: too many calls to it are running, and others wait for a slot."
_LATE: Final = "The store was not called: the call's time was over before a slot was free."
_BREAKER_OPEN: Final = (
    "The store was not called: half of the latest calls to this address failed. It is tried again soon."
)

_BEFORE_THE_REQUEST: Final = frozenset({Fault.REFUSED_ADDRESS, Fault.DNS, Fault.CONNECT})
"""Failures without a connection: nothing of the request was sent. TLS may fail later, too, when it has been."""

ReplyCheck = Callable[[int, bytes], str | None]
"""Return None if status and body are a usable answer, yes or no; else what is wrong, for the partner."""


async def post_signed(
    outbound: Outbound,
    url: str,
    *,
    webhook_id: UUID,
    body: bytes,
    secrets: Sequence[str],
    token: str | None,
    at: datetime,
    traceparent: str,
    span: str,
    ids: dict[str, UUID],
    more_headers: Mapping[str, str] | None = None,
    **options: Any,
) -> EndpointResponse:
    """Post the body, signed with every secret. `options` are those of `Outbound.post`. Raises RequestFailed.

    `more_headers` have other names than those that are set here.
    """
    headers = dict(more_headers or {}) | webhook_headers(
        webhook_id=uuid_text(webhook_id),
        timestamp=int(at.timestamp()),
        body=body,
        secrets=secrets,
        token=token,
        traceparent=traceparent,
    )
    with tracing.span(span, parent=traceparent, kind="CLIENT", **ids):
        headers["traceparent"] = tracing.current(traceparent)
        return await outbound.post(url, headers=headers, body=body, **options)


def failed_result(at: datetime, failure: RequestFailed) -> CallResult:
    """Return the result of a request without a reply."""
    return CallResult(
        at=at,
        ms=failure.elapsed_ms,
        status=failure.status,
        error=failure.message,
        may_have_arrived=failure.repeated or failure.fault not in _BEFORE_THE_REQUEST,
        repeated=failure.repeated,
    )


@dataclass(slots=True, eq=False)
class _Store(StoreSlots):
    # By URL without its query: one address may fail while another works.
    breakers: OrderedDict[str, Breaker] = field(default_factory=OrderedDict)

    def breaker(self, url: str) -> Breaker:
        address = url.partition("?")[0]
        found = self.breakers.get(address)
        if found is None:
            found = self.breakers[address] = Breaker()
            if len(self.breakers) > MAX_ADDRESSES:
                self.breakers.popitem(last=False)
        return found


def _ignore(_call: StoreCall, _result: CallResult) -> None:
    """Take no results."""


class StoreCalls:
    """Makes calls to stores, each signed anew, through a limiter and a circuit breaker per address."""

    def __init__(
        self,
        *,
        outbound: Outbound,
        credentials: WebhookCredentials,
        clock: Clock,
        metrics: CommerceMetrics,
        record: Record | None = None,
        monotonic: Callable[[], float] = monotonic,
        limiter: ConcurrencyLimiter | None = None,
        max_stores: int = MAX_STORES,
    ) -> None:
        """`record` takes the results that say something about a store; `monotonic` is the breakers' clock."""
        self._outbound = outbound
        self._credentials = credentials
        self._clock = clock
        self._metrics = metrics
        self._record = record or _ignore
        self._monotonic = monotonic
        self._limiter = limiter or ConcurrencyLimiter()
        self._max_stores = max_stores
        self._stores: OrderedDict[UUID, _Store] = OrderedDict()
        # By partner, as long as one of its stores is in memory.
        self._partners: WeakValueDictionary[UUID, PartnerSlots] = WeakValueDictionary()
        metrics.watch_open_breakers(self.count_open_breakers)

    def count_open_breakers(self) -> int:
        return sum(breaker.is_open for store in self._stores.values() for breaker in store.breakers.values())

    async def post(self, call: StoreCall, *, seconds: float, parser: ReplyCheck) -> CallResult:
        """Make the call and return its result after at most `seconds`, including the wait for a slot.

        Raises only errors that say nothing about the store: those of the database or the vault when the partner's
        credentials are not cached.
        """
        time = asyncio.get_running_loop().time
        deadline = time() + seconds
        credentials = await self._credentials.get(call.partner_id)
        store = self._store(call)
        breaker = store.breaker(call.url)
        if wait := breaker.wait(self._monotonic()):
            return self._cut_off(call, wait)
        try:
            await self._limiter.acquire(store, deadline - time())
        except QueueFull:
            return self._not_sent("full", _FULL, RETRY_SECONDS)
        except TimeoutError:
            return self._not_sent("late", _LATE, RETRY_SECONDS)
        try:
            return await self._call(call, breaker, credentials, deadline - time(), parser)
        finally:
            self._limiter.release(store)

    async def _call(
        self, call: StoreCall, breaker: Breaker, credentials: Credentials, seconds: float, parser: ReplyCheck
    ) -> CallResult:
        if seconds < MIN_SECONDS_TO_SEND:
            return self._not_sent("late", _LATE, RETRY_SECONDS)
        permit = breaker.admit(self._monotonic())
        if permit is None:  # opened while the call waited
            return self._cut_off(call, breaker.wait(self._monotonic()))
        try:
            result, label = await self._perform(call, credentials, seconds, parser)
        except BaseException:
            # The client disconnected, or there is a bug here: neither is the store's fault. If a disconnect counted,
            # one storefront could open a store's breaker for all.
            breaker.give_up(permit, self._monotonic())
            self._metrics.called_store("abandoned")
            raise
        self._metrics.called_store(label)
        if label == Fault.TIMEOUT and seconds < MIN_SECONDS:
            breaker.give_up(permit, self._monotonic())
            return result
        self._record(call, result)
        if breaker.record(permit, self._monotonic(), failed=result.error is not None):
            self._report_change(call, breaker)
        return result

    def _cut_off(self, call: StoreCall, wait: float) -> CallResult:
        result = self._not_sent("cut_off", _BREAKER_OPEN, wait)
        self._record(call, result)
        return result

    async def _perform(
        self, call: StoreCall, credentials: Credentials, seconds: float, parser: ReplyCheck
    ) -> tuple[CallResult, str]:
        """Return the result and its metric label."""
        at = self._clock()
        token = credentials.token_for(call.url)
        try:
            reply = await post_signed(
                self._outbound,
                call.url,
                webhook_id=call.webhook_id,
                body=call.body,
                secrets=credentials.secrets,
                token=token,
                at=at,
                traceparent=call.traceparent,
                span="store.call",
                ids={"partner_id": call.partner_id, "store_id": call.store_id},
                timeout=seconds,
                urgent=True,
            )
        except RequestFailed as failure:
            return failed_result(at, failure), failure.fault.value
        if HTTPStatus.MULTIPLE_CHOICES <= reply.status < HTTPStatus.BAD_REQUEST:
            error, label = error_of(reply.status), Fault.REDIRECT.value
        else:
            error = parser(reply.status, reply.body)
            label = "answered" if error is None else "bad_answer"
        hidden = call.hidden if token is None else (*call.hidden, token)
        result = CallResult(
            at=at,
            ms=reply.elapsed_ms,
            status=reply.status,
            error=None if error is None else masked(error, hidden=hidden),
            reply=None if call.carries_payment else excerpt(reply.body[:EXCERPT_BYTES], hidden=hidden),
            body=reply.body,
            retry_after=reply.retry_after,
            repeated=reply.repeated,
        )
        return result, label

    def _report_change(self, call: StoreCall, breaker: Breaker) -> None:
        store, partner = str(call.store_id), str(call.partner_id)
        if breaker.is_open:
            self._metrics.breaker_opened()
            log.warning("circuit breaker opened", store_id=store, partner_id=partner)
        else:
            log.info("circuit breaker closed", store_id=store, partner_id=partner)

    def _not_sent(self, label: str, error: str, retry_after: float) -> CallResult:
        self._metrics.called_store(label)
        return CallResult(
            at=self._clock(),
            ms=0,
            error=error,
            retry_after=retry_after,
            was_sent=False,
            may_have_arrived=False,
        )

    def _store(self, call: StoreCall) -> _Store:
        store = self._stores.get(call.store_id)
        if store is None:
            if len(self._stores) >= self._max_stores:
                self._drop_idle_store()
            partner = self._partners.get(call.partner_id)
            if partner is None:
                partner = self._partners[call.partner_id] = PartnerSlots()
            store = self._stores[call.store_id] = _Store(partner)
        else:
            self._stores.move_to_end(call.store_id)
        return store

    def _drop_idle_store(self) -> None:
        """Drop the least recently called store without a call: a store with calls holds slots."""
        idle = next((key for key, store in self._stores.items() if store.is_idle), None)
        if idle is not None:
            del self._stores[idle]
