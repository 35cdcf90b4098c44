"""Cancel an order for its storefront: exactly once for each key, and never half, whatever fails on the way.

    when the request comes                   what happens
    ---------------------------------------  --------------------------------------------------------
    the store hasn't answered the placement  cancelled at once; the store gets a durable notice
    no person has accepted the order yet     cancelled at once
    the service has accepted the order       cancelled while the order is pending, refused afterwards
    a person has accepted the order          stored as requested: a person decides, or the order goes on
    the store has accepted the order         stored as requested with a job; then the store is called
    another cancellation is requested        the store is called again with the same bytes

This module has the request and its key; `cancellation_calls` has the calls to the store and what they change.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.features.orders import idempotency, queries
from mercato.features.orders.by_hand import end_waiting
from mercato.features.orders.cancellation_calls import SLACK, CancellationCalls, find_requested
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
from mercato.features.orders.lifecycle import OrderCancellationRefused
from mercato.features.orders.record import OrderRow, StoreAnswer, StoredCancellation
from mercato.features.partners.model import Caller
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.problem_details import MakeOrigin, detail_of
from mercato_contract.clock import Clock, MakeId
from mercato_contract.decoding.checks import refuse
from mercato_contract.orders import (
    Actor,
    CancellationStatus,
    CancelOrderRequest,
    OrderState,
    OrderStatus,
    reason_fault,
)
from mercato_contract.refusals import Problem
from mercato_contract.stores import OrderHandling
from mercato_contract.wire import as_json, redacted

_NOBODY_ASKED: Final = "Nobody is called about this store's orders, and the store has begun this one."


class CancellationContext(Struct, frozen=True, kw_only=True):
    """One request. `deadline` is the end of its calls, on the event loop's clock."""

    request: CancelOrderRequest
    keyed: KeyedRequest
    make_origin: MakeOrigin
    deadline: float


class Requested(Struct, frozen=True):
    """The cancellation is stored, and the store is called next."""

    claim: Claim
    order: OrderRow
    cancellation: StoredCancellation


@redacted("secrets")
class Cancellations(Struct, frozen=True):
    """Cancels orders for storefronts.

    `seconds` is the timeout of a request's calls, `resend` how long background work retries.
    """

    db: Database
    clock: Clock
    new_id: MakeId
    calls: CancellationCalls
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

        Raises OrderNotFound, ValidationFailed, and OrderClosed for an order that was closed before: the key stays free.
        """
        refuse([("/reason", reason_fault(request.reason))])
        context = CancellationContext(
            request=request,
            keyed=KeyedRequest(
                partner_id=caller.partner_id,
                key=key,
                secrets=self.secrets,
                sent=lambda: order_id.bytes + as_json(request),
                meaning=order_id.bytes + idempotency.meaning_of(request),
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
                return await self._call_store(context, state)
            case outcome:
                return outcome

    async def _begin(
        self, tx: Write, context: CancellationContext, order_id: UUID
    ) -> Requested | PinnedOutcome:
        """Claim the key. Return the request that the store decides, or the outcome if there is nothing to decide."""
        order = await queries.get_order(tx, order_id, lock=True)
        now = self.clock()
        claim = await idempotency.claim(tx, context.keyed, now=now, order_id=order_id)
        if isinstance(claim, Pinned):
            return claim.outcome
        found = find_requested(order)
        if found is not None:
            if order.state is OrderState.OPEN:
                return Requested(claim, order, found)
            order = await self.calls.end_without_answer(tx, order, found, now)
        elif claim.joins and order.cancellation is not None:
            pass  # an earlier request with the key stored it, and background work ended it
        elif order.state is not OrderState.OPEN:
            raise _closed(order)
        else:
            order = await self._request(tx, context, order, now)
            requested = find_requested(order)
            if requested is not None:
                return Requested(claim, order, requested)
        return await self._pin(tx, context, claim, order, now)

    async def _request(
        self, tx: Write, context: CancellationContext, order: OrderRow, now: datetime
    ) -> OrderRow:
        """Return the open order with a new cancellation: ended, or requested if the store has to decide."""
        cancellation = StoredCancellation(
            id=self.new_id(),
            status=CancellationStatus.REQUESTED,
            reason=context.request.reason,
            # An erased customer is not erased again: nothing new about the person may be stored.
            message=None if order.client_context is None else context.request.message,
            partner_order_id=order.partner_order_id,
            requested_at=now,
            at=now,
            give_up_at=now + max(self.resend, context.keyed.lease),
        )
        await audit(tx, "order", order.id, detail={"cancellation": cancellation.reason})
        url = await queries.find_webhook_url(tx, order)
        if order.answer in {StoreAnswer.WAITING, StoreAnswer.PENDING}:
            await end_waiting(tx, order, delivered=False, now=now)
            return await self.calls.cancel(
                tx, order, cancellation, now=now, tells_store=True, webhook_url=url
            )
        if url is None and order.status is OrderStatus.PENDING:
            return await self.calls.cancel(tx, order, cancellation, now=now, tells_store=True)
        if url is not None or order.handling is OrderHandling.MANUAL:
            return await self.calls.begin(tx, order, cancellation, url, lease=context.keyed.lease)
        return await self.calls.end(
            tx,
            order,
            cancellation,
            CancellationStatus.REFUSED,
            now=now,
            refusal=_NOBODY_ASKED,
            actor=Actor.SERVICE,
        )

    async def _call_store(self, context: CancellationContext, state: Requested) -> OrderOutcome:
        try:
            left = context.deadline - asyncio.get_running_loop().time()
            # After it only the job calls, and ends the cancellation: no other call may be open then.
            open_for = (state.cancellation.give_up_at - self.clock()).total_seconds()
            reply, calls = await self.calls.call(
                state.order, state.cancellation, seconds=min(max(left, 1.0), open_for)
            )
            processes.crash_point("cancellation.answered")
            async with self.db.write() as tx:
                order = await self.calls.record_reply(tx, state.order.id, state.cancellation, reply, calls)
                now = self.clock()
                # It may be a newer cancellation, if another request has ended this one: the key's next request
                # joins the newer one.
                if find_requested(order) is not None:
                    await idempotency.release(tx, state.claim, now=now)
                    return UnansweredOrder(
                        StoreUnreachable(
                            "The store has not answered yet. The service keeps asking for some minutes. Repeat the "
                            "request with the same Idempotency-Key, or read the order.",
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

    async def _pin(
        self, tx: Write, context: CancellationContext, claim: Claim, order: OrderRow, now: datetime
    ) -> PinnedOutcome:
        """Return the outcome of a cancellation that has ended, pinned to the key."""
        outcome: PinnedOutcome
        if order.state is OrderState.CANCELLED:
            outcome = CancelledOrder(order.id, order.storefront_document)
        else:
            refused_by = await queries.find_last_actor(tx, order.id, OrderCancellationRefused.entry)
            problem = (
                _closed(order) if order.state is OrderState.COMPLETED else _refused(order, by=refused_by)
            )
            origin = context.make_origin()
            detail = replace(detail_of(problem, origin, at=now), order_id=order.id)
            outcome = RefusedOrder(detail, origin.format)
        await idempotency.pin(tx, claim, outcome, order_content=order.content)
        return outcome


def _closed(order: OrderRow) -> Problem:
    return OrderClosed(f"The order is {order.state.value} and can't be cancelled any more.")


def _refused(order: OrderRow, *, by: Actor | None) -> Problem:
    """Return why the order goes on; `by` is who refused its cancellation."""
    found = order.cancellation
    if found is not None and found.status is CancellationStatus.UNANSWERED:
        return CancellationRefused(
            "The store did not answer within the time in which it was asked, so the order goes on. "
            "Ask the store, or cancel again with a new Idempotency-Key."
        )
    refusal = found and found.refusal
    if refusal is not None and by is Actor.SERVICE:
        return CancellationRefused(f"The order goes on. {refusal}")
    reason = "It gives no reason." if refusal is None else f"Its reason: {refusal}"
    return CancellationRefused(f"The store does not cancel the order, which goes on. {reason}")
