"""Switches at an instant beside what else changes a store: switches back, sold-out items, and another currency."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.api.test_catalog_upload import arrive, ended, put, scheduled, soon
from tests.api.trade import Time, Trade, trade
from tests.catalog.documents import CAKE, TEA, cafe
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import shared
from tests.waiting import PATIENCE

from mercato_contract import clock
from mercato_contract.wire import parse_instant

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/commerce/stores"
FRONT = "/v1/marketfront/stores"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def menu(name: str, *, currency: str = "USD", without: str | None = None) -> Any:
    document = cafe() | {"currency": currency}
    document["items"][TEA]["name"] = name
    if without is not None:
        del document["items"][without]
        for section in document["sections"].values():
            section["itemIds"] = [item for item in section["itemIds"] if item != without]
    return document


async def later(here: Trade, document: Any, at: str) -> tuple[Any, Any]:
    """Schedule a document; return the 202 and the run once it waits."""
    reply = await put(here.pos, here.store, document, f"?activateAt={at}")
    run = await scheduled(here.mercato, here.pos, reply)
    assert run["status"] == "processing", run
    return reply, run


async def current(here: Trade) -> str:
    found: str = (await here.pos.get(f"{STORES}/{here.store['storeId']}")).json()["catalogSetId"]
    return found


async def activate(here: Trade, set_id: str) -> Any:
    reply = await here.pos.post(f"{STORES}/{here.store['storeId']}/catalog-sets/{set_id}/activate")
    assert reply.status == 200, reply.body
    return reply.json()


async def sell_out(here: Trade, item: str, *, available: bool = False) -> int:
    path = f"{STORES}/{here.store['storeId']}/item-availability"
    return (await here.pos.post(path, {"items": [{"itemId": item, "available": available}]})).status


async def sold_out(here: Trade) -> list[str]:
    found: list[str] = (await here.front.get(f"{FRONT}/{here.store['storeId']}")).json()["unavailableItemIds"]
    return found


# --- switches back --------------------------------------------------------------------------------


async def test_a_switch_back_before_the_instant_leaves_the_scheduled_switch_in_place(here: Trade, time: Time):
    first, at = here.store["catalogSetId"], soon(hours=1)
    second = (await ended(here.mercato, here.pos, await put(here.pos, here.store, menu("Second"))))[
        "catalogSetId"
    ]
    reply, run = await later(here, menu("Later"), at)
    assert await activate(here, first) == {"catalogSetId": first, "rolledBackFrom": second}
    assert (await here.pos.get(reply.json()["statusUrl"])).json()["status"] == "processing"
    await arrive(here.mercato, time, at)
    assert (await ended(here.mercato, here.pos, reply))["status"] == "succeeded"
    assert await current(here) == run["catalogSetId"]
    assert await activate(here, first) == {"catalogSetId": first, "rolledBackFrom": run["catalogSetId"]}


async def test_the_set_of_a_scheduled_switch_can_be_activated_before_its_instant(here: Trade, time: Time):
    first, at = here.store["catalogSetId"], soon(hours=1)
    reply, run = await later(here, menu("Later"), at)
    assert await activate(here, run["catalogSetId"]) == {
        "catalogSetId": run["catalogSetId"],
        "rolledBackFrom": first,
    }
    assert await current(here) == run["catalogSetId"]
    await arrive(here.mercato, time, at)
    assert (await ended(here.mercato, here.pos, reply))["status"] == "succeeded"
    assert await current(here) == run["catalogSetId"]
    listed = (await here.pos.get(f"{STORES}/{here.store['storeId']}/catalog-sets")).json()["catalogSets"]
    assert [one["catalogSetId"] for one in listed] == [run["catalogSetId"], first]


@on_both
async def test_a_cancelled_switch_to_a_set_that_is_served_by_now_keeps_it(here: Trade):
    reply, run = await later(here, menu("Later"), soon(hours=1))
    await activate(here, run["catalogSetId"])
    path = reply.json()["statusUrl"].removesuffix("/status") + "/activation"
    assert (await here.pos.call("DELETE", path)).status == 204
    failed = await ended(here.mercato, here.pos, reply)
    assert (failed["status"], len(failed["errors"])) == ("failed", 1)
    assert await current(here) == run["catalogSetId"]
    listed = (await here.pos.get(f"{STORES}/{here.store['storeId']}/catalog-sets")).json()["catalogSets"]
    assert (listed[0]["catalogSetId"], listed[0]["to"], listed[0]["isKept"]) == (
        run["catalogSetId"],
        None,
        True,
    )
    assert (await here.place(here.order())).status == 201


@pytest.mark.parametrize("by", ["document", "activation"])
async def test_a_switch_after_the_instant_stays_when_the_scheduled_one_is_made_late(
    here: Trade, time: Time, by: str
):
    first, at = here.store["catalogSetId"], soon(hours=1)
    reply, run = await later(here, menu("Later"), at)
    # The instant has passed, and the job that switches has not run yet.
    instant = parse_instant(at)
    assert instant is not None
    time.ahead = instant - clock.now() + timedelta(seconds=1)
    if by == "document":
        newest = await ended(here.mercato, here.pos, await put(here.pos, here.store, menu("Newest")))
        wanted = newest["catalogSetId"]
    else:
        wanted = first
        assert await activate(here, first) == {"catalogSetId": first, "rolledBackFrom": run["catalogSetId"]}
    assert (await here.pos.get(reply.json()["statusUrl"])).json()["status"] == "succeeded"
    await arrive(here.mercato, time, at)
    listed = (await here.pos.get(f"{STORES}/{here.store['storeId']}/catalog-sets")).json()["catalogSets"]
    assert [one["catalogSetId"] for one in listed] == [wanted, run["catalogSetId"], first]
    assert await current(here) == wanted


@on_both
@pytest.mark.parametrize("by", ["instant", "activation"])
async def test_a_catalog_that_is_built_after_its_instant_does_not_replace_one_that_came_later(
    here: Trade, shop: MerchantServer, time: Time, by: str
):
    first, early, late = here.store["catalogSetId"], soon(hours=1), soon(hours=2)
    await ended(here.mercato, here.pos, await put(here.pos, here.store, menu("Second")))
    wanted = (await later(here, menu("Evening"), late))[1]["catalogSetId"] if by == "instant" else first
    asked, pulled = asyncio.Event(), asyncio.Event()

    async def hosted(_: web.Request) -> web.Response:
        asked.set()
        await pulled.wait()
        return web.json_response(menu("Noon"))

    notice = {"callbackUrl": shop.host(hosted, "/noon.json"), "activateAt": early}
    path = f"/v1/commerce/catalogset-notification?storeId={here.store['storeId']}"
    reply = await here.pos.post(path, notice)
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
    await arrive(here.mercato, time, late if by == "instant" else early)
    if by == "activation":
        await activate(here, first)
    await here.mercato.until(
        here.pos, f"{STORES}/{here.store['storeId']}", lambda store: store["catalogSetId"] == wanted
    )
    pulled.set()
    run = await ended(here.mercato, here.pos, reply)
    assert await current(here) == wanted
    assert (run["status"], [fault["code"] for fault in run["errors"]]) == ("failed", ["superseded"])


async def test_a_catalog_that_is_built_after_its_instant_is_served_if_nothing_came_later(
    here: Trade, shop: MerchantServer, time: Time
):
    await ended(here.mercato, here.pos, await put(here.pos, here.store, menu("Second")))
    asked, pulled = asyncio.Event(), asyncio.Event()

    async def hosted(_: web.Request) -> web.Response:
        asked.set()
        await pulled.wait()
        return web.json_response(menu("Noon"))

    at = soon(hours=1)
    notice = {"callbackUrl": shop.host(hosted, "/late.json"), "activateAt": at}
    path = f"/v1/commerce/catalogset-notification?storeId={here.store['storeId']}"
    reply = await here.pos.post(path, notice)
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
    await arrive(here.mercato, time, at)
    pulled.set()
    run = await ended(here.mercato, here.pos, reply)
    assert (run["status"], await current(here)) == ("succeeded", run["catalogSetId"])


# --- sold-out items -------------------------------------------------------------------------------


async def test_a_sold_out_item_stays_so_over_a_scheduled_switch_and_one_that_lacks_it(
    here: Trade, time: Time
):
    assert await sell_out(here, CAKE) == 200
    at = soon(hours=1)
    first = here.store["catalogSetId"]
    without, _ = await later(here, menu("Without", without=CAKE), at)
    await arrive(here.mercato, time, at)
    assert (await ended(here.mercato, here.pos, without))["status"] == "succeeded"
    # What the set lacks can't be bought anyway, and is still known as sold out when it comes back.
    assert await sell_out(here, TEA) == 200
    await activate(here, first)
    assert sorted(await sold_out(here)) == sorted([CAKE, TEA])
    cake = here.order({"itemId": CAKE, "quantity": 1, "modifierGroups": []})
    said = await here.place(cake)
    assert (said.status, said.json()["errorCode"]) == (400, "ITEM_UNAVAILABLE")
    for item in (CAKE, TEA):
        assert await sell_out(here, item, available=True) == 200
    assert (await here.place(cake)).status == 201


async def test_an_item_of_a_set_that_is_not_served_yet_can_not_be_sold_out(here: Trade, time: Time):
    first = await ended(
        here.mercato, here.pos, await put(here.pos, here.store, menu("No cake", without=CAKE))
    )
    assert await current(here) == first["catalogSetId"]
    at = soon(hours=1)
    reply, _ = await later(here, menu("Cake again"), at)
    assert await sell_out(here, CAKE) == 422
    await arrive(here.mercato, time, at)
    await ended(here.mercato, here.pos, reply)
    assert await sell_out(here, CAKE) == 200


# --- another currency -----------------------------------------------------------------------------


async def test_an_order_is_never_placed_in_a_currency_that_its_customer_was_not_shown(
    here: Trade, time: Time
):
    """The numbers are the same in both currencies: only the currency differs."""
    token = await here.token(here.order())
    placed = await here.placed()
    at = soon(hours=1)
    reply, run = await later(here, menu("Tea", currency="EUR"), at)
    before = await here.place(here.order(amounts={"currency": "USD", "total": "5.80"}))
    assert (before.status, before.json()["amounts"]["currency"]) == (201, "USD")
    assert (await here.place(here.order(amounts={"currency": "EUR"}))).status == 422, "not before its instant"
    await arrive(here.mercato, time, at)
    await ended(here.mercato, here.pos, reply)
    fresh = here.order() | {"cart": here.order()["cart"] | {"catalogSetId": run["catalogSetId"]}}
    for order in (here.order(validatedOrderToken=token), fresh | {"validatedOrderToken": token}):
        refused = await here.place(order)
        assert (refused.status, refused.json()["errorCode"]) == (400, "ORDER_TOKEN_INVALID")
    # A total without a currency is in that of the cart's set.
    refused = await here.place(here.order(amounts={"total": "5.80"}))
    assert (refused.status, refused.json()["errorCode"]) == (400, "ORDER_TOTAL_DIFFERENT")
    assert "a CatalogSet in USD; the store sells in EUR now" in refused.json()["detail"]
    assert (await here.place(fresh | {"amounts": {"total": "5.80"}})).status == 201
    refused = await here.place(here.order(amounts={"currency": "USD", "total": "5.80"}))
    assert (refused.status, refused.json()["errors"][0]["pointer"]) == (422, "/amounts/currency")
    after = await here.place(fresh | {"amounts": {"currency": "EUR", "total": "5.80"}})
    assert (after.status, after.json()["amounts"]["currency"]) == (201, "EUR")
    # What was placed before stays in its currency.
    path = f"/v1/commerce/orders/{placed['orderId']}/adjustments"
    refund = {"type": "refund", "amount": "1.00", "reason": "Cold"}
    wrong = await here.pos.post(path, refund | {"currency": "EUR"}, headers={"Idempotency-Key": "1"})
    assert wrong.status == 422
    right = await here.pos.post(path, refund | {"currency": "USD"}, headers={"Idempotency-Key": "2"})
    assert (
        right.json()["amounts"] | {"currency": "USD", "totalAfterAdjustments": "4.80"}
        == right.json()["amounts"]
    )


async def test_a_minimum_is_in_its_own_currency_and_applies_again_after_a_switch_back(
    here: Trade, time: Time
):
    path = f"{STORES}/{here.store['storeId']}"
    assert (await here.pos.call("PUT", path, {"minimumOrderAmount": "100.00"})).status == 200
    at, first = soon(hours=1), here.store["catalogSetId"]
    reply, _ = await later(here, menu("Thé", currency="EUR"), at)
    await arrive(here.mercato, time, at)
    await ended(here.mercato, here.pos, reply)
    assert (await here.place(here.order())).status == 201
    await activate(here, first)
    refused = await here.place(here.order())
    assert (refused.status, refused.json()["errorCode"]) == (400, "ORDER_BELOW_MINIMUM")
