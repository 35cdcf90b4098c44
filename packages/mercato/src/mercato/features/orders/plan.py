"""Plan a placement before anything is written: refuse the order, store it, or let its store validate it first."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.features.orders import amounts
from mercato.features.orders.amounts import Sums
from mercato.features.orders.checks import OrderCheck, OrderChecker
from mercato.features.orders.errors import (
    OrderAlreadyPlaced,
    OrderClosed,
    OrderTotalDifferent,
    StoreUnreachable,
    problem_of,
)
from mercato.features.orders.idempotency import KeyedRequest
from mercato.features.orders.payment import canonical
from mercato.features.orders.record import OrderContent, OrderRow, StoreAnswer, take_notes, with_notes
from mercato.features.orders.store_replies import Quote
from mercato.features.orders.tokens import OrderTokens, TokenExpired, digest_of
from mercato.features.orders.validation import RETRY_SECONDS
from mercato.features.partners.model import Caller
from mercato.platform import errors
from mercato.platform.clock import Clock
from mercato.platform.errors import Problem
from mercato.platform.wire.problem import MakeOrigin
from mercato_contract.orders import OrderState, OrderStatus
from mercato_contract.placements import PlaceOrderRequest
from mercato_contract.problems import OrderError
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import as_json


class PlacementContext(Struct, frozen=True, kw_only=True):
    """One Place request. `deadline` is the end of its calls, on the event loop's clock.

    `make_origin` isn't called here: it returns what a repeat needs to get the same refusal.
    """

    caller: Caller
    request: PlaceOrderRequest
    keyed: KeyedRequest
    trace: str
    make_origin: MakeOrigin
    deadline: float


class RefusePlan(Struct, frozen=True):
    """Refuse the request. If an order was placed with its token, that refusal comes first."""

    problem: Problem
    token_id: UUID | None = None


class StorePlan(Struct, frozen=True):
    """Store the order: it has no errors, and its store has quoted the same price."""

    check: OrderCheck
    quote: Quote
    token_id: UUID | None = None


class ValidatePlan(Struct, frozen=True):
    """Let the store validate the order, which has no token."""

    check: OrderCheck
    token_id: None = None


Plan = RefusePlan | StorePlan | ValidatePlan


class Planner(Struct, frozen=True):
    """Plans placements for keys that are free. A key with an outcome gets that in place of the plan."""

    clock: Clock
    checker: OrderChecker
    tokens: OrderTokens

    async def plan(self, context: PlacementContext, *, in_force: bool = False) -> Plan:
        """Return the plan; with `in_force`, by every change of the store that was committed before this call.

        Else an order with a token is checked against the cached store: it is stored only if the store's version is
        still the same. A refusal, and an order that its store validates, are always planned with `in_force`.
        """
        token = context.request.validated_order_token
        if token is None:
            return await self._plan_untested(context.request)
        match await self._plan_quoted(context, token, in_force=in_force):
            case RefusePlan() if not in_force:
                return await self._plan_quoted(context, token, in_force=True)
            case plan:
                return plan

    async def _plan_untested(self, request: PlaceOrderRequest) -> RefusePlan | ValidatePlan:
        """Return the plan for an order that its store hasn't validated."""
        try:
            check = await self.checker.check(request, in_force=True)
        except Problem as problem:
            return RefusePlan(problem)
        return RefusePlan(problem_of(check.errors)) if check.errors else ValidatePlan(check)

    async def _plan_quoted(
        self, context: PlacementContext, token: str, *, in_force: bool
    ) -> RefusePlan | StorePlan:
        try:
            check = await self.checker.check(context.request, in_force=in_force)
            digest = digest_of(context.caller.partner_id, check)
            claims = self.tokens.verify(token, digest=digest, now=self.clock())
        except TokenExpired as problem:
            return RefusePlan(problem, problem.token_id)
        except Problem as problem:
            return RefusePlan(problem)
        return plan_quoted(check, Quote(claims.sums, claims.estimated_ready_at), claims.token_id)


def plan_quoted(check: OrderCheck, quote: Quote, token_id: UUID | None = None) -> RefusePlan | StorePlan:
    """Return the plan for an order that its store has quoted: it must still have the same price, and no errors."""
    if check.errors:
        return RefusePlan(problem_of(check.errors), token_id)
    assert check.sums is not None, "an order without a price has errors"
    sums = replace(check.sums, extras=quote.sums.extras)
    if sums != quote.sums:
        at = None if token_id is None else "/validatedOrderToken"
        return RefusePlan(_total_different(sums, at), token_id)
    if check.total is not None and check.total != sums.total:
        return RefusePlan(_total_different(sums, "/amounts/total"), token_id)
    return StorePlan(check, quote, token_id)


def _total_different(sums: Sums, at: str | None) -> Problem:
    total = amounts.wire(sums).total
    message = (
        f"The order's total is {total} {sums.currency} now. "
        "Validate it again and show the customer the new total."
    )
    error = OrderError(code=OrderTotalDifferent.code, message=message, pointer=at)
    return OrderTotalDifferent(message, errors=[error])


def already_placed(order_id: UUID) -> OrderAlreadyPlaced:
    return OrderAlreadyPlaced(
        "An order was placed with this validatedOrderToken. Read it by its orderId.",
        extensions={"orderId": str(order_id)},
    )


def busy() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable(
        "The store changed repeatedly while the order was checked. Nothing was placed. Try again.",
        retry_after=RETRY_SECONDS,
    )


def given_up() -> OrderClosed:
    return OrderClosed("The order was cancelled before its store answered. Place it again with a new key.")


def unanswered(order_id: UUID) -> StoreUnreachable:
    return StoreUnreachable(
        "The store has not answered yet. The order is stored and resent for some minutes. Repeat the "
        "request with the same Idempotency-Key, or read the order.",
        retry_after=RETRY_SECONDS,
        extensions={"orderId": str(order_id)},
    )


def fingerprints(request: PlaceOrderRequest, secrets: Sequence[bytes]) -> list[bytes]:
    """Return the request's keyed hash under each secret. A plain hash would let a card's token be guessed."""
    text = as_json(replace(request, payment=UNSET)) + canonical(request.payment)
    return [hmac_sha256(secret, text) for secret in secrets]


def new_order(order_id: UUID, context: PlacementContext, plan: StorePlan, now: datetime) -> OrderRow:
    """Return the order of a plan, waiting for its store's answer."""
    check, sums = plan.check, plan.quote.sums
    notes = take_notes(check.cart, check.note)
    content = OrderContent(
        cart=check.cart if notes is None else with_notes(check.cart, None), amounts=amounts.wire(sums)
    )
    return OrderRow(
        id=order_id,
        partner_id=check.store.partner_id,
        storefront_id=context.caller.partner_id,
        store_id=check.store.id,
        partner_store_id=check.store.partner_store_id,
        state=OrderState.OPEN,
        status=OrderStatus.PENDING,
        answer=StoreAnswer.WAITING,
        errors=(),
        partner_order_id=None,
        estimated_ready_at=plan.quote.estimated_ready_at,
        cancel_reason=None,
        notes=notes,
        currency=sums.currency,
        total=sums.total,
        content=as_json(content),
        cart=check.cart,
        amounts=content.amounts,
        fulfillment=check.fulfillment,
        customer=context.request.customer,
        client_context=context.request.client_context,
        token_id=plan.token_id,
        sequence=0,
        entries=0,
        traceparent=context.trace,
        created_at=now,
        updated_at=now,
    )
