"""Place: one request goes from state to state until it has a reply.

    state               it is left by            to
    ------------------  -----------------------  ----------------------------------------------------
    planned             claiming the key         ClaimedKey, or with a token StoredSubmission, or Reply
    ClaimedKey          asking the store         StoredSubmission, or Reply
    StoredSubmission    telling the store        Reply

A refusal before `StoredSubmission` leaves the key free, as if it had never been sent. From then on the order is there,
and the key is its own for 24 h. A crash between two states leaves an order that background work finishes or cancels,
and a key whose next request joins it.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy.exc import IntegrityError

from mercato.domain.orders import idempotency, queries
from mercato.domain.orders.changes import Changes
from mercato.domain.orders.idempotency import Claim, KeyedRequest, Reply
from mercato.domain.orders.plan import (
    AskPlan,
    Checked,
    PlacementContext,
    Plan,
    Planner,
    RefusePlan,
    StorePlan,
    fingerprints,
    new_order,
    plan_from_agreement,
)
from mercato.domain.orders.queries import StoreChanged
from mercato.domain.orders.reasons import refusal
from mercato.domain.orders.record import OrderRow, StoreAnswer, order_of, place_body
from mercato.domain.orders.replies import Agreed, PlaceSaid
from mercato.domain.orders.request import PlaceOrderRequest
from mercato.domain.orders.submission import KIND, Submission, Submitter, schedule, submission_of
from mercato.domain.orders.transitions import Actor
from mercato.domain.orders.validation import RETRY_SECONDS, Validations
from mercato.domain.partners.model import Caller
from mercato.domain.partners.storage import ORDER_BYTES, StorageQuota
from mercato.kernel import crash, errors
from mercato.kernel.clock import Clock, MakeId
from mercato.kernel.db.audit import audit
from mercato.kernel.db.engine import Database, Read, Write
from mercato.kernel.errors import Problem
from mercato.kernel.jobs import delete_waiting
from mercato.kernel.wire import as_json
from mercato.kernel.wire.base import redacted
from mercato.kernel.wire.problem import Context, represent

CREATED: Final = 201
JSON: Final = "application/json"

SLACK: Final = timedelta(seconds=5)
"""What a placement may take beside its calls; after that its claim counts as that of a process that died."""

TRIES: Final = 5
"""Transactions begun over: when two requests with one token meet, the second sees what the first has done; when the
store changed after the order was checked, it is checked again."""


class ClaimedKey(Struct, frozen=True):
    """The key is ours; the order has no token, so its store is to be asked."""

    claim: Claim
    checked: Checked


class StoredSubmission(Struct, frozen=True):
    """The order is stored, and its store is to be told. `order`: as this request has stored it, if it did."""

    claim: Claim
    submission: Submission
    order: OrderRow | None = None


State = ClaimedKey | StoredSubmission | Reply


@redacted("secrets")
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
        self, caller: Caller, request: PlaceOrderRequest, *, key: str, trace: str, problem_context: Context
    ) -> Reply:
        """Return the reply of the key's request: of this one, or as it was given before.

        Raises every refusal that comes before the order is stored: it leaves the key free for any other request.
        The order, and what its store answered to it, is a reply that is pinned to the key.
        """
        context = PlacementContext(
            caller=caller,
            request=request,
            keyed=KeyedRequest(
                partner_id=caller.partner_id,
                key=key,
                prints=fingerprints(request, self.secrets),
                lease=timedelta(seconds=self.seconds) + SLACK,
            ),
            trace=trace,
            problem_context=problem_context,
            until=asyncio.get_running_loop().time() + self.seconds,
        )
        state = await self._claim_key(context)
        while not isinstance(state, Reply):
            claim = state.claim
            try:
                if isinstance(state, ClaimedKey):
                    state = await self._ask_store(context, state)
                else:
                    state = await self._tell_store(context, state)
            except Exception:
                # The key's next request may begin at once, and joins the order if there is one.
                async with self.db.write() as tx:
                    await idempotency.release(tx, claim, now=self.clock())
                raise
        return state

    # --- planned: the key is claimed, and with a token the order stored along with it -------------

    async def _claim_key(self, context: PlacementContext) -> State:
        """Return the state that follows from the key. Raises the refusal if it has neither a reply nor an order."""
        plan = await self.planner.plan(context)
        crash.point("key.unclaimed")
        may_be_used = False
        for _ in range(TRIES):
            if isinstance(plan, RefusePlan):
                reply = await self._find_reply(context, plan)
                if reply is not None:
                    return reply
            try:
                async with self.db.write() as tx:
                    return await self._claim(tx, context, plan, may_be_used=may_be_used)
            except StoreChanged:
                plan = await self.planner.plan_as(context, in_force=True)
            except IntegrityError:
                # The token was used already, which the index says without a look, or is in this very moment.
                if may_be_used:
                    raise
                may_be_used = True
        raise _busy()

    async def _find_reply(self, context: PlacementContext, plan: RefusePlan) -> Reply | None:
        """Return the key's reply if it has one, or None if it has an order to go on with. Else raises the refusal."""
        async with self.db.read() as tx:
            # Before the key: an order of this very key that is stored between the two is then found under it.
            used = await self._find_order_of_token(tx, plan)
            found = await idempotency.find(tx, context.keyed, now=self.clock())
        if found is None:
            raise _refusal(plan, used)
        return found if isinstance(found, Reply) else None

    async def _claim(self, tx: Write, context: PlacementContext, plan: Plan, *, may_be_used: bool) -> State:
        checks_token = may_be_used or isinstance(plan, RefusePlan)
        used = await self._find_order_of_token(tx, plan) if checks_token else None
        order_id = self.new_id() if isinstance(plan, StorePlan) and used is None else None
        now = self.clock()
        claim = await idempotency.claim(tx, context.keyed, now=now, order_id=order_id)
        if isinstance(claim, Reply):
            return claim
        if claim.joins and claim.order_id is not None:
            return await self._join(tx, context, claim, claim.order_id)
        if isinstance(plan, AskPlan):
            return ClaimedKey(claim, plan.checked)
        if isinstance(plan, RefusePlan) or used is not None:
            raise _refusal(plan, used)
        return await self._store(tx, context, claim, plan, now=now)

    @staticmethod
    async def _find_order_of_token(tx: Read, plan: Plan) -> UUID | None:
        return None if plan.token_id is None else await queries.find_order_of_token(tx, plan.token_id)

    async def _join(self, tx: Write, context: PlacementContext, claim: Claim, order_id: UUID) -> State:
        """Go on with the order that an earlier request with the key has made.

        The order is not locked: who locks it while its store's answer is written waits for the key, which is ours.
        """
        submission = await self.submitter.find(tx, await queries.get_order(tx, order_id))
        if submission is not None:
            return StoredSubmission(claim, submission)
        # The answer may have been written since the order was read.
        return await self._settle(tx, context, claim, await queries.get_order(tx, order_id))

    # --- claimed, without a token: the store is asked, and the order stored if it agrees ----------

    async def _ask_store(self, context: PlacementContext, state: ClaimedKey) -> State:
        """Return the order that the store agreed to, or its refusal. Raises every other refusal."""
        crash.point("key.claimed")
        claim, checked = state.claim, state.checked
        said = await self.validations.ask(context.caller, checked, context.request, trace=context.trace)
        crash.point("store.agreed")
        if not isinstance(said, Agreed):
            async with self.db.write() as tx:
                return await self._refuse(tx, context, claim, refusal(said))
        for _ in range(TRIES):
            plan = plan_from_agreement(checked, said)
            if isinstance(plan, RefusePlan):
                raise plan.problem
            try:
                async with self.db.write() as tx:
                    return await self._store(tx, context, claim, plan, now=self.clock())
            except StoreChanged:
                checked = await self.planner.checker.check(context.request, in_force=True)
        raise _busy()

    async def _store(
        self, tx: Write, context: PlacementContext, claim: Claim, plan: StorePlan, *, now: datetime
    ) -> State:
        """Store the order, and the job that tells its store; a store without a webhook takes it at once."""
        store = plan.checked.store
        order = new_order(claim.order_id or self.new_id(), context, plan, now)
        await queries.insert_order(tx, order, store_version=store.version)
        size = ORDER_BYTES + len(order.content)
        await self.quota.take(tx, context.caller.partner_id, size, now=now)
        await audit(tx, "order", order.id, detail={"storeId": order.store_id})
        await idempotency.hold(tx, claim, order_id=order.id)
        if store.webhook_url is None:
            order = await self.changes.accept(tx, order, PlaceSaid(), actor=Actor.SERVICE, now=now)
            return await self._settle(tx, context, claim, order)
        submission = submission_of(
            order,
            base_url=store.webhook_url,
            body=place_body(order, payment=context.request.payment, now=now),
            # The order is not given up before the calls of this request are over.
            give_up_at=now + max(self.resend, context.keyed.lease),
        )
        await self.submitter.store(tx, order, submission)
        await schedule(tx, submission.call, wait=context.keyed.lease)
        crash.point("order.written")
        return StoredSubmission(claim, submission, order)

    # --- stored: the store is told, and its answer settles the request ----------------------------

    async def _tell_store(self, context: PlacementContext, state: StoredSubmission) -> Reply:
        crash.point("order.stored")
        left = context.until - asyncio.get_running_loop().time()
        outcome = await self.submitter.submit(state.submission, seconds=max(left, 1.0))
        crash.point("store.answered")
        async with self.db.write() as tx:
            order = await self.submitter.settle(
                tx, state.submission, outcome, announces_fault=True, stored=state.order
            )
            if order.answer is not StoreAnswer.WAITING:
                # It would find nothing to do, and there is one for each order.
                await delete_waiting(tx, KIND, order.id.hex)
            reply = await self._settle(tx, context, state.claim, order)
            crash.point("reply.written")
        crash.point("reply.stored")
        return reply

    async def _settle(self, tx: Write, context: PlacementContext, claim: Claim, order: OrderRow) -> Reply:
        """Return the reply that follows from the order; it is pinned once the store has answered."""
        about = {"orderId": str(order.id)}
        match order.answer:
            case StoreAnswer.ACCEPTED:
                reply = Reply(
                    status=CREATED, media_type=JSON, body=as_json(order_of(order)), order_id=order.id
                )
                await idempotency.settle(tx, claim, reply, order_content=order.content)
                return reply
            case StoreAnswer.REFUSED:
                problem = refusal(order.errors)
                problem.extensions |= about
            case StoreAnswer.GIVEN_UP:
                problem = errors.OrderClosed(
                    "The order was cancelled because its store could not be reached. Place it anew with a new key.",
                    extensions=about,
                )
            case StoreAnswer.WAITING:
                await idempotency.release(tx, claim, now=self.clock())
                problem = errors.StoreUnreachable(
                    "The store has not answered yet. The order is kept and sent again for some minutes; ask with the "
                    "same Idempotency-Key, or read the order.",
                    retry_after=RETRY_SECONDS,
                    extensions=about,
                )
                return _reply(problem, context, order.id)
        return await self._refuse(tx, context, claim, problem, order)

    async def _refuse(
        self,
        tx: Write,
        context: PlacementContext,
        claim: Claim,
        problem: Problem,
        order: OrderRow | None = None,
    ) -> Reply:
        """Return the refusal, pinned to the key unless a repeat may not meet it."""
        reply = _reply(problem, context, None if order is None else order.id)
        if problem.retryable:
            await idempotency.forget(tx, claim, now=self.clock())
        else:
            content = b"" if order is None else order.content
            await idempotency.settle(tx, claim, reply, order_content=content)
        return reply


def _reply(problem: Problem, context: PlacementContext, order_id: UUID | None) -> Reply:
    media_type, body = represent(problem, context.problem_context)
    return Reply(
        status=problem.status,
        media_type=media_type,
        body=body,
        order_id=order_id,
        retry_after=problem.retry_after,
    )


def _refusal(plan: Plan, used: UUID | None) -> Problem:
    """Return the plan's refusal; that its token was used comes first."""
    if used is not None:
        return errors.OrderAlreadyPlaced(
            "An order was placed with this validatedOrderToken. Read it by its orderId.",
            extensions={"orderId": str(used)},
        )
    assert isinstance(plan, RefusePlan)
    return plan.problem


def _busy() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable(
        "The store was changed again and again while the order was checked. Nothing was placed. Try again.",
        retry_after=RETRY_SECONDS,
    )
