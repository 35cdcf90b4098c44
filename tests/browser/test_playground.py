"""The playground in a browser: a cart is filled, validated and placed, and each page is accessible."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.api.trade import trade
from tests.browser.test_screens import HOSTILE, faults_of, sign_in
from tests.catalog.documents import CAKE, cafe
from tests.console.visiting import partner_link
from tests.service import MerchantServer, Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_cart_is_filled_validated_and_placed(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int]
):
    deal = await trade(mercato, shop)
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link(deal.front))
    await page.goto(f"{mercato.base}/console/playground?store={deal.store['storeId']}")
    await page.get_by_label("Milk").fill("1")
    await page.get_by_label("Quantity").fill("2")
    await page.get_by_role("button", name="Add to cart").click()
    await page.get_by_role("region", name="Response").get_by_text("200 OK").wait_for()
    await page.get_by_label("Item").select_option(CAKE)
    await page.get_by_role("button", name="Show choices").click()
    await page.get_by_role("button", name="Add to cart").click()
    await page.get_by_role("table", name="Cart").get_by_text("Cake").wait_for()
    await page.get_by_role("button", name="Remove").last.click()
    await page.get_by_role("table", name="Cart").get_by_text("Cake").wait_for(state="detached")
    await check(page, f"playground-cart-{scheme}-{width}")
    await page.get_by_role("button", name="Validate").click()
    await page.get_by_role("region", name="Response").get_by_text('"isValid": true').wait_for()
    await page.get_by_text("Customer, fulfilment and payment").click()
    for language in ("curl", "Python", "TypeScript"):
        await page.get_by_text(language, exact=True).click()
    await check(page, f"playground-validated-{scheme}-{width}")
    await page.get_by_role("button", name="Place order").click()
    await page.get_by_role("region", name="Response").get_by_text("201 Created").wait_for()
    await check(page, f"playground-placed-{scheme}-{width}")
    await page.locator(".done").get_by_role("link").click()
    await page.get_by_role("table", name="Timeline").wait_for()


async def test_a_menu_leads_to_the_playground_and_discovery_finds_the_store(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int]
):
    document = cafe()
    document["items"] = {
        key: item | {"name": item["name"] + HOSTILE} for key, item in document["items"].items()
    }
    deal = await trade(mercato, shop, catalog=document)
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link(deal.front))
    await page.goto(f"{mercato.base}/console/stores/{deal.store['storeId']}/menu?place=2")
    await check(page, f"menu-{scheme}-{width}")
    await page.locator(".tree a").first.click()
    await page.get_by_role("button", name="Add to cart").click()
    await check(page, f"playground-hostile-{scheme}-{width}")
    await page.goto(f"{mercato.base}/console/playground/discovery")
    await page.get_by_role("button", name="Discover").click()
    await page.get_by_role("table", name="Stores").get_by_role("link", name="Playground").first.wait_for()
    await check(page, f"discovery-{scheme}-{width}")


async def check(page: Any, name: str) -> None:
    if "MERCATO_TEST_SCREENSHOTS" in os.environ:
        path = Path(os.environ["MERCATO_TEST_SCREENSHOTS"]) / f"{name}.png"
        await page.screenshot(path=path, full_page=True)
    assert await faults_of(page) == []
