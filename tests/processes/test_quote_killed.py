"""Kill -9 at every step of placing a quote; a repeat in a new process ends with one order on both sides."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.agents.agent import Agent
from tests.api.trade import CUSTOMER, MERCHANT
from tests.databases import only_postgresql, only_sqlite
from tests.processes.test_placement_killed import DURING_THE_CALL, WITH_A_TOKEN, Network, opened
from tests.service import Client
from tests.waiting import PATIENCE

from mercato.platform.processes import CRASH_VARIABLE

LINES = [
    {
        "item": "Tea",
        "quantity": 2,
        "choices": [{"group": "Extras", "option": "Milk"}, {"group": "Extras", "option": "Lemon"}],
    }
]


async def killed_and_repeated(network: Network, point: str) -> dict[str, Any]:
    """Place a quote in a process that dies at the point, and repeat the call in a new one; return the order."""
    async with aiohttp.ClientSession(headers={"User-Agent": point}) as session:
        arguments = await killed(network, point, session)
        async with network.serving() as (_, base):
            agent = Agent(Client(base, network.keys["marketfrontKey"], session))
            answers = await asyncio.gather(*(repeated(agent, arguments) for _ in range(3)))
            assert len({json.dumps(answer, sort_keys=True) for answer in answers}) == 1, point
            order: dict[str, Any] = answers[0]["order"]
            found = await agent.call("get_order", quoteId=arguments["quoteId"])
            assert (found["status"], found["order"]["orderId"]) == ("placed", order["orderId"])
            pos = Client(base, network.keys["commerceKey"], session)
            listed = (await pos.get(MERCHANT)).json()["orders"]
            mine = [one["orderId"] for one in listed if one["clientContext"]["userAgent"] == point]
            assert mine == [order["orderId"]], point
    return order


async def killed(network: Network, point: str, session: aiohttp.ClientSession) -> dict[str, str]:
    """Place a quote in a process that dies at the point; return the arguments of the call."""
    crash = {} if point == DURING_THE_CALL else {CRASH_VARIABLE: point}
    async with network.serving(**crash) as (process, base):
        agent = Agent(Client(base, network.keys["marketfrontKey"], session))
        quote = await agent.call(
            "quote_order",
            storeId=network.store["storeId"],
            lines=LINES,
            fulfillment={"mode": "PICKUP"},
            customer=CUSTOMER,
        )
        arguments = {"quoteId": quote["quoteId"], "total": quote["total"]}
        if point == DURING_THE_CALL:
            network.system.victims[point] = process
        # Repeated: on a busy machine the call of the store may have ended before the store has the process killed.
        with pytest.raises(aiohttp.ClientError):
            await repeated(agent, arguments)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == -9, point
    return arguments


async def repeated(agent: Agent, arguments: dict[str, str]) -> Any:
    """Repeat the call until it is answered: a killed process's claim lasts some seconds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            result = await agent.result("place_order", **arguments)
            if not result["isError"]:
                return result["structuredContent"]
            # On a busy machine the store's answer may come too late for one of them.
            code = result["structuredContent"]["errorCode"]
            assert code in {"REQUEST_IN_PROGRESS", "STORE_UNREACHABLE"}, result


async def killed_at(network: Network, *points: str, copies: bool) -> None:
    """Kill placements at all of the points concurrently, and check the repeats."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(killed_and_repeated(network.copied(point) if copies else network, point))
            for point in points
        ]
    orders = {task.result()["orderId"]: task.result()["number"] for task in tasks}
    assert network.system.taken == orders
    assert {len(bodies) for bodies in network.system.bodies.values()} == {1}


@only_sqlite
async def test_killed_while_it_places_a_quote_a_repeat_gets_one_order(tmp_path: Path, database_kind: str):
    async with opened(tmp_path / "data") as network:
        await killed_at(network, "order.written", "store.answered", copies=True)


@pytest.mark.long
@only_sqlite
async def test_killed_at_any_point_of_placing_a_quote(tmp_path: Path, database_kind: str):
    async with opened(tmp_path / "data") as network:
        await killed_at(network, *WITH_A_TOKEN, copies=True)


@pytest.mark.long
@only_postgresql
async def test_killed_at_any_point_of_placing_a_quote_on_postgresql(
    tmp_path: Path, database_url: str, database_kind: str
):
    async with opened(tmp_path / "data", MERCATO_DATABASE_URL=database_url) as network:
        await killed_at(network, *WITH_A_TOKEN, copies=False)
