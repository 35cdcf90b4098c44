"""The people of an account, with an authenticator that Chromium simulates."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.api.trade import trade
from tests.browser.test_passkeys import plugged
from tests.browser.test_screens import faults_of, open_menu, sign_in
from tests.console.visiting import operator_link, partner_link
from tests.service import MerchantServer, Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_manager_is_invited_signs_in_by_passkey_pauses_a_store_and_sells_an_item_out(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int]
):
    scheme, width = look
    deal = await trade(mercato, shop)
    base = mercato.base.replace("127.0.0.1", "localhost")
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await plugged(page)
    await sign_in(page, (await partner_link(deal.pos)).replace("127.0.0.1", "localhost"))
    await open_menu(page)
    await page.get_by_role("link", name="People", exact=True).click()
    await check(page, f"people-none-{scheme}-{width}")
    await page.get_by_role("textbox", name="Name").fill("Anna Smith")
    await page.get_by_role("combobox", name="Role").select_option(label="Manager")
    await page.get_by_role("button", name="Invite person", exact=True).click()
    link = await page.get_by_role("region", name="Shown once").locator("code").inner_text()
    await check(page, f"invitation-shown-{scheme}-{width}")
    await page.get_by_role("link", name="Back to People", exact=True).click()
    await page.get_by_role("cell", name="invited until").wait_for()
    await check(page, f"people-{scheme}-{width}")
    await open_menu(page)
    await page.get_by_role("button", name="Sign out", exact=True).click()

    assert link.startswith(base)
    await page.goto(link)
    await check(page, f"invitation-{scheme}-{width}")
    await page.get_by_role("textbox", name="Name").fill("Phone")
    await page.get_by_role("button", name="Add passkey", exact=True).click()
    await page.get_by_role("status").get_by_text("You are signed in").wait_for()
    await open_menu(page)
    await page.get_by_role("button", name="Sign out", exact=True).click()
    await page.goto(link)
    await page.get_by_role("heading", level=1, name="This link has been used").wait_for()

    await page.goto(f"{base}/console")
    await page.get_by_role("link", name="Sign in with a passkey", exact=True).click()
    await page.get_by_role("button", name="Use a passkey", exact=True).click()
    await page.get_by_role("status").get_by_text("You are signed in").wait_for()
    await page.goto(f"{base}/console/stores/{deal.store['storeId']}")
    await page.get_by_role("button", name="Pause store", exact=True).click()
    await page.get_by_role("status").get_by_text("The store is paused").wait_for()
    tea = page.get_by_role("row").filter(has=page.get_by_text("Tea", exact=True))
    await tea.get_by_role("button", name="Mark sold out", exact=True).click()
    await page.get_by_role("status").get_by_text("Tea is sold out.").wait_for()
    await check(page, f"store-paused-{scheme}-{width}")

    await sign_in(page, (await operator_link(mercato)).replace("127.0.0.1", "localhost"))
    await page.goto(f"{base}/console/audit?action=console.pauseStore")
    await page.get_by_role("link", name="Anna Smith", exact=True).first.wait_for()


async def test_support_of_the_operator_asks_for_a_customer_and_the_audit_trail_says_so(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int]
):
    scheme, width = look
    deal = await trade(mercato, shop)
    order = await deal.placed()
    base = mercato.base.replace("127.0.0.1", "localhost")
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await plugged(page)
    await sign_in(page, (await operator_link(mercato)).replace("127.0.0.1", "localhost"))
    await page.goto(f"{base}/console/people")
    await check(page, f"people-operators-{scheme}-{width}")
    name = f"Sue {scheme} {width}"
    await page.get_by_role("textbox", name="Name").fill(name)
    await page.get_by_role("combobox", name="Role").select_option(label="Support")
    await page.get_by_role("button", name="Invite person", exact=True).click()
    link = await page.get_by_role("region", name="Shown once").locator("code").inner_text()
    await open_menu(page)
    await page.get_by_role("button", name="Sign out", exact=True).click()
    await page.goto(link)
    await page.get_by_role("textbox", name="Name").fill("Laptop")
    await page.get_by_role("button", name="Add passkey", exact=True).click()
    await page.get_by_role("status").get_by_text("You are signed in").wait_for()
    await page.goto(f"{base}/console/orders/{order['orderId']}")
    customer = page.get_by_role("region", name="Customer", exact=True)
    await customer.get_by_text("\N{BULLET}\N{BULLET}").wait_for()
    await check(page, f"order-masked-{scheme}-{width}")
    await customer.get_by_role("button", name="Show", exact=True).click()
    await customer.get_by_text("@").wait_for()
    await check(page, f"order-shown-{scheme}-{width}")
    await page.goto(f"{base}/console/audit?action=console.showCustomer")
    await page.get_by_role("link", name=name, exact=True).first.wait_for()


async def check(page: Any, name: str) -> None:
    if "MERCATO_TEST_SCREENSHOTS" in os.environ:
        path = Path(os.environ["MERCATO_TEST_SCREENSHOTS"]) / f"{name}.png"
        await page.screenshot(path=path, full_page=True)
    assert await faults_of(page) == []
