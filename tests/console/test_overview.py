"""What needs attention, on a merchant's overview."""

from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from sqlalchemy import insert, select
from tests.api.reporting import move
from tests.api.trade import line, trade
from tests.catalog.documents import TEA, cafe
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.stores.tables import stores
from mercato.features.webhooks.tables import failing_stores
from mercato_catalog.model import DAYS

pytestmark = [shared, mostly_sqlite]


async def test_a_merchant_sees_what_needs_attention(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open("/console")
    assert "Nothing needs your attention." in page.text
    store = deal.store["storeId"]
    broken = cafe() | {"items": 7}
    await mercato.run(deal.pos, store, shop.host(broken, "/broken.json"))
    page = await browser.open("/console/overview")
    assert [row[2] for row in page.rows("Catalogs that failed")] == ["Test Store"]
    shop.answers["validate"] = _fail
    for _ in range(2):
        await deal.front.post("/v1/marketfront/orders/validate", deal.order())
    await mercato.app.store_health.flush()
    page = await browser.open("/console/overview")
    assert page.rows("Stores that need attention")[0][1].startswith(
        "Its last 2 calls failed. The last one: The "
    )
    reason = HOSTILE[:-1]
    path = f"/v1/commerce/stores/{store}/status"
    assert (await deal.pos.post(path, {"status": "paused", "pauseReason": reason})).status == 200
    page = await browser.open("/console/overview")
    check_frame(page)
    assert page.rows("Stores that need attention")[0][1] == f"It is paused: {reason}."
    assert len(page.rows("Stores that need attention")) == 1
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await stranger.open("/console")
    assert "This account has no store yet." in page.text
    assert stranger.cookies


async def test_a_session_of_one_store_sees_that_it_is_in_trouble_among_others_that_are(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mercato.console.screens.overview.SHOWN", 1)
    deal = await trade(mercato, shop)
    async with mercato.app.db.read() as tx:
        own = (await tx.all(select(stores).where(stores.c.id == UUID(deal.store["storeId"]))))[0]
    other = await mercato.live(deal.pos, shop.host(cafe(), "/other.json"), name="Other")
    now = mercato.app.clock()
    async with mercato.app.db.write() as writing:
        for store_id, calls in ((own.id, 3), (UUID(other["storeId"]), 9)):
            row = {"store_id": store_id, "partner_id": own.partner_id, "calls": calls, "error": "It hung up."}
            await writing.execute(
                insert(failing_stores).values(row | {"failing_since": now, "failed_at": now})
            )
    for store, calls in ((deal.store, 3), (other, 9)):
        browser = await enter_as_partner(mercato, deal.pos, store_id=store["storeId"])
        page = await browser.open("/console/overview")
        assert [f"{calls} calls failed" in row[1] for row in page.rows("Stores that need attention")] == [
            True
        ]


@pytest.mark.parametrize("handling", ["manual", "automatic"])
async def test_a_store_that_is_not_called_any_more_is_not_in_trouble_for_its_calls(
    mercato: Service, shop: MerchantServer, handling: str
):
    deal = await trade(mercato, shop)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    browser = await enter_as_partner(mercato, deal.pos)
    shop.answers["validate"] = _fail

    async def fail() -> None:
        for _ in range(2):
            await deal.front.post("/v1/marketfront/orders/validate", deal.order())

    await fail()
    await mercato.app.store_health.flush()
    assert "Its last 2 calls failed." in (await browser.open("/console/overview")).text
    await fail()
    assert (await deal.pos.call("PUT", path, {"orderHandling": handling})).status == 200
    # Also of calls whose results are written after the change.
    await mercato.app.store_health.flush()
    assert "calls failed" not in (await browser.open("/console/overview")).text
    assert (await deal.pos.call("PUT", path, {"orderHandling": None})).status == 200
    await fail()
    await mercato.app.store_health.flush()
    assert "Its last 2 calls failed." in (await browser.open("/console/overview")).text


async def test_a_merchant_sees_which_stores_are_closed_by_their_hours_and_when_they_open(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    today = mercato.app.clock().astimezone(UTC)
    other = DAYS[(today.isoweekday() + 3) % 7]
    document = cafe()
    (catalog,) = document["catalogs"].values()
    catalog["availability"] = [{"dayOfWeek": other, "start": "09:00:00", "end": "17:00:00"}]
    deal = await trade(mercato, shop, catalog=document)
    await mercato.live(deal.pos, shop.host(cafe(), "/open.json"), name="b")
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open("/console")
    zone = deal.store["timezone"]
    assert page.rows("Stores closed by their hours") == [["Test Store", f"{other} 09:00", zone]]
    assert "Nothing needs your attention." in page.text
    monkeypatch.setattr("mercato.console.screens.overview.MAX_SEARCHED", 2)
    monkeypatch.setattr("mercato.features.stores.search.MAX_SEARCHED", 2)
    page = await browser.open("/console/overview")
    assert "1 stores are closed now, of the newest 2." in page.text
    check_frame(page)
    monkeypatch.setattr("mercato.features.stores.search.MAX_SEARCHED", 1)
    assert "Stores closed by their hours" not in (await browser.open("/console/overview")).captions
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await stranger.open("/console")
    assert "Stores closed by their hours" not in page.captions
    assert stranger.cookies


@own()
async def test_today_is_shown_beside_yesterday_with_what_it_came_to(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    deal = await trade(mercato, shop)
    # At noon, so that no order is of another day.
    now = mercato.app.clock().replace(hour=12, minute=30, second=0, microsecond=0)
    for service in (mercato.app, mercato.app.hourly_orders):
        object.__setattr__(service, "clock" if service is mercato.app else "_now", lambda: now)
    placed = [await deal.placed() for _ in range(6)]
    body = {"type": "refund", "amount": "0.80", "reason": "Cold"}
    path = f"/v1/commerce/orders/{placed[0]['orderId']}/adjustments"
    assert (await deal.pos.post(path, body, headers={"Idempotency-Key": "a"})).status == 201
    assert (await deal.update(placed[1], state="cancelled", cancelReason="OTHER")).status == 200
    moments = (0.1, 0.2, 11, 24.1, 24.2, 13)
    for order, hours in zip(placed, moments, strict=True):
        await move(mercato, UUID(order["orderId"]), now - timedelta(hours=hours))
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open("/console")
    page = await browser.open("/console/overview")
    assert "3 orders today, 2 by this time yesterday" in page.text
    assert "10.80 USD today" in page.text
    bars = {row[0]: row[1:] for row in page.rows("Orders an hour, today")}
    assert len(bars) == 24
    assert (bars["12:00"], bars["01:00"], bars["23:00"]) == (["2", "2"], ["1", "0"], ["0", "1"])
    check_frame(page)
    assert_same = await browser.open(f"/console/reports?from={now.date()}&to={now.date()}")
    assert assert_same.rows("By day (USD)")[0][-1] == "10.80"


@own()
async def test_orders_of_the_largest_total_are_summed_up_to_the_minor_unit(
    mercato: Service, shop: MerchantServer
):
    menu = cafe()
    menu["items"][TEA]["basePrice"] = "92233720368547758.07"
    deal = await trade(mercato, shop, webhook=False, catalog=menu)
    for _ in range(3):
        await deal.placed(deal.order(line(TEA)))
    for browser in (await enter_as_partner(mercato, deal.pos), await enter_as_operator(mercato)):
        assert "276701161105643274.21 USD" in (await browser.open("/console")).text


async def test_orders_that_a_person_must_accept_stand_first(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, webhook=False)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    assert (await deal.pos.call("PUT", path, {"orderHandling": "manual"})).status == 200
    order = await deal.placed()
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open("/console")
    assert page.captions[0] == "Orders that wait to be accepted"
    assert page.ids("Orders that wait to be accepted") == [order["orderId"]]
    assert (await browser.open(page.link("Accept them on the board"))).status == 200
    assert "Nothing needs your attention." not in page.text
    assert (await deal.update(order, status="confirmed")).status == 200
    page = await browser.open("/console/overview")
    assert "Orders that wait to be accepted" not in page.captions
    assert "Nothing needs your attention." in page.text
    other = await (await enter_as_partner(mercato, deal.front)).open("/console")
    assert "Orders that wait to be accepted" not in other.captions


async def test_equal_failures_are_one_row(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    for number in range(3):
        broken = shop.host(cafe() | {"items": 7}, f"/broken{number}.json")
        await mercato.run(deal.pos, deal.store["storeId"], broken)
    shop.answers["validate"] = _fail
    for _ in range(4):
        await deal.front.post("/v1/marketfront/orders/validate", deal.order())
    page = await (await enter_as_partner(mercato, deal.pos)).open("/console")
    assert ["3 times" in row[0] for row in page.rows("Catalogs that failed")] == [True]
    assert ["4 times" in row[0] for row in page.rows("Deliveries that failed")] == [True]


async def _fail(_request: Any, _body: bytes) -> web.Response:
    return web.Response(status=500, text=HOSTILE)
