"""With any number of processes no order is placed against the state before an acknowledged change.

One store is known to every process over eight connections; it is changed over one of them, and at once an order is
placed over each of the eight.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from tests.api.trade import PLACE, VALIDATE
from tests.catalog.documents import TEA, cafe
from tests.processes.test_postgres_restart import working
from tests.processes.test_serve import mercato, serving, until_status
from tests.service import Client, MerchantServer, merchant

CONNECTIONS = 8

TOPOLOGIES = {"serve --workers 3": "3", "serve and worker": "1"}


@dataclass
class Shop:
    """A live store without a webhook, its merchant, and a storefront on each of the connections."""

    merchant: MerchantServer
    pos: Client
    fronts: list[Client]
    store: Any

    @property
    def path(self) -> str:
        return f"/v1/commerce/stores/{self.store['storeId']}"

    def order(self) -> dict[str, Any]:
        line = {"itemId": TEA, "quantity": 1, "modifierGroups": []}
        ids = {name: self.store[name] for name in ("storeId", "catalogSetId")}
        return {
            "cart": ids | {"lineItems": [line]},
            "clientContext": {"ip": "203.0.113.7", "userAgent": "shop/1.0"},
            "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
            "customer": {"email": "a@example.com", "firstName": "A", "lastName": "B", "phone": "+15550100"},
        }

    async def validate(self, front: Client) -> Any:
        reply = await front.post(VALIDATE, self.order())
        assert reply.status == 200, reply.body
        return reply.json()

    async def place(self, front: Client, token: str) -> str:
        """Return `placed`, or the code of the refusal."""
        order = self.order() | {"validatedOrderToken": token}
        reply = await front.post(PLACE, order, headers={"Idempotency-Key": str(uuid4())})
        return "placed" if reply.status == 201 else reply.json()["errorCode"]

    async def post(self, path: str, body: Any) -> None:
        reply = await self.pos.post(self.path + path, body)
        assert reply.status == 200, reply.body

    async def serve(self, change: Callable[[Any], None]) -> None:
        """Serve the menu with a change."""
        menu = cafe()
        change(menu)
        reply = await self.pos.post(
            f"/v1/commerce/catalogset-notification?storeId={self.store['storeId']}",
            {"callbackUrl": self.merchant.host(menu)},
        )
        assert reply.status == 202, reply.body
        run = await until_status(self.pos, reply.json()["statusUrl"], {"succeeded", "failed"})
        assert run["status"] == "succeeded", run


Change = Callable[[Shop], Awaitable[None]]


async def pause(shop: Shop) -> None:
    await shop.post("/status", {"status": "paused"})


async def resume(shop: Shop) -> None:
    await shop.post("/status", {"status": "online"})


async def sell_out(shop: Shop) -> None:
    await shop.post("/item-availability", {"items": [{"itemId": TEA, "available": False}]})


async def bring_back(shop: Shop) -> None:
    await shop.post("/item-availability", {"items": [{"itemId": TEA, "available": True}]})


async def raise_price(shop: Shop) -> None:
    await shop.serve(lambda menu: menu["items"][TEA].update(basePrice="3.50"))


async def take_off(shop: Shop) -> None:
    def without_tea(menu: Any) -> None:
        del menu["items"][TEA]
        for section in menu["sections"].values():
            section["itemIds"] = [one for one in section["itemIds"] if one != TEA]

    await shop.serve(without_tea)


async def serve_first_menu(shop: Shop) -> None:
    await shop.serve(lambda _menu: None)


CHANGES = {
    "paused": (pause, resume, "STORE_CLOSED"),
    "sold out": (sell_out, bring_back, "ITEM_UNAVAILABLE"),
    "another price": (raise_price, serve_first_menu, "ORDER_TOTAL_DIFFERENT"),
    "missing item": (take_off, serve_first_menu, "ITEM_UNAVAILABLE"),
}


@asynccontextmanager
async def trading(base: str, options: dict[str, str], data_dir: Path) -> AsyncIterator[Shop]:
    """Bring a store live, and connect to the server."""
    keys = {}
    for kind in ("commerce", "marketfront"):
        code, out, err = await mercato(
            "partner", "create", kind, "--kind", kind, "--json", "--data-dir", data_dir, **options
        )
        assert code == 0, err
        keys[kind] = json.loads(out)[f"{kind}Key"]
    async with merchant() as server, AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1, keepalive_timeout=600))
            )
            for _ in range(CONNECTIONS)
        ]
        pos = Client(base, keys["commerce"], sessions[0])
        fronts = [Client(base, keys["marketfront"], session) for session in sessions]
        body = {
            "partnerStoreId": "1",
            "name": "Shop",
            "address": {},
            "catalogCallbackUrl": server.host(cafe()),
        }
        begun = await pos.post("/v1/commerce/onboarding/stores", body)
        path = begun.headers["Location"]
        await until_status(pos, path, {"ready_to_activate"})
        store = (await pos.post(f"{path}/activate")).json()
        yield Shop(server, pos, fronts, store)


async def experiment(shop: Shop, name: str, rounds: int) -> dict[str, int]:
    """Return how often each answer came to orders placed right after a change, and after its end."""
    change, undo, _ = CHANGES[name]
    counts: dict[str, int] = {}
    for _ in range(rounds):
        said = await asyncio.gather(*(shop.validate(front) for front in shop.fronts))
        tokens = [one["validatedOrderToken"] for one in said]
        for step in (change, undo):
            await step(shop)
            answers = await asyncio.gather(*map(shop.place, shop.fronts, tokens))
            for answer in answers:
                counts[answer] = counts.get(answer, 0) + 1
    return counts


async def stale_statuses(shop: Shop, rounds: int) -> int:
    """Return how many reads right after a change returned the previous status."""
    stale = 0
    for number in range(rounds):
        status = ("paused", "online")[number % 2]
        await shop.post("/status", {"status": status})
        pos = [Client(front.base, shop.pos.key, front.session) for front in shop.fronts]
        replies = await asyncio.gather(*(one.get(f"{shop.path}/status") for one in pos))
        stale += sum(reply.json()["status"] != status for reply in replies)
    await resume(shop)
    return stale


async def changed_at_once(data_dir: Path, url: str, topology: str, *, rounds: int) -> None:
    """Assert that no answer uses the state before an acknowledged change."""
    options = {"MERCATO_WORKERS": TOPOLOGIES[topology], "MERCATO_DATABASE_URL": url}
    async with AsyncExitStack() as stack:
        _, base = await stack.enter_async_context(serving(data_dir, **options))
        if topology == "serve and worker":
            alone = {"MERCATO_DATABASE_URL": url, "MERCATO_DATA_DIR": str(data_dir)}
            await stack.enter_async_context(working(**alone))
        shop = await stack.enter_async_context(trading(base, options, data_dir))
        for name, (_, _, code) in CHANGES.items():
            each = rounds * CONNECTIONS
            assert await experiment(shop, name, rounds) == {code: each, "placed": each}, name
        assert await stale_statuses(shop, max(rounds, 30)) == 0


@pytest.mark.parametrize(
    "topology", ["serve --workers 3", pytest.param("serve and worker", marks=pytest.mark.long)]
)
async def test_no_process_places_an_order_against_the_state_before_an_acknowledged_change(
    tmp_path: Path, database_url: str, topology: str
):
    await changed_at_once(tmp_path / "data", database_url, topology, rounds=2)


@pytest.mark.long
@pytest.mark.parametrize("topology", TOPOLOGIES)
async def test_of_500_orders_after_each_kind_of_change_none_is_placed_against_the_state_before(
    tmp_path: Path, database_url: str, topology: str
):
    await changed_at_once(tmp_path / "data", database_url, topology, rounds=500 // CONNECTIONS + 1)
