"""The discovery tester: what the API finds, as a table and as request and answer."""

import pytest
from tests.api.trade import trade
from tests.console.test_playground import answer
from tests.console.test_screens import check_frame
from tests.console.visiting import enter_as_partner
from tests.databases import mostly_sqlite
from tests.service import MerchantServer, Service

pytestmark = mostly_sqlite

DISCOVERY = "/console/playground/discovery"


async def test_stores_are_found_as_the_api_finds_them(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.front)
    page = await browser.open(f"{(await browser.open('/console/playground')).link('Discovery')}")
    assert page.title == "Discovery"
    assert "Response" not in page.text, "nothing is requested before a search"
    check_frame(page)
    page = await browser.press(page, "Discover", query="tea", openNow="true")
    assert [row[0] for row in page.rows("Stores")] == ["Test Store"]
    assert answer(page)[1]["totalCount"] == 1
    assert '"openNow": true' in page.region("Request")
    assert "client.discover_stores(request)" in page.region("Request")
    check_frame(page)
    assert (await browser.open(page.link("Playground"))).title == "Playground"
    none = await browser.press(page, "Discover", query="nothing")
    assert none.rows("Stores") == [["No matching stores. Leave out a field, or widen the radius."]]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"latitude": "1"}, "/location"),
        ({"latitude": "north", "longitude": "2"}, "/location/latitude"),
        ({"radius": "-1"}, "/radius"),
        ({"limit": "[1]"}, "/limit"),
    ],
)
async def test_what_the_api_refuses_is_its_answer(
    mercato: Service, shop: MerchantServer, fields: dict[str, str], pointer: str
):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.front)
    page = await browser.press(await browser.open(DISCOVERY), "Discover", **fields)
    assert answer(page)[1]["errors"][0]["pointer"] == pointer
    assert not page.captions


async def test_the_next_page_keeps_the_search(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    other = await mercato.live(
        deal.pos, shop.host({"currency": "USD", "sections": {}, "items": {}}, "/b"), name="b"
    )
    browser = await enter_as_partner(mercato, deal.front)
    first = await browser.press(await browser.open(DISCOVERY), "Discover", limit="1")
    second = await browser.open(first.link("Next page"))
    found = {page.link("Test Store").rpartition("/")[2] for page in (first, second)}
    assert found == {deal.store["storeId"], other["storeId"]}


async def test_a_session_of_one_store_finds_no_others(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.front, store_id=deal.store["storeId"])
    assert (await browser.open(DISCOVERY)).status == 404
    assert "Discovery" not in (await browser.open("/console/playground")).text


async def test_the_overview_counts_refused_requests_by_their_code(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    for _ in range(2):
        await deal.front.post("/v1/marketfront/carts/add", {})
    await deal.front.get(f"/v1/marketfront/stores/{deal.front}")
    await mercato.app.request_log.flush()
    browser = await enter_as_partner(mercato, deal.front)
    page = await browser.open("/console")
    rows = page.rows("Refused requests in 24 hours")
    assert (rows[0][0], rows[0][2]) == ("INVALID_REQUEST", "2")
    listed = await browser.open(page.link("INVALID_REQUEST"))
    assert listed.rows("Requests")[0][0] == "400 INVALID_REQUEST 2 times"
    first = await (await enter_as_partner(mercato, deal.pos)).open("/console")
    assert "Refused requests in 24 hours" not in first.captions
