"""Kill -9 at every step of an adjustment; a retry ends with one adjustment, one event and one reply."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.api.trade import MERCHANT, PLACE
from tests.databases import only_postgresql, only_sqlite
from tests.processes.test_placement_killed import Network, opened
from tests.service import Client
from tests.waiting import PATIENCE

from mercato.platform.processes import CRASH_VARIABLE

POINTS = ("adjustment.written", "adjustment.stored")
REFUND = {"type": "refund", "amount": "1.00", "reason": "Cold"}


async def killed_and_retried(network: Network, point: str) -> None:
    headers = {"Idempotency-Key": f"refund {point}"}
    async with aiohttp.ClientSession() as session:
        async with network.serving(**{CRASH_VARIABLE: point}) as (process, base):
            front = Client(base, network.keys["marketfrontKey"], session)
            placing = {"Idempotency-Key": f"place {point}"}
            placed = (await front.post(PLACE, network.order(point), headers=placing)).json()
            path = f"{MERCHANT}/{placed['orderId']}/adjustments"
            with pytest.raises(aiohttp.ClientError):
                await Client(base, network.keys["commerceKey"], session).post(path, REFUND, headers=headers)
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == -9, point
        async with network.serving() as (_, base):
            front = Client(base, network.keys["marketfrontKey"], session)
            pos = Client(base, network.keys["commerceKey"], session)
            reply = await pos.post(path, REFUND, headers=headers)
            assert reply.status == 201, reply.body
            # Only if it was committed is there an answer to repeat.
            replayed = reply.headers.get("Idempotent-Replayed") == "true"
            assert replayed is (point == "adjustment.stored")
            assert (await pos.post(path, REFUND, headers=headers)).body == reply.body
            order = (await front.get(f"/v1/marketfront/orders/{placed['orderId']}")).json()
            assert [one["amount"] for one in order["adjustments"]] == ["1.00"], point
            assert order["adjustments"] == reply.json()["adjustments"]
            assert len(await events_of(front, placed)) == 1


async def events_of(front: Client, placed: Any) -> list[Any]:
    """Return the events about the order's adjustments, once there is one."""
    path, found = "/v1/marketfront/events?types=order.adjusted&wait=5&limit=500", list[Any]()
    async with asyncio.timeout(PATIENCE):
        while not found:
            events = (await front.get(path)).json()["events"]
            found = [one for one in events if one["data"]["orderId"] == placed["orderId"]]
    return found


@only_sqlite
async def test_killed_at_any_point_a_retry_ends_with_one_adjustment_and_one_reply(
    tmp_path: Path, database_kind: str
):
    async with opened(tmp_path / "data") as network:
        for point in POINTS:
            await killed_and_retried(network.copied(point), point)


@pytest.mark.long
@only_postgresql
async def test_killed_on_postgresql_a_retry_ends_with_one_adjustment_and_one_reply(
    tmp_path: Path, database_url: str, database_kind: str
):
    async with opened(tmp_path / "data", MERCATO_DATABASE_URL=database_url) as network:
        for point in POINTS:
            await killed_and_retried(network, point)
