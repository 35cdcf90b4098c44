"""Place an order: a request goes from state to state until it has a reply.

    state               transition               next state
    ------------------  -----------------------  ----------------------------------------------------
    planned             claim the key            ClaimedKey, or with a token StoredSubmission, or Reply
    ClaimedKey          validate with the store  StoredSubmission, or Reply
    StoredSubmission    submit to the store      Reply

A refusal before `StoredSubmission` leaves the key free. From then on the order exists, and the key belongs to it for
24 h. After a crash between two states, background work finishes or cancels the order, and the key's next request joins
it.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy.exc import IntegrityError

from mercato.features.metrics import Activity
from mercato.features.orders import queries
from mercato.features.orders.changes import Changes
from mercato.features.orders.placement import idempotency
from mercato.features.orders.placement.idempotency import Claim, KeyedRequest, Reply
from mercato.features.orders.placement.plan import (
    PlacementContext,
    Plan,
    Planner,
    RefusePlan,
    StorePlan,
    ValidatePlan,
    busy,
    fingerprints,
    new_order,
    plan_quoted,
    refusal,
)
from mercato.features.orders.placement.replies import Replies
from mercato.features.orders.placement.submission import (
    SUBMIT_KIND,
    Submission,
    Submitter,
    schedule,
    submission_of,
)
from mercato.features.orders.queries import StoreChanged
from mercato.features.orders.record import OrderRow, StoreAnswer, place_body
from mercato.features.orders.validation.checks import OrderCheck
from mercato.features.orders.validation.error_codes import problem_of
from mercato.features.orders.validation.replies import Acceptance, Quote
from mercato.features.orders.validation.service import Validations
from mercato.features.partners.model import Caller
from mercato.features.partners.storage import ORDER_BYTES, StorageQuota
from mercato.platform import crash
from mercato.platform.clock import Clock, MakeId
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.errors import Problem
from mercato.platform.jobs import delete_waiting
from mercato.platform.wire.problem import Context
from mercato_contract.orders import Actor, PlaceOrderRequest
from mercato_contract.wire import redacted

SLACK: Final = timedelta(seconds=5)
"""How much longer than its calls a placement's claim lasts."""

MAX_TRIES: Final = 5
"""Transactions of one request: it starts again if another used its token, or if the store changed after the check."""


class ClaimedKey(Struct, frozen=True):
    """The key is claimed. The order has no token, so its store validates it next."""

    claim: Claim
    check: OrderCheck


class StoredSubmission(Struct, frozen=True):
    """The order is stored, and is submitted next. `order` is the row if this request stored it."""

    claim: Claim
    submission: Submission
    order: OrderRow | None = None


State = ClaimedKey | StoredSubmission | Reply


@redacted("secrets")
class Placements(Struct, frozen=True):
    """Places orders. `seconds` is the timeout of a request's calls, `resend` how long background work retries."""

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
    activity: Activity
    replies: Replies

    async def place(
        self, caller: Caller, request: PlaceOrderRequest, *, key: str, trace: str, problem_context: Context
    ) -> Reply:
        """Return the reply that is pinned to the key: of this request, or of an earlier one.

        A refusal before the order is stored is raised, and leaves the key free for any request.
        """
        context = PlacementContext(
            caller=caller,
            request=request,
            keyed=KeyedRequest(
                partner_id=caller.partner_id,
                key=key,
                fingerprints=fingerprints(request, self.secrets),
                lease=timedelta(seconds=self.seconds) + SLACK,
            ),
            trace=trace,
            problem_context=problem_context,
            deadline=asyncio.get_running_loop().time() + self.seconds,
        )
        try:
            state = await self._claim_key(context)
        except Problem as problem:
            self.activity.refused(problem.code)
            raise
        while not isinstance(state, Reply):
            claim = state.claim
            try:
                if isinstance(state, ClaimedKey):
                    state = await self._validate(context, state)
                else:
                    state = await self._submit(context, state)
            except Exception as error:
                if isinstance(error, Problem):
                    self.activity.refused(error.code)
                # The key's next request needn't wait for the lease, and joins the order if there is one.
                async with self.db.write() as tx:
                    await idempotency.release(tx, claim, now=self.clock())
                raise
        return state

    # --- planned: claim the key, and with a token store the order ---------------------------------

    async def _claim_key(self, context: PlacementContext) -> State:
        """Return the next state. Raises the plan's refusal if the key has neither a reply nor an order."""
        plan = await self.planner.plan(context)
        crash.point("key.unclaimed")
        may_be_used = False
        for _ in range(MAX_TRIES):
            if isinstance(plan, RefusePlan):
                reply = await self._find_reply(context, plan)
                if reply is not None:
                    return reply
            try:
                async with self.db.write() as tx:
                    return await self._claim(tx, context, plan, may_be_used=may_be_used)
            except StoreChanged:
                plan = await self.planner.plan(context, in_force=True)
            except IntegrityError:
                # The unique index says that the token was used. The next try looks up its order.
                if may_be_used:
                    raise
                may_be_used = True
        raise busy()

    async def _find_reply(self, context: PlacementContext, plan: RefusePlan) -> Reply | None:
        """Return the key's reply, or None if it has an order to join. Else raises the refusal."""
        async with self.db.read() as tx:
            # The token before the key: an order that is stored in between is then found by the key.
            used = await self._find_order_by_token(tx, plan)
            found = await idempotency.find(tx, context.keyed, now=self.clock())
        if found is None:
            raise refusal(plan, used)
        return found if isinstance(found, Reply) else None

    async def _claim(self, tx: Write, context: PlacementContext, plan: Plan, *, may_be_used: bool) -> State:
        checks_token = may_be_used or isinstance(plan, RefusePlan)
        used = await self._find_order_by_token(tx, plan) if checks_token else None
        order_id = self.new_id() if isinstance(plan, StorePlan) and used is None else None
        now = self.clock()
        claim = await idempotency.claim(tx, context.keyed, now=now, order_id=order_id)
        if isinstance(claim, Reply):
            return claim
        if claim.joins and claim.order_id is not None:
            return await self._join(tx, context, claim, claim.order_id)
        if isinstance(plan, ValidatePlan):
            return ClaimedKey(claim, plan.check)
        if isinstance(plan, RefusePlan) or used is not None:
            raise refusal(plan, used)
        return await self._store(tx, context, claim, plan, now=now)

    @staticmethod
    async def _find_order_by_token(tx: Read, plan: Plan) -> UUID | None:
        return None if plan.token_id is None else await queries.find_order_by_token(tx, plan.token_id)

    async def _join(self, tx: Write, context: PlacementContext, claim: Claim, order_id: UUID) -> State:
        """Continue with the order of an earlier request with the key.

        Locking the order here could deadlock: a transaction that has locked it may wait for our key.
        """
        submission = await self.submitter.find(tx, await queries.get_order(tx, order_id))
        if submission is not None:
            return StoredSubmission(claim, submission)
        # The answer may have been written since the order was read.
        return await self.replies.settle(tx, context, claim, await queries.get_order(tx, order_id))

    # --- claimed, without a token: validate with the store, and store the order -------------------

    async def _validate(self, context: PlacementContext, state: ClaimedKey) -> State:
        """Store the order if its store accepts it, or return its rejection. Raises every other refusal."""
        crash.point("key.claimed")
        claim, check = state.claim, state.check
        result = await self.validations.validate_with_store(
            context.caller, check, context.request, trace=context.trace
        )
        crash.point("store.agreed")
        if not isinstance(result, Quote):
            async with self.db.write() as tx:
                return await self.replies.refuse(tx, context, claim, problem_of(result))
        for _ in range(MAX_TRIES):
            plan = plan_quoted(check, result)
            if isinstance(plan, RefusePlan):
                raise plan.problem
            try:
                async with self.db.write() as tx:
                    return await self._store(tx, context, claim, plan, now=self.clock())
            except StoreChanged:
                check = await self.planner.checker.check(context.request, in_force=True)
        raise busy()

    async def _store(
        self, tx: Write, context: PlacementContext, claim: Claim, plan: StorePlan, *, now: datetime
    ) -> State:
        """Store the order with its submission and job. A store without a webhook accepts it at once."""
        store = plan.check.store
        order = new_order(claim.order_id or self.new_id(), context, plan, now)
        await queries.insert_order(tx, order, store_version=store.version)
        size = ORDER_BYTES + len(order.content)
        await self.quota.take(tx, context.caller.partner_id, size, now=now)
        await audit(tx, "order", order.id, detail={"storeId": order.store_id})
        if claim.order_id != order.id:
            await idempotency.set_order(tx, claim, order_id=order.id)
        tx.after_commit(partial(self._placed, order))
        if store.webhook_url is None:
            order = await self.changes.accept(tx, order, Acceptance(), actor=Actor.SERVICE, now=now)
            return await self.replies.settle(tx, context, claim, order)
        submission = submission_of(
            order,
            base_url=store.webhook_url,
            body=place_body(order, payment=context.request.payment, now=now),
            # Not before the calls of this request end.
            give_up_at=now + max(self.resend, context.keyed.lease),
        )
        await self.submitter.store(tx, order, submission)
        await schedule(tx, submission.call, wait=context.keyed.lease)
        crash.point("order.written")
        return StoredSubmission(claim, submission, order)

    def _placed(self, order: OrderRow) -> None:
        self.activity.orders_placed += 1
        self.activity.record("order placed", order.id, order.store_id)

    # --- stored: submit to the store, and settle with its answer ----------------------------------

    async def _submit(self, context: PlacementContext, state: StoredSubmission) -> Reply:
        crash.point("order.stored")
        left = context.deadline - asyncio.get_running_loop().time()
        outcome = await self.submitter.submit(state.submission, seconds=max(left, 1.0))
        crash.point("store.answered")
        async with self.db.write() as tx:
            order = await self.submitter.settle(
                tx, state.submission, outcome, notify_unanswered=True, stored=state.order
            )
            if order.answer is not StoreAnswer.WAITING:
                await delete_waiting(tx, SUBMIT_KIND, order.id.hex)
            reply = await self.replies.settle(tx, context, state.claim, order)
            crash.point("reply.written")
        crash.point("reply.stored")
        return reply
