"""A stored order on its way to its store: the same bytes under the same webhook-id, until the store has answered."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.domain.orders import queries
from mercato.domain.orders.amounts import remark, sums_of
from mercato.domain.orders.changes import Changes, ConcurrentUpdate
from mercato.domain.orders.payment import carries_payment, repeats, secrets_in, without_payment
from mercato.domain.orders.reasons import ORDER_REASONS, words_for
from mercato.domain.orders.record import OrderRow, StoreAnswer
from mercato.domain.orders.replies import Fault, PlaceSaid, Refused, ReplyParser, read_place
from mercato.domain.orders.transitions import Actor
from mercato.domain.partners.vault import Vault
from mercato.domain.webhooks.calls.client import CallResult, StoreCall, StoreCalls
from mercato.domain.webhooks.deliveries import find_store_call, record_store_call, update_store_call
from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.model import DeliveryStatus, masked
from mercato.kernel.clock import Clock, MakeId
from mercato.kernel.db.engine import Database, Read, Write
from mercato.kernel.errors import OTHER, OrderError
from mercato.kernel.jobs import enqueue
from mercato.kernel.outbound.signing import target
from mercato.kernel.wire import Wire

log = structlog.get_logger("mercato.orders")

PLACE: Final = "place"

FIRST_WAIT: Final = 0.5
"""Seconds between the first two attempts of one request; every further wait is twice as long."""

LEAST_SECONDS: Final = 1.0
"""With less time left no further attempt is begun."""

KIND: Final = "order.submit"
"""The first background attempt of an order."""

LATER_KIND: Final = "order.resend"
"""Every further one."""

STORE_PARTITIONS: Final = 8
"""Orders of one store that are resent at one time. With their ordering keys the stores of a partner take turns."""

Said = PlaceSaid | Refused | Fault


class SubmitJob(Wire, frozen=True):
    """The order whose store has to be told. What it is told is kept, sealed, beside the order."""

    order_id: UUID
    attempted_at: datetime | None = None
    """When the last background attempt ended."""


async def schedule(
    tx: Write, call: StoreCall, *, wait: timedelta, attempted_at: datetime | None = None
) -> None:
    """Enqueue the next background attempt: the first, or one after an attempt that ended at `attempted_at`."""
    kind, order_id = KIND if attempted_at is None else LATER_KIND, call.webhook_id
    await enqueue(
        tx,
        kind,
        SubmitJob(order_id=order_id, attempted_at=attempted_at),
        run_at=wait,
        ordering_key=f"{kind}:{call.store_id.hex}:{order_id.int % STORE_PARTITIONS}",
        group=call.partner_id.hex,
        dedup=order_id.hex,
    )


class Submission(Struct, frozen=True, kw_only=True):
    """The call that tells a store of an order, the same for every attempt, and until when it is made."""

    base_url: str
    call: StoreCall
    give_up_at: datetime


def submission_of(order: OrderRow, *, base_url: str, body: bytes, give_up_at: datetime) -> Submission:
    """Return the submission of an order. No repr shows its body: it may hold a card's token."""
    call = StoreCall(
        store_id=order.store_id,
        partner_id=order.partner_id,
        url=target(base_url, PLACE),
        webhook_id=order.id,
        body=body,
        traceparent=order.traceparent,
        hidden=secrets_in(body),
        carries_payment=carries_payment(body),
    )
    return Submission(base_url=base_url, call=call, give_up_at=give_up_at)


class SubmissionOutcome(Struct, frozen=True):
    """What the store said in the end, and every attempt."""

    said: Said
    calls: tuple[CallResult, ...]


class Submitter(Struct, frozen=True):
    """Tells stores about orders, and writes down what they say."""

    db: Database
    clock: Clock
    new_id: MakeId
    vault: Vault
    calls: StoreCalls
    changes: Changes

    async def store(self, tx: Write, order: OrderRow, submission: Submission) -> None:
        """Keep the submission, sealed, in the transaction that stores its order."""
        sealed = self.vault.seal(submission.call.body.decode(), context=_context(order.id))
        await queries.insert_submission(
            tx, order.id, url=submission.base_url, body=sealed, give_up_at=submission.give_up_at
        )

    async def find(self, tx: Read, order: OrderRow) -> Submission | None:
        """Return what the order's store still has to be told; None once it has answered."""
        kept = await queries.find_submission(tx, order.id)
        if kept is None:
            return None
        url, sealed, give_up_at = kept
        body = self.vault.open(sealed, context=_context(order.id)).encode()
        return submission_of(order, base_url=url, body=body, give_up_at=give_up_at)

    async def attempt(self, submission: Submission, *, seconds: float) -> tuple[CallResult, Said]:
        """Make one call and return what the store said."""
        parser = ReplyParser(read_place)
        called = await self.calls.post(submission.call, seconds=seconds, parser=parser)
        said = parser.reply if called.error is None else Fault(called.error)
        if isinstance(said, Refused):
            # Its reasons are kept, and shown to both sides.
            hidden = submission.call.hidden
            said = Refused(tuple(_without_payment_in(reason, hidden) for reason in said.errors))
        return called, said

    async def submit(self, submission: Submission, *, seconds: float) -> SubmissionOutcome:
        """Try until the store has answered or the seconds are over. A store that is cut off isn't waited for.

        Nor is it called once the order is to be given up: it would hear of it after it was told of its end.
        """
        seconds = min(seconds, (submission.give_up_at - self.clock()).total_seconds())
        until = asyncio.get_running_loop().time() + seconds
        calls: list[CallResult] = []
        wait, left = FIRST_WAIT, seconds
        while True:
            called, said = await self.attempt(submission, seconds=left)
            calls.append(called)
            pause = max(wait, called.retry_after or 0.0)
            left = until - asyncio.get_running_loop().time() - pause
            if not isinstance(said, Fault) or not called.reached or left < LEAST_SECONDS:
                return SubmissionOutcome(said, tuple(calls))
            await asyncio.sleep(pause)
            wait *= 2

    async def settle(
        self,
        tx: Write,
        submission: Submission,
        outcome: SubmissionOutcome,
        *,
        announces_fault: bool,
        stored: OrderRow | None = None,
    ) -> OrderRow:
        """Return the order with what its store said; an answer that came too late changes nothing.

        After a fault the order waits on. With `announces_fault` its storefront, which gets its id in the answer, gets
        its events from then on. An order that was `stored` a moment ago is not read, if nothing has happened to it.
        """
        said = outcome.said
        if stored is not None and isinstance(said, PlaceSaid):
            with suppress(ConcurrentUpdate):
                now = self.clock()
                order = await self._accept(tx, stored, said, now, untouched=True)
                await self._log(tx, submission, outcome, stored, now)
                await queries.delete_submission(tx, order.id)
                return order
        order = await queries.get_order(tx, submission.call.webhook_id, lock=True)
        # Not before the order was waited for: what others have done to it meanwhile came first.
        now = self.clock()
        if order.client_context is not None:
            # What was sent and answered says who the customer is: of one who was forgotten meanwhile nothing is kept.
            await self._log(tx, submission, outcome, order, now)
        waits = order.answer is StoreAnswer.WAITING
        match said:
            case PlaceSaid() if waits:
                order = await self._accept(tx, order, said, now)
            case PlaceSaid(partner_order_id=str()) if _lacks_id(order):
                if order.estimated_ready_at is not None:
                    # What the merchant has said since is newer than the answer to the placement.
                    said = replace(said, estimated_ready_at=None)
                order = await self._accept(tx, order, said, now)
            case Refused(errors=errors) if waits:
                order = await self.changes.refuse(tx, order, errors=errors, now=now)
            case Fault() if waits and announces_fault and order.sequence == 0:
                order = await self.changes.change(tx, order, actor=Actor.SERVICE, entry="unanswered", now=now)
            case _:
                pass
        if order.answer is not StoreAnswer.WAITING:
            await queries.delete_submission(tx, order.id)
        return order

    async def _accept(
        self, tx: Write, order: OrderRow, said: PlaceSaid, now: datetime, *, untouched: bool = False
    ) -> OrderRow:
        odd = None if said.amounts is None else remark(sums_of(order.amounts), said.amounts)
        if odd is not None:
            log.warning("amounts of a place reply are not applied", order_id=str(order.id), why=odd)
        return await self.changes.accept(tx, order, said, actor=Actor.STORE, now=now, untouched=untouched)

    async def _log(
        self, tx: Write, submission: Submission, outcome: SubmissionOutcome, before: OrderRow, now: datetime
    ) -> None:
        """Write the attempts into the merchant's delivery log, the payment left out.

        The transaction holds the order, so that of two who were trying at once one begins the log, and the other
        goes on with it.
        """
        status, call = _log_status(outcome.said, before.answer), submission.call
        begun = await record_store_call(
            tx,
            delivery_id=self.new_id(),
            partner_id=call.partner_id,
            store_id=call.store_id,
            order_id=before.id,
            type=EventType.ORDER_PLACE,
            webhook_id=call.webhook_id,
            url=call.url,
            body=without_payment(call.body),
            order_content=before.content,
            traceparent=call.traceparent,
            attempts=outcome.calls,
            status=status,
            now=now,
            once=True,
        )
        delivery_id = None if begun else await find_store_call(tx, before.id)
        if delivery_id is not None:
            await update_store_call(tx, delivery_id, outcome.calls, status=status, now=now)


async def end_record(tx: Write, order_id: UUID, *, delivered: bool, now: datetime) -> None:
    """Close the log of an order's placement that ended without an answer to it."""
    delivery_id = await find_store_call(tx, order_id)
    if delivery_id is not None:
        status = DeliveryStatus.SUCCEEDED if delivered else DeliveryStatus.FAILED
        await update_store_call(tx, delivery_id, (), status=status, now=now)


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
