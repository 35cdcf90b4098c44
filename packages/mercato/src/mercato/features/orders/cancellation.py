"""Cancel an order for its storefront: exactly once for each key, and never half, whatever fails on the way.

    when the request comes                   what happens
    ---------------------------------------  --------------------------------------------------------
    the store hasn't answered the placement  cancelled at once; the store is told durably
    the store has no webhook                 cancelled while the order is pending, refused afterwards
    the store has accepted the order         stored as requested with a job; then the store is asked
    another cancellation is requested        the store is asked again with the same bytes

The store is asked with no transaction open, under the cancellation's id and with the same bytes each time. After a
crash, or while the store doesn't answer, background work asks again until `give_up_at`, and `LATE_ATTEMPTS` times after
it. Whoever gets the answer writes it under the order's lock, once.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.features.orders import idempotency, queries
from mercato.features.orders.errors import (
    RETRY_SECONDS,
    CancellationRefused,
    OrderClosed,
    StoreUnreachable,
)
from mercato.features.orders.idempotency import (
    CancelledOrder,
    Claim,
    KeyedRequest,
    OrderOutcome,
    Pinned,
    PinnedOutcome,
    RefusedOrder,
    UnansweredOrder,
)
from mercato.features.orders.lifecycle import CANCELLATIONS, Lifecycle, OrderCancelledByStorefront
from mercato.features.orders.record import OrderRow, StoreAnswer, StoredCancellation
from mercato.features.orders.resubmission import MIN_WAIT, RETRY_INTERVAL
from mercato.features.orders.store_messages import (
    CancelAcceptance,
    CancelRejection,
    CancelReply,
    InvalidReply,
    ReplyParser,
    cancel_body,
    read_cancel,
)
from mercato.features.orders.submission import call_until_final, end_submission
from mercato.features.partners.model import Caller
from mercato.features.webhooks.calls import StoreCalls
from mercato.features.webhooks.deliveries import CallRecord, record_store_call, update_store_call
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.platform import processes
from mercato.platform.clock import Clock, MakeId
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.errors import Problem
from mercato.platform.jobs import (
    Done,
    Handler,
    Job,
    JobOutcome,
    Settled,
    delete_waiting,
    enqueue,
    fence,
    finish,
)
from mercato.platform.telemetry.context import set_partner
from mercato.platform.wire.problem import MakeOrigin, detail_of
from mercato_contract.events import SUFFIXES, EventType
from mercato_contract.orders import CancellationStatus, CancelOrderRequest, OrderState, OrderStatus
from mercato_contract.signing import hmac_sha256, target
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import Wire, as_json, redacted

log = structlog.get_logger("mercato.orders")

CANCEL_KIND: Final = "order.cancel"
"""The job that asks the store in the background."""

SLACK: Final = timedelta(seconds=5)
"""How much longer than its call a request's claim lasts, and how long after it background work begins."""

LATE_ATTEMPTS: Final = 2
"""How often the store is asked once the time is over, before the order goes on."""

_PATH: Final = SUFFIXES[EventType.ORDER_CANCEL]
_NO_STORE_URL: Final = "The store has no system to ask, and has begun the order."


class CancelJob(Wire, frozen=True):
    """The payload of a `CANCEL_KIND` job. `late` is how often the store was asked in vain since `give_up_at`."""

    order_id: UUID
    cancellation_id: UUID
    late: int = 0


class CancellationContext(Struct, frozen=True, kw_only=True):
    """One request. `deadline` is the end of its calls, on the event loop's clock."""

    request: CancelOrderRequest
    keyed: KeyedRequest
    make_origin: MakeOrigin
    deadline: float


class Requested(Struct, frozen=True):
    """The cancellation is stored, and the store is asked next."""

    claim: Claim
    order: OrderRow
    cancellation: StoredCancellation


@redacted("secrets")
class Cancellations(Struct, frozen=True):
    """Cancels orders for storefronts. `seconds` is the timeout of a request's calls, `resend` how long work retries."""

    db: Database
    clock: Clock
    new_id: MakeId
    lifecycle: Lifecycle
    calls: StoreCalls
    secrets: Sequence[bytes]
    seconds: float
    resend: timedelta

    async def cancel(
        self,
        caller: Caller,
        order_id: UUID,
        request: CancelOrderRequest,
        *,
        key: str,
        make_origin: MakeOrigin,
    ) -> OrderOutcome:
        """Return the outcome: of this request, or the one that is pinned to the key.

        Raises OrderNotFound, and OrderClosed for an order that was closed before: the key stays free.
        """
        text = order_id.bytes + as_json(request)
        context = CancellationContext(
            request=request,
            keyed=KeyedRequest(
                partner_id=caller.partner_id,
                key=key,
                fingerprints=[hmac_sha256(secret, text) for secret in self.secrets],
                lease=timedelta(seconds=self.seconds) + SLACK,
            ),
            make_origin=make_origin,
            deadline=asyncio.get_running_loop().time() + self.seconds,
        )
        async with self.db.read() as tx:
            # Most refusals end here, without a write transaction.
            order = await queries.get_own_order(tx, caller, order_id)
            match await idempotency.read(tx, context.keyed, now=self.clock()):
                case Pinned(outcome):
                    return outcome
                case idempotency.FreeKey() if order.state is not OrderState.OPEN:
                    raise _closed(order)
        async with self.db.write() as tx:
            state = await self._begin(tx, context, order_id)
            processes.crash_point("cancellation.begun")
        processes.crash_point("cancellation.stored")
        match state:
            case Requested():
                return await self._ask(context, state)
            case outcome:
                return outcome

    async def _begin(
        self, tx: Write, context: CancellationContext, order_id: UUID
    ) -> Requested | PinnedOutcome:
        order = await queries.get_order(tx, order_id, lock=True)
        now = self.clock()
        claim = await idempotency.claim(tx, context.keyed, now=now, order_id=order_id)
        if isinstance(claim, Pinned):
            return claim.outcome
        found = _find_requested(order)
        if found is not None:
            if order.state is not OrderState.OPEN:
                order = await self._end_without_answer(tx, order, found, now)
                return await self._pin(tx, context, claim, order, now)
            return Requested(claim, order, found)
        if claim.joins and order.cancellation is not None:
            # An earlier request with the key stored it, and background work ended it.
            return await self._pin(tx, context, claim, order, now)
        if order.state is not OrderState.OPEN:
            raise _closed(order)
        cancellation = StoredCancellation(
            id=self.new_id(),
            status=CancellationStatus.REQUESTED,
            reason=context.request.reason,
            # Of a customer who is erased already it wouldn't be erased any more.
            message=None if order.client_context is None else context.request.message,
            partner_order_id=order.partner_order_id,
            requested_at=now,
            at=now,
            give_up_at=now + max(self.resend, context.keyed.lease),
        )
        await audit(tx, "order", order.id, detail={"cancellation": cancellation.reason})
        url = await queries.find_webhook_url(tx, order.store_id)
        if order.answer is StoreAnswer.WAITING:
            await end_submission(tx, order, delivered=False, now=now)
            order = await self._cancel(tx, order, cancellation, now=now, tells_store=True, webhook_url=url)
        elif url is None:
            if order.status is OrderStatus.PENDING:
                order = await self._cancel(tx, order, cancellation, now=now, tells_store=True)
            else:
                order = await self._end(
                    tx, order, cancellation, CancellationStatus.REFUSED, now=now, refusal=_NO_STORE_URL
                )
        else:
            order = await self._record(tx, order, cancellation)
            await self._log(tx, order, cancellation, url, now)
            await self._schedule(tx, order, cancellation, wait=context.keyed.lease)
            return Requested(claim, order, cancellation)
        return await self._pin(tx, context, claim, order, now)

    # --- ask the store ----------------------------------------------------------------------------

    async def _ask(self, context: CancellationContext, state: Requested) -> OrderOutcome:
        try:
            left = context.deadline - asyncio.get_running_loop().time()
            # Later only the job asks, which ends the cancellation: no other call is open then.
            open_for = (state.cancellation.give_up_at - self.clock()).total_seconds()
            reply, calls = await self._call(
                state.order, state.cancellation, seconds=min(max(left, 1.0), open_for)
            )
            processes.crash_point("cancellation.answered")
            async with self.db.write() as tx:
                order = await self._record_reply(tx, state.order.id, state.cancellation, reply, calls)
                now = self.clock()
                # This one, or a newer one, begun after another request had ended this one: then nothing of it is left
                # to answer, and the key's next request joins the newer one.
                if _find_requested(order) is not None:
                    await idempotency.release(tx, state.claim, now=now)
                    return UnansweredOrder(
                        StoreUnreachable(
                            "The store has not answered yet. It is asked again for some minutes. Repeat the request "
                            "with the same Idempotency-Key, or read the order.",
                            retry_after=RETRY_SECONDS,
                            extensions={"orderId": str(order.id)},
                        )
                    )
                outcome = await self._pin(tx, context, state.claim, order, now)
                processes.crash_point("cancellation.written")
            processes.crash_point("cancellation.ended")
        except Exception:
            # The key's next request needn't wait for the lease.
            async with self.db.write() as tx:
                await idempotency.release(tx, state.claim, now=self.clock())
            raise
        return outcome

    async def _call(
        self, order: OrderRow, cancellation: StoredCancellation, *, seconds: float
    ) -> tuple[CancelReply, tuple[CallResult, ...]]:
        async with self.db.read() as tx:
            url = await queries.find_webhook_url(tx, order.store_id)
        if url is None:
            return InvalidReply("The store has no webhookUrl any more."), ()
        if seconds <= 0:
            return InvalidReply("The time in which the store is asked is over."), ()
        call = _store_call(order, cancellation, url)

        async def attempt(left: float) -> tuple[CallResult, CancelReply]:
            parser = ReplyParser[CancelReply](read_cancel)
            called = await self.calls.post(call, seconds=left, parser=parser)
            return called, parser.reply if called.error is None else InvalidReply(called.error)

        return await call_until_final(attempt, seconds=seconds)

    async def _record_reply(
        self,
        tx: Write,
        order_id: UUID,
        asked: StoredCancellation,
        reply: CancelReply,
        calls: Sequence[CallResult],
    ) -> OrderRow:
        """Return the order after the store's reply. One that came too late changes nothing."""
        order = await queries.get_order(tx, order_id, lock=True)
        now = self.clock()
        found = _find_requested(order, asked.id)
        if found is not None:
            order = await self._decide(tx, order, found, reply, now)
        has_ended = _find_requested(order, asked.id) is None
        status: DeliveryStatus | None
        if not isinstance(reply, InvalidReply):
            status = DeliveryStatus.SUCCEEDED
        elif not has_ended:
            status = DeliveryStatus.PENDING
        else:
            # Whoever ended it meanwhile has said in the log whether the store answered.
            status = None if found is None else DeliveryStatus.FAILED
        # The answers may name a customer who was erased meanwhile: only how the call ended is logged.
        logged = calls if order.client_context is not None else ()
        await update_store_call(tx, asked.id, logged, status=status, now=now)
        if has_ended:
            await delete_waiting(tx, CANCEL_KIND, asked.id.hex)
        return order

    async def _decide(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, reply: CancelReply, now: datetime
    ) -> OrderRow:
        """Return the order after a reply to its open cancellation. After an invalid one it stays requested."""
        if order.state is not OrderState.OPEN:
            return await self._meet_end(tx, order, cancellation, now)
        match reply:
            case CancelAcceptance():
                return await self._cancel(tx, order, cancellation, now=now)
            case CancelRejection(reason):
                return await self._end(
                    tx, order, cancellation, CancellationStatus.REFUSED, now=now, refusal=reason
                )
            case InvalidReply():
                return order

    # --- background work --------------------------------------------------------------------------

    def handler(self, *, concurrency: int) -> Handler[CancelJob]:
        return Handler(
            fn=self.handle,
            payload=CancelJob,
            timeout=timedelta(seconds=self.seconds) + 2 * SLACK,
            concurrency=concurrency,
            on_dead=self.give_up,
        )

    async def handle(self, job: Job[CancelJob]) -> JobOutcome:
        """Ask the store once more, and let the order go on if that was the last time.

        It is given up only after LATE_ATTEMPTS: after an outage nobody knows what the store has answered, and the first
        attempt may meet a network that isn't back yet.
        """
        async with self.db.read() as tx:
            order = await queries.get_order(tx, job.payload.order_id)
        found = _find_requested(order, job.payload.cancellation_id)
        if found is None:
            return Done()
        set_partner(partner_id=order.partner_id, store_id=order.store_id, traceparent=order.traceparent)
        if order.state is not OrderState.OPEN:
            async with self.db.write() as tx:
                await fence(tx, job)
                await self.give_up(tx, job, "the order is closed")
            return Done()
        reply, calls = await self._call(order, found, seconds=self.seconds)
        processes.crash_point("cancellation.asked")
        async with self.db.write() as tx:
            await finish(tx, job)
            order = await self._record_reply(tx, order.id, found, reply, calls)
            left = found.give_up_at - self.clock()
            late = job.payload.late + (left <= timedelta())
            if late >= LATE_ATTEMPTS:
                await self.give_up(tx, job, "the store never answered")
            elif _find_requested(order, found.id) is not None:
                wait = max(MIN_WAIT, min(RETRY_INTERVAL, left))
                await self._schedule(tx, order, found, wait=wait, late=late)
            processes.crash_point("cancellation.recorded")
        return Settled()

    async def give_up(self, tx: Write, job: Job[CancelJob], reason: str) -> None:
        """End a cancellation that the store hasn't answered: the order goes on, or was closed otherwise."""
        order = await queries.get_order(tx, job.payload.order_id, lock=True)
        found, now = _find_requested(order, job.payload.cancellation_id), self.clock()
        if found is None:
            return
        if order.state is OrderState.OPEN:
            log.warning("cancellation unanswered", order_id=str(order.id), reason=reason)
        await self._end_without_answer(tx, order, found, now)

    # --- writes -----------------------------------------------------------------------------------

    async def _cancel(
        self,
        tx: Write,
        order: OrderRow,
        cancellation: StoredCancellation,
        *,
        now: datetime,
        tells_store: bool = False,
        webhook_url: str | None = None,
    ) -> OrderRow:
        """Return the cancelled order. A store that hasn't consented is told durably."""
        accepted = replace(cancellation, status=CancellationStatus.ACCEPTED, at=now)
        change = OrderCancelledByStorefront(
            at=now, cancellation=accepted, tells_store=tells_store, webhook_url=webhook_url
        )
        return await self.lifecycle.apply(tx, order, change)

    async def _end_without_answer(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, now: datetime
    ) -> OrderRow:
        """Return the order, open or closed, with its cancellation ended and nothing left to do for it."""
        await update_store_call(tx, cancellation.id, (), status=DeliveryStatus.FAILED, now=now)
        await delete_waiting(tx, CANCEL_KIND, cancellation.id.hex)
        if order.state is OrderState.OPEN:
            return await self._end(tx, order, cancellation, CancellationStatus.UNANSWERED, now=now)
        return await self._meet_end(tx, order, cancellation, now)

    async def _meet_end(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, now: datetime
    ) -> OrderRow:
        """Return an order that was closed while its store was asked, with its cancellation ended."""
        is_cancelled = order.state is OrderState.CANCELLED
        status = CancellationStatus.ACCEPTED if is_cancelled else CancellationStatus.REFUSED
        refusal = None if is_cancelled else "The order was completed meanwhile."
        return await self._end(tx, order, cancellation, status, now=now, refusal=refusal)

    async def _end(
        self,
        tx: Write,
        order: OrderRow,
        cancellation: StoredCancellation,
        status: CancellationStatus,
        *,
        now: datetime,
        refusal: str | None = None,
    ) -> OrderRow:
        return await self._record(tx, order, replace(cancellation, status=status, at=now, refusal=refusal))

    async def _record(self, tx: Write, order: OrderRow, cancellation: StoredCancellation) -> OrderRow:
        change = CANCELLATIONS[cancellation.status](at=cancellation.at, cancellation=cancellation)
        return await self.lifecycle.apply(tx, order, change)

    async def _schedule(
        self,
        tx: Write,
        order: OrderRow,
        cancellation: StoredCancellation,
        *,
        wait: timedelta,
        late: int = 0,
    ) -> None:
        await enqueue(
            tx,
            CANCEL_KIND,
            CancelJob(order_id=order.id, cancellation_id=cancellation.id, late=late),
            run_at=wait,
            ordering_key=f"{CANCEL_KIND}:{order.store_id.hex}",
            group=order.partner_id.hex,
            dedup=cancellation.id.hex,
        )

    async def _log(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, url: str, now: datetime
    ) -> None:
        """Write the call into the merchant's delivery log, under the cancellation's id, before it is made."""
        call = _store_call(order, cancellation, url)
        await record_store_call(
            tx,
            CallRecord(
                call=call,
                id=cancellation.id,
                type=EventType.ORDER_CANCEL,
                body=call.body,
                order_id=order.id,
                order_content=order.content,
                status=DeliveryStatus.PENDING,
                at=now,
            ),
        )

    async def _pin(
        self, tx: Write, context: CancellationContext, claim: Claim, order: OrderRow, now: datetime
    ) -> PinnedOutcome:
        """Return the outcome of a cancellation that has ended, pinned to the key."""
        outcome: PinnedOutcome
        if order.state is OrderState.CANCELLED:
            outcome = CancelledOrder(order.id, order.storefront_document)
        else:
            problem = _closed(order) if order.state is OrderState.COMPLETED else _refused(order)
            origin = context.make_origin()
            detail = replace(detail_of(problem, origin, at=now), order_id=order.id)
            outcome = RefusedOrder(detail, origin.format)
        await idempotency.pin(tx, claim, outcome, order_content=order.content)
        return outcome


def _store_call(order: OrderRow, cancellation: StoredCancellation, base_url: str) -> StoreCall:
    return StoreCall(
        store_id=order.store_id,
        partner_id=order.partner_id,
        url=target(base_url, _PATH),
        webhook_id=cancellation.id,
        body=cancel_body(order, cancellation),
        traceparent=order.traceparent,
    )


def _find_requested(order: OrderRow, cancellation_id: UUID | None = None) -> StoredCancellation | None:
    """Return the cancellation that the store hasn't decided, if there is one, and with this id if one is given."""
    found = order.cancellation
    if found is None or found.status is not CancellationStatus.REQUESTED:
        return None
    return found if cancellation_id in {None, found.id} else None


def _closed(order: OrderRow) -> Problem:
    return OrderClosed(f"The order is {order.state.value} and can't be cancelled any more.")


def _refused(order: OrderRow) -> Problem:
    found = order.cancellation
    if found is not None and found.status is CancellationStatus.UNANSWERED:
        return CancellationRefused(
            "The store did not answer within the time in which it was asked, so the order goes on. "
            "Ask the store, or cancel again with a new Idempotency-Key."
        )
    why = found and found.refusal
    said = "It gives no reason." if why is None else f"Its reason: {why}"
    return CancellationRefused(f"The store does not cancel the order, which goes on. {said}")
