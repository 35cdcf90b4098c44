"""Who brings an order, and when: the merchant says so, and both sides read it until the customer is erased."""

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.api.examples import in_turn
from tests.api.trade import CUSTOMER, MERCHANT, ORDERS, Trade, trade
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.orders.privacy import erase_all
from mercato.features.upkeep import Upkeep
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

COURIER = {"name": "Sam Zqcourier", "phone": "+15550177", "trackingUrl": "https://track.example.com/zq1"}
AT = "2099-01-31T18:30:00.000Z"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


def brought(order: Any) -> tuple[Any, Any]:
    return order["courier"], order["estimatedDeliveryAt"]


@on_both
async def test_both_sides_and_the_event_say_who_brings_the_order_and_when(here: Trade):
    placed = await here.placed()
    assert brought(placed) == (None, None)
    reply = await here.update(placed, courier=COURIER, estimatedDeliveryAt="2099-01-31T19:30:00+01:00")
    assert (reply.status, reply.json()["status"]) == (200, "pending")
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        assert brought((await client.get(f"{path}/{placed['orderId']}")).json()) == (COURIER, AT)
    while True:
        path, _, body = await here.shop.webhook()
        if path == "/events" and json.loads(body)["type"] == "order.updated":
            break
    assert brought(json.loads(body)["data"]["order"]) == (COURIER, AT)
    only_phone = {"name": None, "phone": "+15550188", "trackingUrl": None}
    assert (await here.update(placed, courier={"phone": "+15550188"})).status == 200
    order = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}")).json()
    assert brought(order) == (only_phone, AT)
    entries = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}/timeline")).json()["entries"]
    details = [one["detail"] for one in entries if one["type"] == "updated"]
    assert details == [{"estimatedDeliveryAt": AT, "courier": "assigned"}, {"courier": "assigned"}]


@on_both
async def test_the_same_courier_again_changes_nothing_also_once_the_order_is_closed(here: Trade):
    placed = await here.placed()
    change = {"state": "completed", "courier": COURIER, "estimatedDeliveryAt": AT}
    first, again = [await here.update(placed, **change) for _ in range(2)]
    assert first.json() == again.json()
    other = await here.update(placed, state="completed", courier={"name": "Kim"})
    assert other.json()["errorCode"] == "ORDER_CLOSED"


@only_sqlite
@in_turn(
    ("change", "status", "pointer"),
    [
        ({"courier": {}}, 422, "/courier"),
        ({"courier": {"name": None}}, 422, "/courier"),
        ({"courier": {"trackingUrl": "javascript:alert(1)"}}, 422, "/courier/trackingUrl"),
        ({"courier": {"trackingUrl": "x" * 2049}}, 422, "/courier/trackingUrl"),
        ({"courier": {"name": "x" * 257}}, 422, "/courier/name"),
        ({"courier": {"phone": 7}}, 400, "/courier/phone"),
        ({"courier": "Sam"}, 400, "/courier"),
        ({"estimatedDeliveryAt": "soon"}, 422, "/estimatedDeliveryAt"),
        ({"estimatedDeliveryAt": None, "courier": None}, 422, ""),
    ],
)
async def test_a_courier_that_says_nothing_or_something_wrong_is_refused(
    here: Trade, change: Any, status: int, pointer: str
):
    placed = await here.placed()
    reply = await here.update(placed, **change)
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (status, pointer)


@own()
@on_both
async def test_operators_see_no_courier_and_it_is_erased_with_the_customer(here: Trade, mercato: Service):
    placed = await here.placed()
    await here.update(placed, courier=COURIER)
    path = f"/console/orders/{placed['orderId']}"
    partner = await enter_as_partner(mercato, here.pos)
    operator = await enter_as_operator(mercato)
    assert "Zqcourier" in (await partner.open(path)).text
    assert "zq" not in (await operator.open(path)).text.lower()
    deliveries = "/v1/marketfront/webhook-deliveries?status=pending"
    await mercato.until(here.front, deliveries, lambda page: not page["deliveries"])
    later = clock.now() + timedelta(days=91)
    await Upkeep(mercato.app.db, lambda: later, catalog_days=30, delivery_days=30).once()
    assert (await here.pos.get(f"{MERCHANT}/{placed['orderId']}")).json()["courier"] is None


@own()
async def test_a_courier_that_comes_after_its_orders_customer_was_erased_is_not_kept(here: Trade):
    placed = await here.placed()
    await erase_all(here.mercato.app.db, CUSTOMER["email"])
    for change in ({"courier": COURIER}, {"courier": COURIER, "state": "completed"}):
        for _ in range(2):  # a repeat changes nothing
            assert (await here.update(placed, **change)).status == 200
    for client, path in ((here.pos, MERCHANT), (here.front, ORDERS)):
        order = (await client.get(f"{path}/{placed['orderId']}")).json()
        assert (order["state"], order["courier"]) == ("completed", None)
    feed = await here.mercato.until(
        here.front,
        "/v1/marketfront/events",
        lambda page: any(event["data"]["order"]["state"] == "completed" for event in page["events"]),
    )
    assert {event["data"]["order"]["courier"] for event in feed["events"]} == {None}
