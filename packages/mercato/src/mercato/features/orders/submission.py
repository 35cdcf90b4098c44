"""Submit a stored order to its store: the same bytes under the same webhook-id until the store has answered.

The request that stored the order submits it first. While the store doesn't answer, and after a crash, background work
goes on (`resubmission`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.features.orders import queries
from mercato.features.orders.lifecycle import (
    AsStored,
    Lifecycle,
    OrderAccepted,
    OrderAcceptedTooLate,
    OrderRefused,
    OrderUnanswered,
)
from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.orders.store_messages import (
    carries_payment,
    mask_payment,
    place_body,
    secrets_in,
    with_payment,
    without_payment,
)
from mercato.features.partners.vault import Vault
from mercato.features.webhooks.calls import StoreCalls
from mercato.features.webhooks.deliveries import (
    CallRecord,
    record_store_call,
    update_store_call,
)
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.features.webhooks.queries import delete_store_call, find_store_call
from mercato.platform.db.engine import Database, Read, Write
from mercato_contract.amounts import explain_ignored_amounts, sums_of
from mercato_contract.clock import Clock, MakeId
from mercato_contract.events import SUFFIXES, EventType
from mercato_contract.excerpts import masked
from mercato_contract.replies import Acceptance, InvalidReply, Rejection, ReplyParser, read_place
from mercato_contract.signing import target
from mercato_contract.webhooks import DeliveryStatus

log = structlog.get_logger("mercato.orders")

PLACE: Final = SUFFIXES[EventType.ORDER_PLACE]

FIRST_WAIT: Final = 0.5
"""Seconds between the first two attempts of a request. Every further wait is twice as long."""

MIN_ATTEMPT_SECONDS: Final = 1.0
"""No further attempt starts with less time left."""

MAY_HAVE_ARRIVED: Final = "An earlier call may have reached the store, and its answer is unknown."
"""Why a store that refuses an order is told of its end: it may have accepted the order in the answer that was lost."""

NAMES_ITS_ORDER: Final = "The store answered 409 with its own number of the order, so it may have it."
"""The same, for the answer to an order's first call."""

PlaceReply = Acceptance | Rejection | InvalidReply

R = TypeVar("R")


class Submission(Struct, frozen=True, kw_only=True):
    """The call that submits an order, the same for every attempt. It isn't made after `give_up_at`.

    `delivery_id` is its record; None if the previous release has stored the order.
    """

    delivery_id: UUID | None
    base_url: str
    call: StoreCall
    give_up_at: datetime


def submission_of(
    order: OrderRow,
    *,
    delivery_id: UUID | None,
    base_url: str,
    body: bytes,
    has_payment: bool,
    give_up_at: datetime,
) -> Submission:
    """Return the submission of an order. Its repr redacts the body, which may hold a card's token."""
    call = StoreCall(
        store_id=order.store_id,
        partner_id=order.partner_id,
        url=target(base_url, PLACE),
        webhook_id=order.id,
        body=body,
        traceparent=order.traceparent,
        hidden=secrets_in(body) if has_payment else (),
        carries_payment=has_payment,
    )
    return Submission(delivery_id=delivery_id, base_url=base_url, call=call, give_up_at=give_up_at)


class SubmissionOutcome(Struct, frozen=True):
    """The reply to the last call of a submission, and all its calls."""

    reply: PlaceReply
    calls: tuple[CallResult, ...]

    @property
    def is_first_answer(self) -> bool:
        """Return whether nothing of this submission can have arrived before what the reply answers."""
        *earlier, last = self.calls
        return not last.repeated and not any(call.may_have_arrived for call in earlier)


class Submitter(Struct, frozen=True):
    """Submits orders to their stores, and writes the result."""

    db: Database
    clock: Clock
    new_id: MakeId
    vault: Vault
    calls: StoreCalls
    lifecycle: Lifecycle

    async def store(
        self, tx: Write, order: OrderRow, *, base_url: str, payment: bytes | None, give_up_at: datetime
    ) -> Submission:
        """Store the submission in the transaction that stores its order: as a delivery, with the payment sealed."""
        body, delivery_id = place_body(order, now=order.created_at), self.new_id()
        submission = submission_of(
            order,
            delivery_id=delivery_id,
            base_url=base_url,
            body=with_payment(body, payment),
            has_payment=payment is not None,
            give_up_at=give_up_at,
        )
        sealed = None if payment is None else self.vault.seal(payment.decode(), context=_payment(order))
        await record_store_call(
            tx,
            CallRecord(
                call=submission.call,
                id=delivery_id,
                type=EventType.ORDER_PLACE,
                body=body,
                status=DeliveryStatus.PENDING,
                at=order.created_at,
                order_id=order.id,
                order_content=order.content,
                give_up_at=give_up_at,
                payment=sealed,
            ),
        )
        return submission

    async def find(self, tx: Read, order: OrderRow) -> Submission | None:
        """Return the order's submission; None once its store has answered."""
        stored = await queries.find_submission(tx, order.id)
        if stored is None:
            return None
        body, sealed = stored.body, stored.payment
        if stored.delivery_id is None and sealed is not None:
            body = self.vault.open(sealed, context=f"order submission {order.id}").encode()
        elif sealed is not None:
            body = with_payment(body, self.vault.open(sealed, context=_payment(order)).encode())
        return submission_of(
            order,
            delivery_id=stored.delivery_id,
            base_url=stored.base_url,
            body=body,
            has_payment=carries_payment(body),
            give_up_at=stored.give_up_at,
        )

    async def attempt(self, submission: Submission, seconds: float) -> tuple[CallResult, PlaceReply]:
        """Make one call."""
        parser = ReplyParser[PlaceReply](read_place)
        called = await self.calls.post(submission.call, seconds=seconds, parser=parser)
        if (warning := parser.warning) is not None:
            called = replace(called, warning=masked(warning, hidden=submission.call.hidden))
        if called.error is not None:
            return called, InvalidReply(called.error)
        match parser.reply:
            case Rejection(errors) as rejection:
                # Both partners see its errors.
                hidden = submission.call.hidden
                return called, replace(
                    rejection, errors=tuple(mask_payment(error, hidden) for error in errors)
                )
            case reply:
                return called, reply

    async def submit(self, submission: Submission, *, seconds: float) -> SubmissionOutcome:
        """Call until the store has answered or the time is over; stop if its circuit breaker does.

        No call outlasts `give_up_at`: else it could arrive after the notice that the order was cancelled.
        """
        seconds = min(seconds, (submission.give_up_at - self.clock()).total_seconds())
        reply, calls = await call_until_final(partial(self.attempt, submission), seconds=seconds)
        return SubmissionOutcome(reply, calls)

    async def record(
        self,
        tx: Write,
        submission: Submission,
        outcome: SubmissionOutcome,
        *,
        notify_unanswered: bool,
        is_own: bool = False,
    ) -> OrderRow:
        """Return the order after the store's reply. A reply that came too late changes nothing of the order.

        After an invalid reply the order keeps waiting; with `notify_unanswered` its storefront, which gets the order's
        id in the response, gets its events from then on. `is_own`: this request stored the order.

        A store that refuses is told of the order's end unless this is certainly its first answer: it answered the first
        call that can have reached it. Of calls by others than this request nothing is certain: a process that made one
        may have been killed before it could write so.
        """
        reply, doubt = _judge(outcome.reply, is_first=is_own and outcome.is_first_answer)
        order = await queries.get_order(tx, submission.call.webhook_id, lock=True)
        # After the wait for the lock: other changes of the order came first.
        now = self.clock()
        await self._log(tx, submission, outcome, order, now)
        waits = order.answer is StoreAnswer.WAITING
        match reply:
            case Acceptance() if waits:
                return await self._accept(tx, order, reply, now)
            case Acceptance(partner_order_id=str()) if _lacks_partner_order_id(order):
                if order.estimated_ready_at is not None:
                    # The merchant has set it since.
                    reply = replace(reply, estimated_ready_at=None)
                return await self._accept(tx, order, reply, now)
            case Rejection(errors=errors) if waits:
                refused = OrderRefused(
                    at=now,
                    errors=errors,
                    doubt=doubt,
                    tells_store=doubt is not None,
                    webhook_url=submission.base_url,
                )
                return await self.lifecycle.apply(tx, order, refused)
            case Acceptance() if order.answer is StoreAnswer.REFUSED and not await _is_told(tx, order):
                too_late = OrderAcceptedTooLate(at=now, tells_store=True, webhook_url=submission.base_url)
                return await self.lifecycle.apply(tx, order, too_late)
            case InvalidReply() if waits and notify_unanswered and order.sequence == 0:
                return await self.lifecycle.apply(tx, order, OrderUnanswered(at=now))
            case _:
                return order

    async def record_first(
        self,
        tx: Write,
        submission: Submission,
        outcome: SubmissionOutcome,
        reply: Acceptance,
        stored: OrderRow,
        *,
        event_url: str | None,
    ) -> OrderRow:
        """Do the same with the acceptance of an order that this request stored, without reading it again.

        The transaction fails with ConcurrentUpdate if the order has changed since, or its storefront's event URL.
        """
        now = self.clock()
        order = await self._accept(tx, stored, reply, now, if_stored=AsStored(event_url))
        await self._log(tx, submission, outcome, stored, now)
        return order

    async def _accept(
        self,
        tx: Write,
        order: OrderRow,
        reply: Acceptance,
        now: datetime,
        *,
        if_stored: AsStored | None = None,
    ) -> OrderRow:
        if reply.amounts is not None:
            difference = explain_ignored_amounts(sums_of(order.amounts), reply.amounts)
            if difference is not None:
                log.warning("amounts of a place reply ignored", order_id=str(order.id), reason=difference)
        accepted = OrderAccepted(
            at=now,
            partner_order_id=reply.partner_order_id,
            estimated_ready_at=reply.estimated_ready_at,
        )
        return await self.lifecycle.apply(tx, order, accepted, if_stored=if_stored)

    async def _log(
        self, tx: Write, submission: Submission, outcome: SubmissionOutcome, before: OrderRow, now: datetime
    ) -> None:
        """Write the calls into the merchant's delivery log, and erase the payment if the order no longer waits.

        The transaction has locked the order, so that two concurrent submissions count their calls one after the other.
        """
        status = _log_status(outcome.reply, before.answer)
        if submission.delivery_id is None:
            await self._log_earlier(tx, submission, outcome, before, status, now)
        elif before.client_context is not None:
            await update_store_call(tx, submission.delivery_id, outcome.calls, status=status, now=now)
        elif status is not DeliveryStatus.PENDING:
            # The log would name a customer who was erased meanwhile.
            await delete_store_call(tx, submission.delivery_id)

    async def _log_earlier(
        self,
        tx: Write,
        submission: Submission,
        outcome: SubmissionOutcome,
        before: OrderRow,
        status: DeliveryStatus,
        now: datetime,
    ) -> None:
        """Do the same for an order that the previous release has stored: it has a delivery after its first call."""
        if status is not DeliveryStatus.PENDING:
            await queries.delete_earlier_submission(tx, before.id)
        if before.client_context is None:
            return
        call, delivery_id = submission.call, await find_store_call(tx, before.id)
        if delivery_id is not None:
            await update_store_call(tx, delivery_id, outcome.calls, status=status, now=now)
            return
        await record_store_call(
            tx,
            CallRecord(
                call=call,
                id=self.new_id(),
                type=EventType.ORDER_PLACE,
                body=without_payment(call.body),
                results=outcome.calls,
                order_id=before.id,
                order_content=before.content,
                status=status,
                at=now,
            ),
        )


def _payment(order: OrderRow) -> str:
    """Return the context in which the order's payment is sealed."""
    return f"order payment {order.id}"


async def end_submission(tx: Write, order: OrderRow, *, delivered: bool, now: datetime) -> None:
    """End the submission of an order that waits no longer, without its store's answer, and erase the payment."""
    await queries.delete_earlier_submission(tx, order.id)
    delivery_id = await find_store_call(tx, order.id)
    if delivery_id is None:
        return
    if order.client_context is None:
        await delete_store_call(tx, delivery_id)
    else:
        status = DeliveryStatus.SUCCEEDED if delivered else DeliveryStatus.FAILED
        await update_store_call(tx, delivery_id, (), status=status, now=now)


async def call_until_final(
    attempt: Callable[[float], Awaitable[tuple[CallResult, R]]], *, seconds: float
) -> tuple[R, tuple[CallResult, ...]]:
    """Return the last reply and all results: `attempt`, given the seconds left, is made until a reply is valid.

    No attempt starts once the time is over, or after one that wasn't sent.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    calls: list[CallResult] = []
    wait, left = FIRST_WAIT, seconds
    while True:
        called, reply = await attempt(left)
        calls.append(called)
        pause = max(wait, called.retry_after or 0.0)
        left = deadline - asyncio.get_running_loop().time() - pause
        if not isinstance(reply, InvalidReply) or not called.was_sent or left < MIN_ATTEMPT_SECONDS:
            return reply, tuple(calls)
        await asyncio.sleep(pause)
        wait *= 2


def _judge(reply: PlaceReply, *, is_first: bool) -> tuple[PlaceReply, str | None]:
    """Return what the reply means, and why a store that refuses may have the order all the same.

    A 409 that names the store's own order and carries no refusal repeats an acceptance whose answer was lost.
    """
    match reply:
        case Rejection(known=Acceptance() as known):
            return (reply, NAMES_ITS_ORDER) if is_first else (known, None)
        case Rejection() if not is_first:
            return reply, MAY_HAVE_ARRIVED
        case _:
            return reply, None


async def _is_told(tx: Read, order: OrderRow) -> bool:
    """Return whether the store gets, or has got, the notice that the order is cancelled."""
    return await find_store_call(tx, order.id, EventType.ORDER_CANCELLED) is not None


def _log_status(reply: PlaceReply, before: StoreAnswer) -> DeliveryStatus:
    """Return the status of the delivery log: after an invalid reply it is pending while the order waits."""
    if reply.is_final:
        return DeliveryStatus.SUCCEEDED
    match before:
        case StoreAnswer.WAITING:
            return DeliveryStatus.PENDING
        case StoreAnswer.GIVEN_UP:
            return DeliveryStatus.FAILED
        case _:
            return DeliveryStatus.SUCCEEDED


def _lacks_partner_order_id(order: OrderRow) -> bool:
    """Return whether the merchant updated the order before its reply to the placement arrived."""
    return order.answer is StoreAnswer.ACCEPTED and order.partner_order_id is None
