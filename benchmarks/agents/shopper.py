"""A scripted agent: it knows what its person wants and what tools answer, and nothing else."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import aiohttp

from benchmarks.agents.tasks import Task, Twist, Wish

REVISION = "2025-11-25"
CUSTOMER = {"email": "ada@example.com", "firstName": "Ada", "lastName": "Lovelace", "phone": "+15550100"}
TRIES = 6
"""How often a cart is priced again with what the faults suggest."""


@dataclass
class Usage:
    """What a task cost an agent."""

    calls: int = 0
    size: int = 0


@dataclass
class Door:
    """The tools of a service, for one key, counted."""

    session: aiohttp.ClientSession
    base: str
    key: str
    usage: Usage = field(default_factory=Usage)
    _ids: Any = field(default_factory=lambda: count(1))

    async def call(self, tool: str, **arguments: Any) -> tuple[bool, Any]:
        """Call a tool; return whether it succeeded, and its facts."""
        body = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": next(self._ids),
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments},
            }
        ).encode()
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": REVISION,
        }
        self.usage.calls += 1
        async with self.session.post(f"{self.base}/mcp", data=body, headers=headers) as answer:
            answered = await answer.read()
        self.usage.size += len(body) + len(answered)
        result = json.loads(answered)["result"]
        return not result["isError"], result.get("structuredContent") or {}


class GiveUpError(Exception):
    """The agent tells its person that it can't be done, and why."""


@dataclass
class Shopper:
    """Does one task. `meanwhile` lets happen what the task's twist is, between the quote and the order."""

    door: Door
    task: Task
    meanwhile: Callable[[], Awaitable[None]]
    approve: Callable[[str, bool], Awaitable[None]]
    other: Door | None = None

    async def shop(self) -> None:
        """Carry out the task. Raises GiveUpError."""
        store_id = await self._find_store()
        wishes = list(self.task.wishes)
        # It looks at the menu first, as agents do, though names would do.
        await self.door.call("get_menu", storeId=store_id, query=wishes[0].item)
        lines = [await self._line(store_id, wish) for wish in wishes]
        lines = await self._priced(store_id, lines, wishes)
        quote = await self._quoted(store_id, lines)
        warned = {warning["code"] for warning in quote["warnings"]}
        if self.task.twist is Twist.CLOSES and "CLOSES_SOON" not in warned:
            raise GiveUpError("nobody said that the store closes")
        await self.meanwhile()
        await self._place(store_id, lines, wishes, quote)

    async def _find_store(self) -> str:
        ok, found = await self.door.call("find_stores", query=self.task.store)
        for store in found.get("stores", ()) if ok else ():
            if store["name"] == self.task.store:
                store_id: str = store["storeId"] if "storeId" in store else store["id"]
                return store_id
        raise GiveUpError(f"no store {self.task.store}")

    async def _line(self, store_id: str, wish: Wish) -> dict[str, Any]:
        """Return the line of a wish; look the item up if it has choices or if its name isn't enough."""
        line: dict[str, Any] = {"item": wish.item, "quantity": wish.quantity}
        if wish.note is not None:
            line["note"] = wish.note
        if wish.choices:
            await self.door.call("get_item", storeId=store_id, item=wish.item)
            line["choices"] = [
                {"group": group, "option": option}
                for group, options in wish.choices.items()
                for option in options
            ]
        return line

    async def _priced(
        self, store_id: str, lines: Sequence[dict[str, Any]], wishes: list[Wish]
    ) -> list[dict[str, Any]]:
        """Return lines without faults: each fault is answered with what it suggests."""
        current = [dict(line) for line in lines]
        for _ in range(TRIES):
            ok, answered = await self.door.call("price_cart", storeId=store_id, lines=current)
            if ok:
                if len(answered["lines"]) != len(current):
                    raise GiveUpError("a line was lost")
                return current
            for number, entry in enumerate(answered.get("lines", ())):
                for fault in entry["faults"][:1]:
                    self._answer_fault(current, wishes, number, fault)
        raise GiveUpError(f"not priced: {answered.get('detail')}")

    def _answer_fault(
        self, lines: list[dict[str, Any]], wishes: list[Wish], number: int, fault: Mapping[str, Any]
    ) -> None:
        line, wish = lines[number], wishes[number]
        if fault["code"] == "ITEM_UNAVAILABLE" and wish.instead is not None:
            wishes[number] = wish.instead
            lines[number] = line | {"item": wish.instead.item}
        elif fault.get("options"):
            option = fault["options"][0]
            group = fault["modifierGroupId"]
            line.setdefault("choices", []).append({"group": group, "option": option["id"]})
        elif fault.get("candidates"):
            line["item"] = self._chosen(fault["candidates"], wish)
        else:
            raise GiveUpError(fault["message"])

    @staticmethod
    def _chosen(candidates: Sequence[Mapping[str, Any]], wish: Wish) -> str:
        for candidate in candidates:
            if wish.price is not None and _same(candidate.get("price"), wish.price):
                chosen: str = candidate["id"]
                return chosen
        first: str = candidates[0]["id"]
        return first

    async def _quoted(self, store_id: str, lines: list[dict[str, Any]]) -> Any:
        at = datetime.now(UTC) + timedelta(days=1)
        asked = {
            "storeId": store_id,
            "lines": lines,
            "fulfillment": {"mode": "PICKUP"},
            "customer": CUSTOMER,
        }
        if self.task.twist is Twist.SCHEDULED:
            asked["scheduledTime"] = at.isoformat()
        ok, quote = await self.door.call("quote_order", **asked)
        if not ok:
            raise GiveUpError(quote.get("detail") or str(quote))
        return quote

    async def _place(
        self, store_id: str, lines: list[dict[str, Any]], wishes: list[Wish], quote: Any
    ) -> None:
        twist = self.task.twist
        if twist is Twist.LOST_ANSWER:
            await self._place_quote(quote)  # whose answer it never sees
        times = 2 if twist is Twist.TWICE else 1
        (ok, answered), *_ = await asyncio.gather(*(self._place_quote(quote) for _ in range(times)))
        if not ok and answered.get("errorCode") in {
            "ITEM_UNAVAILABLE",
            "ORDER_TOTAL_DIFFERENT",
            "ITEM_PRICE_CHANGED",
        }:
            # The person is shown what changed, and agrees.
            lines = await self._priced(store_id, lines, wishes)
            quote = await self._quoted(store_id, lines)
            ok, answered = await self._place_quote(quote)
        if not ok:
            raise GiveUpError(answered.get("detail") or str(answered))
        if answered["status"] == "approval_required":
            await self.approve(answered["approvalUrl"], twist is Twist.APPROVED)
            _, answered = await self.door.call("get_order", quoteId=quote["quoteId"])
        if twist is Twist.CANCELLED:
            order_id = answered["order"]["orderId"]
            ok, answered = await self.door.call("cancel_order", orderId=order_id, reason="CHANGED_MIND")
            if not ok:
                raise GiveUpError(answered.get("detail") or "not cancelled")

    async def _place_quote(self, quote: Any) -> tuple[bool, Any]:
        return await self.door.call("place_order", quoteId=quote["quoteId"], total=quote["total"])


def _same(price: str | None, wanted: str) -> bool:
    return price is not None and float(price) == float(wanted)
