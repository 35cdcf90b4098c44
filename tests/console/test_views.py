"""Lists: orders by what people call them and in their views, active filters as chips, equal failures as one row."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.api.trade import Time, tea, trade
from tests.console.test_filters import count, filtered
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import MerchantServer, Service, service

from mercato.features.orders.privacy import erase_customer
from mercato.features.sign_in.roles import Role
from mercato_contract.wire import rfc3339


async def _refuse(_request: web.Request, _body: bytes) -> web.Response:
    return web.json_response({"accepted": False, "errors": [{"code": "ITEM_UNAVAILABLE", "message": "Gone"}]})


@mostly_sqlite
async def test_a_list_calls_an_order_by_its_number_its_customer_and_its_items(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    await deal.placed(deal.order(tea(quantity=2), tea(quantity=1) | {"note": "Hot"}))
    support, _ = await enter_as_person(mercato, Role.SUPPORT)
    for browser, names_customer in (
        (await enter_as_partner(mercato, deal.pos), True),
        (await enter_as_partner(mercato, deal.front), True),
        (await enter_as_partner(mercato, deal.pos, read_only=True), False),
        (await enter_as_operator(mercato), False),
        (support, False),
    ):
        (row,) = (await browser.open("/console/orders")).rows("Orders")
        assert row[0].startswith("A-1")
        assert row[0].endswith("3 items")
        assert ("Ada L." in row[0], "Lovelace" in row[0]) == (names_customer, False)


@mostly_sqlite
async def test_an_erased_customer_has_no_name_in_the_list(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await deal.placed()
    browser = await enter_as_partner(mercato, deal.pos)
    assert "Ada L." in (await browser.open("/console/orders")).rows("Orders")[0][0]
    async with mercato.app.db.write() as tx:
        assert (await erase_customer(tx, "ada@example.com", after=None, limit=10))[0] == 1
    (row,) = (await browser.open("/console/orders")).rows("Orders")
    assert "Ada" not in row[0]
    assert row[0].endswith("2 items")


async def test_the_views_have_the_orders_for_later_and_those_that_somebody_should_look_at(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    time = Time()
    async with service(database_url, tmp_path, now=time) as mercato:
        deal = await trade(mercato, shop)
        operator = await enter_as_operator(mercato)
        shop.answers["place"] = {"accepted": True}
        later = rfc3339(time() + timedelta(hours=3))
        scheduled = {"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": later}
        for_later = (await deal.placed(deal.order(fulfillment=scheduled)))["orderId"]
        fine = (await deal.placed())["orderId"]
        late = await deal.placed()
        assert (
            await deal.update(
                late, status="preparing", estimatedReadyAt=rfc3339(time() + timedelta(minutes=5))
            )
        ).status == 200
        shop.answers["place"] = _refuse
        assert (await deal.place(deal.order())).status != 201
        time.ahead += timedelta(minutes=20)
        for client in (deal.pos, deal.front):
            browser = await enter_as_partner(mercato, client)
            first = await browser.open("/console/orders")
            everything = first.ids("Orders")
            refused = next(one for one in everything if one not in {for_later, fine, late["orderId"]})
            seen = {
                name: (await browser.open(first.link(name))).ids("Orders")
                for name in ("Open", "Scheduled", "Problem")
            }
            assert seen == {
                "Open": [late["orderId"], fine, for_later],
                "Scheduled": [for_later],
                "Problem": [refused, late["orderId"]],
            }
            scheduled_page = await browser.open(first.link("Scheduled"))
            current = scheduled_page.root.all("a", **{"aria-current": "page"})
            assert "Scheduled" in [one.text for one in current]
        assert (await operator.open("/console/orders?view=problem")).ids("Orders") == [
            refused,
            late["orderId"],
        ]


@only_sqlite
async def test_what_is_active_is_shown_with_a_link_that_takes_it_away(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await deal.placed()
    browser = await enter_as_partner(mercato, deal.pos)
    page = await filtered(browser, "orders", storeId="Test Store", until="2030-01-01T10:00")
    chips = chips_of(page)
    assert list(chips) == ["Store: Test Store (remove)", "Until: 2030-01-01 10:00 (remove)"]
    assert count(page, "orders") == 1
    fewer = await browser.open(chips["Store: Test Store (remove)"])
    assert list(chips_of(fewer)) == ["Until: 2030-01-01 10:00 (remove)"]
    assert fewer.field("Until").attributes["value"] == "2030-01-01T10:00"
    assert chips_of(await browser.open("/console/orders?state=open")) == {}, "its tab says so"


def chips_of(page: Any) -> dict[str, str]:
    lists = [one for one in page.root.all("ul") if one.attributes.get("class") == "chips"]
    return {link.text: link.attributes["href"] for one in lists for link in one.all("a")}


@only_sqlite
async def test_a_list_ends_at_the_time_of_until(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await deal.placed()
    browser = await enter_as_partner(mercato, deal.pos)
    for until, found in (("2030-01-01T10:00", 1), ("2020-01-01T10:00", 0)):
        assert count(await filtered(browser, "orders", until=until), "orders") == found


@only_sqlite
async def test_an_open_orders_page_refreshes_itself_as_lists_do(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    path = f"/console/orders/{order['orderId']}"
    browser = await enter_as_partner(mercato, deal.pos)
    (part,) = (await browser.open(path)).root.all("div", id="order")
    assert part.attributes["hx-trigger"] == "every 10s"
    assert part.attributes["hx-get"].startswith(path)
    assert (await deal.update(order, state="completed")).status == 200
    (part,) = (await browser.open(path)).root.all("div", id="order")
    assert "hx-get" not in part.attributes, "it is over"


@only_sqlite
async def test_equal_failures_that_follow_each_other_are_one_row_with_the_others_folded(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    # Ids of one millisecond are in any order.
    for _ in range(3):
        assert (await deal.front.post("/v1/marketfront/carts/add", {"item": 5})).status == 400
    await mercato.app.request_log.flush()
    await asyncio.sleep(0.002)
    assert (await deal.front.get("/v1/marketfront/stores/x")).status == 404
    await mercato.app.request_log.flush()
    browser = await enter_as_partner(mercato, deal.front)
    page = await browser.open("/console/refused-requests")
    rows = page.rows("Requests")
    assert sorted(row[0].endswith("3 times") for row in rows) == [False, True]
    (folded,) = [one for one in page.root.all("details") if one.all("summary")[0].text == "The others"]
    for link in folded.all("a"):
        assert (await browser.open(link.attributes["href"])).status == 200
    assert len(folded.all("a")) == 2


@only_sqlite
async def test_lists_of_webhooks_requests_and_runs_end_at_until(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await deal.placed()
    await deal.pos.get("/v1/commerce/stores/x")
    await mercato.app.request_log.flush()
    browser = await enter_as_partner(mercato, deal.pos)
    for screen in ("webhooks", "refused-requests", "catalogs"):
        assert count(await filtered(browser, screen, until="2030-01-01T10:00"), screen) >= 1
        assert count(await filtered(browser, screen, until="2020-01-01T10:00"), screen) == 0
