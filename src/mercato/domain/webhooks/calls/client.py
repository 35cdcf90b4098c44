"""Questions to a store that somebody waits for: validate and place. A dead store costs the others nothing."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

import structlog
from msgspec import Struct, field

from mercato.domain.webhooks.calls.breaker import Breaker, Permit
from mercato.domain.webhooks.calls.limiter import ConcurrencyLimiter, Line, QueueFull, Share
from mercato.domain.webhooks.credentials import Credentials, WebhookCredentials
from mercato.domain.webhooks.model import REPLY_KEPT, CallResult, StoreCall, error_of, excerpt, masked
from mercato.kernel.clock import Clock
from mercato.kernel.outbound.client import Outbound
from mercato.kernel.outbound.results import Fault, Reply, RequestFailed
from mercato.kernel.outbound.signing import webhook_headers
from mercato.kernel.telemetry import Metrics, tracing

__all__ = ["CallResult", "ReplyParser", "StoreCall", "StoreCalls"]

log = structlog.get_logger("mercato.webhooks")

MOST: Final = 10_000
"""Stores remembered, the least recently called out: half a kilobyte each, 6 where calls come every second."""

MOST_ADDRESSES: Final = 8
"""Addresses of one store that are remembered: two, and those that it had before."""

LEAST_SECONDS: Final = 0.5
"""A call that waited so long for its turn that less is left for it tells nothing about the store."""

LEAST_TO_SEND: Final = 0.05
"""With less left it is not sent at all: no answer would be back in time."""

FULL_SECONDS: Final = 1.0
"""When to come again if a store has too many calls waiting."""

_FULL: Final = (
    "It was not called: too many calls to this store are under way, and others wait for their turn."
)
_LATE: Final = "It was not called: its time was over before its turn came."
_CUT_OFF: Final = (
    "It was not called: half of the latest calls to this address failed. It is tried again soon."
)

ReplyParser = Callable[[int, bytes], str | None]
"""Return None if status and body are a sensible answer, yes or no, else what is wrong, for the partner."""


class _Store(Struct):
    line: Line
    # By URL without its query: what is wrong with one address is not the other's fault.
    breakers: OrderedDict[str, Breaker] = field(default_factory=OrderedDict)

    def breaker(self, url: str) -> Breaker:
        address = url.partition("?")[0]
        found = self.breakers.get(address)
        if found is None:
            found = self.breakers[address] = Breaker()
            if len(self.breakers) > MOST_ADDRESSES:
                self.breakers.popitem(last=False)
        return found


class StoreCalls:
    """Calls to stores, signed anew each; who keeps failing is cut off, and nobody gets more than a share."""

    def __init__(
        self,
        *,
        outbound: Outbound,
        credentials: WebhookCredentials,
        clock: Clock,
        metrics: Metrics,
        monotonic: Callable[[], float] = monotonic,
        turns: ConcurrencyLimiter | None = None,
        most: int = MOST,
    ) -> None:
        """`monotonic` is the breakers' clock, in seconds."""
        self._outbound = outbound
        self._credentials = credentials
        self._clock = clock
        self._metrics = metrics
        self._monotonic = monotonic
        self._turns = turns or ConcurrencyLimiter()
        self._most = most
        self._stores: OrderedDict[UUID, _Store] = OrderedDict()
        # By partner, for as long as one of its stores is remembered.
        self._shares: WeakValueDictionary[UUID, Share] = WeakValueDictionary()
        metrics.watch_open_breakers(self.count_cut_off)

    def count_cut_off(self) -> int:
        """Return how many addresses are cut off at present."""
        return sum(breaker.is_open for store in self._stores.values() for breaker in store.breakers.values())

    async def post(self, call: StoreCall, *, seconds: float, parser: ReplyParser) -> CallResult:
        """Make the call and return what came of it, at most `seconds` later, the wait for its turn included.

        Raises only what says nothing of the store: what the database or the vault raises when the partner's
        credentials are not in memory.
        """
        deadline = _loop_time() + seconds
        credentials = self._credentials.cached(call.partner_id)
        if credentials is None:
            credentials = await self._credentials.get(call.partner_id)
        store = self._store(call)
        breaker = store.breaker(call.url)
        if wait := breaker.wait(self._monotonic()):
            return self._not_sent("cut_off", _CUT_OFF, wait)
        try:
            await self._turns.take(store.line, deadline - _loop_time())
        except QueueFull:
            return self._not_sent("full", _FULL, FULL_SECONDS)
        except TimeoutError:
            return self._not_sent("late", _LATE, FULL_SECONDS)
        try:
            return await self._in_turn(call, breaker, credentials, deadline, parser)
        finally:
            self._turns.give_back(store.line)

    async def _in_turn(
        self,
        call: StoreCall,
        breaker: Breaker,
        credentials: Credentials,
        deadline: float,
        parser: ReplyParser,
    ) -> CallResult:
        given = deadline - _loop_time()
        if given < LEAST_TO_SEND:
            return self._not_sent("late", _LATE, FULL_SECONDS)
        permit = breaker.admit(self._monotonic())
        if permit is None:  # opened while the call waited
            return self._not_sent("cut_off", _CUT_OFF, breaker.wait(self._monotonic()))
        try:
            called, outcome = await self._perform(call, credentials, given, parser)
        except BaseException:
            # Who asked has left, or we failed: neither says that the store did. Were a caller's leaving held
            # against it, one storefront could cut a store off for all.
            breaker.give_up(permit, self._monotonic())
            self._metrics.called_store("abandoned")
            raise
        self._metrics.called_store(outcome)
        if outcome == Fault.TIMEOUT and given < LEAST_SECONDS:
            breaker.give_up(permit, self._monotonic())
        else:
            self._settle(call, breaker, permit, failed=called.error is not None)
        return called

    async def _perform(
        self, call: StoreCall, credentials: Credentials, seconds: float, parser: ReplyParser
    ) -> tuple[CallResult, str]:
        """Return what came of it, and the one word for it that is counted."""
        at = self._clock()
        token = credentials.token_for(call.url)
        headers = webhook_headers(
            webhook_id=str(call.webhook_id),
            timestamp=int(at.timestamp()),
            body=call.body,
            secrets=credentials.secrets,
            token=token,
            traceparent=call.traceparent,
        )
        try:
            told = {"partner_id": call.partner_id, "store_id": call.store_id}
            with tracing.span("store.call", parent=call.traceparent, kind="CLIENT", **told):
                headers["traceparent"] = tracing.current(call.traceparent)
                reply = await self._outbound.post(
                    call.url, headers=headers, body=call.body, timeout=seconds, for_order=True
                )
        except RequestFailed as failed:
            return CallResult(
                at=at, ms=failed.elapsed_ms, status=failed.status, error=failed.message
            ), failed.fault.value
        hidden = call.hidden if token is None else (*call.hidden, token)
        error, outcome = _parse(reply, parser)
        called = CallResult(
            at=at,
            ms=reply.elapsed_ms,
            status=reply.status,
            error=None if error is None else masked(error, hidden=hidden),
            reply=None if call.carries_payment else excerpt(reply.body[:REPLY_KEPT], hidden=hidden),
            body=reply.body,
            retry_after=reply.retry_after,
        )
        return called, outcome

    def _settle(self, call: StoreCall, breaker: Breaker, permit: Permit, *, failed: bool) -> None:
        if not breaker.settle(permit, self._monotonic(), failed=failed):
            return
        store, partner = str(call.store_id), str(call.partner_id)
        if breaker.is_open:
            self._metrics.breaker_opened()
            log.warning("store cut off", store_id=store, partner_id=partner)
        else:
            log.info("store answers again", store_id=store, partner_id=partner)

    def _not_sent(self, outcome: str, words: str, retry_after: float) -> CallResult:
        self._metrics.called_store(outcome)
        return CallResult(at=self._clock(), ms=0, error=words, retry_after=retry_after, reached=False)

    def _store(self, call: StoreCall) -> _Store:
        store = self._stores.get(call.store_id)
        if store is None:
            if len(self._stores) >= self._most:
                self._forget_one()
            share = self._shares.get(call.partner_id)
            if share is None:
                share = self._shares[call.partner_id] = Share()
            store = self._stores[call.store_id] = _Store(Line(share))
        else:
            self._stores.move_to_end(call.store_id)
        return store

    def _forget_one(self) -> None:
        """Forget the store that was called least recently, of those without a call: its calls hold its places."""
        idle = next((key for key, store in self._stores.items() if store.line.is_idle), None)
        if idle is not None:
            del self._stores[idle]


def _parse(reply: Reply, parser: ReplyParser) -> tuple[str | None, str]:
    """Return what is wrong with the reply, None if nothing is, and the word that is counted."""
    if HTTPStatus.MULTIPLE_CHOICES <= reply.status < HTTPStatus.BAD_REQUEST:
        return error_of(reply.status), Fault.REDIRECT.value
    error = parser(reply.status, reply.body)
    return error, "answered" if error is None else "bad_answer"


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
