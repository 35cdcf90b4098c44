"""A person publishes a spreadsheet in a browser: the file's faults, then what was read and what changes."""

from pathlib import Path
from typing import Any

import pytest
from tests.browser.accessibility import violations, widest
from tests.browser.test_screens import sign_in
from tests.console.visiting import partner_link
from tests.service import CATALOG, MerchantServer, Service
from tests.spreadsheets.sheets import HEAD, both, csv_of, priced, xlsx_of

from mercato_tools.imports.spreadsheets.headings import CHOICES

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZES = [CHOICES.columns, ("Size", 1, 1, None, "Small", 0), (None, None, None, None, "Large", 1.5)]
MENU = [
    HEAD,
    *[
        (f"Section {number // 5}", f"Item {number}", "word" * 40, 5.5, "Size", None, None)
        for number in range(20)
    ],
]
WRONG = [("item", "price", "descripton"), *priced("1,234", "1. May", "soon" * 40, "5 USD")[1:]]


async def test_a_spreadsheet_is_uploaded_corrected_and_published(
    page: Any, mercato: Service, shop: MerchantServer, look: tuple[str, int], tmp_path: Path
):
    scheme, width = look
    pos = (await mercato.partner())[1]
    await mercato.live(pos, shop.host(CATALOG))
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link(pos))
    await page.goto(f"{mercato.base}/console/catalogs")
    await page.get_by_role("link", name="Upload a menu").click()
    await check(page)
    for name, content in (("wrong.csv", csv_of(WRONG)), ("menu.xlsx", xlsx_of(both(MENU, SIZES)))):
        (tmp_path / name).write_bytes(content)
        await page.locator("input[name=menu]").set_input_files(tmp_path / name)
        await page.get_by_role("button", name="Upload", exact=True).click()
        caption = "Faults" if name == "wrong.csv" else "Items"
        await page.get_by_role("table", name=caption).wait_for()
        await check(page)
    await page.get_by_role("button", name="Publish").click()
    await page.get_by_role("status").get_by_text("The menu is being published").wait_for()
    async with page.expect_download() as started:
        await page.goto(f"{mercato.base}/console/catalogs/upload")
        await page.get_by_role("link", name="Download the template").click()
    assert (await started.value).suggested_filename == "menu.xlsx"


async def check(page: Any) -> None:
    assert await page.title() == "Upload a menu"
    assert await violations(page) == []
    assert await widest(page) <= 0
