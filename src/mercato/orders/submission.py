"""A stored order on its way to its store: the same bytes under the same webhook-id, until the store has answered."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.clock import Clock, MakeId
from mercato.db.engine import Database, Read, Write
from mercato.errors import OTHER, OrderError
from mercato.orders import queries
from mercato.orders.amounts import remark
from mercato.orders.changes import Changes, Touched
from mercato.orders.payment import carries_payment, repeats, secrets_in, without_payment
from mercato.orders.reasons import ORDER_REASONS, words_for
from mercato.orders.record import Actor, OrderRow, StoreAnswer, sums_of
from mercato.orders.replies import Fault, PlaceJudge, PlaceSaid, Refused
from mercato.outbound.signing import target
from mercato.partners.vault import Vault
from mercato.webhooks.calls import Called, StoreCall, StoreCalls
from mercato.webhooks.deliveries import find_recorded, record, record_attempts
from mercato.webhooks.event_types import EventType
from mercato.webhooks.model import DeliveryStatus, masked
from mercato.wire.unshown import unshown

log = structlog.get_logger("mercato.orders")

PLACE: Final = "place"

FIRST_WAIT: Final = 0.5
"""Seconds between the first two attempts of one request; every further wait is twice as long."""

LEAST_SECONDS: Final = 1.0
"""With less time left no further attempt is begun."""

Said = PlaceSaid | Refused | Fault


@unshown("body", "hidden")
class Submission(Struct, frozen=True, kw_only=True):
    """What a store is to be told of an order. No repr shows the body: it may hold a card's token."""

    order_id: UUID
    store_id: UUID
    partner_id: UUID
    base_url: str
    body: bytes
    hidden: tuple[str, ...]
    give_up_at: datetime
    traceparent: str


class Outcome(Struct, frozen=True):
    """What came of the attempts, every one of them."""

    said: Said
    calls: tuple[Called, ...]


class Submitter(Struct, frozen=True):
    """Tells stores about orders, and writes down what they say."""

    db: Database
    clock: Clock
    new_id: MakeId
    vault: Vault
    calls: StoreCalls
    changes: Changes

    async def store(self, tx: Write, submission: Submission) -> None:
        """Keep the submission, sealed, in the transaction that stores its order."""
        sealed = self.vault.seal(submission.body.decode(), context=_context(submission.order_id))
        await queries.insert_submission(
            tx,
            submission.order_id,
            url=submission.base_url,
            body=sealed,
            give_up_at=submission.give_up_at,
        )

    async def find(self, tx: Read, order: OrderRow) -> Submission | None:
        """Return what the order's store still has to be told; None once it has answered."""
        kept = await queries.find_submission(tx, order.id)
        if kept is None:
            return None
        url, sealed, give_up_at = kept
        body = self.vault.open(sealed, context=_context(order.id)).encode()
        return Submission(
            order_id=order.id,
            store_id=order.store_id,
            partner_id=order.partner_id,
            base_url=url,
            body=body,
            hidden=secrets_in(body),
            give_up_at=give_up_at,
            traceparent=order.traceparent,
        )

    async def attempt(self, submission: Submission, *, seconds: float) -> tuple[Called, Said]:
        """Make one call and return what the store said."""
        judge = PlaceJudge()
        call = StoreCall(
            store_id=submission.store_id,
            partner_id=submission.partner_id,
            url=target(submission.base_url, PLACE),
            webhook_id=submission.order_id,
            body=submission.body,
            traceparent=submission.traceparent,
            hidden=submission.hidden,
            carries_payment=carries_payment(submission.body),
        )
        called = await self.calls.post(call, seconds=seconds, judge=judge)
        if called.error is not None or judge.reply is None:
            return called, Fault(called.error or "The store gave no answer.")
        return called, _without(judge.reply, submission.hidden)

    async def submit(self, submission: Submission, *, seconds: float) -> Outcome:
        """Try until the store has answered or the seconds are over. A store that is cut off isn't waited for.

        Nor is it called once the order is to be given up: it would hear of it after it was told of its end.
        """
        seconds = min(seconds, (submission.give_up_at - self.clock()).total_seconds())
        until = asyncio.get_running_loop().time() + seconds
        calls: list[Called] = []
        wait, left = FIRST_WAIT, seconds
        while True:
            called, said = await self.attempt(submission, seconds=left)
            calls.append(called)
            pause = max(wait, called.retry_after or 0.0)
            left = until - asyncio.get_running_loop().time() - pause
            if not isinstance(said, Fault) or not called.reached or left < LEAST_SECONDS:
                return Outcome(said, tuple(calls))
            await asyncio.sleep(pause)
            wait *= 2

    async def settle(
        self,
        tx: Write,
        submission: Submission,
        outcome: Outcome,
        *,
        tells_fault: bool,
        stored: OrderRow | None = None,
    ) -> OrderRow:
        """Return the order with what its store said; an answer that came too late changes nothing.

        After a fault the order waits on. With `tells_fault` its storefront, which gets its id in the answer, hears
        of it from then on. An order that was `stored` a moment ago is not read, if nothing has happened to it.
        """
        if stored is not None and isinstance(outcome.said, PlaceSaid):
            with suppress(Touched):
                return await self._first(tx, submission, outcome, stored, self.clock())
        order = await queries.find_order_by_id(tx, submission.order_id, lock=True)
        assert order is not None, "orders are never deleted"
        # Not before the order was waited for: what others have done to it meanwhile came first.
        now = self.clock()
        if order.client_context is not None:
            # What was sent and answered says who the customer is: of one who was forgotten meanwhile nothing is kept.
            await self._log(tx, submission, outcome, order, now)
        match outcome.said:
            case PlaceSaid() as said if order.answer is StoreAnswer.WAITING:
                order = await self._accepted(tx, order, said, now)
            case PlaceSaid(partner_order_id=str()) as said if _lacks_id(order):
                if order.estimated_ready_at is not None:
                    # What the merchant has said since is newer than the answer to the placement.
                    said = replace(said, estimated_ready_at=None)
                order = await self._accepted(tx, order, said, now)
            case Refused(errors=errors) if order.answer is StoreAnswer.WAITING:
                order = await self.changes.refuse(tx, order, errors=errors, now=now)
            case Fault() if tells_fault and order.answer is StoreAnswer.WAITING and order.sequence == 0:
                order = await self.changes.change(tx, order, actor=Actor.SERVICE, entry="unanswered", now=now)
            case _:
                pass
        if order.answer is not StoreAnswer.WAITING:
            await queries.delete_submission(tx, order.id)
        return order

    async def _first(
        self, tx: Write, submission: Submission, outcome: Outcome, order: OrderRow, now: datetime
    ) -> OrderRow:
        """Return the order as its store took it, the first time that anything happens to it. Raises Touched."""
        assert isinstance(outcome.said, PlaceSaid)
        taken = await self._accepted(tx, order, outcome.said, now, untouched=True)
        await self._log(tx, submission, outcome, order, now)
        await queries.delete_submission(tx, order.id)
        return taken

    async def _accepted(
        self, tx: Write, order: OrderRow, said: PlaceSaid, now: datetime, *, untouched: bool = False
    ) -> OrderRow:
        odd = remark(sums_of(order.amounts), said.amounts)
        if odd is not None:
            log.warning("amounts of a place reply are not taken over", order_id=str(order.id), why=odd)
        return await self.changes.accept(
            tx,
            order,
            actor=Actor.STORE,
            partner_order_id=said.partner_order_id,
            estimated_ready_at=said.estimated_ready_at,
            now=now,
            untouched=untouched,
        )

    async def _log(
        self, tx: Write, submission: Submission, outcome: Outcome, before: OrderRow, now: datetime
    ) -> None:
        """Write the attempts into the merchant's delivery log, the payment left out.

        The transaction holds the order, so that of two who were trying at once one begins the log, and the other
        goes on with it.
        """
        status = _log_status(outcome.said, before.answer)
        begun = await record(
            tx,
            delivery_id=self.new_id(),
            partner_id=submission.partner_id,
            store_id=submission.store_id,
            order_id=submission.order_id,
            type=EventType.ORDER_PLACE,
            webhook_id=submission.order_id,
            url=target(submission.base_url, PLACE),
            body=without_payment(submission.body),
            order_content=before.content,
            traceparent=submission.traceparent,
            attempts=outcome.calls,
            status=status,
            now=now,
            once=True,
        )
        delivery_id = None if begun else await find_recorded(tx, submission.order_id)
        if delivery_id is not None:
            await record_attempts(tx, delivery_id, outcome.calls, status=status, now=now)


async def end_record(tx: Write, order_id: UUID, *, delivered: bool, now: datetime) -> None:
    """Close the log of an order's placement that ended without an answer to it."""
    delivery_id = await find_recorded(tx, order_id)
    if delivery_id is not None:
        status = DeliveryStatus.SUCCEEDED if delivered else DeliveryStatus.FAILED
        await record_attempts(tx, delivery_id, (), status=status, now=now)


def _without(said: Said, hidden: Sequence[str]) -> Said:
    """Return a no without what it repeats of the payment: its reasons are kept, and shown to both sides."""
    if not isinstance(said, Refused):
        return said
    return Refused(tuple(_without_payment_in(reason, hidden) for reason in said.errors))


def _without_payment_in(reason: OrderError, hidden: Sequence[str]) -> OrderError:
    """Mask what the reason quotes of the payment; one that repeats it in another form gets our own words."""
    message = masked(reason.message, hidden=hidden)
    pointer = reason.pointer
    code = OTHER if reason.code not in ORDER_REASONS and repeats(reason.code, hidden) else reason.code
    return OrderError(
        code=code,
        message=words_for(code) if repeats(message, hidden) else message,
        pointer=None if pointer is not None and repeats(pointer, hidden) else pointer,
    )


def _log_status(said: Said, before: StoreAnswer) -> DeliveryStatus:
    """Return how the log stands after attempts: one that failed leaves it open only while the order waits on."""
    if not isinstance(said, Fault):
        return DeliveryStatus.SUCCEEDED
    match before:
        case StoreAnswer.WAITING:
            return DeliveryStatus.PENDING
        case StoreAnswer.GIVEN_UP:
            return DeliveryStatus.FAILED
        case _:
            return DeliveryStatus.SUCCEEDED


def _lacks_id(order: OrderRow) -> bool:
    """Tell whether the merchant was faster than its own answer: it has the order, we lack its number."""
    return order.answer is StoreAnswer.ACCEPTED and order.partner_order_id is None


def _context(order_id: UUID) -> str:
    return f"order submission {order_id}"
