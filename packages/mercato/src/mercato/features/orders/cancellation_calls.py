"""Call a store about a requested cancellation, and record its decision: for the request, and in background work.

The store is called with no transaction open, under the cancellation's id and with the same bytes each time. After a
crash, or while the store doesn't answer, background work calls again until `give_up_at`, and `LATE_ATTEMPTS` times
after that. The first process that gets the reply records it under the order's lock; the others find it recorded.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.features.orders import queries
from mercato.features.orders.lifecycle import CANCELLATIONS, Lifecycle, OrderCancelledByStorefront
from mercato.features.orders.record import OrderRow, StoredCancellation
from mercato.features.orders.resubmission import MIN_WAIT, RETRY_INTERVAL
from mercato.features.orders.store_messages import cancel_body
from mercato.features.orders.submission import call_until_final
from mercato.features.webhooks.calls import StoreCalls
from mercato.features.webhooks.deliveries import CallRecord, record_store_call, update_store_call
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.platform import processes
from mercato.platform.db.engine import Database, Write
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
from mercato_contract.clock import Clock
from mercato_contract.events import SUFFIXES, EventType
from mercato_contract.orders import Actor, CancellationStatus, OrderState
from mercato_contract.replies import (
    CancelAcceptance,
    CancelRejection,
    CancelReply,
    InvalidReply,
    ReplyParser,
    read_cancel,
)
from mercato_contract.signing import target
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import Wire

log = structlog.get_logger("mercato.orders")

CANCEL_KIND: Final = "order.cancel"
"""The job that calls the store in the background."""

SLACK: Final = timedelta(seconds=5)
"""How much longer than its call a request's claim lasts, and how long after it background work begins."""

LATE_ATTEMPTS: Final = 2
"""How often the store is called after `give_up_at`, before the order goes on."""

_PATH: Final = SUFFIXES[EventType.ORDER_CANCEL]


class CancelJob(Wire, frozen=True):
    """The payload of a `CANCEL_KIND` job. `late` counts the calls without an answer since `give_up_at`."""

    order_id: UUID
    cancellation_id: UUID
    late: int = 0


class CancellationCalls(Struct, frozen=True):
    """Calls stores about cancellations, and records how each one ends. `seconds` is the timeout of a job's calls."""

    db: Database
    clock: Clock
    lifecycle: Lifecycle
    calls: StoreCalls
    seconds: float

    async def begin(
        self,
        tx: Write,
        order: OrderRow,
        cancellation: StoredCancellation,
        url: str | None,
        *,
        lease: timedelta,
    ) -> OrderRow:
        """Return the order with its cancellation requested. Background work calls the store once the lease is over.

        Without a URL nobody is called: a person cancels the order, or it goes on.
        """
        order = await self._record(tx, order, cancellation)
        if url is not None:
            await self._log(tx, order, cancellation, url)
        await self._schedule(tx, order, cancellation, wait=lease)
        return order

    async def call(
        self, order: OrderRow, cancellation: StoredCancellation, *, seconds: float
    ) -> tuple[CancelReply, tuple[CallResult, ...]]:
        async with self.db.read() as tx:
            url = await queries.find_webhook_url(tx, order)
        if url is None:
            return InvalidReply("Nobody is called about the order: a person decides."), ()
        if seconds <= 0:
            return InvalidReply("The time in which the store is asked is over."), ()
        call = _store_call(order, cancellation, url)

        async def attempt(left: float) -> tuple[CallResult, CancelReply]:
            parser = ReplyParser[CancelReply](read_cancel)
            called = await self.calls.post(call, seconds=left, parser=parser)
            return called, parser.reply if called.error is None else InvalidReply(called.error)

        return await call_until_final(attempt, seconds=seconds)

    async def record_reply(
        self,
        tx: Write,
        order_id: UUID,
        cancellation: StoredCancellation,
        reply: CancelReply,
        calls: Sequence[CallResult],
    ) -> OrderRow:
        """Return the order after the store's reply. A reply that came too late changes nothing."""
        order = await queries.get_order(tx, order_id, lock=True)
        now = self.clock()
        found = find_requested(order, cancellation.id)
        if found is not None:
            order = await self._decide(tx, order, found, reply, now)
        has_ended = find_requested(order, cancellation.id) is None
        status: DeliveryStatus | None
        if not isinstance(reply, InvalidReply):
            status = DeliveryStatus.SUCCEEDED
        elif not has_ended:
            status = DeliveryStatus.PENDING
        else:
            # What ended it meanwhile has written into the log whether the store answered.
            status = None if found is None else DeliveryStatus.FAILED
        # The answers may name a customer who was erased meanwhile: only how the call ended is logged.
        logged = calls if order.client_context is not None else ()
        await update_store_call(tx, cancellation.id, logged, status=status, now=now)
        if has_ended:
            await delete_waiting(tx, CANCEL_KIND, cancellation.id.hex)
        return order

    async def _decide(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, reply: CancelReply, now: datetime
    ) -> OrderRow:
        """Return the order after a reply to its open cancellation. After an invalid one it stays requested."""
        if order.state is not OrderState.OPEN:
            return await self._meet_end(tx, order, cancellation, now)
        match reply:
            case CancelAcceptance():
                return await self.cancel(tx, order, cancellation, now=now)
            case CancelRejection(reason):
                return await self.end(
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
        """Call the store once more, and let the order go on if that was the last attempt.

        The cancellation is given up only after LATE_ATTEMPTS: after an outage nobody knows what the store has answered,
        and the network may not be back at the first attempt.
        """
        async with self.db.read() as tx:
            order = await queries.get_order(tx, job.payload.order_id)
        found = find_requested(order, job.payload.cancellation_id)
        if found is None:
            return Done()
        set_partner(partner_id=order.partner_id, store_id=order.store_id, traceparent=order.traceparent)
        if order.state is not OrderState.OPEN:
            async with self.db.write() as tx:
                await fence(tx, job)
                await self.give_up(tx, job, "the order is closed")
            return Done()
        reply, calls = await self.call(order, found, seconds=self.seconds)
        processes.crash_point("cancellation.asked")
        async with self.db.write() as tx:
            await finish(tx, job)
            order = await self.record_reply(tx, order.id, found, reply, calls)
            left = found.give_up_at - self.clock()
            late = job.payload.late + (left <= timedelta())
            if late >= LATE_ATTEMPTS:
                await self.give_up(tx, job, "the store never answered")
            elif find_requested(order, found.id) is not None:
                wait = max(MIN_WAIT, min(RETRY_INTERVAL, left))
                await self._schedule(tx, order, found, wait=wait, late=late)
            processes.crash_point("cancellation.recorded")
        return Settled()

    async def give_up(self, tx: Write, job: Job[CancelJob], reason: str) -> None:
        """End a cancellation that the store hasn't answered: the order goes on, or was closed otherwise."""
        order = await queries.get_order(tx, job.payload.order_id, lock=True)
        found, now = find_requested(order, job.payload.cancellation_id), self.clock()
        if found is None:
            return
        if order.state is OrderState.OPEN:
            log.warning("cancellation unanswered", order_id=str(order.id), reason=reason)
        await self.end_without_answer(tx, order, found, now)

    # --- writes -----------------------------------------------------------------------------------

    async def cancel(
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

    async def end_without_answer(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, now: datetime
    ) -> OrderRow:
        """Return the order, open or closed, with its cancellation ended and nothing left to do for it."""
        await end_calls(tx, cancellation, now=now)
        if order.state is OrderState.OPEN:
            return await self.end(tx, order, cancellation, CancellationStatus.UNANSWERED, now=now)
        return await self._meet_end(tx, order, cancellation, now)

    async def _meet_end(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, now: datetime
    ) -> OrderRow:
        """Return an order that was closed while its store was asked, with its cancellation ended."""
        is_cancelled = order.state is OrderState.CANCELLED
        status = CancellationStatus.ACCEPTED if is_cancelled else CancellationStatus.REFUSED
        refusal = None if is_cancelled else "The order was completed meanwhile."
        # These aren't the store's words, whatever it would have answered.
        return await self.end(tx, order, cancellation, status, now=now, refusal=refusal, actor=Actor.SERVICE)

    async def end(
        self,
        tx: Write,
        order: OrderRow,
        cancellation: StoredCancellation,
        status: CancellationStatus,
        *,
        now: datetime,
        refusal: str | None = None,
        actor: Actor | None = None,
    ) -> OrderRow:
        """Return the order with its cancellation ended, by the actor, if not by who usually ends one so."""
        ended = replace(cancellation, status=status, at=now, refusal=refusal)
        return await self._record(tx, order, ended, actor=actor)

    async def _record(
        self, tx: Write, order: OrderRow, cancellation: StoredCancellation, *, actor: Actor | None = None
    ) -> OrderRow:
        change = CANCELLATIONS[cancellation.status](at=cancellation.at, cancellation=cancellation)
        return await self.lifecycle.apply(
            tx, order, change if actor is None else replace(change, actor=actor)
        )

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

    async def _log(self, tx: Write, order: OrderRow, cancellation: StoredCancellation, url: str) -> None:
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
                at=cancellation.at,
            ),
        )


async def end_calls(tx: Write, cancellation: StoredCancellation, *, now: datetime) -> None:
    """Call the store no more: the cancellation of a locked order has ended without its answer."""
    await update_store_call(tx, cancellation.id, (), status=DeliveryStatus.FAILED, now=now)
    await delete_waiting(tx, CANCEL_KIND, cancellation.id.hex)


def _store_call(order: OrderRow, cancellation: StoredCancellation, base_url: str) -> StoreCall:
    return StoreCall(
        store_id=order.store_id,
        partner_id=order.partner_id,
        url=target(base_url, _PATH),
        webhook_id=cancellation.id,
        body=cancel_body(order, cancellation),
        traceparent=order.traceparent,
    )


def find_requested(order: OrderRow, cancellation_id: UUID | None = None) -> StoredCancellation | None:
    """Return the cancellation that the store hasn't decided, if there is one, and with this id if one is given."""
    found = order.cancellation
    if found is None or found.status is not CancellationStatus.REQUESTED:
        return None
    return found if cancellation_id in {None, found.id} else None


def is_store_called(order: OrderRow) -> bool:
    """Return whether the store is called about a cancellation: it may decide otherwise than its other systems."""
    return find_requested(order) is not None and not order.is_pulled
