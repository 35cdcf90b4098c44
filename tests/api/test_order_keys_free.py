"""A key is pinned once an order exists; a refusal before that leaves it free for any other request."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import select
from tests.api.trade import MERCHANT, Time, Trade, tea, trade
from tests.catalog.documents import CATALOG, NOWHERE, TEA
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.orders.tables import idempotency_keys

pytestmark = [shared, mostly_sqlite]

STORE = "/v1/commerce/stores/{}"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def status(here: Trade, status: str) -> None:
    path = STORE.format(here.store["storeId"]) + "/status"
    assert (await here.pos.post(path, {"status": status})).status == 200


async def empty(here: Trade) -> Any:
    order = here.order()
    order["cart"]["lineItems"] = []
    return order


async def invalid(here: Trade) -> Any:
    return here.order(amounts={"tip": "-1.00"})


async def unknown_store(here: Trade) -> Any:
    order = here.order()
    order["cart"]["storeId"] = NOWHERE
    return order


async def unknown_set(here: Trade) -> Any:
    order = here.order()
    order["cart"]["catalogSetId"] = CATALOG
    return order


async def unknown_item(here: Trade) -> Any:
    return here.order({"itemId": NOWHERE, "quantity": 1, "modifierGroups": []})


async def closed(here: Trade) -> Any:
    await status(here, "paused")
    return here.order()


async def sold_out(here: Trade) -> Any:
    path = STORE.format(here.store["storeId"]) + "/item-availability"
    reply = await here.pos.post(path, {"items": [{"itemId": TEA, "available": False}]})
    assert reply.status == 200
    return here.order()


async def other_total(here: Trade) -> Any:
    return here.order(amounts={"total": "0.01"})


async def no_token(here: Trade) -> Any:
    return here.order(validatedOrderToken="vo_x")


async def used_token(here: Trade) -> Any:
    order = here.order(validatedOrderToken=await here.token(here.order()))
    assert (await here.place(order)).status == 201
    return order


REFUSALS = [
    (empty, "CART_EMPTY"),
    (invalid, "VALIDATION_FAILED"),
    (unknown_store, "STORE_NOT_FOUND"),
    (unknown_set, "CATALOGSET_NOT_FOUND"),
    (unknown_item, "ITEM_UNAVAILABLE"),
    (closed, "STORE_CLOSED"),
    (sold_out, "ITEM_UNAVAILABLE"),
    (other_total, "ORDER_TOTAL_DIFFERENT"),
    (no_token, "ORDER_TOKEN_INVALID"),
    (used_token, "ORDER_ALREADY_PLACED"),
]


@pytest.mark.parametrize(("make", "code"), REFUSALS, ids=[make.__name__ for make, _ in REFUSALS])
async def test_a_refusal_before_an_order_is_stored_leaves_the_key_free_for_another_request(
    here: Trade, make: Callable[[Trade], Awaitable[Any]], code: str
):
    order = await make(here)
    for _ in range(2):
        reply = await here.place(order, key="k")
        assert (reply.json()["errorCode"], "Idempotent-Replayed" in reply.headers) == (code, False)
    await status(here, "online")
    cake = here.order({"itemId": "55555555-5555-5555-8555-555555555555", "quantity": 1, "modifierGroups": []})
    placed = await here.place(cake, key="k")
    assert placed.status == 201, placed.body
    # From now on the key belongs to this order.
    again = await here.place(cake, key="k")
    assert (again.body, again.headers["Idempotent-Replayed"]) == (placed.body, "true")
    assert (await here.place(order, key="k")).json()["errorCode"] == "IDEMPOTENCY_KEY_REUSED"


@on_both
async def test_a_refused_request_succeeds_once_the_reason_has_passed(here: Trade):
    order = await closed(here)
    assert (await here.place(order, key="k")).json()["errorCode"] == "STORE_CLOSED"
    await status(here, "online")
    assert (await here.place(order, key="k")).status == 201
    assert len((await here.pos.get(MERCHANT)).json()["orders"]) == 1


@own()
@on_both
async def test_a_refusal_leaves_nothing_in_the_database(here: Trade):
    assert (await here.place(await empty(here), key="k")).status == 400
    assert (await here.place(here.order(amounts={"total": "0.01"}, validatedOrderToken="vo_x"))).status == 400
    async with here.mercato.app.db.read() as tx:
        assert await tx.all(select(idempotency_keys)) == []


@pytest.mark.parametrize("with_token", [True, False], ids=["token", "no token"])
async def test_a_pinned_reply_is_returned_even_if_the_order_would_now_be_refused(
    here: Trade, with_token: bool
):
    order = here.order()
    if with_token:
        order["validatedOrderToken"] = await here.token(order)
    first = await here.place(order, key="k")
    await closed(here)
    again = await here.place(order, key="k")
    assert (again.status, again.body) == (201, first.body)


@on_both
async def test_a_waiting_order_is_joined_although_its_store_has_closed(here: Trade):
    async def down(_request: web.Request, _body: bytes) -> web.Response:
        return web.Response(status=404, headers={"Retry-After": "60"})

    here.shop.answers["place"] = down
    waiting = (await here.place(here.order(), key="k")).json()
    assert waiting["errorCode"] == "STORE_UNREACHABLE"
    await closed(here)
    here.shop.answers["place"] = {"accepted": True}
    joined = await here.place(here.order(), key="k")
    assert (joined.status, joined.json()["orderId"]) == (201, waiting["orderId"])


@on_both
async def test_while_a_request_runs_its_key_is_not_free_for_one_that_would_be_refused(here: Trade):
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        asked.set()
        await go.wait()
        return web.json_response({"isValid": True})

    here.shop.answers["validate"] = slowly
    first = asyncio.create_task(here.place(here.order(), key="k"))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    said = (await here.place(await empty(here), key="k")).json()
    assert said["errorCode"] == "IDEMPOTENCY_KEY_REUSED"
    assert "in progress and may place an order" in said["detail"]
    assert "orderId" not in said
    go.set()
    assert (await first).status == 201


@own(place_seconds=15.0)
async def test_a_key_whose_request_died_before_its_order_was_stored_is_free(here: Trade, time: Time):
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        asked.set()
        await go.wait()
        return web.json_response({"isValid": True})

    here.shop.answers["validate"] = slowly
    dead = asyncio.create_task(here.place(here.order(), key="k"))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    # The first request has exceeded its time limit.
    time.ahead += timedelta(minutes=1)
    here.shop.answers["validate"] = {"isValid": True}
    placed = await here.place(here.order(tea(1)), key="k")
    assert placed.status == 201, placed.body
    go.set()
    assert (await dead).json()["errorCode"] == "REQUEST_IN_PROGRESS"
    assert len((await here.pos.get(MERCHANT)).json()["orders"]) == 1
