"""A person who has never seen JSON opens a restaurant: registers a store, goes live, takes an order, reads the report.

These are the steps of `docs/how-to/open-a-restaurant.md`, with its pictures.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import Any

import pytest
from tests.browser.test_board import until
from tests.browser.test_demo import keep
from tests.browser.test_screens import faults_of, sign_in
from tests.browser.test_walks import check
from tests.console.visiting import partner_link
from tests.service import Client, Service

from mercato.console.hours_form import WEEK
from mercato.features.partners.model import PartnerKind

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADDRESS = {
    "Street and number": "1 Main St",
    "City": "Springfield",
    "State or province": "IL",
    "Postal code": "62701",
    "Country": "US",
    "Phone": "+1 555 0100",
}


async def press(page: Any, button: str) -> None:
    await page.get_by_role("button", name=button, exact=True).click()


async def at_step(page: Any, name: str) -> None:
    await page.get_by_role("heading", name=name, exact=True).wait_for()


async def fill_store(page: Any) -> None:
    await page.get_by_label("Name", exact=True).fill("Trattoria Ada")
    for label, text in ADDRESS.items():
        await page.get_by_label(label, exact=True).fill(text)


async def fill_hours(page: Any) -> None:
    """Enter two spans of Monday for every day but Sunday, with one on Saturday that ends too late."""
    for part, text in (("from", "11:30"), ("to", "14:00")):
        await page.get_by_label(f"Monday: {part}", exact=True).fill(text)
    for part, text in (("from", "18:00"), ("to", "01:00")):
        await page.get_by_label(f"Monday, span 2: {part}", exact=True).fill(text)
    await page.get_by_label("Sunday: closed", exact=True).check()
    await press(page, "Use the first day's hours for every empty day")
    await page.get_by_role("status").get_by_text("The hours are on every day").wait_for()
    await page.get_by_label("Saturday: to", exact=True).fill("19:00")


async def upload(page: Any, price: str) -> None:
    rows = f"section,item,price\nPizza,Margherita,{price}\nPizza,Funghi,10.50\nDrinks,Lemonade,3.90\n"
    await page.locator("input[name=menu]").set_input_files(
        {"name": "menu.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    )
    await press(page, "Upload")


async def test_every_step_of_a_registration_says_what_is_wrong_and_is_accessible(
    page: Any, mercato: Service, look: tuple[str, int]
):
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link((await mercato.partner())[1]))
    await page.goto(f"{mercato.base}/console/stores/register")
    await press(page, "Save and continue")
    await page.get_by_text("Fill this in.").first.wait_for()
    await check(page, f"register-1-store-{scheme}-{width}")
    await fill_store(page)
    await page.keyboard.press("Enter")
    await at_step(page, "Hours")
    await fill_hours(page)
    await press(page, "Save and continue")
    await page.get_by_text("It begins before").wait_for()
    await check(page, f"register-2-hours-{scheme}-{width}")
    await press(page, "Orders")
    await at_step(page, "Orders")
    await check(page, f"register-3-orders-{scheme}-{width}")
    await press(page, "Save and continue")
    await at_step(page, "Taxes and fees")
    await page.get_by_label("Name", exact=True).first.fill("VAT")
    await page.get_by_label("Value", exact=True).first.fill("7,5")
    await press(page, "Save and continue")
    await page.get_by_text("Write 7.5").wait_for()
    await check(page, f"register-4-charges-{scheme}-{width}")
    steps = page.get_by_role("region", name="Steps", exact=True)
    await steps.get_by_role("button", name="Menu", exact=True).click()
    await at_step(page, "Menu")
    await upload(page, "a lot")
    await page.get_by_role("region", name="Faults", exact=True).get_by_text("a lot", exact=True).wait_for()
    await check(page, f"register-5-menu-{scheme}-{width}")
    await page.goto(page.url.removesuffix("/menu") + "?step=live")
    await page.get_by_text("Upload the menu.").wait_for()
    await check(page, f"register-6-live-{scheme}-{width}")
    await page.goto(f"{mercato.base}/console/stores")
    await page.get_by_role("link", name="Continue", exact=True).wait_for()
    await check(page, f"register-7-stores-{scheme}-{width}")


async def register(page: Any, mercato: Service) -> None:
    """Register a store that is open day and night, with the guide's pictures on the way."""
    await page.goto(f"{mercato.base}/console/stores")
    await keep(page, "register-stores")
    await page.get_by_role("link", name="Register store", exact=True).first.click()
    await fill_store(page)
    await keep(page, "register-store")
    await press(page, "Save and continue")
    await at_step(page, "Hours")
    await fill_hours(page)
    await page.get_by_label("Saturday: to", exact=True).fill("14:00")
    await page.set_viewport_size({"width": 1200, "height": 1040})
    await page.evaluate("scrollTo(0, 0)")
    await keep(page, "register-hours")
    await page.set_viewport_size({"width": 1200, "height": 800})
    # The test runs at any time of any day.
    await page.get_by_label("Sunday: closed", exact=True).uncheck()
    for day in WEEK:
        for label in (f"{day}: from", f"{day}: to"):
            await page.get_by_label(label, exact=True).fill("00:00")
        for label in (f"{day}, span 2: from", f"{day}, span 2: to"):
            await page.get_by_label(label, exact=True).fill("")
    await press(page, "Save and continue")
    await at_step(page, "Orders")
    await keep(page, "register-orders")
    await press(page, "Save and continue")
    await at_step(page, "Taxes and fees")
    await page.get_by_label("Name", exact=True).first.fill("Sales tax")
    await page.get_by_label("Value", exact=True).first.fill("10")
    await keep(page, "register-charges")
    await press(page, "Save and continue")
    await at_step(page, "Menu")


async def go_live(page: Any) -> None:
    """Upload a menu with a fault, correct it, and activate the store."""
    await upload(page, "a lot")
    await page.get_by_role("region", name="Faults", exact=True).get_by_text("a lot", exact=True).wait_for()
    await upload(page, "9.50")
    await page.get_by_text("3 items in 2 sections").wait_for()
    await keep(page, "register-menu")
    await page.get_by_role("link", name="Continue", exact=True).click()
    await press(page, "Register store")
    await page.get_by_role("button", name="Activate", exact=True).wait_for()
    await keep(page, "register-ready")
    await press(page, "Activate")
    await page.get_by_role("status").get_by_text("Trattoria Ada is live").wait_for()
    await keep(page, "register-live")


_COUNT_TONES = """
window.tones = 0;
const start = OscillatorNode.prototype.start;
OscillatorNode.prototype.start = function (...at) { window.tones += 1; return start.apply(this, at); };
"""


async def order_at(mercato: Service, front: Client, store_id: str) -> None:
    """Let the command's storefront place one order."""
    assert front.key is not None
    process = await asyncio.create_subprocess_exec(
        *(
            str(Path(sys.executable).with_name("mercato")),
            "sandbox",
            "storefront",
            "--port",
            "0",
            "--follow",
            "0",
        ),
        *("--api", mercato.base, "--key", front.key, "--store", store_id),
        stdout=PIPE,
        stderr=STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


async def test_a_person_opens_a_restaurant_takes_an_order_and_finds_it_in_the_report(
    context: Any, page: Any, mercato: Service
):
    await page.set_viewport_size({"width": 1200, "height": 800})
    pos = (await mercato.partner(name="Trattoria Ada"))[1]
    await sign_in(page, await partner_link(pos))
    await register(page, mercato)
    await go_live(page)
    (store,) = (await pos.get("/v1/commerce/stores")).json()["stores"]
    front = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    await page.add_init_script(_COUNT_TONES)
    await page.goto(f"{mercato.base}/console/board")
    await page.get_by_role("heading", name="New").wait_for()
    await press(page, "Sound")
    await until(page, "window.tones", 3)
    await order_at(mercato, front, store["storeId"])
    (order,) = (await pos.get("/v1/commerce/orders")).json()["orders"]
    item = order["cart"]["lineItems"][0]["name"]
    card = page.locator(f"#o-{order['orderId']}")
    await card.get_by_text(item).first.wait_for()
    await until(page, "document.title", "(1) Board")
    # At once: for an order that still waits it rings again after half a minute.
    async with asyncio.timeout(25):
        await until(page, "window.tones", 6)
    async with context.expect_page() as opened:
        await card.get_by_role("button", name="Print", exact=True).click()
    ticket = await opened.value
    await ticket.get_by_text(item).first.wait_for()
    await ticket.close()
    await card.get_by_role("button", name="20 min", exact=True).click()
    await page.locator("#preparing").get_by_text(item).first.wait_for()
    await card.get_by_role("button", name="Ready", exact=True).click()
    await page.locator("#ready").get_by_text(item).first.wait_for()
    await card.get_by_role("button", name="Handed over", exact=True).click()
    await card.wait_for(state="detached")
    await page.goto(f"{mercato.base}/console/reports")
    best = page.get_by_role("region", name="Best items", exact=True)
    await best.get_by_role("cell", name=item, exact=True).wait_for()
    assert await page.get_by_text(order["amounts"]["total"], exact=True).count()
    assert await faults_of(page) == []
