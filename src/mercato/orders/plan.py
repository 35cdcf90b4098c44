"""What a request to place an order comes to, before anything of it has happened."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.errors import Problem
from mercato.orders import amounts
from mercato.orders.keys import Claim, Reply
from mercato.orders.model import Order, OrderState, OrderStatus
from mercato.orders.partner_ids import with_partner_ids
from mercato.orders.reasons import refusal
from mercato.orders.record import OrderRow, StoreAnswer
from mercato.orders.replies import Agreed
from mercato.orders.request import PlaceOrderRequest
from mercato.orders.results import claimed_total, total_different
from mercato.orders.submission import Submission
from mercato.orders.tokens import Validated
from mercato.orders.validation import Checked
from mercato.partners.model import Caller

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


class Told(Struct, frozen=True):
    """An order that is stored, and what its store must be told."""

    claim: Claim
    submission: Submission
    stored: OrderRow | None = None
    """The order, if this request has stored it."""


def held_to(checked: Checked, terms: Validated) -> Plan:
    """Return what to do with an order of the token's: its price must still be the one that was agreed on."""
    found, token_id = checked.review, terms.token_id
    if found.reasons:
        return Refusing(refusal(found.reasons), token_id)
    assert found.sums is not None, "an order without a price has reasons against it"
    sums = replace(found.sums, extras=terms.sums.extras)
    if sums != terms.sums:
        return Refusing(total_different(sums), token_id)
    agreed = Agreed(sums, terms.estimated_ready_at)
    different = claimed_total(found, agreed)
    return Ready(checked, agreed, token_id) if different is None else Refusing(different, token_id)


def new_order(order_id: UUID, asked: Asked, plan: Ready, now: datetime) -> OrderRow:
    """Return the order of a plan that can be carried out, before its store has heard of it."""
    store, found, sums = plan.checked.store, plan.checked.review, plan.agreed.sums
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
        cart=with_partner_ids(found.cart, plan.checked.catalog),
        amounts=amounts.wire(sums),
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
