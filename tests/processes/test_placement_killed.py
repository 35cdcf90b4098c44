"""Kill -9 at every step of a placement; a retry ends with one order on both sides, and one reply."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.api.trade import MERCHANT, PLACE, VALIDATE, tea
from tests.catalog.documents import cafe
from tests.databases import mostly_sqlite, only_postgresql, only_sqlite
from tests.forks import Running
from tests.processes.test_serve import mercato, serving, until_status
from tests.service import Client, MerchantServer, merchant
from tests.waiting import PATIENCE

from mercato.platform.processes import CRASH_VARIABLE
from mercato_client.testing.caller import Answer

DURING_THE_CALL = "store.called"
"""Not a point in the service: here the store has the process killed."""

POINTS = (
    "key.unclaimed", "key.claimed", "store.agreed", "order.written", "order.stored", DURING_THE_CALL,
    "store.answered", "reply.written", "reply.stored",
)  # fmt: skip
WITH_A_TOKEN = tuple(point for point in POINTS if point not in {"key.claimed", "store.agreed"})
"""The store isn't called: the key is claimed and the order stored in one transaction."""

# A claim of a killed process ends five seconds after the calls' timeout.
QUICK = {"MERCATO_PLACE_SECONDS": "0.5"}


@dataclass
class StoreSystem:
    """A store that accepts each order once, and can have the calling process killed.

    It takes a repeat of an order of `denied` for a mistake.
    """

    server: MerchantServer
    taken: dict[str, str] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    cancelled: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    bodies: dict[str, set[bytes]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    victims: dict[str, Running] = field(default_factory=dict)

    async def place(self, request: web.Request, body: bytes) -> web.Response:
        order_id = request.headers["webhook-id"]
        self.bodies.setdefault(order_id, set()).add(body)
        name = who(json.loads(body)["data"]["order"])
        is_denied = name in self.denied and order_id in self.taken
        victim = self.victims.pop(name, None)
        if victim is not None:
            victim.kill()
            await victim.wait()
        if is_denied:
            return web.json_response({"message": "Order already exists"}, status=409)
        number = self.taken.setdefault(order_id, f"P-{len(self.taken) + 1}")
        return web.json_response({"accepted": True, "partnerOrderId": number})

    async def order_cancelled(self, request: web.Request, body: bytes) -> web.Response:
        # A process that is stopped before it has recorded the answer leaves a repeat to the next one.
        if (webhook_id := request.headers["webhook-id"]) not in self.told:
            self.told.add(webhook_id)
            self.cancelled.put_nowait(json.loads(body)["data"]["orderId"])
        return web.Response(status=204)


@dataclass(frozen=True)
class Network:
    """A stopped network with a live store: its data and its partner's keys."""

    data_dir: Path
    settings: dict[str, str]
    store: Any
    keys: Any
    system: StoreSystem
    # Starts are serialised: one alone is fast, and the others wait here rather than for a processor.
    starts: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(3))

    def order(self, name: str) -> dict[str, Any]:
        cart = {
            "storeId": self.store["storeId"],
            "catalogSetId": self.store["catalogSetId"],
            "lineItems": [tea()],
        }
        return {
            "cart": cart,
            "clientContext": {"ip": "203.0.113.7", "userAgent": name},
            "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
            "payment": {"type": "cardOnFile", "cardToken": f"tok_{name}"},
        }

    @asynccontextmanager
    async def serving(self, **settings: str) -> AsyncIterator[tuple[Running, str]]:
        async with AsyncExitStack() as stack:
            async with self.starts:
                run = serving(self.data_dir, **self.settings, **settings)
                process, base = await stack.enter_async_context(run)
            yield process, base

    def copied(self, name: str) -> "Network":
        """Return the same network with data of its own, as far as that is in its directory."""
        to = self.data_dir.with_name(name)
        shutil.copytree(self.data_dir, to)
        return replace(self, data_dir=to)


def who(order: Any) -> str:
    """Return the test that an order belongs to."""
    name: str = order["clientContext"]["userAgent"]
    return name


@asynccontextmanager
async def opened(data_dir: Path, **settings: str) -> AsyncIterator[Network]:
    async with merchant() as server, aiohttp.ClientSession() as session:
        system = StoreSystem(server)
        server.answers |= {"validate": {"isValid": True}, "place": system.place}
        server.answers["order-cancelled"] = system.order_cancelled
        settings = QUICK | settings
        create = ("partner", "create", "Both", "--kind", "both", "--json", "--data-dir", data_dir)
        code, out, err = await mercato(*create, **settings)
        assert code == 0, err
        keys = json.loads(out)
        async with serving(data_dir, **settings) as (_, base):
            store = await live(Client(base, keys["commerceKey"], session), server)
        yield Network(data_dir, settings, store, keys, system)


async def live(pos: Client, server: MerchantServer) -> Any:
    body = {"partnerStoreId": "1", "name": "S", "address": {}, "catalogCallbackUrl": server.host(cafe())}
    body["webhookUrl"] = server.base + "/hooks"
    path = (await pos.post("/v1/commerce/onboarding/stores", body)).headers["Location"]
    await until_status(pos, path, {"ready_to_activate"})
    return (await pos.post(f"{path}/activate")).json()


async def killed_and_retried(network: Network, point: str, *, token: bool = False) -> Answer:
    """Place an order in a process that dies at the point, retry in a new one; return the one reply."""
    name = f"{point}{' with a token' if token else ''}"
    async with aiohttp.ClientSession() as session:
        order, headers = await killed(network, point, name, session, token=token)
        async with network.serving() as (_, base):
            front = Client(base, network.keys["marketfrontKey"], session)
            reply = await retried(front, order, headers)
            assert reply.status == 201, reply.body
            again = await front.post(PLACE, order, headers=headers)
            assert (again.status, again.body) == (reply.status, reply.body), name
            assert again.headers["Idempotent-Replayed"] == "true"
            mine = await front.get(f"/v1/marketfront/orders/{reply.json()['orderId']}")
            assert mine.status == 200
            pos = Client(base, network.keys["commerceKey"], session)
            listed = (await pos.get(MERCHANT)).json()["orders"]
            assert [one["orderId"] for one in listed if who(one) == name] == [reply.json()["orderId"]], name
    return reply


async def killed(
    network: Network, point: str, name: str, session: aiohttp.ClientSession, *, token: bool = False
) -> tuple[Any, dict[str, str]]:
    """Place an order in a process that dies at the point; return its request."""
    order, headers = network.order(name), {"Idempotency-Key": name}
    crash = {} if point == DURING_THE_CALL else {CRASH_VARIABLE: point}
    async with network.serving(**crash) as (process, base):
        front = Client(base, network.keys["marketfrontKey"], session)
        if token:
            order["validatedOrderToken"] = (await front.post(VALIDATE, order)).json()["validatedOrderToken"]
        if point == DURING_THE_CALL:
            network.system.victims[name] = process
        # Repeated: on a busy machine the call of the store may have ended before the store has the process killed.
        with pytest.raises(aiohttp.ClientError):
            await retried(front, order, headers)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == -9, name
    return order, headers


async def retried(front: Client, order: Any, headers: dict[str, str]) -> Answer:
    """Repeat the request until it is answered: it gets 409 while a killed process's claim lasts.

    On a busy machine the store's answer may come too late for a request.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            reply = await front.post(PLACE, order, headers=headers)
            if reply.status in {201, 400}:
                return reply
            assert reply.json()["errorCode"] in {"REQUEST_IN_PROGRESS", "STORE_UNREACHABLE"}, reply.body
            assert int(reply.headers["Retry-After"]) > 0
            await asyncio.sleep(0.2)


def one_order_on_both_sides(network: Network, replies: list[Answer]) -> None:
    """Assert that the store has exactly the orders of the replies, each received with the same bytes."""
    orders = {reply.json()["orderId"]: reply.json()["partnerOrderId"] for reply in replies}
    assert network.system.taken == orders
    assert {len(bodies) for bodies in network.system.bodies.values()} == {1}


async def killed_at(network: Network, *points: str, copies: bool, token: bool = False) -> None:
    """Kill placements at all of the points concurrently, and check the retries."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                killed_and_retried(network.copied(point) if copies else network, point, token=token)
            )
            for point in points
        ]
    one_order_on_both_sides(network, [task.result() for task in tasks])


@pytest.mark.long
@only_sqlite
async def test_killed_at_any_point_a_retry_ends_with_one_order_and_one_reply(
    tmp_path: Path, database_kind: str
):
    async with opened(tmp_path / "data") as network:
        await killed_at(network, *POINTS, copies=True)


@pytest.mark.long
@only_sqlite
async def test_killed_at_any_point_of_a_placement_with_a_token(tmp_path: Path, database_kind: str):
    async with opened(tmp_path / "data") as network:
        await killed_at(network, *WITH_A_TOKEN, copies=True, token=True)


@only_postgresql
async def test_killed_on_postgresql_while_another_works_on_the_same_database(
    tmp_path: Path, database_url: str, database_kind: str
):
    async with opened(tmp_path / "data", MERCATO_DATABASE_URL=database_url) as network:
        await killed_at(network, "order.written", "store.answered", copies=False)


@pytest.mark.long
@only_postgresql
async def test_killed_at_any_point_on_postgresql(tmp_path: Path, database_url: str, database_kind: str):
    async with opened(tmp_path / "data", MERCATO_DATABASE_URL=database_url) as network:
        await killed_at(network, *POINTS, copies=False)


# --- a store that refuses what it has already accepted ---------------------------------------------


AFTER_THE_CALL = (DURING_THE_CALL, "store.answered", "reply.written")
"""The store has accepted the order, and the service hasn't written so."""


async def killed_and_denied(network: Network, point: str, *, joins: bool) -> str:
    """Place an order whose answer is lost at the point and whose repeat is refused; return its id.

    If nobody `joins` the order, background work repeats it.
    """
    name = f"{point}, {'joined' if joins else 'left alone'}"
    network.system.denied.add(name)
    async with aiohttp.ClientSession() as session:
        order, headers = await killed(network, point, name, session)
        async with network.serving() as (_, base):
            pos = Client(base, network.keys["commerceKey"], session)
            if joins:
                front = Client(base, network.keys["marketfrontKey"], session)
                reply = await retried(front, order, headers)
                assert (reply.status, reply.json()["errorCode"]) == (400, "OTHER"), name
            async with asyncio.timeout(PATIENCE):
                order_id = await network.system.cancelled.get()
            kept = (await pos.get(f"{MERCHANT}/{order_id}")).json()
            assert (kept["state"], kept["cancelReason"]) == ("cancelled", "OTHER"), name
            timeline = (await pos.get(f"{MERCHANT}/{order_id}/timeline")).json()["entries"]
            (refused,) = [entry for entry in timeline if entry["type"] == "refused"]
            assert "its answer is unknown" in refused["detail"]["storeNotified"]
    return order_id


@mostly_sqlite
@pytest.mark.parametrize(
    "joins", [True, pytest.param(False, marks=pytest.mark.long)], ids=["joined", "left alone"]
)
async def test_killed_after_the_store_accepted_a_refused_repeat_is_told(
    tmp_path: Path, database_url: str, database_kind: str, joins: bool
):
    settings = {} if database_kind == "sqlite" else {"MERCATO_DATABASE_URL": database_url}
    async with opened(tmp_path / "data", **settings) as network:
        for point in AFTER_THE_CALL:
            order_id = await killed_and_denied(network, point, joins=joins)
            assert order_id in network.system.taken
            assert network.system.cancelled.empty(), "the store is told once"
