"""Metrics of the business: carts, validations, orders and catalogs are counted, and money isn't."""

import json

import pytest
from tests.api.test_metrics import figures
from tests.api.trade import Trade, line, trade
from tests.service import Merchant, Service

from mercato.kernel.clock import new_id


@pytest.fixture
async def house(mercato: Service, shop: Merchant) -> Trade:
    return await trade(mercato, shop)


async def test_carts_validations_and_orders_are_counted_by_result_code_and_reason(house: Trade):
    item = house.order()["cart"]["lineItems"][0]
    store = {name: house.store[name] for name in ("storeId", "catalogSetId")}
    assert (await house.front.post("/v1/marketfront/carts/add", {"item": item} | store)).status == 200
    await house.validate(house.order())
    assert not (await house.validate(house.order(line(str(new_id())))))["isValid"]
    order = await house.placed()
    await house.update(order, state="cancelled", cancelReason="their own words")
    assert (await house.place(house.order(line(str(new_id()))))).status >= 400
    house.shop.answers["place"] = {"accepted": False, "errors": [{"code": "STORE_CLOSED", "message": "no"}]}
    assert (await house.place(house.order())).status >= 400
    now = await figures(house.mercato)
    assert now["mercato_carts_total"] == {(): 1}
    assert now["mercato_validations_total"] == {("valid",): 1, ("invalid",): 1}
    assert now["mercato_orders_placed_total"] == {(): 2}
    assert now["mercato_orders_refused_total"] == {("ITEM_UNAVAILABLE",): 1, ("STORE_CLOSED",): 1}
    assert now["mercato_orders_cancelled_total"] == {("OTHER",): 1}


async def test_a_repeated_request_counts_its_order_once(house: Trade):
    for _ in range(2):
        assert (await house.place(house.order(), key="same")).status == 201
    assert (await figures(house.mercato))["mercato_orders_placed_total"] == {(): 1}


async def test_catalogs_that_switch_or_fail_are_counted_and_unchanged_ones_are_not(house: Trade):
    store_id = house.store["storeId"]
    document = json.loads(json.dumps(house.shop.documents["/catalog.json"]))
    for path, content in (("/catalog.json", document), ("/new.json", document | {"x": 1}), ("/b.json", b"{")):
        await house.mercato.run(house.pos, store_id, house.shop.host(content, path))
    # The first catalog came with the store.
    assert (await figures(house.mercato))["mercato_catalogs_total"] == {("switched",): 2, ("failed",): 1}
