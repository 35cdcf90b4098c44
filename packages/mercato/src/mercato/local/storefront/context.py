"""What a check of a storefront works with: the results of scenarios, and signed events to its receiver."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NoReturn
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct

from mercato.features.orders.record import order_amounts, storefront_cart
from mercato.local.storefront.proxy import DROPPED, Call
from mercato.local.storefront.scenarios import ScenarioResult, ScenarioRunner
from mercato_contract import clock
from mercato_contract.carts import LineItem
from mercato_contract.certification import Exchange
from mercato_contract.events import EventType, OrderEventData
from mercato_contract.orders import (
    PICKUP_PATH,
    AdjustmentType,
    Order,
    OrderAdjustment,
    OrderState,
    OrderStatus,
)
from mercato_contract.wire import instant
from mercato_tools.certify.receiver import Change, Message, Receiver, ReceiverContext, ReceiverReply
from mercato_tools.certify.sample_store import CONTEXT, CUSTOMER, SampleStore
from mercato_tools.certify.suite import Failed, Run, Skipped

MAX_SHOWN: Final = 4
"""Requests that a check shows."""

STATUSES: Final = dict(enumerate((OrderStatus.PENDING, *PICKUP_PATH), start=1))
"""The status of an order by the sequence of its events."""

NO_RECEIVER: Final = "Give the receiver of order events with --event-url and --secret."


class Storefront(Struct, frozen=True, kw_only=True):
    """The storefront that is certified. `order_url` has `{orderId}` in it; the receiver may have no URL."""

    scenarios: ScenarioRunner
    receiver: Receiver
    sample: SampleStore
    order_url: str | None = None


class StorefrontContext(ReceiverContext):
    """What one check works with."""

    def __init__(self, storefront: Storefront) -> None:
        super().__init__(storefront.receiver)
        self.storefront = storefront

    async def result(self, scenario: str) -> ScenarioResult:
        """Return the result of a scenario. Raises Skipped when there is no storefront."""
        return await self.storefront.scenarios.result(scenario)

    def show(self, calls: Sequence[Call]) -> None:
        """Record requests of the storefront for the report."""
        redactor = self.receiver.redactor
        for call in calls[-MAX_SHOWN:]:
            sent = redactor.message(f"{call.method} {call.path}", call.headers, call.body)
            received = redactor.message(str(call.status), call.response_headers, call.response)
            ms = 0 if math.isinf(call.ended) else round((call.ended - call.began) * 1000)
            received = "(no response)" if call.status == DROPPED else received
            self.exchanges.append(Exchange(sent=sent, received=received, ms=ms))

    def fail(self, message: str, calls: Sequence[Call]) -> NoReturn:
        """Show requests and raise Failed."""
        self.show(calls)
        raise Failed(message)

    # --- events -----------------------------------------------------------------------------------

    def sample(self) -> Message:
        return self.event(clock.new_id(), 1)

    def accepted(self, reply: ReceiverReply) -> str:
        if not reply.is_success:
            raise Failed(f"It answered {reply.status}; a 2xx is expected.")
        return f"answered {reply.status}"

    def event(
        self, order_id: UUID, sequence: int, *, kind: str = "", change: Change | None = None
    ) -> Message:
        """Return an event of an order. Raises Skipped when there is no receiver."""
        if not self.receiver.url:
            raise Skipped(NO_RECEIVER)
        order = self._order(order_id, STATUSES[sequence], refunded=kind == EventType.ORDER_ADJUSTED)
        data = OrderEventData(
            order_id=order_id,
            store_id=order.store_id,
            partner_store_id=order.partner_store_id,
            sequence=sequence,
            order=order,
        )
        name = kind or (EventType.ORDER_CREATED if sequence == 1 else EventType.ORDER_UPDATED)
        return self.message("", name, data, change=change)

    def _order(self, order_id: UUID, status: OrderStatus, *, refunded: bool) -> Order:
        """Return an order; `refunded`: all that it costs."""
        store, priced = self.storefront.sample.store, self.storefront.sample.order().order
        now, total = instant(clock.now()) or "", priced.amounts.total
        refund = OrderAdjustment(
            adjustment_id=clock.new_id(),
            type=AdjustmentType.REFUND,
            amount=total,
            reason="It was cold",
            line_item_ids=(),
            created_at=now,
        )
        return Order(
            order_id=order_id,
            store_id=store.id,
            partner_store_id=store.partner_store_id,
            state=OrderState.OPEN,
            status=status,
            partner_order_id="C-1",
            estimated_ready_at=None,
            cancel_reason=None,
            cart=storefront_cart(priced.cart),
            client_context=CONTEXT,
            fulfillment=priced.fulfillment,
            amounts=order_amounts(
                priced.amounts, after_adjustments=str(Decimal(total) * 0) if refunded else UNSET
            ),
            adjustments=(refund,) if refunded else (),
            customer=CUSTOMER,
            created_at=now,
            updated_at=now,
        )


def after(scenario: str, judge: Callable[[StorefrontContext, ScenarioResult], str]) -> Run[StorefrontContext]:
    """Return a check that judges the result of a scenario."""

    async def run(context: StorefrontContext) -> str:
        return judge(context, await context.result(scenario))

    return run


# --- what was sent -----------------------------------------------------------------------------


def body(call: Call) -> dict[str, Any]:
    """Return the body of a request, an empty one if it isn't an object."""
    value = call.sent()
    return value if isinstance(value, dict) else {}


def member(value: Any, *names: str) -> Any:
    """Return a member at any depth, None where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def lines_of(document: dict[str, Any]) -> list[LineItem]:
    """Return the lines of an order or a cart change, none if they are malformed: the service says what is wrong."""
    added = [document["item"]] if "item" in document else None
    try:
        return msgspec.convert(member(document, "cart", "lineItems") or added or [], list[LineItem])
    except msgspec.ValidationError:
        return []
