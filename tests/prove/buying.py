"""The storefront's customers: validate, place under a key until there is an answer, repeat requests, misuse keys."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from tests.prove.calls import Partner
from tests.prove.documents import DISHES, EXTRA, item_id, name_of
from tests.prove.doubles import FAILS_ONCE
from tests.prove.records import CancelHistory, KeyHistory, Shop, StorefrontRecords
from tests.prove.selling import redeliver

from mercato_client.testing import DECLINED_CARD
from mercato_client.testing.caller import Answer

ORDERS: Final = "/v1/marketfront/orders"
STORES: Final = "/v1/marketfront/stores"
DELIVERIES: Final = "/v1/marketfront/webhook-deliveries"

_WITH_TOKEN: Final = 0.6
_QUOTED: Final = 0.6
"""Of those without a token, how many an agent orders by a quote."""
_BY_NAME: Final = 0.5
"""Of those, how many with the names of the menu in place of ids."""
_TWICE_AT_ONCE: Final = 0.15
_LEFT_ALONE: Final = 0.12
_ASKED_AGAIN: Final = 0.2
_TOKEN_AGAIN: Final = 0.25
_REDELIVERED: Final = 0.08
_CANCELLED: Final = 0.6
_CANCELLED_AGAIN: Final = 0.3


@dataclass(slots=True)
class Buying:
    """The storefront's side of the workload, until `closing` is set."""

    records: StorefrontRecords
    shops: Sequence[Shop]
    closing: asyncio.Event
    agent_key: str = ""
    """With which some customers order: their orders are an agent's, and must fit its limits."""

    async def run(self, me: Partner) -> None:
        """Act as a customer, one order after the other."""
        while not self.closing.is_set():
            live = [shop for shop in self.shops if shop.store_id is not None]
            if live:
                await self._buy(me, me.rng.choice(live))
            await asyncio.sleep(me.rng.uniform(0, 0.25))

    async def _buy(self, me: Partner, shop: Shop) -> None:
        store = await me.get(f"{STORES}/{shop.store_id}")
        key = _uuid(me)
        order = _order(me, shop, store, key)
        token = await self._validated(me, order) if me.rng.random() < _WITH_TOKEN else None
        if token is not None:
            order["validatedOrderToken"] = token
        quote = await self._quoted(me, shop, order) if token is None and me.rng.random() < _QUOTED else None
        by_agent = me.key == self.agent_key
        self.records.keys[key] = KeyHistory(order, token, by_agent=by_agent, quote=quote)
        if me.rng.random() < _LEFT_ALONE:
            # The customer closes the page, or cancels at once; the order's outcome is read at the end of the round.
            await self.ask_once(me, key)
            await self._cancel(me, key)
            return
        await self.settle(me, key)
        await asyncio.sleep(me.rng.uniform(0, 0.5))
        await self._cancel(me, key)
        if me.rng.random() < _ASKED_AGAIN:
            await self.ask_once(me, key)
        if token is not None and me.rng.random() < _TOKEN_AGAIN:
            other = _uuid(me)
            customer = order["customer"] | {"partnerUserId": other}
            by_agent = me.key == self.agent_key
            self.records.keys[other] = KeyHistory(order | {"customer": customer}, token, by_agent=by_agent)
            await self.settle(me, other)
        if me.rng.random() < _REDELIVERED and me.key != self.agent_key:
            await redeliver(me, DELIVERIES)

    async def _cancel(self, me: Partner, key: str) -> None:
        """Cancel some of the orders, sometimes under two keys at once; some customers don't wait for the answer."""
        for order_id in self.records.keys[key].order_ids:
            if me.rng.random() >= _CANCELLED:
                continue
            keys = [_uuid(me)] + ([_uuid(me)] if me.rng.random() < _CANCELLED_AGAIN else [])
            for new in keys:
                self.records.cancellations[new] = CancelHistory(order_id, f"R-{new[:8]}")
            waits = me.rng.random() >= _LEFT_ALONE
            await asyncio.gather(
                *((self.settle_cancel if waits else self.cancel_once)(me, new) for new in keys)
            )

    async def settle_cancel(self, me: Partner, key: str) -> None:
        """Repeat a cancellation until its answer is final."""
        while (answer := await self.cancel_once(me, key)) is None or answer.is_retryable:
            await me.pause(answer)

    async def cancel_once(self, me: Partner, key: str) -> Answer | None:
        """Send a cancellation with a key, and record a final answer."""
        history = self.records.cancellations[key]
        path = f"{ORDERS}/{history.order_id}/cancel"
        answer = await me.once("POST", path, {"reason": history.reason}, Idempotency_Key=key)
        if answer is not None and not answer.is_retryable:
            history.finals.append((answer.status, answer.body))
        return answer

    async def settle(self, me: Partner, key: str) -> None:
        """Repeat a request with a key until the answer is final."""
        while True:
            times = 2 if me.rng.random() < _TWICE_AT_ONCE else 1
            answers = await asyncio.gather(*(self.ask_once(me, key) for _ in range(times)))
            # A refusal leaves the key free: a request beside it may have made an order, or still make one.
            open_ones = [answer for answer in answers if answer is None or answer.is_retryable]
            if not open_ones:
                return
            await me.pause(open_ones[0])

    async def ask_once(self, me: Partner, key: str) -> Answer | None:
        """Send a request with a key, and record the answer."""
        history = self.records.keys[key]
        if history.by_agent:
            me = replace(me, key=self.agent_key)
        if history.quote is None:
            answer = await me.once("POST", f"{ORDERS}/place", history.body, Idempotency_Key=key)
        else:
            answer = await self._call(me, "place_order", history.quote)
        if answer is None:
            return None
        told = answer.json().get("orderId")
        if told is not None and answer.code != "ORDER_ALREADY_PLACED":
            history.order_ids.add(told)
        if not answer.is_retryable:
            history.finals.append((answer.status, answer.body))
        return answer

    async def _validated(self, me: Partner, order: Any) -> str | None:
        """Return the token of a valid order; None for an invalid one, or after a few tries."""
        for _ in range(4):
            answer = await me.once("POST", f"{ORDERS}/validate", order)
            if answer is not None and answer.status == HTTPStatus.OK:
                said = answer.json()
                return said["validatedOrderToken"] if said["isValid"] else None
            await me.pause(answer)
        return None

    async def _quoted(self, me: Partner, shop: Shop, order: Any) -> dict[str, Any] | None:
        """Return the arguments that place an order that an agent has quoted; None if it can't be quoted.

        An agent that gets no answer quotes again: that places nothing.
        """
        by_name = me.rng.random() < _BY_NAME
        arguments = {
            "storeId": order["cart"]["storeId"],
            "lines": [_sent(line, shop, by_name=by_name) for line in order["cart"]["lineItems"]],
            "fulfillment": {"mode": "PICKUP"},
            "customer": order["customer"],
        }
        for _ in range(4):
            answer = await self._call(me, "quote_order", arguments)
            if answer is not None and answer.status < HTTPStatus.BAD_REQUEST:
                quote = answer.json()
                card = {"payment": order["payment"]} if "payment" in order else {}
                return {"quoteId": quote["quoteId"], "total": quote["total"]} | card
            if answer is not None and not answer.is_retryable:
                return None
            await me.pause(answer)
        return None

    @staticmethod
    async def _call(me: Partner, tool: str, arguments: dict[str, Any]) -> Answer | None:
        """Call a tool; return what it answers as the API would: 201 with the orderId, or a problem."""
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        answer = await me.once("POST", "/mcp", message, MCP_Protocol_Version="2025-11-25")
        if answer is None or answer.status != HTTPStatus.OK:
            return answer
        result = answer.json()["result"]
        said = result["structuredContent"]
        status = said["status"] if result["isError"] else HTTPStatus.CREATED
        order_id = {"orderId": said["order"]["orderId"]} if "order" in said else {}
        return replace(answer, status=status, body=json.dumps(said | order_id, sort_keys=True).encode())


def _sent(line: Any, shop: Shop, *, by_name: bool) -> dict[str, Any]:
    """Return a line of a cart as agents send it: by ids, or by the names on the menu."""

    def said(id_: str) -> str:
        return name_of(shop.name, id_) if by_name else id_

    choices = [
        {
            "group": said(group["modifierGroupId"]),
            "option": said(chosen["itemId"]),
            "quantity": chosen["quantity"],
        }
        for group in line["modifierGroups"]
        for chosen in group["lineItems"]
    ]
    return {"item": said(line["itemId"]), "quantity": line["quantity"], "choices": choices}


def _order(me: Partner, shop: Shop, store: Any, key: str) -> dict[str, Any]:
    lines = [_line(me, shop, name) for name in me.rng.sample(DISHES, me.rng.randint(1, 3))]
    order: dict[str, Any] = {
        "cart": {"storeId": shop.store_id, "catalogSetId": store["catalogSetId"], "lineItems": lines},
        "clientContext": {"ip": "203.0.113.7", "userAgent": "prove/1"},
        "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
        "customer": {
            "email": "ada@example.com",
            "firstName": "Ada",
            "lastName": "L",
            "phone": "+15550100",
            # So that every record of an order identifies its request.
            "partnerUserId": key,
        },
    }
    draw = me.rng.random()
    if draw < 1 / 2:
        card = DECLINED_CARD if draw < 0.03 else FAILS_ONCE if draw < 0.06 else f"tok_{key}"  # shares
        order["payment"] = {"type": "cardOnFile", "cardToken": card, "processorType": "prove"}
    return order


def _line(me: Partner, shop: Shop, name: str) -> dict[str, Any]:
    groups = []
    if name in DISHES[:2] and me.rng.random() < 1 / 2:
        egg = {"itemId": item_id(shop.name, EXTRA), "quantity": 1, "modifierGroups": []}
        groups.append({"modifierGroupId": item_id(shop.name, "group"), "lineItems": [egg]})
    return {"itemId": item_id(shop.name, name), "quantity": me.rng.randint(1, 3), "modifierGroups": groups}


def _uuid(me: Partner) -> str:
    return str(UUID(int=me.rng.getrandbits(128), version=4))
