"""What needs attention, on a merchant's overview."""

from datetime import UTC
from typing import Any

import pytest
from aiohttp import web
from tests.api.trade import trade
from tests.catalog.documents import cafe
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_partner
from tests.service import MerchantServer, Service

from mercato_catalog.model import DAYS


async def test_a_merchant_sees_what_needs_attention(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser, page = await enter_as_partner(mercato, deal.pos)
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
    stranger, page = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert "Nothing needs your attention." in page.text
    assert stranger.cookies


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
    browser, page = await enter_as_partner(mercato, deal.pos)
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
    stranger, page = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert "Stores closed by their hours" not in page.captions
    assert stranger.cookies


async def _fail(_request: Any, _body: bytes) -> web.Response:
    return web.Response(status=500, text=HOSTILE)
