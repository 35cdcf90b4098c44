"""What a merchant opens next: empty pages say what fills them, and one thing's page links to the others."""

from tests.api.trade import trade
from tests.console.visiting import enter_as_partner
from tests.service import Merchant, Service


async def test_empty_pages_of_a_new_merchant_say_what_to_do(mercato: Service):
    browser, _ = await enter_as_partner(mercato, (await mercato.partner())[1])
    for path, words in (
        ("stores", "Register one with POST /v1/commerce/onboarding/stores"),
        ("catalogs", "Registering a store starts one"),
        ("requests", "No request was refused."),
        ("requests?errorCode=FORBIDDEN", "No matching requests."),
        ("stores?status=paused", "No matching stores."),
    ):
        assert words in (await browser.open(f"/console/{path}")).text


async def test_a_refused_request_a_run_and_a_list_of_orders_lead_to_the_order_and_the_store(
    mercato: Service, shop: Merchant
):
    deal = await trade(mercato, shop)
    order, store = (await deal.placed())["orderId"], deal.store["storeId"]
    refused = await deal.pos.post(f"/v1/commerce/orders/{order}/status", {"status": "delivered"})
    assert refused.status == 422
    await mercato.app.request_log.flush()
    browser, _ = await enter_as_partner(mercato, deal.pos)
    listed = await browser.open("/console/refused-requests")
    request = await browser.open(listed.link(listed.rows("Requests")[0][1]))
    assert request.link(order) == f"/console/orders/{order}"
    runs = await browser.open("/console/catalogs")
    run = await browser.open(f"/console/catalogs/{runs.ids('Runs')[0]}")
    assert run.link(store) == f"/console/stores/{store}"
    assert (await browser.open("/console/orders")).link("Test Store") == f"/console/stores/{store}"
    timeline = (await browser.open(f"/console/orders/{order}")).rows("Timeline")
    assert "The store accepted the order." in [row[2] for row in timeline]
