"""The last step: an AI agent orders by name within its limits, is refused beyond them, and asks a person."""

from typing import Any, Final

from mercato.local.demo.context import DemoContext
from mercato.local.demo.storefront import PIZZA, SIZE, TIP
from mercato_client.testing.caller import Caller
from mercato_contract.orders import OrderState

AGENTS: Final = "/v1/marketfront/agents"
DOOR: Final = "/mcp"
REVISION: Final = "2025-11-25"

NAME: Final = "Lunch assistant"
MAXIMUM: Final = "50.00"
"""What it may spend on an order: three pizzas, not four."""

APPROVED: Final = "20.00"
"""Above this a person must approve: one pizza isn't, two are."""


async def order(context: DemoContext) -> None:
    """Let an agent order one pizza, four, and two that a person approves; then cancel these."""
    agent = await _agent(context)
    taken = len(context.merchant.taken)
    quote = await _quote(context, agent, 1)
    one, again = [await _call(agent, "place_order", _whole(quote)) for _ in range(2)]
    context.say(one["sentence"])
    context.prove(
        "An agent orders by name, once",
        f"{one['total']} {one['currency']}; the same again",
        one["status"] == "placed" and again == one and len(context.merchant.taken) == taken + 1,
    )
    many = await _call(agent, "place_order", _whole(await _quote(context, agent, 4)))
    context.say(f"{many['errorCode']}: {many['detail']}")
    context.prove(
        "Beyond its limit nothing is placed",
        f"{many['errorCode']} at {many['limit']}",
        (many["errorCode"], many["limit"]) == ("SPEND_LIMIT_EXCEEDED", MAXIMUM)
        and len(context.merchant.taken) == taken + 1,
    )
    two = await _quote(context, agent, 2)
    asked = await _call(agent, "place_order", _whole(two))
    context.say(asked["sentence"])
    waiting = len(context.merchant.taken) == taken + 1
    page = asked["approvalUrl"]
    form = {"decision": "place", "total": f"{two['total']} {two['currency']}"}
    async with context.front.session.post(page, data=form, allow_redirects=False) as pressed:
        context.say(f"A person reads {page.rpartition('/')[0]}/… and presses Place order: {pressed.status}.")
    became = await _call(agent, "get_order", {"quoteId": two["quoteId"]})
    context.prove(
        "Above an amount a person decides",
        f"{asked['status']}, then {became['status']}",
        (asked["status"], became["status"]) == ("approval_required", "placed")
        and waiting
        and len(context.merchant.taken) == taken + 2,
    )
    order_id = became["order"]["orderId"]
    await _call(agent, "cancel_order", {"orderId": order_id, "reason": "CHANGED_MIND"})
    state = (await _call(agent, "get_order", {"orderId": order_id}))["order"]["state"]
    [shown] = (await context.front.get(AGENTS)).json()["agents"]
    spent = [row["amount"] for row in shown["spentToday"]]
    context.prove(
        "A cancelled order gives back its cost",
        f"{state}; {', '.join(spent)} spent today",
        (state, spent) == (OrderState.CANCELLED, [one["total"]]),
    )
    await context.order_simulator.complete(one["order"]["orderId"])


async def _agent(context: DemoContext) -> Caller:
    """Make a key for an agent, and return who calls with it."""
    limits = {"currency": "EUR", "maximumOrder": MAXIMUM, "maximumDay": "100.00"}
    reply = await context.front.post(AGENTS, {"name": NAME, "approval": f"above:{APPROVED}", **limits})
    made = context.expect(reply, 201, "A storefront makes a key for an agent")
    context.say(f"{NAME}: at most {MAXIMUM} EUR an order; above {APPROVED} a person is asked.")
    return context.front.with_key(made["key"])


async def _quote(context: DemoContext, agent: Caller, quantity: int) -> Any:
    """Return the store's quote for pizzas, which are ordered by name."""
    line = {"item": PIZZA, "quantity": quantity, "choices": [{"group": "Size", "option": SIZE}]}
    customer = {
        "email": "ada@example.com",
        "firstName": "Ada",
        "lastName": "Lovelace",
        "phone": "+33 380 555 010",
    }
    return await _call(
        agent,
        "quote_order",
        {
            "storeId": context.stores["pizzeria"],
            "lines": [line],
            "fulfillment": {"mode": "PICKUP"},
            "customer": customer,
            "tip": TIP,
        },
    )


def _whole(quote: Any) -> dict[str, str]:
    """Return the arguments that place a quote at its total."""
    return {"quoteId": quote["quoteId"], "total": quote["total"]}


async def _call(agent: Caller, tool: str, arguments: Any) -> Any:
    """Call a tool, and return its result's facts."""
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = await agent.post(DOOR, message, MCP_Protocol_Version=REVISION)
    return reply.expect(200, f"{tool} does not answer")["result"]["structuredContent"]
