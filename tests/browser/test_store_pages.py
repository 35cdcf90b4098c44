"""A store's page and the forms below it, as people see them."""

from typing import Any

import pytest
from tests.api.trade import trade
from tests.browser.test_screens import sign_in
from tests.browser.test_walks import check
from tests.catalog.documents import cafe
from tests.console.visiting import operator_link, partner_link
from tests.service import MerchantServer, Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = "https://pictures.example.com/tea.png"


async def test_a_merchant_sees_state_actions_and_facts_before_the_items_and_changes_taxes(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int]
):
    scheme, width = look
    document = cafe()
    for item in document["items"].values():
        item["imageUrl"] = PICTURE
    deal = await trade(mercato, shop, webhook=False, catalog=document)
    store = f"{mercato.base}/console/stores/{deal.store['storeId']}"
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(store)
    assert (
        await page.get_by_role("region", name="Now", exact=True).get_by_text("open", exact=True).count() == 1
    )
    pictures = page.locator("img.thumbnail")
    assert {await one.get_attribute("loading") for one in await pictures.all()} == {"lazy"}
    await check(page, f"store-{scheme}-{width}")
    await page.get_by_role("link", name="Change how orders are handled", exact=True).click()
    await page.get_by_role("radio", name="A person accepts each order", exact=True).check()
    await page.get_by_label("Minutes to accept an order").fill("15")
    await check(page, f"store-handling-{scheme}-{width}")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_text("A person accepts each within 15 minutes").wait_for()
    await page.get_by_role("link", name="Change taxes and fees", exact=True).click()
    await page.get_by_label("Name", exact=True).first.fill("VAT")
    await page.get_by_label("Value", exact=True).first.fill("7,5")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_text("Write 7.5").wait_for()
    await check(page, f"store-charges-{scheme}-{width}")
    await page.get_by_label("Value", exact=True).first.fill("7.5")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_text("VAT: 7.5 % of the items", exact=True).wait_for()
    await page.get_by_role("link", name="Change hours", exact=True).click()
    await page.get_by_label("Monday: closed", exact=True).check()
    await check(page, f"store-hours-{scheme}-{width}")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_role("status").get_by_text("The hours are being published.").wait_for()


async def test_a_browser_loads_pictures_from_elsewhere_on_a_partners_page_and_not_on_an_operators(
    context: Any, mercato: Service, shop: MerchantServer
):
    document = cafe()
    for item in document["items"].values():
        item["imageUrl"] = PICTURE
    deal = await trade(mercato, shop, catalog=document)
    store = f"{mercato.base}/console/stores/{deal.store['storeId']}"
    page = await context.new_page()
    await sign_in(page, await partner_link(deal.pos))
    async with page.expect_request(PICTURE):
        await page.goto(store)
        await page.locator("img.thumbnail").first.scroll_into_view_if_needed()
    await context.clear_cookies()
    await sign_in(page, await operator_link(mercato))
    answer = await page.goto(store)
    assert await page.locator("img.thumbnail").count() == 0
    assert "img-src 'self';" in answer.headers["content-security-policy"]


async def test_the_documentation_begins_with_doors_that_lead_somewhere(
    page: Any, mercato: Service, look: tuple[str, int]
):
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await page.goto(f"{mercato.base}/documentation?for=everybody")
    await check(page, f"documentation-{scheme}-{width}")
    await page.get_by_role("list", name="Begin").get_by_role("link", name="Open a restaurant").click()
    await page.get_by_role("heading", name="Open a restaurant", exact=True).wait_for()
    await check(page, f"guide-{scheme}-{width}")
