"""Place an order: a request goes from state to state until it has an outcome.

    state               transition               next state
    ------------------  -----------------------  ------------------------------------------------------
    planned             claim the key            ClaimedKey, or with a token StoredSubmission, or Decided
    ClaimedKey          validate with the store  StoredSubmission, or Decided
    StoredSubmission    submit to the store      Decided

A refusal before `StoredSubmission` leaves the key free. From then on the order exists, and the key belongs to it for
24 h. After a crash between two states, background work finishes or cancels the order, and the key's next request joins
it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct
from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError

from mercato.features.metrics import Activity
from mercato.features.orders import by_hand, idempotency, queries, search, spending
from mercato.features.orders.checks import OrderCheck, OrderChecker, with_address1
from mercato.features.orders.errors import (
    RETRY_SECONDS,
    OrderClosed,
    already_placed,
    problem_of,
    unanswered,
)
from mercato.features.orders.idempotency import (
    Claim,
    FreeKey,
    KeyedRequest,
    KeyUsed,
    OpenOrder,
    OrderOutcome,
    Pinned,
    PlacedOrder,
    RefusedOrder,
    UnansweredOrder,
)
from mercato.features.orders.lifecycle import Lifecycle, OrderAccepted, OrderPending
from mercato.features.orders.queries import ConcurrentUpdate, StoreChanged
from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.orders.rules import Plan, RefusePlan, StorePlan, ValidatePlan, new_order, plan_quoted
from mercato.features.orders.search import ContactKeys
from mercato.features.orders.store_messages import canonical_payment, payment_of
from mercato.features.orders.submission import Submission, SubmissionOutcome, Submitter
from mercato.features.orders.validation import (
    OrderTokens,
    Validations,
    digest_of,
    own_quote,
)
from mercato.features.partners.model import Caller
from mercato.features.partners.queries import ORDER_BYTES, StorageQuota, hold_active_partner
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.errors import ServiceUnavailable
from mercato.platform.gazetteer import country_of
from mercato.platform.problem_details import MakeOrigin, detail_of
from mercato_contract.clock import Clock, MakeId
from mercato_contract.money import is_zero
from mercato_contract.orders import Actor
from mercato_contract.placements import PlaceOrderRequest
from mercato_contract.refusals import Problem
from mercato_contract.replies import Acceptance, Quote, Rejection
from mercato_contract.stores import OrderHandling
from mercato_contract.wire import as_json, redacted

SLACK: Final = timedelta(seconds=5)
"""How much longer than its calls a placement's claim lasts."""

MAX_TRIES: Final = 5
"""Transactions of one request: it starts again if another used its token, or if the store changed after the check."""

_GIVEN_UP: Final = "The order was cancelled before its store answered. Place it again with a new key."

OnStored = Callable[[Write, UUID], Awaitable[None]]
"""Writes what belongs to an order, or refuses it by raising, in the transaction that stores the order of this id."""


class PlacementContext(Struct, frozen=True, kw_only=True):
    """One Place request. `deadline` is the end of its calls, on the event loop's clock.

    `body` is None if the request can only continue with an order that is stored. `make_origin` returns what a repeat
    needs to get the same refusal. `approved`: a person has approved the order of an agent.
    """

    caller: Caller
    body: PlaceOrderRequest | None
    keyed: KeyedRequest
    trace: str
    make_origin: MakeOrigin
    deadline: float
    on_stored: OnStored | None = None
    approved: bool = False

    @property
    def request(self) -> PlaceOrderRequest:
        assert self.body is not None, "a request without a body stores no order"
        return self.body


class ClaimedKey(Struct, frozen=True):
    """The key is claimed. The order has no token, so its store validates it next."""

    claim: Claim
    check: OrderCheck


class StoredSubmission(Struct, frozen=True):
    """The order is stored, and is submitted next. `order` is the row if this request stored it."""

    claim: Claim
    submission: Submission
    order: OrderRow | None = None


class Decided(Struct, frozen=True):
    """The request has its outcome."""

    outcome: OrderOutcome


State = ClaimedKey | StoredSubmission | Decided


@redacted("secrets")
class Placements(Struct, frozen=True):
    """Places orders. `seconds` is the timeout of a request's calls, `resend` how long background work retries."""

    db: Database
    clock: Clock
    new_id: MakeId
    checker: OrderChecker
    tokens: OrderTokens
    validations: Validations
    submitter: Submitter
    lifecycle: Lifecycle
    secrets: Sequence[bytes]
    contacts: ContactKeys
    seconds: float
    resend: timedelta
    quota: StorageQuota
    activity: Activity

    @property
    def lease(self) -> timedelta:
        """The lifetime of a request's claim: its calls have ended by then."""
        return timedelta(seconds=self.seconds) + SLACK

    async def place(
        self,
        caller: Caller,
        request: PlaceOrderRequest,
        *,
        key: str,
        trace: str,
        make_origin: MakeOrigin,
    ) -> OrderOutcome:
        """Return the outcome: of this request, or the one that is pinned to the key.

        A refusal before the order is stored is raised, and leaves the key free for any request.
        """
        payment = canonical_payment(request.payment)
        plain = replace(request, payment=UNSET)
        meaning = placement_meaning(plain, payment)
        keyed = self.keyed(caller, key, sent=lambda: as_json(plain) + payment, meaning=meaning)
        return await self.place_keyed(caller, request, keyed, trace=trace, make_origin=make_origin)

    def keyed(
        self, caller: Caller, key: str, *, sent: Callable[[], bytes], meaning: bytes, is_final: bool = False
    ) -> KeyedRequest:
        """Return what tells the repeats of a request from other requests with its key."""
        return KeyedRequest(
            partner_id=caller.partner_id,
            key=key,
            secrets=self.secrets,
            sent=sent,
            meaning=meaning,
            lease=self.lease,
            is_final=is_final,
        )

    async def place_keyed(
        self,
        caller: Caller,
        request: PlaceOrderRequest,
        keyed: KeyedRequest,
        *,
        trace: str,
        make_origin: MakeOrigin,
        on_stored: OnStored | None = None,
        approved: bool = False,
    ) -> OrderOutcome:
        """Do what `place` does, for a request whose repeats may be told by less than its own bytes.

        `approved` says that a person has approved the order, which the caller's agent may need.
        """
        context = PlacementContext(
            caller=caller,
            body=request,
            keyed=keyed,
            trace=trace,
            make_origin=make_origin,
            deadline=self._deadline(),
            on_stored=on_stored,
            approved=approved,
        )
        return await self._decided(context, self._claim_key(context))

    async def resume(
        self,
        caller: Caller,
        keyed: KeyedRequest,
        refusal: RefusePlan,
        *,
        trace: str,
        make_origin: MakeOrigin,
    ) -> OrderOutcome:
        """Return the outcome of an earlier request with the key, or continue with its order.

        If there is neither, the refusal is raised, or OrderAlreadyPlaced for an order with its token.
        """
        context = PlacementContext(
            caller=caller,
            body=None,
            keyed=keyed,
            trace=trace,
            make_origin=make_origin,
            deadline=self._deadline(),
        )
        return await self._decided(context, self._refuse(context, refusal))

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.seconds

    async def _decided(self, context: PlacementContext, first: Awaitable[State]) -> OrderOutcome:
        """Go from the first state to the outcome."""
        try:
            state = await first
        except Problem as problem:
            self.activity.refused(problem.code)
            raise
        while True:
            match state:
                case Decided(outcome):
                    return outcome
                case ClaimedKey(claim):
                    step = self._validate(context, state)
                case StoredSubmission(claim):
                    step = self._submit(context, state)
            try:
                state = await step
            except Exception as error:
                if isinstance(error, Problem):
                    self.activity.refused(error.code)
                # The key's next request needn't wait for the lease, and joins the order if there is one.
                async with self.db.write() as tx:
                    await idempotency.release(tx, claim, now=self.clock())
                raise

    async def find_refusal(self, caller: Caller, request: PlaceOrderRequest) -> Problem | None:
        """Return why an order with a token can't be placed now, by every change of its store; None if it can."""
        plan = await self._plan(caller, request, in_force=True)
        return plan.problem if isinstance(plan, RefusePlan) else None

    # --- planned: nothing is written yet ----------------------------------------------------------

    async def _plan(self, caller: Caller, request: PlaceOrderRequest, *, in_force: bool) -> Plan:
        """Return the plan; with `in_force`, by every change of the store that was committed before this call.

        Else the order is checked against the cached store: its key is claimed, or with a token the order stored, only
        if the store's version is still the same. A refusal is always planned with `in_force`.
        """
        plan: Plan
        try:
            plan = self._plan_checked(caller, request, await self.checker.check(request, in_force=in_force))
        except Problem as problem:
            # The store's currency, set or partner may have gone, or the order's time have passed, since it was placed.
            token = request.validated_order_token
            used = (
                None if token is None else self.tokens.find_id(token, caller=caller.partner_id, order=request)
            )
            plan = RefusePlan(problem, used)
        if isinstance(plan, RefusePlan) and not in_force:
            return await self._plan(caller, request, in_force=True)
        return plan

    def _plan_checked(self, caller: Caller, request: PlaceOrderRequest, check: OrderCheck) -> Plan:
        """Return the plan for a checked order: without a token its store validates it. Raises OrderTokenInvalid."""
        token = request.validated_order_token
        if token is None:
            return RefusePlan(problem_of(check.errors)) if check.errors else ValidatePlan(check)
        claims = self.tokens.verify(token, digest=digest_of(caller.partner_id, check), now=self.clock())
        return plan_quoted(check, Quote(claims.sums, claims.estimated_ready_at), claims.token_id)

    # --- planned: claim the key, and with a token store the order ---------------------------------

    async def _claim_key(self, context: PlacementContext) -> State:
        """Return the next state. Raises the plan's refusal if the key has neither an outcome nor an order."""
        plan = await self._plan(context.caller, context.request, in_force=False)
        processes.crash_point("key.unclaimed")
        # Nearly every key and token is new: whether they are is part of what is written, and is read only if not.
        has_new_key, has_new_token = True, True
        for _ in range(MAX_TRIES):
            try:
                match plan:
                    case RefusePlan():
                        return await self._refuse(context, plan)
                    case StorePlan() | ValidatePlan():
                        async with self.db.write() as tx:
                            if has_new_key:
                                return await self._claim_new(tx, context, plan)
                            return await self._claim(tx, context, plan, checks_token=not has_new_token)
            except KeyUsed:
                has_new_key = False
            except StoreChanged:
                await self._refuse_gone(context)
                plan = await self._plan(context.caller, context.request, in_force=True)
            except IntegrityError:
                # The unique index says that the token was used. The next try looks up its order.
                if not has_new_token:
                    raise
                has_new_key = has_new_token = False
        raise _busy()

    async def _refuse_gone(self, context: PlacementContext) -> None:
        """Raise Forbidden if the storefront was suspended or deleted after its key was looked up."""
        async with self.db.write() as tx:
            await hold_active_partner(tx, context.caller.partner_id)

    async def _refuse(self, context: PlacementContext, plan: RefusePlan) -> State:
        """Return the outcome or the order of an earlier request with the key. Else raises the refusal."""
        async with self.db.read() as tx:
            # The token before the key: an order that is stored in between is then found by the key.
            used = await self._find_order_by_token(tx, plan)
            key = await idempotency.read(tx, context.keyed, now=self.clock())
        match key:
            case Pinned(outcome):
                return Decided(outcome)
            case FreeKey():
                raise plan.problem if used is None else already_placed(used)
            case OpenOrder():
                async with self.db.write() as tx:
                    return await self._claim(tx, context, plan, checks_token=True)

    async def _claim_new(self, tx: Write, context: PlacementContext, plan: StorePlan | ValidatePlan) -> State:
        """Claim a new key, and with a token store the order. The transaction fails with KeyUsed if it isn't new."""
        now = self.clock()
        match plan:
            case ValidatePlan(check):
                claim = idempotency.claim_new(tx, context.keyed, now=now)
                return self._claimed(tx, claim, check)
            case StorePlan():
                claim = idempotency.claim_new(tx, context.keyed, now=now, order_id=self.new_id())
                return await self._store(tx, context, claim, plan, now=now)

    async def _claim(self, tx: Write, context: PlacementContext, plan: Plan, *, checks_token: bool) -> State:
        used = await self._find_order_by_token(tx, plan) if checks_token else None
        match plan:
            case StorePlan() if used is None:
                order_id: UUID | None = self.new_id()
            case _:
                order_id = None
        now = self.clock()
        match await idempotency.claim(tx, context.keyed, now=now, order_id=order_id), plan:
            case Pinned(outcome), _:
                return Decided(outcome)
            case Claim(joins=True, order_id=UUID() as joined) as claim, _:
                return await self._join(tx, context, claim, joined)
            case Claim() as claim, ValidatePlan(check):
                return self._claimed(tx, claim, check)
            case Claim() as claim, StorePlan() as stored if used is None:
                return await self._store(tx, context, claim, stored, now=now)
            case _, RefusePlan(problem) if used is None:
                raise problem
        assert used is not None
        raise already_placed(used)

    @staticmethod
    def _claimed(tx: Write, claim: Claim, check: OrderCheck) -> ClaimedKey:
        """Return the next state of an order without a token; the transaction may fail with StoreChanged."""
        queries.require_version(tx, check.store.id, check.store.version)
        return ClaimedKey(claim, check)

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
        order = await queries.get_order(tx, order_id)
        return Decided(await self._decide(tx, context, claim, order))

    # --- claimed, without a token: validate with the store, and store the order -------------------

    async def _validate(self, context: PlacementContext, state: ClaimedKey) -> State:
        """Store the order if its store accepts it, or return its rejection. Raises every other refusal."""
        processes.crash_point("key.claimed")
        claim, check = state.claim, state.check
        result = await self.validations.validate_with_store(
            context.caller, check, context.request, trace=context.trace
        )
        processes.crash_point("store.agreed")
        match result:
            case Rejection(errors) if check.store.orders_url is None:
                # It is the service's own, and leaves the key free.
                raise problem_of(errors)
            case Rejection(errors):
                async with self.db.write() as tx:
                    return Decided(await self._pin_refusal(tx, context, claim, problem_of(errors)))
            case Quote():
                return await self._store_quoted(context, claim, check, result)

    async def _store_quoted(
        self, context: PlacementContext, claim: Claim, check: OrderCheck, quote: Quote
    ) -> State:
        for _ in range(MAX_TRIES):
            match plan_quoted(check, quote):
                case RefusePlan(problem):
                    raise problem
                case StorePlan() as plan:
                    try:
                        async with self.db.write() as tx:
                            return await self._store(tx, context, claim, plan, now=self.clock())
                    except StoreChanged:
                        await self._refuse_gone(context)
                        check = await self.checker.check(context.request, in_force=True)
                        quote = _still(check, quote)
        raise _busy()

    async def _store(
        self, tx: Write, context: PlacementContext, claim: Claim, plan: StorePlan, *, now: datetime
    ) -> State:
        """Store the order with its submission. If its store isn't called, the placement is answered at once."""
        store, order_id = plan.check.store, claim.order_id or self.new_id()
        if context.on_stored is not None:
            await context.on_stored(tx, order_id)
        order = new_order(
            order_id,
            plan,
            context.request,
            storefront_id=context.caller.partner_id,
            traceparent=context.trace,
            now=now,
        )
        size = ORDER_BYTES + len(order.content)
        await self.quota.take(tx, context.caller.partner_id, size, now=now)
        detail: dict[str, object] = {"storeId": order.store_id}
        if (agent := context.caller.agent) is not None:
            order = await spending.take(tx, agent, order, approved=context.approved, now=now)
            detail["agent"] = agent.name
        await audit(tx, "order", order.id, detail=detail)
        country = country_of(store.address.country or None, store.timezone)
        search.add_order(tx, self.contacts, order.id, order.customer, country=country)
        if claim.order_id != order.id:
            idempotency.set_order(tx, claim, order_id=order.id)
        tx.after_commit(partial(self._placed, order))
        if store.orders_url is None:
            queries.insert_order(tx, order, store_version=store.version)
            order = await self._answer(tx, order, within=store.accept_minutes, now=now)
            return Decided(await self._decide(tx, context, claim, order))
        submission = await self.submitter.store(
            tx,
            order,
            base_url=store.orders_url,
            payment=payment_of(context.request.payment),
            # Not before the calls of this request end.
            give_up_at=now + max(self.resend, context.keyed.lease),
        )
        queries.insert_order(tx, order, store_version=store.version)
        processes.crash_point("order.written")
        return StoredSubmission(claim, submission, order)

    async def _answer(self, tx: Write, order: OrderRow, *, within: int, now: datetime) -> OrderRow:
        """Return the order of a store that isn't called: accepted, or pending until a person accepts it."""
        if order.handling is not OrderHandling.MANUAL:
            return await self.lifecycle.apply(tx, order, OrderAccepted(at=now, actor=Actor.SERVICE))
        await by_hand.schedule(tx, order, within=timedelta(minutes=within))
        return await self.lifecycle.apply(tx, order, OrderPending(at=now))

    def _placed(self, order: OrderRow) -> None:
        self.activity.orders_placed += 1
        self.activity.record("order placed", order.id, order.store_id)

    # --- stored: submit to the store, and record its answer --------------------------------------

    async def _submit(self, context: PlacementContext, state: StoredSubmission) -> State:
        processes.crash_point("order.stored")
        left = context.deadline - asyncio.get_running_loop().time()
        result = await self.submitter.submit(state.submission, seconds=max(left, 1.0))
        processes.crash_point("store.answered")
        try:
            outcome = await self._record(context, state, result, is_as_stored=True)
        except ConcurrentUpdate:
            outcome = await self._record(context, state, result, is_as_stored=False)
        processes.crash_point("reply.stored")
        return Decided(outcome)

    async def _record(
        self,
        context: PlacementContext,
        state: StoredSubmission,
        result: SubmissionOutcome,
        *,
        is_as_stored: bool,
    ) -> OrderOutcome:
        """Write the store's answer and the outcome.

        With `is_as_stored` the transaction fails with ConcurrentUpdate if somebody has changed the order since.
        """
        async with self.db.write() as tx:
            match state.order, result.reply:
                case OrderRow() as stored, Acceptance() as accepted if is_as_stored:
                    event_url = context.caller.event_url
                    order = await self.submitter.record_first(
                        tx, state.submission, result, accepted, stored, event_url=event_url
                    )
                case _:
                    order = await self.submitter.record(
                        tx,
                        state.submission,
                        result,
                        notify_unanswered=True,
                        is_own=state.order is not None,
                    )
            outcome = await self._decide(tx, context, state.claim, order)
            processes.crash_point("reply.written")
        return outcome

    # --- decided: pin the outcome -----------------------------------------------------------------

    async def _decide(
        self, tx: Write, context: PlacementContext, claim: Claim, order: OrderRow
    ) -> OrderOutcome:
        """Return the order's outcome. It is pinned to the key once the store has answered, or a person has to."""
        match order.answer:
            # An order about which no store is called was placed, whatever a person decided since.
            case answer if order.is_pulled or answer in {StoreAnswer.ACCEPTED, StoreAnswer.PENDING}:
                placed = PlacedOrder(order.id, order.storefront_document)
                await idempotency.pin(tx, claim, placed, order_content=order.content)
                return placed
            case StoreAnswer.REFUSED:
                return await self._pin_refusal(tx, context, claim, problem_of(order.errors), order)
            case StoreAnswer.GIVEN_UP:
                return await self._pin_refusal(tx, context, claim, OrderClosed(_GIVEN_UP), order)
            case StoreAnswer.WAITING:
                await idempotency.release(tx, claim, now=self.clock())
                return UnansweredOrder(unanswered(order.id))

    async def _pin_refusal(
        self,
        tx: Write,
        context: PlacementContext,
        claim: Claim,
        problem: Problem,
        order: OrderRow | None = None,
    ) -> RefusedOrder:
        """Return the refusal. It is pinned to the key unless a repeat may succeed, and may make another order."""
        now, origin = self.clock(), context.make_origin()
        detail, content = detail_of(problem, origin, at=now), b""
        if order is None:
            self.activity.refused(problem.code)
        else:
            detail, content = replace(detail, order_id=order.id), order.content
        refused = RefusedOrder(detail, origin.format)
        if problem.retryable and not context.keyed.is_final:
            await idempotency.free(tx, claim, now=now)
        else:
            await idempotency.pin(tx, claim, refused, order_content=content)
        return refused


def _still(check: OrderCheck, quote: Quote) -> Quote:
    """Return the quote of a store that has changed: a new one if it isn't called, because nobody agreed to the old one.

    Raises the service's own refusal.
    """
    if check.store.orders_url is not None or check.errors:
        return quote
    match own_quote(check):
        case Rejection(errors):
            raise problem_of(errors)
        case Quote() as new:
            return new


def _busy() -> ServiceUnavailable:
    return ServiceUnavailable(
        "The store changed repeatedly while the order was checked. Nothing was placed. Try again.",
        retry_after=RETRY_SECONDS,
    )


def placement_meaning(request: PlaceOrderRequest, payment: bytes) -> bytes:
    """Return bytes that are the same for requests that mean the same, each without its payment, which is canonical.

    What a payment means is for the store to say.
    """
    amounts, fulfillment = request.amounts, with_address1(request.fulfillment)
    if amounts is not None and amounts.tip is not None and is_zero(amounts.tip):
        amounts = replace(amounts, tip=None)
    has_values = amounts is not None or fulfillment.scheduled_time is not None
    named = replace(request, amounts=amounts, fulfillment=fulfillment)
    return idempotency.meaning_of(named, has_values=has_values) + payment
