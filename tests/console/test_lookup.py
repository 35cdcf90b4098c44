"""The operator's search field: anything that has an id is found by it."""

from tests.api.trade import trade
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_whole_account
from tests.service import Merchant, Service

from mercato.features.partners.model import PartnerKind
from mercato.platform import clock


async def test_anything_is_found_by_its_id(mercato: Service, shop: Merchant):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    order = (await deal.placed())["orderId"]
    path = "/v1/marketfront/webhook-deliveries"
    sent = await mercato.until(deal.front, path, lambda page: page["deliveries"])
    delivery = sent["deliveries"][0]
    made, client = await mercato.partner(name="Joe's <b>Pizza")
    assert (await client.get("/v1/commerce/stores/x", headers={"X-Request-Id": "mine"})).status == 404
    await mercato.app.request_log.flush()
    browser, page = await enter_as_operator(mercato)
    for text, there, kind in (
        (order, f"orders/{order}", "order"),
        (f" {order.upper()} ", f"orders/{order}", "order"),
        (order[:30], f"orders/{order}", "order"),
        (deal.store["storeId"], f"stores/{deal.store['storeId']}", "store"),
        (str(made.id), f"partners/{made.id}", "partner"),
        ("Joe's <b>Pizza", f"partners/{made.id}", "partner"),
        (made.key, f"partners/{made.id}", "partner"),
        (made.key[:18], f"partners/{made.id}", "partner"),
        (delivery["deliveryId"], f"deliveries/{delivery['deliveryId']}", "delivery"),
        (delivery["webhookId"], f"deliveries/{delivery['deliveryId']}", "delivery"),
    ):
        found = await browser.press(page, "Search", text=text)
        assert (found.status, found.url.partition("/console/")[2]) == (200, there), text
        assert found.status_region == f"Found this {kind}."
        assert made.key not in found.body.decode()
    found = await browser.press(page, "Search", text="mine")
    assert found.heading == "Request mine"


async def test_unknown_and_ambiguous_ids_are_reported(mercato: Service):
    _, client = await mercato.partner()
    for _ in range(2):
        await client.get("/v1/commerce/stores/x", headers={"X-Request-Id": "twice"})
    await mercato.app.request_log.flush()
    browser, page = await enter_as_operator(mercato)
    several = await browser.press(page, "Search", text="twice")
    check_frame(several)
    assert [row[0] for row in several.rows("Found")] == ["request", "request"]
    for text in (str(clock.new_id()), HOSTILE, "0", "%", "", "\N{SNOWMAN}" * 99):
        none = await browser.press(page, "Search", text=text)
        assert (none.status, "Nothing found" in none.text) == (200, True), text
        check_frame(none)
    assert "Nothing has" not in (await browser.open("/console/search")).text


async def test_a_partner_has_no_search(mercato: Service):
    browser, first = await enter_whole_account(mercato, (await mercato.partner(PartnerKind.BOTH))[0].id)
    assert "Search" not in first.buttons
    assert (await browser.open("/console/search")).status == 404
    assert (await browser.post("/console/search", {"text": "x"})).status == 404
