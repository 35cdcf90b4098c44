"""Each member of an order that a storefront may send reaches the store, and comes back to both sides unless secret."""

import json
from typing import Any
from uuid import uuid4

import pytest
from msgspec import Struct
from tests.api.members import differences, members_of, sample
from tests.api.trade import MERCHANT, ORDERS, Trade, line, trade
from tests.catalog.documents import TEA
from tests.service import MerchantServer, Service
from tests.sharing import shared

from mercato_contract.carts import LineItem
from mercato_contract.events import WebhookOrder
from mercato_contract.orders import CommerceOrder, Order
from mercato_contract.placements import (
    ClientContext,
    Customer,
    DeliveryFulfillment,
    OrderCore,
    PlaceOrderRequest,
)

pytestmark = shared

CARD = {"type": "cardOnFile", "cardToken": "tok_card_4242", "processorType": "stripe"}

NOT_SHOWN = {"payment": "only the store's webhook has it", "validatedOrderToken": "a secret"}
"""Members of a request that no reader gets, and why."""


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def sent_to(here: Trade) -> dict[str, Any]:
    """Return an order for now with every member; its street is sent under one of its two names."""
    fulfillment = sample(DeliveryFulfillment, 0, here.shop.base) | {"mode": "DELIVERY_BY_MERCHANT"}
    del fulfillment["scheduledTime"], fulfillment["address"]["street"]
    own = line(TEA) | {"lineItemId": str(uuid4()), "note": "Hot"}
    assert own.keys() == members_of(LineItem).keys(), "Send the line's new member here, too."
    return here.order(own) | {
        "clientContext": sample(ClientContext, 0, here.shop.base),
        "customer": sample(Customer, 0, here.shop.base),
        "fulfillment": fulfillment,
        "amounts": {"tip": "0.50"},
        "note": "No sugar",
    }


def faults_of(body: dict[str, Any], shown: Any, shape: type[Struct]) -> list[str]:
    """Return which members of a sent order are missing, or different, where it is shown in this shape."""
    faults = [f"/{name} is missing" for name in body.keys() - shown.keys()]
    # The cart is shown with names and prices.
    faults += differences({name: value for name, value in body.items() if name != "cart"}, shown, shape)
    faults += differences(body["fulfillment"], shown["fulfillment"], DeliveryFulfillment)
    sent, got = body["cart"]["lineItems"], shown["cart"]["lineItems"]
    return faults + [
        fault for mine, its in zip(sent, got, strict=True) for fault in differences(mine, its, LineItem)
    ]


async def test_each_member_that_a_storefront_sends_comes_back_to_both_sides(here: Trade) -> None:
    body = sent_to(here)
    assert members_of(PlaceOrderRequest).keys() - body.keys() == NOT_SHOWN.keys(), (
        "Send the new member here, too."
    )
    placed = await here.placed(body)
    own = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}")).json()
    again = (await here.front.get(f"{ORDERS}/{placed['orderId']}")).json()
    readers: list[tuple[str, Any, type[Struct]]] = [
        ("the answer", placed, Order),
        ("the storefront", again, Order),
        ("the merchant", own, CommerceOrder),
    ]
    assert [(who, faults_of(body, shown, shape)) for who, shown, shape in readers] == [
        (who, []) for who, *_ in readers
    ]


async def test_each_member_that_a_storefront_sends_reaches_the_store(here: Trade) -> None:
    body = sent_to(here)
    assert members_of(OrderCore).keys() == body.keys(), "Send the new member here, too."
    await here.validate(body)
    await here.placed(body | {"payment": CARD})
    heard: dict[str, Any] = {}
    while heard.keys() != {"order.validate", "order.place"}:
        message = json.loads((await here.shop.webhook())[2])
        if "catalog" not in message["type"]:
            heard[message["type"]] = message["data"]
    assert heard["order.place"]["payment"] == CARD
    for name, data in heard.items():
        assert (name, faults_of(body, data["order"], WebhookOrder)) == (name, [])
