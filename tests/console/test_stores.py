"""The stores of the console: whether they can be ordered from, pausing them, and what is sold out."""

from datetime import timedelta

from tests.api.trade import trade
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_whole_account
from tests.service import MerchantServer, Service

from mercato.features.partners.model import PartnerKind
from mercato.platform.db.audit import list_entries
from mercato_contract import clock
from mercato_contract.wire import rfc3339


async def test_a_store_is_paused_and_resumed(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    store = deal.store["storeId"]
    for browser, _ in (await enter_as_partner(mercato, deal.pos), await enter_as_operator(mercato)):
        listed = await browser.open("/console/stores?status=online")
        assert len(listed.rows("Stores")) == 1
        page = await browser.open(f"/console/stores/{store}")
        until = rfc3339(clock.now() + timedelta(hours=1))[:16]
        paused = await browser.press(page, "Pause store", pauseReason="<b>Fire</b>", resumeAt=until)
        assert (
            paused.status_region
            == f"The store is paused until {until.replace('T', ' ')} UTC: it takes no orders."
        )
        assert "The store is paused until" in paused.text
        assert "<b>Fire</b>" in paused.text
        seen = (await deal.front.get(f"/v1/marketfront/stores/{store}/availability")).json()
        assert seen["reason"] == "PAUSED"
        resumed = await browser.press(paused, "Resume store")
        assert resumed.status_region.startswith("The store is resumed")
        seen = (await deal.front.get(f"/v1/marketfront/stores/{store}/availability")).json()
        assert seen["isOpen"]
    async with mercato.app.db.read() as tx:
        entries = await list_entries(tx, action="console.pauseStore", limit=5)
    assert [one.actor.split(":")[1] for one in entries] == ["cli", "key"]


async def test_a_pause_that_ends_in_the_past_is_refused_with_the_reason(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser, _ = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/stores/{deal.store['storeId']}")
    refused = await browser.press(page, "Pause store", resumeAt="2020-01-01T10:00")
    assert refused.status == 422
    assert "resumeAt" in refused.text


async def test_a_store_says_whether_it_is_open_at_a_chosen_instant(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    store = deal.store["storeId"]
    for client in (deal.pos, deal.front):
        browser, _ = await enter_as_partner(mercato, client)
        page = await browser.open(f"/console/stores/{store}?at=2026-03-02T12:00")
        api = await deal.front.get(f"/v1/marketfront/stores/{store}/availability?at=2026-03-02T12:00:00Z")
        assert api.json()["detail"] in page.text
    assert (await browser.open(f"/console/stores/{store}?at=0001-01-01T00:00")).status == 422


async def test_items_are_found_by_name_and_switched(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser, _ = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/stores/{deal.store['storeId']}?item=TEA")
    assert [row[0] for row in page.rows("Items")] == ["Tea"]
    sold_out = await browser.press(page, "Mark sold out")
    assert sold_out.status_region == "Tea is sold out."
    assert [row[0] for row in sold_out.rows("Items")] == ["Tea sold out"], "the search stays"
    assert not (await deal.validate(deal.order()))["isValid"]
    available = await browser.press(sold_out, "Mark available")
    assert available.status_region == "Tea is available."
    assert (await deal.validate(deal.order()))["isValid"]


async def test_a_storefront_finds_stores_and_changes_none(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    store = deal.store["storeId"]
    browser, _ = await enter_as_partner(mercato, deal.front)
    found = await browser.open("/console/stores?query=tea")
    assert found.rows("Stores")[0][0] == "Test Store"
    page = await browser.open(f"/console/stores/{store}")
    assert "Pause store" not in page.buttons
    assert "Mark sold out" not in page.buttons
    for path in ("pause", "resume", "items"):
        assert (await browser.post(f"/console/stores/{store}/{path}")).status == 404
    both, _ = await enter_whole_account(mercato, (await mercato.partner(PartnerKind.BOTH))[0].id)
    assert (await both.post(f"/console/stores/{store}/pause")).status == 404
    assert (await both.open(f"/console/stores/{store}")).status == 200
    stranger, _ = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert (await stranger.open(f"/console/stores/{store}")).status == 404
