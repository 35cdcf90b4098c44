"""The people of a store that isn't called: two tablets read the feed, and accept or refuse each order."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.prove.calls import Partner
from tests.prove.records import PulledOrder

EVENTS: Final = "/v1/commerce/events"
ORDERS: Final = "/v1/commerce/orders"

TABLETS: Final = 2
ACCEPTED: Final = 0.6
REFUSED: Final = 0.2
"""The shares of what each tablet decides; about the others it does nothing."""

SHORTEST: Final = 1
"""Minutes after which an order is cancelled that nobody has accepted."""

_OK: Final = 200


@dataclass(slots=True)
class Pulling:
    """Reads a merchant's feed from a cursor, once, and lets two tablets act on each new order."""

    orders: dict[str, PulledOrder]
    odd: list[str]
    cursor: str | None = None
    _ended: bool = False
    _acting: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, me: Partner) -> None:
        """Read, and wait for each next event, until all is read and `finish` was called."""
        has_more = True
        while has_more or not self._ended:
            has_more = await self._read(me, wait=1)

    def finish(self) -> None:
        """Let the reading end: nothing happens any more."""
        self._ended = True

    @property
    def acting(self) -> bool:
        """Tell whether a tablet is still at work."""
        return bool(self._acting)

    async def _read(self, me: Partner, *, wait: int) -> bool:
        after = "" if self.cursor is None else f"&after={self.cursor}"
        page = await me.get(f"{EVENTS}?wait={wait}{after}")
        self.cursor = page["nextCursor"]
        for event in page["events"]:
            if event["data"].get("orderHandling") == "manual":
                self._note(me, event)
        more: bool = page["hasMore"]
        return more

    def _note(self, me: Partner, event: Any) -> None:
        order = event["data"]["order"]
        seen = self.orders.setdefault(order["orderId"], PulledOrder())
        seen.types.append(event["type"])
        seen.newest = order["state"], order["status"]
        if event["type"] == "order.created":
            for _ in range(TABLETS):
                task = asyncio.create_task(self._act(me, order["orderId"], seen))
                self._acting.add(task)
                task.add_done_callback(self._acting.discard)

    async def _act(self, me: Partner, order_id: str, seen: PulledOrder) -> None:
        rng = random.Random(me.rng.random())  # of its own: the tablets take turns as the service answers
        await asyncio.sleep(rng.uniform(0, 1))
        draw = rng.random()
        path = f"{ORDERS}/{order_id}/status"
        if draw < ACCEPTED:
            seen.accepting = True
            answer = await me.until_final("POST", path, {"status": "confirmed", "partnerOrderId": "H-1"})
            seen.accepted |= answer.status == _OK
            for change in ({"status": "preparing"}, {"status": "ready"}, {"state": "completed"}):
                if rng.random() < 1 / 2:
                    await me.until_final("POST", path, change)
        elif draw < ACCEPTED + REFUSED:
            seen.refusing = True
            change = {"state": "cancelled", "cancelReason": "TOO_BUSY"}
            answer = await me.until_final("POST", path, change)
            seen.refused |= answer.status == _OK
        else:
            return
        if answer.status != _OK and answer.code not in {"ORDER_CLOSED", "INVALID_STATUS_TRANSITION"}:
            self.odd.append(f"act on {order_id}: {answer.status} {answer.code}")
