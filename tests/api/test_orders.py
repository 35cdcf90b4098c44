"""Orders validated, placed and followed, over the wire."""

import json
from typing import Any

import pytest
from aiohttp import web
from tests.api.trade import ORDERS, Trade, trade
from tests.service import MerchantServer, Service
from tests.sharing import Services
from tests.waiting import PATIENCE


@pytest.fixture
def place_seconds() -> float:
    return PATIENCE


@pytest.fixture
async def mercato(services: Services, database_kind: str, place_seconds: float) -> Service:
    return await services.of(database_kind, place_seconds=place_seconds)


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def test_an_order_is_validated_placed_followed_and_completed(here: Trade):
    order = here.order(amounts={"tip": "1.00"})
    said = await here.validate(order)
    assert said["isValid"] is True
    assert said["order"]["errors"] == []
    amounts = said["order"]["amounts"]
    assert (amounts["subTotal"], amounts["tip"], amounts["total"]) == ("5.80", "1.00", "6.80")

    reply = await here.place(order | {"validatedOrderToken": said["validatedOrderToken"]})
    assert reply.status == 201, reply.body
    placed = reply.json()
    assert reply.headers["Location"].endswith(f"{ORDERS}/{placed['orderId']}")
    assert (placed["state"], placed["status"], placed["partnerOrderId"]) == ("open", "pending", "A-1")
    assert placed["amounts"] == amounts
    assert "payment" not in placed

    for status in ("confirmed", "preparing", "ready"):
        moved = await here.update(placed, status=status)
        assert (moved.status, moved.json()["status"]) == (200, status)
    assert (await here.update(placed, state="completed")).json()["state"] == "completed"

    path = f"/{placed['orderId']}"
    mine = (await here.front.get(ORDERS + path)).json()
    theirs = (await here.pos.get("/v1/commerce/orders" + path)).json()
    assert {name for name in mine if mine[name] != theirs[name]} == {"cart"}
    assert (mine["state"], mine["status"]) == ("completed", "ready")
    timeline = (await here.front.get(f"{ORDERS}{path}/timeline")).json()
    happened = [entry["type"] for entry in timeline["entries"]]
    assert happened == ["placed", "webhook.attempt", "accepted", "updated", "updated", "updated", "completed"]


async def test_the_store_gets_the_order_with_names_and_amounts_under_the_order_id(here: Trade):
    placed = await here.placed()
    validate, place = await here.shop.webhook(), await here.shop.webhook()
    assert (validate[0], place[0]) == ("/hooks/validate", "/hooks/place")
    assert place[1]["webhook-id"] == place[1]["idempotency-key"] == placed["orderId"]
    assert place[1]["authorization"] == "Bearer from-pos"
    said: Any = json.loads(place[2])
    assert said["type"] == "order.place"
    assert said["data"]["orderId"] == placed["orderId"]
    assert said["data"]["order"]["cart"]["lineItems"][0]["name"] == "Tea"
    assert said["data"]["order"]["amounts"]["total"] == "5.80"
    assert "orderId" not in json.loads(validate[2])["data"]


@pytest.mark.parametrize("place_seconds", [1.5])
async def test_an_unanswered_order_stays_stored_and_is_accepted_once_its_store_answers(
    here: Trade, place_seconds: float
):
    here.shop.answers["place"] = down
    order, key = here.order() | {"validatedOrderToken": await here.token(here.order())}, "silent"
    reply = await here.place(order, key=key)
    assert (reply.status, reply.json()["errorCode"]) == (503, "STORE_UNREACHABLE")
    order_id = reply.json()["orderId"]
    assert (await here.front.get(f"{ORDERS}/{order_id}")).json()["state"] == "open"

    here.shop.answers["place"] = {"accepted": True, "partnerOrderId": "late"}
    joined = await here.place_until_answered(order, key=key)
    assert (joined.status, joined.json()["orderId"]) == (201, order_id)
    assert joined.json()["partnerOrderId"] == "late"


async def down(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)
