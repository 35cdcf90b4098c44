"""Work on a merchant's orders: updates their status through the API, step by step, until they are done."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from mercato_client.testing import acts
from mercato_client.testing.acts import Act
from mercato_client.testing.caller import Answer, Caller, ServiceError
from mercato_client.testing.merchant import MerchantDouble
from mercato_contract.orders import PICKUP_PATH, AdjustmentType, OrderState

ORDERS: Final = "/v1/commerce/orders"

STEP_SECONDS: Final = 0.12
"""How long an order stays in one status, so that progress bars show it."""

LOOK_SECONDS: Final = 0.2

PAUSE_SECONDS: Final = 2.0
"""How long to wait when the service can't be reached."""


@dataclass(slots=True)
class OrderSimulator:
    """Works on the orders that the merchant has accepted. Errors are passed to `say`."""

    merchant: MerchantDouble
    caller: Caller
    step_seconds: float = STEP_SECONDS
    say: Callable[[str], object] = lambda _words: None
    started: set[str] = field(default_factory=set)
    drawn: dict[str, Act] = field(default_factory=dict)
    """The acts of the orders that are worked on: one that is started again keeps its own."""

    async def complete(self, order_id: str) -> None:
        """Take an order from confirmed to completed, or to where the script wants it."""
        self.started.add(order_id)
        if order_id not in self.drawn:
            self.drawn[order_id] = self.merchant.behaviour.next("cook")
        await self._complete(order_id, self.drawn[order_id])
        del self.drawn[order_id]

    async def _complete(self, order_id: str, act: Act) -> None:
        if act.name == acts.LEAVE:
            return
        for status in PICKUP_PATH:
            await self.update(order_id, status=status)
            await asyncio.sleep(act.seconds or self.step_seconds)
            if act.name == acts.CANCEL or order_id in self.merchant.cancelled:
                break
        await self.end(order_id, act)

    async def end(self, order_id: str, act: Act) -> None:
        """Complete or cancel an order, unless the service has cancelled it. Refund a part if the script wants it."""
        if act.name == acts.CANCEL:
            reply = await self.update(order_id, state=OrderState.CANCELLED, cancelReason=act.argument)
            if reply.status == HTTPStatus.OK:
                self.merchant.cancelled.add(order_id)
        elif order_id not in self.merchant.cancelled:
            await self.update(order_id, state=OrderState.COMPLETED)
            if act.name == acts.REFUND:
                await self.refund(order_id, act.argument)

    async def update(self, order_id: str, **change: Any) -> Answer:
        """Update an order's status at the service and return the answer."""
        return await self.caller.post(f"{ORDERS}/{order_id}/status", change)

    async def refund(self, order_id: str, amount: str) -> Answer:
        """Refund a part of an order at the service, once however often it is called; return the answer."""
        body = {"type": AdjustmentType.REFUND, "amount": amount, "reason": "Something was missing"}
        path = f"{ORDERS}/{order_id}/adjustments"
        return await self.caller.post(path, body, Idempotency_Key=f"refund {amount} {order_id}")

    async def run(self, *, workers: int = 1) -> None:
        """Work on every accepted order, `workers` at a time, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            waiting = (order_id for order_id in self.merchant.taken if order_id not in self.started)
            order_id = next(waiting, None)
            if order_id is None:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            try:
                await self.complete(order_id)
            except ServiceError as error:
                # The order is started again: the service accepts the same status twice.
                self.started.discard(order_id)
                self.say(str(error))
                await asyncio.sleep(PAUSE_SECONDS)
