"""What a request to place an order comes to, before anything of it has happened."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.clock import Clock
from mercato.errors import Problem
from mercato.orders import amounts
from mercato.orders.keys import Claim, Reply
from mercato.orders.model import Order, OrderState, OrderStatus
from mercato.orders.partner_ids import with_partner_ids
from mercato.orders.reasons import refusal
from mercato.orders.record import OrderContent, OrderRow, StoreAnswer
from mercato.orders.replies import Agreed
from mercato.orders.request import PlaceOrderRequest
from mercato.orders.results import claimed_total, total_different
from mercato.orders.submission import Submission
from mercato.orders.tokens import Seal, TokenExpired, digest_of
from mercato.orders.validation import Checked, Validations
from mercato.partners.model import Caller
from mercato.wire import as_json

Present = Callable[[Order | Problem], Reply]
"""Makes the reply that goes out, and is pinned, of an order or a refusal."""


class Asked(Struct, frozen=True, kw_only=True):
    """One request to place an order."""

    caller: Caller
    request: PlaceOrderRequest
    trace: str
    present: Present
    until: float
    """When its calls must be over, on the event loop's clock."""


class Refusing(Struct, frozen=True):
    """A request that is refused, unless an order has been placed with its token, which comes first."""

    problem: Problem
    token_id: UUID | None = None


class Ready(Struct, frozen=True):
    """An order that can be stored: checked, priced, and agreed with its store if that was asked."""

    checked: Checked
    agreed: Agreed
    token_id: UUID | None


Plan = Refusing | Ready | Checked
"""What to do once the key is claimed: refuse, store, or ask the store first."""


Check = Callable[[PlaceOrderRequest], Awaitable[Checked]]


class Unasked(Struct, frozen=True):
    """An order without a token whose key is claimed: its store is to be asked before it is stored."""

    claim: Claim
    checked: Checked


class Told(Struct, frozen=True):
    """An order that is stored, and what its store must be told."""

    claim: Claim
    submission: Submission
    stored: OrderRow | None = None
    """The order, if this request has stored it."""


class Planner(Struct, frozen=True):
    """Plans placements: nothing has happened yet, for the key may have its reply already."""

    clock: Clock
    validations: Validations
    seal: Seal

    async def plan(self, asked: Asked) -> Plan:
        """Return what to do, should the key be free.

        A token's order is checked against the store as this process knows it: it is stored only if the store has not
        changed. A refusal, and what the store is asked, are of the store as it is in force.
        """
        if asked.request.validated_order_token is not None:
            plan = await self._plan(asked, self.validations.check)
            if not isinstance(plan, Refusing):
                return plan
        return await self.plan_in_force(asked)

    async def plan_in_force(self, asked: Asked) -> Plan:
        """Return what to do with every change of the store that was committed before this call."""
        return await self._plan(asked, self.validations.check_in_force)

    async def _plan(self, asked: Asked, check: Check) -> Plan:
        token = asked.request.validated_order_token
        try:
            checked = await check(asked.request)
            if token is None:
                reasons = checked.review.reasons
                return Refusing(refusal(reasons)) if reasons else checked
            digest = digest_of(asked.caller.partner_id, checked.store.id, checked.review)
            terms = self.seal.read(token, digest=digest, now=self.clock())
        except TokenExpired as problem:
            return Refusing(problem, problem.token_id)
        except Problem as problem:
            return Refusing(problem)
        return held_to(checked, Agreed(terms.sums, terms.estimated_ready_at), terms.token_id)


def held_to(checked: Checked, agreed: Agreed, token_id: UUID | None) -> Refusing | Ready:
    """Return what to do with an order that was agreed on: its price must still be the same.

    It was agreed on when its token was made, or without one a moment ago, when its store was asked.
    """
    found = checked.review
    if found.reasons:
        return Refusing(refusal(found.reasons), token_id)
    assert found.sums is not None, "an order without a price has reasons against it"
    sums = replace(found.sums, extras=agreed.sums.extras)
    if sums != agreed.sums:
        at = None if token_id is None else "/validatedOrderToken"
        return Refusing(total_different(sums, at), token_id)
    different = claimed_total(found, agreed)
    return Ready(checked, agreed, token_id) if different is None else Refusing(different, token_id)


def new_order(order_id: UUID, asked: Asked, plan: Ready, now: datetime) -> OrderRow:
    """Return the order of a plan that can be carried out, before its store has heard of it."""
    store, found, sums = plan.checked.store, plan.checked.review, plan.agreed.sums
    content = OrderContent(
        cart=with_partner_ids(found.cart, plan.checked.catalog), amounts=amounts.wire(sums)
    )
    return OrderRow(
        id=order_id,
        partner_id=store.partner_id,
        storefront_id=asked.caller.partner_id,
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
        customer=asked.request.customer,
        client_context=asked.request.client_context,
        token_id=plan.token_id,
        sequence=0,
        entries=0,
        traceparent=asked.trace,
        created_at=now,
        updated_at=now,
    )
