"""The console after the demo: what `mercato demo --keep` links to. The how-to's screenshots are of this walk."""

import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from tests.sandbox.test_demo import read_until, started

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCREENSHOTS: Final = os.environ.get("MERCATO_SCREENSHOTS")
"""The directory for the screenshots, such as docs/how-to/console."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def links(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """The demo, kept running, and its links by who they are for."""
    process = await started(tmp_path_factory.mktemp("demo"), "--keep")
    text = await read_until(process, "the operator ")
    yield dict(re.findall(r"^  the (\w+) +(http\S+)$", text, re.MULTILINE))
    process.send_signal(signal.SIGINT)
    await process.communicate()


async def keep(page: Any, name: str) -> None:
    """Save a screenshot of the page if a directory is set."""
    if SCREENSHOTS is not None:
        await page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


async def enter(page: Any, link: str) -> str:
    """Sign in, and return the console's address."""
    await page.set_viewport_size({"width": 1100, "height": 700})
    await page.goto(link)
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("status").get_by_text("You are signed in").wait_for()
    return link.partition("/links/")[0]


async def test_a_merchant_finds_an_orders_calls_pauses_a_store_and_sells_an_item_out(
    page: Any, links: dict[str, str]
):
    console = await enter(page, links["merchant"])
    await page.goto(f"{console}/orders")
    await page.get_by_role("table", name="Orders").wait_for()
    await keep(page, "orders")
    # The newest orders wait for a person: nobody is called about them.
    await page.goto(f"{console}/orders?storeId=Forno+Lucia")
    await page.get_by_role("table", name="Orders").get_by_role("link").first.click()
    events = page.get_by_role("region", name="Events")
    await events.locator("summary").click()
    await events.get_by_text("order.place").first.wait_for()
    await page.evaluate("scrollTo(0, 0)")
    await page.set_viewport_size({"width": 1100, "height": 960})
    await keep(page, "order")
    await page.set_viewport_size({"width": 1100, "height": 700})
    await page.goto(f"{console}/webhooks?type=order.place")
    # The store was down for two attempts.
    tried_three_times = page.get_by_role("cell", name="3", exact=True)
    await page.get_by_role("row").filter(has=tried_three_times).get_by_role("link").first.click()
    assert await page.get_by_role("table", name="Attempts").get_by_role("row").count() == 4
    await keep(page, "delivery")
    await page.goto(f"{console}/stores")
    await page.get_by_role("link", name="Forno Lucia").click()
    await page.get_by_role("button", name="Pause store").click()
    await page.get_by_role("button", name="Resume store").click()
    await page.get_by_role("button", name="Pause store").wait_for()
    await page.get_by_role("button", name="Mark sold out").first.click()
    await page.get_by_role("button", name="Mark available").first.wait_for()
    await keep(page, "store")


async def test_a_storefront_finds_why_a_request_was_refused(page: Any, links: dict[str, str]):
    console = await enter(page, links["storefront"])
    await page.goto(f"{console}/requests")
    await keep(page, "requests")
    await page.get_by_role("table", name="Requests").get_by_role("link").first.click()
    await page.get_by_role("heading", level=1).wait_for()


async def test_an_operator_sees_the_services_health(page: Any, links: dict[str, str]):
    console = await enter(page, links["operator"])
    assert page.url == f"{console}/health"
    await page.reload()
    await page.get_by_role("table", name="Checks").wait_for()
    await keep(page, "health")
