"""What a merchant's overview says needs attention."""

from typing import Any

from aiohttp import web
from tests.api.trade import trade
from tests.catalog.documents import cafe
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_partner
from tests.service import Merchant, Service


async def test_a_merchant_sees_what_needs_attention(mercato: Service, shop: Merchant):
    deal = await trade(mercato, shop)
    browser, page = await enter_as_partner(mercato, deal.pos)
    assert "Nothing needs your attention." in page.text
    store = deal.store["storeId"]
    broken = cafe() | {"items": 7}
    await mercato.run(deal.pos, store, shop.host(broken, "/broken.json"))
    page = await browser.open("/console/overview")
    assert [row[2] for row in page.rows("Catalogs that failed")] == ["Test Store"]
    shop.answers["validate"] = _fail
    await deal.front.post("/v1/marketfront/orders/validate", deal.order())
    page = await browser.open("/console/overview")
    assert page.rows("Stores that need attention")[0][1].startswith("A call to it failed. order.validate")
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


async def _fail(_request: Any, _body: bytes) -> web.Response:
    return web.Response(status=500, text=HOSTILE)
