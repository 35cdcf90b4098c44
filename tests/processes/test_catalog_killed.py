"""Kill -9 while a store switches its catalog, back or at an instant: it switches once, with one event, or not yet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.catalog.documents import TEA, cafe
from tests.databases import only_postgresql, only_sqlite
from tests.forks import Running
from tests.processes.test_placement_killed import Network, opened
from tests.processes.test_serve import until_status
from tests.service import Client
from tests.waiting import PATIENCE

from mercato.platform.processes import CRASH_VARIABLE
from mercato_contract import clock
from mercato_contract.wire import rfc3339

AHEAD = timedelta(seconds=3)
"""When a scheduled switch is due: long enough for the catalog to be built before, in most runs."""

SCHEDULED = ("catalog.built", "catalog.written", "catalog.switched", "catalog.activated")
"""The points of a run with an instant: its catalog is built, its set stored, and the store switched."""

ENDED = {"succeeded", "failed"}


def named(name: str) -> Any:
    document = cafe()
    document["items"][TEA]["name"] = name
    return document


@dataclass
class Till:
    """The merchant's client of a running service, and its store."""

    process: Running
    client: Client
    store: str
    first: str

    async def put(self, name: str) -> Any:
        reply = await self.client.call("PUT", f"{self.store}/catalog", named(name))
        assert reply.status == 202, reply.body
        return reply.json()

    async def activate(self, set_id: str) -> Any:
        return await self.client.post(f"{self.store}/catalog-sets/{set_id}/activate")

    async def served(self) -> list[str]:
        """Return the sets that the store has served, the current one first, and check that the history is whole."""
        listed = (await self.client.get(f"{self.store}/catalog-sets")).json()["catalogSets"]
        current = (await self.client.get(self.store)).json()["catalogSetId"]
        assert (listed[0]["catalogSetId"], listed[0]["to"]) == (current, None)
        assert all(later["from"] == earlier["to"] for later, earlier in pairwise(listed))
        return [one["catalogSetId"] for one in listed]

    async def events(self, run_id: str) -> list[Any]:
        """Return the data of the run's events, once there is one."""
        path, found = "/v1/commerce/events?limit=500", list[Any]()
        async with asyncio.timeout(PATIENCE):
            while not found:
                events = (await self.client.get(path)).json()["events"]
                found = [one["data"] for one in events if one["data"].get("catalogIngestId") == run_id]
                await asyncio.sleep(0.05)
        return found

    async def killed(self) -> None:
        async with asyncio.timeout(PATIENCE):
            assert await self.process.wait() == -9

    async def killed_while_scheduled(self, name: str) -> "Scheduled":
        """Put a catalog that is due soon, and wait until the process is killed over it.

        A busy machine may read the request, or build the catalog, after its instant, and not be at the point then: it
        gets another one with a later instant.
        """
        ahead = AHEAD
        while True:
            before, at = await self.served(), clock.now() + ahead
            reply = await self.client.call(
                "PUT", f"{self.store}/catalog?activateAt={rfc3339(at)}", named(f"{name}, {ahead}")
            )
            if reply.status == 202:
                try:
                    await until_status(self.client, reply.json()["statusUrl"], ENDED)
                except aiohttp.ClientError:
                    await self.killed()
                    return Scheduled(reply.json(), at, before)
            assert clock.now() > at, reply.body
            ahead *= 2


@dataclass
class Scheduled:
    """What was accepted for an instant, and what the store had served before."""

    accepted: Any
    at: datetime
    before: list[str]


@asynccontextmanager
async def running(network: Network, **settings: str) -> AsyncIterator[Till]:
    async with aiohttp.ClientSession() as session, network.serving(**settings) as (process, base):
        client = Client(base, network.keys["commerceKey"], session)
        path = f"/v1/commerce/stores/{network.store['storeId']}"
        yield Till(process, client, path, network.store["catalogSetId"])


async def killed_while_switching_back(network: Network) -> None:
    async with running(network, **{CRASH_VARIABLE: "catalog.rolled_back"}) as till:
        run = await until_status(till.client, (await till.put("Mint tea"))["statusUrl"], ENDED)
        second = run["catalogSetId"]
        with pytest.raises(aiohttp.ClientError):
            await till.activate(till.first)
        await till.killed()
    async with running(network) as till:
        # Nothing of the switch was committed.
        assert await till.served() == [second, till.first]
        for _ in range(2):
            reply = await till.activate(till.first)
            assert reply.json() == {"catalogSetId": till.first, "rolledBackFrom": second}
        assert await till.served() == [till.first, second, till.first]
        newest = (await till.client.get(f"{till.store}/catalog-ingest")).json()["runs"][0]
        [event] = await till.events(newest["catalogIngestId"])
        assert (event["status"], event["rolledBackFrom"]) == ("succeeded", second)


async def killed_before_an_instant(network: Network, point: str) -> None:
    async with running(network, **{CRASH_VARIABLE: point}) as till:
        scheduled = await till.killed_while_scheduled("Mint tea")
    async with running(network) as till:
        run = await until_status(till.client, scheduled.accepted["statusUrl"], ENDED)
        assert clock.now() >= scheduled.at
        assert (run["status"], run["errors"]) == ("succeeded", [])
        assert await till.served() == [run["catalogSetId"], *scheduled.before]
        [event] = await till.events(scheduled.accepted["catalogIngestId"])
        assert event["status"] == "succeeded"
        # The scheduled job is done: the store stays where a later switch leaves it.
        assert (await till.activate(till.first)).status == 200
        assert await till.served() == [till.first, run["catalogSetId"], *scheduled.before]


@only_sqlite
async def test_killed_while_it_switches_back_a_store_has_its_catalog_and_a_repeat_switches_once(
    tmp_path: Path, database_kind: str
):
    async with opened(tmp_path / "data") as network:
        await killed_while_switching_back(network)


@pytest.mark.long
@only_sqlite
async def test_killed_at_any_point_of_a_scheduled_switch_a_store_switches_once(
    tmp_path: Path, database_kind: str
):
    async with opened(tmp_path / "data") as network, asyncio.TaskGroup() as group:
        for point in SCHEDULED:
            group.create_task(killed_before_an_instant(network.copied(point), point))


@pytest.mark.long
@only_postgresql
async def test_killed_on_postgresql_while_it_switches_back_or_at_an_instant(
    tmp_path: Path, database_url: str, database_kind: str
):
    async with opened(tmp_path / "data", MERCATO_DATABASE_URL=database_url) as network:
        await killed_while_switching_back(network)
        await killed_before_an_instant_again(network)


async def killed_before_an_instant_again(network: Network) -> None:
    """Kill at the instant itself, at a store that has a history: another process takes the job over."""
    async with running(network, **{CRASH_VARIABLE: "catalog.activated"}) as till:
        scheduled = await till.killed_while_scheduled("Green tea")
    async with running(network) as till:
        run = await until_status(till.client, scheduled.accepted["statusUrl"], ENDED)
        assert await till.served() == [run["catalogSetId"], *scheduled.before]
        [event] = await till.events(scheduled.accepted["catalogIngestId"])
        assert event["status"] == "succeeded"
