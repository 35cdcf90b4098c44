"""An AI agent's double: it orders by the tools at `/mcp`, with the names of the menu, and never reads a catalog.

It does what an assistant has to do and no more, so it can be read as an example.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from http import HTTPStatus
from itertools import count
from random import Random
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mercato_client.testing import acts, prices, shopper
from mercato_client.testing.acts import Act
from mercato_client.testing.caller import DOOR, Answer, RefusedError, ServiceError
from mercato_client.testing.merchant import DECLINED_CARD
from mercato_client.testing.storefront import (
    MAX_STORES,
    POLL,
    UNREACHABLE,
    Outcome,
    Purchase,
    StorefrontDouble,
    checked_sums,
)
from mercato_contract.orders import OrderState

REVISION: Final = "2026-07-28"
META: Final = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "sandbox-agent", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

PAGE: Final = 20
"""Stores of a page."""

MAX_LINES: Final = 2

UNDECIDED: Final = frozenset({"approval_required", "pending_approval"})
"""The statuses of an order about which a person is asked."""

Line = dict[str, Any]


# --- what is read of the tools' answers -----------------------------------------------------------


class _FoundStore(Struct, rename="camel"):
    store_id: str
    name: str
    is_open: bool
    fulfillment: list[str]


class _FoundStores(Struct, rename="camel"):
    stores: list[_FoundStore]
    next_offset: int | None


class _Named(Struct):
    name: str


class _MenuItem(_Named, rename="camel", kw_only=True):
    id: str
    sold_out: bool


class _Menu(Struct):
    store: str
    items: list[_MenuItem] | None = None
    sections: list[_Named] | None = None


class _Option(_Named, rename="camel", kw_only=True):
    id: str
    sold_out: bool = False
    groups: "list[_Group]" = []


class _Group(_Named):
    id: str
    minimum: int
    maximum: int | None
    options: list[_Option]


class _Item(_Named):
    id: str
    groups: list[_Group]


class _Total(Struct):
    total: str


class _Priced(Struct):
    amounts: _Total


class _Sums(_Total, rename="camel", kw_only=True):
    sub_total: str


class _Quote(_Total, rename="camel", kw_only=True):
    quote_id: str
    amounts: _Sums


class _Order(_Total, rename="camel", kw_only=True):
    order_id: str
    state: OrderState
    number: str | None = None


class _Placed(Struct, rename="camel"):
    status: str
    order: _Order | UnsetType = UNSET
    approval_url: str | UnsetType = UNSET


class _Current(Struct):
    order: _Order


class _Result(Struct, rename="camel"):
    structured_content: dict[str, Any]
    is_error: bool = False


class _Called(Struct):
    result: _Result


class _Refusal(Struct):
    status: int


class AgentDouble(StorefrontDouble):
    """The running agent. `shows` is called with the address of each page on which a person must approve an order."""

    title: ClassVar = "Sandbox agent"

    def __init__(self, *, shows: Callable[[str], object] = str, **options: Any) -> None:
        super().__init__(**options)
        self.shows = shows
        self._numbers = count(1)
        self._fulfillment: dict[str, list[str]] = {}

    # --- the tools; each step may be overridden ---

    async def tool(self, name: str, **arguments: Any) -> Answer:
        """Call a tool; return its result, or its refusal with the problem's status. Raises NoAnswerError."""
        params = {"name": name, "arguments": arguments, "_meta": META}
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": "tools/call", "params": params}
        headers = {"MCP-Protocol-Version": REVISION, "Mcp-Method": "tools/call", "Mcp-Name": name}
        reply = await self.ask(name, "POST", DOOR, message, **headers)
        try:
            result = msgspec.json.decode(reply.body, type=_Called).result
            content = result.structured_content
            status = msgspec.convert(content, _Refusal).status if result.is_error else HTTPStatus.OK.value
        except (ValueError, RecursionError):  # a refusal by HTTP, or no Mercato service
            return reply
        return Answer(status, reply.headers, json.dumps(content).encode())

    async def tool_with_retries(self, name: str, **arguments: Any) -> Answer:
        """Call a tool, with retries; for calls that a repeat doesn't harm. Raises NoAnswerError."""
        reply, _ = await self._repeat(lambda _: self.tool(name, **arguments), "")
        return reply

    async def discover(self, **filters: Any) -> list[Any]:
        """Return all stores that the service finds. Raises ServiceError."""
        stores: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            reply = await self.tool_with_retries("find_stores", limit=PAGE, offset=offset, **filters)
            found = reply.expect(HTTPStatus.OK, "Stores cannot be found", _FoundStores)
            stores += found["stores"]
            offset = found["nextOffset"] if found["stores"] and len(stores) < MAX_STORES else None
            self._fulfillment |= {store["storeId"]: store["fulfillment"] for store in found["stores"]}
        return stores

    async def read_menu(self, store_id: str, number: int) -> Any:
        """Return a menu in brief, of one section if it is too long for an answer. Raises ServiceError."""
        reply = await self.tool_with_retries("get_menu", storeId=store_id)
        menu = reply.expect(HTTPStatus.OK, "The menu cannot be read", _Menu)
        if not menu.get("items") and menu.get("sections"):
            section = shopper.lots(self.seed, number, "section").choice(menu["sections"])["name"]
            reply = await self.tool_with_retries("get_menu", storeId=store_id, section=section)
            menu = reply.expect(HTTPStatus.OK, "The menu cannot be read", _Menu)
        return menu

    async def read_item(self, store_id: str, item: str) -> Any:
        """Return an item with its choices. Raises ServiceError."""
        reply = await self.tool_with_retries("get_item", storeId=store_id, item=item)
        return reply.expect(HTTPStatus.OK, "The item cannot be read", _Item)

    async def wanted(self, store_id: str, number: int) -> tuple[str, list[Any]]:
        """Return the store's name, and the items that a customer wants, with their choices."""
        menu = await self.read_menu(store_id, number)
        offered = [
            item
            for item in menu.get("items") or ()
            if not item["soldOut"] and item.get("soldNow") is not False
        ]
        draw = shopper.lots(self.seed, number, "cart")
        chosen = draw.sample(offered, min(len(offered), draw.randint(1, MAX_LINES)))
        return menu["store"], [await self.read_item(store_id, item["id"]) for item in chosen]

    def lines_of(self, items: Sequence[Any], number: int, *, member: str) -> list[Line]:
        """Return the lines of items: `member` is `name`, or `id` where names aren't enough."""
        draw = shopper.lots(self.seed, number, "choices")
        return [
            {"item": item[member], "quantity": 1, "choices": _choices(item["groups"], draw, member)}
            | ({"note": "no onions"} if number % 2 == 0 else {})
            for item in items
        ]

    async def price(self, store_id: str, lines: list[Line]) -> Answer:
        """Return what the lines cost at the store's menu, or their faults."""
        return await self.tool_with_retries("price_cart", storeId=store_id, lines=lines)

    async def quote(self, store_id: str, lines: list[Line], number: int) -> Answer:
        """Return the store's quote, which is kept for a quarter of an hour, or its refusal."""
        handover = self.handover({"fulfillmentTypes": self._fulfillment.get(store_id, ["PICKUP"])}, number)
        note = self.note(number)
        return await self.tool_with_retries(
            "quote_order",
            storeId=store_id,
            lines=lines,
            fulfillment=handover,
            customer=shopper.customer(self.seed, number),
            **({} if note is None else {"note": note}),
        )

    async def place_quote(self, arguments: Mapping[str, Any]) -> tuple[Answer, int]:
        """Place a quote, with retries: the same call again. Return the answer and the number of attempts."""
        return await self._repeat(
            lambda quote_id: self.tool("place_order", **{**arguments, "quoteId": quote_id}),
            arguments["quoteId"],
        )

    async def read_order(self, order_id: str) -> Any:
        """Return the order as it is now. Raises ServiceError."""
        reply = await self.tool_with_retries("get_order", orderId=order_id)
        return reply.expect(HTTPStatus.OK, "The order cannot be read", _Current)["order"]

    async def cancel(self, order_id: str, reason: str, *, key: str) -> Answer:  # noqa: ARG002  # the arguments are the key
        """Cancel an order, with retries; return the order, or the last refusal. Raises NoAnswerError."""
        reply = await self.tool_with_retries("cancel_order", orderId=order_id, reason=reason)
        if reply.status != HTTPStatus.OK:
            return reply
        order = reply.expect(HTTPStatus.OK, "The cancellation's answer cannot be read", _Current)["order"]
        return Answer(reply.status, reply.headers, json.dumps(order).encode())

    async def decision(self, quote_id: str, *, seconds: float) -> Any:
        """Return what became of a quote once a person has decided, or as it is after that many seconds."""
        until = asyncio.get_running_loop().time() + seconds
        while True:
            reply = await self.tool_with_retries("get_order", quoteId=quote_id)
            found = reply.expect(HTTPStatus.OK, "The quote cannot be read", _Placed)
            left = until - asyncio.get_running_loop().time()
            if found["status"] not in UNDECIDED or left <= 0:
                return found
            await asyncio.sleep(min(POLL, left))

    # --- whole purchases ---

    async def _buy_at(self, store_id: str, number: int, act: Act, *, follow: float) -> Purchase:
        name, items = await self.wanted(store_id, number)
        if not items:
            raise ServiceError(f"{name} sells nothing at the moment.")
        purchase = await self._ordered(Purchase(number, name, str(act)), store_id, items, act, follow)
        if UNREACHABLE in purchase.codes:
            self.unreachable.add(store_id)
        if purchase.outcome == Outcome.PLACED and follow > 0:
            over = await self.follow(purchase.order_id, seconds=follow)
            purchase.outcome = Outcome.of(over["state"])
        self.purchases.append(purchase)
        return purchase

    async def _ordered(
        self, purchase: Purchase, store_id: str, items: list[Any], act: Act, follow: float
    ) -> Purchase:
        number = purchase.number
        lines, sub_total = self.lines_of(items, number, member="name"), None
        if act.name != acts.UNVALIDATED:
            priced = await self.price(store_id, lines)
            if priced.status != HTTPStatus.OK:
                # A name may be of several things: then it takes the ids that it has seen.
                lines = self.lines_of(items, number, member="id")
                priced = await self.price(store_id, lines)
            if priced.status != HTTPStatus.OK:
                return purchase.ended(Outcome.REFUSED, self.codes_of(priced))
            what = "The price of the cart cannot be read"
            sub_total = priced.expect(HTTPStatus.OK, what, _Priced)["amounts"]["total"]
        quoted = await self.quote(store_id, lines, number)
        if quoted.code == UNREACHABLE:
            raise RefusedError("The order cannot be quoted", quoted)
        if quoted.status != HTTPStatus.OK:
            return purchase.ended(Outcome.REFUSED, self.codes_of(quoted))
        quote = quoted.expect(HTTPStatus.OK, "The quote cannot be read", _Quote)
        with checked_sums("The quote"):
            faults = _faults(quote["amounts"], sub_total)
        if faults:
            return purchase.ended(Outcome.WRONG, faults)
        purchase.total = quote["total"]
        await asyncio.sleep(act.seconds)
        return await self._placed(purchase, quote, act, follow)

    async def _placed(self, purchase: Purchase, quote: Any, act: Act, follow: float) -> Purchase:
        arguments = {"quoteId": quote["quoteId"], "total": quote["total"]}
        if act.name == acts.WRONG:
            arguments["total"] = str(Decimal(quote["total"]) + Decimal(1))
        if act.name == acts.DECLINED:
            card = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "processorType": "sandbox"}
            arguments["payment"] = card
        if act.name == acts.DROP:
            await self.hang_up_on(self.tool("place_order", **arguments))
        reply, purchase.attempts = await self.place_quote(arguments)
        if act.name == acts.REPEAT and (await self.tool("place_order", **arguments)).body != reply.body:
            return purchase.ended(Outcome.WRONG, ["the same quote got another answer"])
        if reply.status != HTTPStatus.OK:
            outcome = Outcome.UNANSWERED if self.should_retry(reply) else Outcome.REFUSED
            return purchase.ended(outcome, self.codes_of(reply))
        answer = reply.expect(HTTPStatus.OK, "What became of the quote cannot be read", _Placed)
        if answer["status"] in UNDECIDED:
            self.shows(answer.get("approvalUrl", ""))
            answer = await self.decision(quote["quoteId"], seconds=follow)
        if answer["status"] in UNDECIDED:
            return purchase.ended(Outcome.UNDECIDED)
        if "order" not in answer:
            return purchase.ended(Outcome.REFUSED, [f"QUOTE_{answer['status']}".upper()])
        order = answer["order"]
        purchase.placed(
            {
                "orderId": order["orderId"],
                "partnerOrderId": order.get("number"),
                "amounts": {"total": order["total"]},
            }
        )
        if act.name == acts.CANCEL:
            await self._cancelled(purchase, act.argument)
        return purchase


def _choices(groups: Sequence[Any], draw: Random, member: str) -> list[Line]:
    """Return what a group requires, and now and then one option where none is required."""
    chosen: list[Line] = []
    for group in groups:
        offered = [option for option in group["options"] if not option.get("soldOut")]
        most = len(offered) if group["maximum"] is None else min(group["maximum"], len(offered))
        wanted = max(group["minimum"], draw.randint(0, 1)) if most else 0
        chosen += [
            {
                "group": group[member],
                "option": option[member],
                "choices": _choices(option.get("groups", ()), draw, member),
            }
            for option in draw.sample(offered, min(wanted, len(offered)))
        ]
    return chosen


def _faults(amounts: Mapping[str, Any], sub_total: str | None) -> list[str]:
    """Return the faults of a quote's amounts, by the price of the cart and by their own sums."""
    faults = []
    if sub_total is not None and Decimal(sub_total) != Decimal(amounts["subTotal"]):
        faults.append(f"the cart came to {sub_total}")
    total = prices.total_of(amounts)
    return faults if total == Decimal(amounts["total"]) else [*faults, f"the sum is {total}"]
