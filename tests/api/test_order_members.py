"""Each member of an order that a storefront may send, and that is no secret, comes back to both sides."""

from typing import Any

import pytest
from msgspec import Struct
from tests.api.members import differences, members_of, sample
from tests.api.trade import MERCHANT, ORDERS, Trade, trade
from tests.service import MerchantServer, Service

from mercato_contract.orders import CommerceOrder, Order
from mercato_contract.placements import ClientContext, Customer, DeliveryFulfillment, PlaceOrderRequest

NOT_SHOWN = {"payment": "only the store's webhook has it", "validatedOrderToken": "a secret"}
"""Members of a request that no reader gets, and why."""


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def sent_to(here: Trade) -> dict[str, Any]:
    """Return an order for now with every member; its street is sent under one of its two names."""
    fulfillment = sample(DeliveryFulfillment, 0, here.shop.base) | {"mode": "DELIVERY_BY_MERCHANT"}
    del fulfillment["scheduledTime"], fulfillment["address"]["street"]
    return here.order() | {
        "clientContext": sample(ClientContext, 0, here.shop.base),
        "customer": sample(Customer, 0, here.shop.base),
        "fulfillment": fulfillment,
        "amounts": {"tip": "0.50"},
        "note": "No sugar",
    }


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
    del body["cart"]  # Told with names and prices instead of as it was sent.
    for who, shown, shape in readers:
        assert (who, body.keys() - shown.keys()) == (who, set())
        faults = list(differences(body, shown, shape))
        faults += differences(body["fulfillment"], shown["fulfillment"], DeliveryFulfillment)
        assert (who, faults) == (who, [])
