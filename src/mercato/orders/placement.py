"""Place: the key is claimed, the order stored, the store told, and its answer pinned to the key.

A request goes on from one of these to the next, and ends in a reply or a refusal:

    planned  our own rules allow the order (`Ready` with a token, else `Checked`), or are against it (`Refusing`)
    claimed  the key is ours (`Unasked`): nobody else works on its request; without a token the store is asked
    stored   the order is there (`Told`), if its store is still as it was planned for; the key belongs to it for 24 h
    settled  the store has said yes or no, and that is what the key gets from now on

Before `stored` a refusal leaves the key free, as if it had never been sent. A crash between any two of these leaves
an order that background work finishes or cancels, and a key whose next request joins it.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Struct
from sqlalchemy.exc import IntegrityError

from mercato import crash, errors, mac
from mercato.clock import Clock, MakeId
from mercato.db.audit import audit
from mercato.db.engine import Database, Read, Write
from mercato.errors import Problem
from mercato.jobs import delete_waiting
from mercato.orders import keys, queries
from mercato.orders.bodies import place_body
from mercato.orders.changes import Changes
from mercato.orders.keys import Claim, Reply
from mercato.orders.model import Order
from mercato.orders.payment import canonical, secrets_in
from mercato.orders.plan import (
    Asked,
    Plan,
    Planner,
    Present,
    Ready,
    Refusing,
    Told,
    Unasked,
    held_to,
    new_order,
)
from mercato.orders.queries import StoreChanged
from mercato.orders.reasons import refusal
from mercato.orders.record import Actor, OrderRow, StoreAnswer
from mercato.orders.replies import Agreed
from mercato.orders.request import PlaceOrderRequest
from mercato.orders.resend import KIND, schedule
from mercato.orders.results import already_placed, result_of, unreachable
from mercato.orders.submission import Outcome, Submission, Submitter
from mercato.orders.validation import RETRY_SECONDS, Checked, Validations
from mercato.partners.model import Caller
from mercato.partners.storage import ORDER_BYTES, StorageQuota
from mercato.wire.unshown import unshown

log = structlog.get_logger("mercato.orders")

PURPOSE: Final = "mercato idempotency"
"""What the key is derived for under which requests are remembered: a hash that anybody can make would give
away a card's token to whoever can guess it."""

SLACK: Final = timedelta(seconds=5)
"""What a placement may take beside its calls; after that its claim is taken for a dead one's."""

TRIES: Final = 5
"""Transactions begun over: when two requests with one token meet, the second sees what the first has done; when the
store changed after the order was checked, it is checked again."""


@unshown("secrets")
class Placements(Struct, frozen=True):
    """Places orders. `seconds` bound all calls of one request, `resend` how long the background tries after."""

    db: Database
    clock: Clock
    new_id: MakeId
    planner: Planner
    validations: Validations
    submitter: Submitter
    changes: Changes
    secrets: Sequence[bytes]
    seconds: float
    resend: timedelta
    quota: StorageQuota

    async def place(
        self, caller: Caller, request: PlaceOrderRequest, *, key: str, trace: str, present: Present
    ) -> Reply:
        """Return the reply of the key's request: of this one, or as it was given before.

        Raises every refusal that comes before the order is stored: it leaves the key free for any other request.
        The order, and what its store said to it, is a reply that is pinned to the key.
        """
        until = asyncio.get_running_loop().time() + self.seconds
        asked = Asked(caller=caller, request=request, trace=trace, present=present, until=until)
        begun = await self._begin(asked, key)
        if isinstance(begun, Reply):
            return begun
        try:
            return await self._go_on(asked, begun)
        except Exception:
            # The key's next request may begin at once, and joins the order if there is one.
            async with self.db.write() as tx:
                await keys.release(tx, begun.claim, now=self.clock())
            raise

    async def _go_on(self, asked: Asked, begun: Told | Unasked) -> Reply:
        if isinstance(begun, Unasked):
            crash.point("key.claimed")
            stored = await self._ask_and_store(asked, begun)
            if isinstance(stored, Reply):
                return stored
            begun = stored
        crash.point("order.stored")
        left = asked.until - asyncio.get_running_loop().time()
        outcome = await self.submitter.submit(begun.submission, seconds=max(left, 1.0))
        crash.point("store.answered")
        told = begun
        async with self.db.write() as tx:
            reply = await self._answered(tx, asked, told, outcome)
        crash.point("reply.stored")
        return reply

    async def _answered(self, tx: Write, asked: Asked, told: Told, outcome: Outcome) -> Reply:
        order = await self.submitter.settle(
            tx, told.submission, outcome, tells_fault=True, stored=told.stored
        )
        if order.answer is not StoreAnswer.WAITING:
            # It would find nothing to do, and there is one for each order.
            await delete_waiting(tx, KIND, order.id.hex)
        reply = await self._settle(tx, asked, told.claim, order)
        crash.point("reply.written")
        return reply

    # --- refused, or claimed: with a token the order is stored along with the key -----------------

    async def _begin(self, asked: Asked, key: str) -> Reply | Told | Unasked:
        """Return the reply if the key has one, else the claim, with the order or with what its store is asked.

        Raises the refusal if there is neither a reply nor an order: nothing has been written then.
        """
        plan = await self.planner.plan(asked)
        crash.point("key.unclaimed")
        looks = False
        for _ in range(TRIES):
            if isinstance(plan, Refusing):
                reply = await self._reply_before(asked, key, plan)
                if reply is not None:
                    return reply
            try:
                async with self.db.write() as tx:
                    return await self._claimed(tx, asked=asked, key=key, plan=plan, looks=looks)
            except StoreChanged:
                plan = await self.planner.plan_in_force(asked)
            except IntegrityError:
                # The token was used already, which the index says without a look, or is in this very moment.
                if looks:
                    raise
                looks = True
        raise _busy()

    async def _reply_before(self, asked: Asked, key: str, plan: Refusing) -> Reply | None:
        """Return the key's reply if it has one, or None if it has an order to go on with. Else raises the refusal."""
        async with self.db.read() as tx:
            # Before the key: an order of this very key that is stored between the two is then found under it.
            used = await self._used(tx, plan)
            found = await keys.find(
                tx,
                partner_id=asked.caller.partner_id,
                key=key,
                prints=self._fingerprints(asked.request),
                now=self.clock(),
                lease=timedelta(seconds=self.seconds) + SLACK,
            )
        if found is None:
            raise _refusal(plan, used)
        return found if isinstance(found, Reply) else None

    async def _claimed(
        self, tx: Write, *, asked: Asked, key: str, plan: Plan, looks: bool
    ) -> Reply | Told | Unasked:
        now = self.clock()
        used = await self._used(tx, plan) if looks or isinstance(plan, Refusing) else None
        makes = self.new_id() if isinstance(plan, Ready) and used is None else None
        claim = await keys.claim(
            tx,
            partner_id=asked.caller.partner_id,
            key=key,
            prints=self._fingerprints(asked.request),
            now=now,
            until=now + timedelta(seconds=self.seconds) + SLACK,
            makes=makes,
        )
        if isinstance(claim, Reply):
            return claim
        if claim.order_id is not None:
            return await self._join(tx, asked, claim, claim.order_id)
        if isinstance(plan, Checked):
            return Unasked(claim, plan)
        if isinstance(plan, Refusing) or used is not None:
            raise _refusal(plan, used)
        return await self._store(tx, asked, claim, plan)

    @staticmethod
    async def _used(tx: Read, plan: Plan) -> UUID | None:
        """Return the order that was placed with the plan's token, if it has one."""
        if isinstance(plan, Checked) or plan.token_id is None:
            return None
        return await queries.find_order_of_token(tx, plan.token_id)

    # --- claimed, without a token: the store is asked, and the order stored if it agrees ----------

    async def _ask_and_store(self, asked: Asked, begun: Unasked) -> Reply | Told:
        """Return the order that the store agreed to, or its no. Raises every other refusal."""
        said = await self.validations.ask(asked.caller, begun.checked, asked.request, trace=asked.trace)
        crash.point("store.agreed")
        claim = begun.claim
        if not isinstance(said, Agreed):
            no = refusal(said)
            async with self.db.write() as tx:
                return await self._pin(tx, asked, claim, no)
        checked = begun.checked
        for _ in range(TRIES):
            plan = held_to(checked, said, None)
            if isinstance(plan, Refusing):
                raise plan.problem
            try:
                async with self.db.write() as tx:
                    return await self._store(tx, asked, claim, plan)
            except StoreChanged:
                checked = await self.validations.check_in_force(asked.request)
        raise _busy()

    # --- stored -----------------------------------------------------------------------------------

    async def _pin(
        self, tx: Write, asked: Asked, claim: Claim, result: Order | Problem, *, order_content: bytes = b""
    ) -> Reply:
        """Return the reply, pinned to the key, unless it is a refusal that a repeat may not meet."""
        reply = asked.present(result)
        if isinstance(result, Problem) and result.retryable:
            await keys.forget(tx, claim, now=self.clock())
        else:
            await keys.settle(tx, claim, reply, order_content=order_content)
        return reply

    async def _store(self, tx: Write, asked: Asked, claim: Claim, plan: Ready) -> Reply | Told:
        """Store the order, and with it the work of telling its store; without a webhook it is taken at once."""
        now = self.clock()
        order = new_order(claim.holds or self.new_id(), asked, plan, now)
        url = plan.checked.store.webhook_url
        await queries.insert_order(tx, order, store_version=plan.checked.store.version)
        size = ORDER_BYTES + len(order.content)
        await self.quota.take(tx, asked.caller.partner_id, size, now=now)
        await audit(tx, "order", order.id, detail={"storeId": order.store_id})
        await keys.hold(tx, claim, order_id=order.id)
        if url is None:
            order = await self.changes.accept(
                tx, order, actor=Actor.SERVICE, partner_order_id=None, estimated_ready_at=None, now=now
            )
            return await self._settle(tx, asked, claim, order)
        body = place_body(order, payment=asked.request.payment, now=now)
        # The order is not given up before the calls of this request are over.
        later = timedelta(seconds=self.seconds) + SLACK
        submission = Submission(
            order_id=order.id,
            store_id=order.store_id,
            partner_id=order.partner_id,
            base_url=url,
            body=body,
            hidden=secrets_in(body),
            give_up_at=now + max(self.resend, later),
            traceparent=order.traceparent,
        )
        await self.submitter.store(tx, submission)
        await schedule(tx, order.id, store_id=order.store_id, partner_id=submission.partner_id, wait=later)
        crash.point("order.written")
        return Told(claim, submission, order)

    async def _join(self, tx: Write, asked: Asked, claim: Claim, order_id: UUID) -> Reply | Told:
        """Go on with the order that an earlier request with the key has made.

        The order is not held: who holds it while its store's answer is written waits for the key, which is ours.
        """
        order = await self._order(tx, order_id)
        submission = await self.submitter.find(tx, order)
        if submission is not None:
            return Told(claim, submission)
        # The answer may have been written since the order was read.
        return await self._settle(tx, asked, claim, await self._order(tx, order_id))

    @staticmethod
    async def _order(tx: Read, order_id: UUID) -> OrderRow:
        order = await queries.find_order_by_id(tx, order_id)
        assert order is not None, "orders are never deleted"
        return order

    async def _settle(self, tx: Write, asked: Asked, claim: Claim, order: OrderRow) -> Reply:
        """Return the reply that follows from the order; it is pinned once the store has answered."""
        if order.answer is StoreAnswer.WAITING:
            await keys.release(tx, claim, now=self.clock())
            return asked.present(unreachable(order))
        return await self._pin(tx, asked, claim, result_of(order), order_content=order.content)

    def _fingerprints(self, request: PlaceOrderRequest) -> list[bytes]:
        """Return what tells one parsed request from another and nobody what was in it, by each of our keys."""
        said = msgspec.json.encode(msgspec.structs.replace(request, payment=UNSET)) + canonical(
            request.payment
        )
        return [mac.sign(secret, said) for secret in self.secrets]


def _refusal(plan: Plan, used: UUID | None) -> Problem:
    """Return the plan's refusal; that its token was used comes first."""
    if used is not None:
        return already_placed(used)
    assert isinstance(plan, Refusing)
    return plan.problem


def _busy() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable(
        "The store was changed again and again while the order was checked. Nothing was placed. Try again.",
        retry_after=RETRY_SECONDS,
    )
