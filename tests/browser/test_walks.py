"""What people come to the console for: why a store is closed, and what to do about a catalog that failed."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.api.trade import trade
from tests.browser.test_screens import faults_of, open_menu, sign_in
from tests.catalog.documents import cafe
from tests.console.test_catalogs import publish
from tests.console.visiting import operator_link, partner_link
from tests.service import MerchantServer, Service

from mercato_contract import clock

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_operator_sees_why_a_store_is_closed_and_when_it_opens(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int]
):
    scheme, width = look
    busy = await trade(mercato, shop)
    await busy.placed()
    path = f"/v1/commerce/stores/{busy.store['storeId']}/status"
    paused = {"status": "paused", "pauseReason": "Out of dough"}
    assert (await busy.pos.post(path, paused)).status == 200
    document = cafe()
    day = (clock.now() + timedelta(days=2)).strftime("%A")
    (catalog,) = document["catalogs"].values()
    catalog["availability"] = [{"dayOfWeek": day, "start": "09:00:00", "end": "17:00:00"}]
    deal = await trade(mercato, shop, catalog=document)
    store = await mercato.live(deal.pos, shop.host(document), name=f"Later {scheme} {width}")
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await operator_link(mercato))
    await page.get_by_role("img", name="Orders an hour").wait_for()
    troubled = page.get_by_role("region", name="Stores in trouble", exact=True)
    await troubled.get_by_text("Out of dough", exact=True).first.wait_for()
    await check(page, f"health-{scheme}-{width}")
    await page.get_by_role("searchbox").fill(store["partnerStoreId"])
    await page.keyboard.press("Enter")
    await page.get_by_role("region", name="Stores", exact=True).get_by_role("link").first.click()
    now = page.get_by_role("region", name="Now", exact=True)
    await now.get_by_text(f"closed until {day} 09:00", exact=True).wait_for()
    await now.get_by_text("Outside its opening hours.", exact=True).wait_for()
    await check(page, f"store-closed-{scheme}-{width}")


async def test_a_merchant_finds_the_failed_catalog_reads_the_excerpt_and_activates_the_earlier_set(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int]
):
    scheme, width = look
    deal = await trade(mercato, shop)
    earlier = await publish(deal, cafe(), "/earlier.json")
    dearer = cafe()
    key = next(iter(dearer["items"]))
    dearer["items"][key]["basePrice"] = "9.75"
    await publish(deal, dearer, "/dearer.json")
    dearer["items"][key]["basePrice"] = "4,50"
    await publish(deal, dearer, "/broken.json")
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link(deal.pos))
    await open_menu(page)
    await page.get_by_role("navigation").get_by_role("link", name="Catalogs", exact=True).click()
    runs = page.get_by_role("region", name="Runs", exact=True)
    await runs.get_by_text("failed", exact=True).wait_for()
    await check(page, f"catalogs-{scheme}-{width}")
    await runs.locator("tr").filter(has=page.get_by_text("failed", exact=True)).locator("a.id").click()
    errors = page.get_by_role("region", name="Errors", exact=True)
    await errors.locator("td").get_by_text('"4,50"').first.wait_for()
    await check(page, f"catalog-failed-{scheme}-{width}")
    await page.goto(f"{mercato.base}/console/catalogs/{earlier['catalogIngestId']}")
    await page.get_by_role("button", name="Activate this set", exact=True).click()
    await page.get_by_text("Items repriced (1)").wait_for()
    await check(page, f"catalog-activate-{scheme}-{width}")
    await page.get_by_role("button", name="Confirm", exact=True).click()
    await page.get_by_role("status").get_by_text("The store serves this set now.", exact=True).wait_for()
    served = (await deal.pos.get(f"/v1/commerce/stores/{deal.store['storeId']}")).json()
    assert served["catalogSetId"] == earlier["catalogSetId"]


async def check(page: Any, name: str) -> None:
    if "MERCATO_TEST_SCREENSHOTS" in os.environ:
        path = Path(os.environ["MERCATO_TEST_SCREENSHOTS"]) / f"{name}.png"
        await page.screenshot(path=path, full_page=True)
    assert await faults_of(page) == []
