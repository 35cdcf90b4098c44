"""Metrics of the business: carts, validations, orders and catalogs are counted, and money isn't."""

import json

import pytest
from tests.api.test_metrics import figures
from tests.api.trade import Trade, line, trade
from tests.databases import mostly_sqlite
from tests.service import MerchantServer, Service

from mercato_contract.clock import new_id

pytestmark = mostly_sqlite


@pytest.fixture
async def market(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, pulls=True)


async def test_carts_validations_and_orders_are_counted_by_result_code_and_reason(market: Trade):
    item = market.order()["cart"]["lineItems"][0]
    store = {name: market.store[name] for name in ("storeId", "catalogSetId")}
    assert (await market.front.post("/v1/marketfront/carts/add", {"item": item} | store)).status == 200
    await market.validate(market.order())
    assert not (await market.validate(market.order(line(str(new_id())))))["isValid"]
    order = await market.placed()
    await market.update(order, state="cancelled", cancelReason="their own words")
    assert (await market.place(market.order(line(str(new_id()))))).status >= 400
    market.shop.answers["place"] = {"accepted": False, "errors": [{"code": "STORE_CLOSED", "message": "no"}]}
    assert (await market.place(market.order())).status >= 400
    now = await figures(market.mercato)
    assert now["mercato_carts_total"] == {(): 1}
    assert now["mercato_validations_total"] == {("valid",): 1, ("invalid",): 1}
    assert now["mercato_orders_placed_total"] == {(): 2}
    assert now["mercato_orders_refused_total"] == {("ITEM_UNAVAILABLE",): 1, ("STORE_CLOSED",): 1}
    assert now["mercato_orders_cancelled_total"] == {("OTHER",): 1}


async def test_a_repeated_request_counts_its_order_once(market: Trade):
    for _ in range(2):
        assert (await market.place(market.order(), key="same")).status == 201
    assert (await figures(market.mercato))["mercato_orders_placed_total"] == {(): 1}


async def test_catalogs_that_switch_or_fail_are_counted_and_unchanged_ones_are_not(market: Trade):
    store_id = market.store["storeId"]
    document = json.loads(json.dumps(market.shop.documents["/catalog.json"]))
    for path, content in (("/catalog.json", document), ("/new.json", document | {"x": 1}), ("/b.json", b"{")):
        await market.mercato.run(market.pos, store_id, market.shop.host(content, path))
    # The first catalog came with the store.
    assert (await figures(market.mercato))["mercato_catalogs_total"] == {("switched",): 2, ("failed",): 1}
