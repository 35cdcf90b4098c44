"""The official client of the Model Context Protocol for Python, in both eras."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agents.agent import Agent
from tests.agents.test_menus import PIZZA, item_id
from tests.api.trade import CUSTOMER, trade
from tests.databases import only_sqlite
from tests.service import Client, MerchantServer, Service

pytestmark = [
    only_sqlite,
    pytest.mark.skipif("MERCATO_TEST_AGENTS" not in os.environ, reason="run by make test-agents"),
]


@asynccontextmanager
async def connected(agent: Agent, mode: str) -> AsyncIterator[Any]:
    """Yield a client that has the agent's key. `mode` is `auto`, which discovers the era, or `legacy`."""
    mcp = pytest.importorskip("mcp.client")
    transports = pytest.importorskip("mcp.client.streamable_http")
    http = pytest.importorskip("httpx2")
    headers = {"Authorization": f"Bearer {agent.client.key}"}
    async with http.AsyncClient(headers=headers) as session:
        transport = transports.streamable_http_client(agent.client.base + "/mcp", http_client=session)
        async with mcp.Client(transport, mode=mode) as client:
            yield client


async def call(client: Any, tool: str, **arguments: Any) -> Any:
    """Call a tool that succeeds. The client has compared the facts with the tool's outputSchema."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_goes_from_a_search_to_an_item(
    mercato: Service, shop: MerchantServer, pos: Client, agent: Agent, mode: str
):
    await mercato.live(pos, shop.host(PIZZA))
    async with connected(agent, mode) as client:
        tools = (await client.list_tools()).tools
        assert {"find_stores", "get_menu", "get_item", "explain_error"} <= {tool.name for tool in tools}
        (store,) = (await call(client, "find_stores", query="pizza"))["stores"]
        menu = await call(client, "get_menu", storeId=store["storeId"], query="margherita")
        (item,) = menu["items"]
        found = await call(client, "get_item", storeId=store["storeId"], item=item["id"])
        assert found["groups"][0]["options"][1]["id"] == item_id(5)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_goes_from_a_search_to_a_cancelled_order(
    mercato: Service, shop: MerchantServer, mode: str
):
    sells = await trade(mercato, shop)
    shop.answers["cancel"] = {"accepted": True}
    async with connected(Agent(sells.front), mode) as client:
        (store,) = (await call(client, "find_stores", query="test store"))["stores"]
        lines = [{"item": "Tea", "quantity": 2, "choices": [{"group": "Extras", "option": "Milk"}]}]
        priced = await call(client, "price_cart", storeId=store["storeId"], lines=lines)
        quote = await call(
            client,
            "quote_order",
            storeId=store["storeId"],
            lines=lines,
            fulfillment={"mode": "PICKUP"},
            customer=CUSTOMER,
        )
        assert quote["total"] == priced["amounts"]["total"]
        placed = await call(client, "place_order", quoteId=quote["quoteId"], total=quote["total"])
        assert placed["status"] == "placed"
        order_id = placed["order"]["orderId"]
        assert (await call(client, "get_order", quoteId=quote["quoteId"]))["order"]["orderId"] == order_id
        assert [order["orderId"] for order in (await call(client, "list_orders"))["orders"]] == [order_id]
        cancelled = await call(client, "cancel_order", orderId=order_id, reason="CHANGED_MIND")
        assert cancelled["order"]["state"] == "cancelled"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_refusal_is_a_result_that_the_client_reads(agent: Agent, mode: str):
    async with connected(agent, mode) as client:
        result = await client.call_tool("get_menu", {"storeId": item_id(1)})
        assert result.is_error
        assert result.structured_content["errorCode"] == "STORE_NOT_FOUND"
        assert result.content[0].text.startswith("STORE_NOT_FOUND: ")


async def test_the_client_speaks_stdio_through_the_bridge(
    mercato: Service, shop: MerchantServer, pos: Client, agent: Agent
):
    mcp = pytest.importorskip("mcp.client")
    stdio = pytest.importorskip("mcp.client.stdio")
    await mercato.live(pos, shop.host(PIZZA))
    program = stdio.StdioServerParameters(
        command=str(Path(sys.executable).with_name("mercato")),
        args=["mcp", "--url", mercato.base],
        env={"MERCATO_KEY": agent.client.key},
    )
    async with mcp.Client(program) as client:
        (store,) = (await call(client, "find_stores", query="pizza"))["stores"]
        assert store["isOpen"] is True
