"""Signing in and out in a browser, and the pages that are shown before."""

from typing import Any

import pytest
from aiohttp import web
from tests.browser.accessibility import violations, widest
from tests.service import MerchantServer, Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_landing_page_links_to_the_documentation_the_reference_and_the_console(
    page: Any, mercato: Service
):
    await page.goto(mercato.base)
    for name in ("Documentation", "API reference", "Console"):
        await page.get_by_role("link", name=name, exact=True).first.wait_for()
    await page.get_by_role("link", name="Console", exact=True).first.click()
    await page.get_by_role("heading", level=1, name="Sign in").wait_for()


async def test_a_link_signs_in_once(page: Any, mercato: Service):
    _, client = await mercato.partner()
    link = (await client.post("/v1/console/links", {})).json()
    await page.goto(link["url"])
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", level=1, name="Overview").wait_for()
    assert page.url == mercato.base + "/console/overview"
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("heading", level=1, name="Sign in").wait_for()
    await page.goto(link["url"])
    await page.get_by_text("This link has been used").first.wait_for()


async def test_another_origins_form_does_nothing(page: Any, mercato: Service, shop: MerchantServer):
    _, client = await mercato.partner()
    link = (await client.post("/v1/console/links", {})).json()
    await page.goto(link["url"])
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", level=1, name="Overview").wait_for()
    # Another port is another origin of the same site: the cookie is sent, so that only the origin differs.
    form = f'<form method="post" action="{mercato.base}/console/sign-out"><button>Win a prize</button></form>'

    async def prize(_request: web.Request) -> web.Response:
        return web.Response(text=form, content_type="text/html")

    await page.goto(shop.host(prize, "/prize.html"))
    await page.get_by_role("button", name="Win a prize").click()
    await page.get_by_text("by a page of another site").first.wait_for()
    await page.goto(mercato.base + "/console/overview")
    await page.get_by_role("heading", level=1, name="Overview").wait_for()


@pytest.mark.parametrize("path", ["/", "/console", "/console/nothing", "/errors/NOT_FOUND"])
async def test_pages_before_the_sign_in_are_accessible(
    look: tuple[str, int], chromium: Any, mercato: Service, path: str
):
    scheme, width = look
    page = await chromium.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    await page.goto(mercato.base + path)
    assert await violations(page) == []
    assert await widest(page) <= 0
    await page.close()
