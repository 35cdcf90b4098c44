"""A person who has never seen JSON registers a store, step by step, until it is live."""

import json
from typing import Any

import pytest
from tests.browser.test_screens import sign_in
from tests.browser.test_walks import check
from tests.catalog.documents import cafe
from tests.console.visiting import partner_link
from tests.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_registers_a_store_corrects_what_is_wrong_and_goes_live(
    page: Any, mercato: Service, look: tuple[str, int]
):
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link((await mercato.partner())[1]))
    await page.goto(f"{mercato.base}/console/stores")
    await check(page, f"register-0-stores-{scheme}-{width}")
    await page.get_by_role("link", name="Register store", exact=True).first.click()
    await page.get_by_label("Name", exact=True).fill("Trattoria Ada")
    await page.get_by_role("button", name="Save and continue", exact=True).click()
    await page.get_by_text("Fill this in.").first.wait_for()
    await check(page, f"register-1-store-{scheme}-{width}")
    for label, text in (
        ("Street and number", "1 Main St"),
        ("City", "Springfield"),
        ("State or province", "IL"),
        ("Postal code", "62701"),
        ("Country", "US"),
        ("Phone", "+1 555 0100"),
    ):
        await page.get_by_label(label, exact=True).fill(text)
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Hours", exact=True).wait_for()
    await page.get_by_label("Monday: from", exact=True).fill("11:30")
    await page.get_by_label("Monday: to", exact=True).fill("14:00")
    await page.get_by_label("Monday, span 2: from", exact=True).fill("18:00")
    await page.get_by_label("Monday, span 2: to", exact=True).fill("01:00")
    await page.get_by_label("Sunday: closed", exact=True).check()
    await page.get_by_role("button", name="Use the first day's hours for every empty day", exact=True).click()
    await page.get_by_role("status").get_by_text("The hours are on every day").wait_for()
    await page.get_by_label("Saturday: to", exact=True).fill("19:00")
    await page.get_by_role("button", name="Save and continue", exact=True).click()
    await page.get_by_text("It begins before").wait_for()
    await check(page, f"register-2-hours-{scheme}-{width}")
    await page.get_by_label("Saturday: to", exact=True).fill("14:00")
    await page.get_by_role("button", name="Save and continue", exact=True).click()
    await page.get_by_role("heading", name="Orders", exact=True).wait_for()
    await check(page, f"register-3-orders-{scheme}-{width}")
    await page.get_by_role("button", name="Save and continue", exact=True).click()
    await page.get_by_role("heading", name="Taxes and fees", exact=True).wait_for()
    await page.get_by_label("Name", exact=True).first.fill("Sales tax")
    await page.get_by_label("Value", exact=True).first.fill("8.875")
    await check(page, f"register-4-charges-{scheme}-{width}")
    await page.get_by_role("button", name="Save and continue", exact=True).click()
    await page.get_by_role("heading", name="Menu", exact=True).wait_for()
    await check(page, f"register-5-menu-{scheme}-{width}")
    await page.get_by_role("link", name="Go live", exact=True).click()
    await page.get_by_text("Upload the menu.").wait_for()
    await check(page, f"register-6-missing-{scheme}-{width}")
    await page.get_by_role("link", name="Menu", exact=True).last.click()
    await page.get_by_label("Menu file", exact=True).set_input_files(
        {"name": "menu.json", "mimeType": "application/json", "buffer": json.dumps(cafe()).encode()}
    )
    await page.get_by_role("button", name="Upload", exact=True).click()
    await page.get_by_role("button", name="Register store", exact=True).click()
    await page.get_by_role("button", name="Activate", exact=True).wait_for()
    await check(page, f"register-7-ready-{scheme}-{width}")
    await page.get_by_role("button", name="Activate", exact=True).click()
    await page.get_by_role("status").get_by_text("Trattoria Ada is live").wait_for()
    await check(page, f"register-8-live-{scheme}-{width}")
