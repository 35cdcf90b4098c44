"""The sandbox merchant's kitchen: moves orders on through the API, as the work on them goes on."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from mercato.sandbox.caller import Answer, Caller
from mercato.sandbox.till import Till

ORDERS: Final = "/v1/commerce/orders"

STEPS: Final = ("confirmed", "preparing", "ready")

STEP_SECONDS: Final = 0.12
"""How long a step takes: long enough to be seen on a progress bar. Real pizzas take longer."""

LOOK_SECONDS: Final = 0.2


@dataclass(slots=True)
class Kitchen:
    """Works on the orders that the till has taken."""

    till: Till
    caller: Caller
    begun: set[str] = field(default_factory=set)

    async def cook(self, order_id: str) -> None:
        """Bring an order from confirmed to completed."""
        self.begun.add(order_id)
        for status in STEPS:
            await self.move(order_id, status=status)
            await asyncio.sleep(STEP_SECONDS)
        await self.move(order_id, state="completed")

    async def move(self, order_id: str, **change: Any) -> Answer:
        """Tell the service how far an order is; return what it says to that."""
        return await self.caller.post(f"{ORDERS}/{order_id}/status", change)

    async def stay_open(self) -> None:
        """Cook every order that is taken, one after the other, until cancelled."""
        while True:
            for order_id in self.till.taken:
                if order_id not in self.begun:
                    await self.cook(order_id)
            await asyncio.sleep(LOOK_SECONDS)
