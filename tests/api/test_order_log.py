"""Every attempt to submit an order is in its delivery log, which ends with the last one."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.api.trade import Time, Trade, trade
from tests.service import MerchantServer, Service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

pytestmark = shared


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def questions(here: Trade) -> list[Any]:
    """Return the merchant's delivery log of its orders."""
    page = (await here.pos.get("/v1/commerce/webhook-deliveries")).json()
    return [one for one in page["deliveries"] if one["type"] == "order.place"]


@own(place_seconds=1.4)
async def test_a_log_is_closed_though_the_last_answer_failed_when_the_merchant_has_moved_the_order_on(
    here: Trade,
):
    async def update_and_fail(_request: web.Request, body: bytes) -> web.Response:
        await here.update(json.loads(body)["data"], status="confirmed")
        return web.Response(status=500)

    here.shop.answers["place"] = update_and_fail
    placed = await here.placed()
    assert placed["status"] == "confirmed"
    logged = await questions(here)
    assert [(one["orderId"], one["status"], one["attempts"]) for one in logged] == [
        (placed["orderId"], "succeeded", 1)
    ]


async def test_two_concurrent_submissions_of_an_order_write_one_log(here: Trade, time: Time):
    came, go = asyncio.Queue[None](), asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        came.put_nowait(None)
        await go.wait()
        return web.json_response({"accepted": True, "partnerOrderId": "A-1"})

    here.shop.answers["place"] = slowly
    order = here.order()
    first = asyncio.create_task(here.place(order, key="k"))
    await asyncio.wait_for(came.get(), PATIENCE)
    time.ahead = timedelta(seconds=2 * PATIENCE)  # the first one's claim has expired
    second = asyncio.create_task(here.place(order, key="k"))
    await asyncio.wait_for(came.get(), PATIENCE)
    go.set()
    replies = await asyncio.gather(first, second)
    assert {reply.json()["orderId"] for reply in replies} == {replies[0].json()["orderId"]}
    assert [(one["status"], one["attempts"]) for one in await questions(here)] == [("succeeded", 2)]
