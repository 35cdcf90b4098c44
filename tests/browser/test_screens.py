"""Every screen of the console in a browser: accessible, inert, and within its window.

Names, reasons and catalogs are what hostile partners would send.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
from tests.api.trade import Trade, tea, trade
from tests.browser.accessibility import violations, widest
from tests.catalog.documents import cafe
from tests.console.visiting import operator_link, partner_link
from tests.service import Merchant, Service

from mercato.domain.partners.model import PartnerKind

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE: Final = (
    "<script>alert(1)</script>{{ 7 * 7 }}\"'><img src=x onerror=alert(1)>\N{RIGHT-TO-LEFT OVERRIDE}"
    + "word" * 30
)

PARTNER: Final = HOSTILE.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "")
"""A partner's name can't turn the direction of text."""

LOOKS: Final = {"light": 1280, "dark": 360}
"""Colour schemes, each with the width of a window."""

AUDIENCES: Final = ("merchant", "storefront", "operator", "both")


@dataclass
class Story:
    """A populated service, and links into the console."""

    trade: Trade
    links: dict[str, Callable[[], Awaitable[str]]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def story(mercato: Service, shop: Merchant) -> Story:
    """Orders that were completed, refused and cancelled, failed deliveries and refused requests."""
    document = cafe()
    document["items"] = {
        key: item | {"name": item["name"] + HOSTILE} for key, item in document["items"].items()
    }
    happened = await trade(mercato, shop, catalog=document, name=PARTNER, event_url=shop.base + "/events")
    path = f"/v1/commerce/stores/{happened.store['storeId']}"
    assert (await happened.pos.call("PUT", path, {"name": HOSTILE})).status == 200
    done = await happened.placed()
    await happened.update(done, status="ready")
    await happened.update(done, state="completed")
    await happened.placed()
    shop.answers["place"] = {"accepted": False, "errors": [{"code": "OTHER", "message": HOSTILE}]}
    await happened.place(happened.order())
    shop.answers["validate"] = {"isValid": False, "errors": [{"code": "OTHER", "message": HOSTILE}]}
    await happened.front.post("/v1/marketfront/orders/validate", happened.order(tea(quantity=3)))
    await happened.front.post("/v1/marketfront/carts/add", {"item": HOSTILE, "\N{RIGHT-TO-LEFT OVERRIDE}": 1})
    await happened.pos.post("/v1/commerce/onboarding/stores", {"name": HOSTILE, "address": HOSTILE})
    both = (await mercato.partner(PartnerKind.BOTH, name=PARTNER + "both"))[1]
    return Story(
        happened,
        {
            "merchant": lambda: partner_link(happened.pos),
            "storefront": lambda: partner_link(happened.front),
            "operator": lambda: operator_link(mercato),
            "both": lambda: partner_link(both),
        },
    )


async def sign_in(page: Any, link: str) -> None:
    await page.goto(link)
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("status").get_by_text("You are signed in").wait_for()


@pytest.mark.parametrize("scheme", LOOKS)
@pytest.mark.parametrize("audience", AUDIENCES)
async def test_every_screen_and_the_first_page_below_it_is_accessible_and_inert(
    page: Any, mercato: Service, story: Story, audience: str, scheme: str
):
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": LOOKS[scheme], "height": 900})
    await sign_in(page, await story.links[audience]())
    faults = []
    for name in await page.locator("nav a").all_inner_texts():
        await page.goto(f"{mercato.base}/console/{name.lower()}")
        assert await page.title() == name
        faults += await faults_of(page)
        below = page.locator("main tbody a")
        if await below.count():
            await below.first.click()
            await page.wait_for_load_state()
            faults += await faults_of(page)
    assert faults == []
    assert dialogs == []


async def faults_of(page: Any) -> list[str]:
    """Return what is wrong with the page, with its address."""
    await page.get_by_role("heading", level=1).wait_for()
    found = await violations(page)
    wider = await widest(page)
    if wider > 0:
        found.append(f"{wider} px wider than its window")
    return [f"{page.url}: {one}" for one in found]
