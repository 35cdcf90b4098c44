"""What a request to place an order leads to, before anything of it has happened."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.domain.orders import amounts
from mercato.domain.orders.amounts import Sums
from mercato.domain.orders.idempotency import KeyedRequest
from mercato.domain.orders.model import OrderState, OrderStatus
from mercato.domain.orders.payment import canonical
from mercato.domain.orders.reasons import refusal
from mercato.domain.orders.record import OrderContent, OrderRow, StoreAnswer
from mercato.domain.orders.replies import Agreed
from mercato.domain.orders.request import OrderCore, PlaceOrderRequest
from mercato.domain.orders.review import Review, review
from mercato.domain.orders.tokens import Seal, TokenExpired, digest_of
from mercato.domain.partners.model import Caller
from mercato.domain.stores.cache import Menus
from mercato.domain.stores.model import StoreRow
from mercato.kernel import errors, mac
from mercato.kernel.clock import Clock, MakeId
from mercato.kernel.errors import OrderError, Problem
from mercato.kernel.wire import as_json
from mercato.kernel.wire.problem import Context

PURPOSE: Final = "mercato idempotency"
"""What the key is derived for under which requests are remembered: a hash that anybody can make would give
away a card's token to whoever can guess it."""


class Checked(Struct, frozen=True):
    """An order as our own rules found it."""

    store: StoreRow
    review: Review


class OrderChecker(Struct, frozen=True):
    """Checks orders by our own rules."""

    clock: Clock
    new_id: MakeId
    menus: Menus

    async def check(self, order: OrderCore | PlaceOrderRequest, *, in_force: bool) -> Checked:
        """Return the order, priced and checked against the store's current set.

        `in_force`: with every change of the store that was committed before this call. Else the store may have
        changed in another process, and what follows from this is to be held against its version.
        Raises StoreNotFound, CatalogSetNotFound, and ValidationFailed for what is wrong with the request itself.
        """
        cart = order.cart
        store, catalog = await self.menus.get(cart.store_id, cart.catalog_set_id, in_force=in_force)
        found = review(order, store=store, catalog=catalog, now=self.clock(), new_id=self.new_id)
        return Checked(store, found)


class PlacementContext(Struct, frozen=True, kw_only=True):
    """One request to place an order. `until`: when its calls must be over, on the event loop's clock."""

    caller: Caller
    request: PlaceOrderRequest
    keyed: KeyedRequest
    trace: str
    problem_context: Context
    until: float


class RefusePlan(Struct, frozen=True):
    """The request is refused, unless an order has been placed with its token, which comes first."""

    problem: Problem
    token_id: UUID | None = None


class StorePlan(Struct, frozen=True):
    """The order can be stored: it is checked, priced, and agreed with its store."""

    checked: Checked
    agreed: Agreed
    token_id: UUID | None = None


class AskPlan(Struct, frozen=True):
    """The order has no token: its store is asked before it is stored."""

    checked: Checked
    token_id: None = None


Plan = RefusePlan | StorePlan | AskPlan


class Planner(Struct, frozen=True):
    """Plans placements: nothing has happened yet, for the key may have its reply already."""

    clock: Clock
    checker: OrderChecker
    seal: Seal

    async def plan(self, context: PlacementContext) -> Plan:
        """Return what to do, should the key be free.

        A token's order is checked against the store as this process knows it: it is stored only if the store has not
        changed. A refusal, and what the store is asked, are of the store as it is in force.
        """
        if context.request.validated_order_token is not None:
            plan = await self.plan_as(context, in_force=False)
            if not isinstance(plan, RefusePlan):
                return plan
        return await self.plan_as(context, in_force=True)

    async def plan_as(self, context: PlacementContext, *, in_force: bool) -> Plan:
        """Return what to do; `in_force`: with every change of the store that was committed before this call."""
        request, token = context.request, context.request.validated_order_token
        try:
            checked = await self.checker.check(request, in_force=in_force)
            if token is None:
                reasons = checked.review.reasons
                return RefusePlan(refusal(reasons)) if reasons else AskPlan(checked)
            digest = digest_of(context.caller.partner_id, checked.store.id, checked.review)
            claims = self.seal.read(token, digest=digest, now=self.clock())
        except TokenExpired as problem:
            return RefusePlan(problem, problem.token_id)
        except Problem as problem:
            return RefusePlan(problem)
        return plan_from_agreement(checked, Agreed(claims.sums, claims.estimated_ready_at), claims.token_id)


def plan_from_agreement(
    checked: Checked, agreed: Agreed, token_id: UUID | None = None
) -> RefusePlan | StorePlan:
    """Return what to do with an order whose price was agreed on: it must still cost the same.

    It was agreed on when its token was made, or without one a moment ago, when its store was asked.
    """
    found = checked.review
    if found.reasons:
        return RefusePlan(refusal(found.reasons), token_id)
    assert found.sums is not None, "an order without a price has reasons against it"
    sums = replace(found.sums, extras=agreed.sums.extras)
    if sums != agreed.sums:
        at = None if token_id is None else "/validatedOrderToken"
        return RefusePlan(_total_different(sums, at), token_id)
    if found.total is not None and found.total != sums.total:
        return RefusePlan(_total_different(sums, "/amounts/total"), token_id)
    return StorePlan(checked, agreed, token_id)


def _total_different(sums: Sums, at: str | None) -> Problem:
    """Return the refusal that says what the order costs now, and which member says otherwise."""
    total = amounts.wire(sums).total
    words = f"The order's total is {total} {sums.currency} now. Validate it again and show the customer the new total."
    reason = OrderError(code=errors.OrderTotalDifferent.code, message=words, pointer=at)
    return errors.OrderTotalDifferent(words, errors=[reason])


def fingerprints(request: PlaceOrderRequest, secrets: Sequence[bytes]) -> list[bytes]:
    """Return what tells one parsed request from another, and tells nobody what was in it, by each of our keys."""
    text = msgspec.json.encode(replace(request, payment=UNSET)) + canonical(request.payment)
    return [mac.sign(secret, text) for secret in secrets]


def new_order(order_id: UUID, context: PlacementContext, plan: StorePlan, now: datetime) -> OrderRow:
    """Return the order of a plan that can be carried out, before its store has heard of it."""
    store, found, sums = plan.checked.store, plan.checked.review, plan.agreed.sums
    content = OrderContent(cart=found.cart, amounts=amounts.wire(sums))
    return OrderRow(
        id=order_id,
        partner_id=store.partner_id,
        storefront_id=context.caller.partner_id,
        store_id=store.id,
        partner_store_id=store.partner_store_id,
        state=OrderState.OPEN,
        status=OrderStatus.PENDING,
        answer=StoreAnswer.WAITING,
        errors=(),
        partner_order_id=None,
        estimated_ready_at=plan.agreed.estimated_ready_at,
        cancel_reason=None,
        currency=sums.currency,
        total=sums.total,
        content=as_json(content),
        cart=content.cart,
        amounts=content.amounts,
        fulfillment=found.fulfillment,
        customer=context.request.customer,
        client_context=context.request.client_context,
        token_id=plan.token_id,
        sequence=0,
        entries=0,
        traceparent=context.trace,
        created_at=now,
        updated_at=now,
    )
