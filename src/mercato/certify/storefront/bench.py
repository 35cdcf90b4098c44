"""What a check of a storefront works with: purchases that were staged, and signed events to its receiver."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import aiohttp

from mercato import clock
from mercato.certify.model import Exchange, Failed, Skipped
from mercato.certify.sending import Message, Receiver, Reply, Sender
from mercato.certify.shop import CONTEXT, CUSTOMER, Shop
from mercato.certify.shown import Shower
from mercato.certify.storefront.network import DROPPED, Call
from mercato.certify.storefront.plays import Played
from mercato.certify.storefront.stage import Stage
from mercato.orders.model import Order, OrderState, OrderStatus
from mercato.orders.record import storefront_cart
from mercato.orders.request import PickupFulfillment, ScheduleType
from mercato.orders.wire import OrderEventData
from mercato.webhooks.event_types import EventType
from mercato.webhooks.model import envelope
from mercato.wire import instant

MOST_SHOWN: Final = 4
"""Calls that a check shows."""

NOBODYS: Final = "whsec_AAAA"
NO_RECEIVER: Final = "Give the receiver of order events with --event-url and --secret."


@dataclass(frozen=True, slots=True, kw_only=True)
class Storefront:
    """Who is certified, and what is known of it. `order_url` has `{orderId}` in it."""

    stage: Stage
    receiver: Receiver | None
    shower: Shower
    session: aiohttp.ClientSession
    shop: Shop
    order_url: str | None = field(default=None)


class Bench(Sender):
    """Looks for one check of a storefront."""

    def __init__(self, storefront: Storefront) -> None:
        nowhere = Receiver(
            url="http://127.0.0.1", secret=NOBODYS, session=storefront.session, shower=storefront.shower
        )
        super().__init__(storefront.receiver or nowhere)
        self.of = storefront

    async def played(self, name: str) -> Played:
        """Return what came of a staged purchase. Raises Skipped when there is nobody to buy."""
        return await self.of.stage.played(name)

    def show(self, calls: Sequence[Call]) -> None:
        """Keep calls of the storefront, for the report."""
        shower = self.of.shower
        for call in calls[-MOST_SHOWN:]:
            sent = shower.request(f"{call.method} {call.path}", call.headers, call.body)
            dropped = call.status == DROPPED
            said = "(no answer)" if dropped else shower.reply(call.status, call.answer_headers, call.answer)
            ms = 0 if math.isinf(call.ended) else round((call.ended - call.began) * 1000)
            self.exchanges.append(Exchange(sent=sent, received=said, ms=ms))

    # --- events -----------------------------------------------------------------------------------

    def sample(self) -> Message:
        """Return the first event of a new order. Raises Skipped when there is no receiver."""
        return self.event(clock.new_id(), 1)

    def believed(self, reply: Reply) -> str:
        """Return the 2xx of an event that was believed. Raises Failed for any other status."""
        if not reply.is_good:
            raise Failed(f"It answered {reply.status}, where a 2xx is expected.")
        return f"answered with {reply.status}"

    def event(
        self, order_id: UUID, sequence: int, *, status: OrderStatus = OrderStatus.PENDING, kind: str = ""
    ) -> Message:
        """Return an event of an order. Raises Skipped when there is no receiver."""
        if self.of.receiver is None:
            raise Skipped(NO_RECEIVER)
        order = self.order(order_id, status)
        data = OrderEventData(
            order_id=order_id,
            store_id=order.store_id,
            partner_store_id=order.partner_store_id,
            sequence=sequence,
            order=order,
        )
        name = kind or (EventType.ORDER_CREATED if sequence == 1 else EventType.ORDER_UPDATED)
        body = envelope(name, occurred_at=clock.now(), data=data)
        return Message(suffix="", body=body, webhook_id=str(clock.new_id()))

    def order(self, order_id: UUID, status: OrderStatus) -> Order:
        """Return an order of the plainest kind."""
        shop = self.of.shop
        pickup = PickupFulfillment(schedule_type=ScheduleType.ASAP)
        draft = shop.order([shop.plain], pickup)
        now = instant(clock.now()) or ""
        return Order(
            order_id=order_id,
            store_id=shop.store.id,
            partner_store_id=shop.store.partner_store_id,
            state=OrderState.OPEN,
            status=status,
            partner_order_id="C-1",
            estimated_ready_at=None,
            cancel_reason=None,
            cart=storefront_cart(draft.order.cart),
            client_context=CONTEXT,
            fulfillment=draft.order.fulfillment,
            amounts=draft.order.amounts,
            customer=CUSTOMER,
            created_at=now,
            updated_at=now,
        )
