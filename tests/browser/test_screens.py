"""Every screen of the console in a browser: accessible, inert, and within its window.

Names, reasons and catalogs are what hostile partners would send.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from aiohttp import web
from tests.api.agent_keys import assistant
from tests.api.trade import Trade, tea, trade
from tests.browser.accessibility import violations, widest
from tests.catalog.documents import cafe
from tests.console.test_certification import report, signed
from tests.console.visiting import operator_link, partner_link
from tests.quotes.quoting import Quoting
from tests.service import MerchantServer, Service

from mercato.console.screen import path_of
from mercato.features.partners.model import PartnerKind

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE: Final = (
    "<script>alert(1)</script>{{ 7 * 7 }}\"'><img src=x onerror=alert(1)>\N{RIGHT-TO-LEFT OVERRIDE}"
    + "word" * 30
)

LONG: Final = HOSTILE + "word" * 2520
"""10 kB without a space, for whatever has no bound of its own."""

PARTNER: Final = (HOSTILE.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "") + "word" * 50)[:196]
"""A partner's name can't turn the direction of text. It has at most 200 characters, here with the kind of partner."""

LOOKS: Final = {"light": 1280, "dark": 360}
"""Colour schemes, each with the width of a window."""

AUDIENCES: Final = ("merchant", "storefront", "operator", "both")


async def answer_long(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500, text=LONG, headers={"X-Word": "word" * 2000})


@dataclass
class Story:
    """A populated service, and links into the console."""

    trade: Trade
    links: dict[str, Callable[[], Awaitable[str]]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def story(mercato: Service, shop: MerchantServer) -> Story:
    """Orders that were completed, refused and cancelled, failed deliveries and runs, and refused requests.

    Every text is as long as the API accepts it.
    """
    document = cafe()
    for members in ("items", "sections", "modifierGroups"):
        document[members] = {
            key: one | {"name": one["name"] + LONG} for key, one in document[members].items()
        }
    shop.answers["events"] = answer_long
    happened = await trade(mercato, shop, catalog=document, name=PARTNER, event_url=shop.base + "/events")
    path = f"/v1/commerce/stores/{happened.store['storeId']}"
    assert (await happened.pos.call("PUT", path, {"name": LONG[:255]})).status == 200
    done = await happened.placed()
    await happened.update(done, status="ready")
    await happened.update(done, state="completed")
    cancelled = await happened.placed()
    await happened.update(cancelled, state="cancelled", cancelReason=LONG[:255])
    await happened.placed()
    # An agent's name has at most 100 characters.
    agent = await assistant(happened, name=PARTNER[:100], maximumOrder="6.00")
    assert (await happened.place(happened.order(), front=agent.client)).status == 201
    assert (await happened.place(happened.order(tea(quantity=9)), front=agent.client)).status == 403
    quoting = Quoting(happened)
    asked = (await assistant(happened, name=PARTNER[:99], approval="always")).client
    for _ in range(2):
        await quoting.place(await quoting.quote(client=asked), client=asked)
    shop.answers["place"] = {"accepted": False, "errors": [{"code": LONG, "message": LONG}]}
    await happened.place(happened.order())
    shop.answers["validate"] = {"isValid": False, "errors": [{"code": "OTHER", "message": LONG}]}
    await happened.front.post("/v1/marketfront/orders/validate", happened.order(tea(quantity=3)))
    await happened.front.post("/v1/marketfront/carts/add", {"item": LONG, "\N{RIGHT-TO-LEFT OVERRIDE}": 1})
    await happened.pos.post("/v1/commerce/onboarding/stores", {"name": LONG, "address": LONG})
    other = await mercato.live(happened.pos, shop.host(document, "/b.json"), name=LONG[:255])
    path = f"/v1/commerce/stores/{other['storeId']}/status"
    paused = {"status": "paused", "pauseReason": LONG[:1000]}
    assert (await happened.pos.post(path, paused)).status == 200
    await mercato.onboard(
        happened.pos, shop.host({LONG: 1, "currency": LONG, "items": LONG}, "/c.json"), name="c"
    )
    both = (await mercato.partner(PartnerKind.BOTH, name=PARTNER + "both"))[0].id
    return Story(
        happened,
        {
            "merchant": lambda: partner_link(happened.pos),
            "storefront": lambda: partner_link(happened.front),
            "operator": lambda: operator_link(mercato),
            "both": lambda: operator_link(mercato, both),
        },
    )


async def sign_in(page: Any, link: str) -> None:
    await page.goto(link)
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("status").get_by_text("You are signed in").wait_for()


async def open_menu(page: Any) -> None:
    """Open the navigation, which a small window has behind a button."""
    menu = page.get_by_role("button", name="Menu", exact=True)
    if await menu.is_visible():
        await menu.click()


@pytest.mark.parametrize(
    ("audience", "scheme"),
    # The screens of a partner of both kinds are a merchant's and a storefront's.
    [
        pytest.param(
            audience, scheme, marks=pytest.mark.long if (audience, scheme) == ("both", "dark") else ()
        )
        for audience in AUDIENCES
        for scheme in LOOKS
    ],
)
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
        await page.goto(f"{mercato.base}/console/{path_of(name)}")
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


async def test_a_browser_uploads_a_report_as_a_file(
    page: Any, mercato: Service, story: Story, tmp_path: Path
):
    file = tmp_path / "certificate é.json"
    file.write_text(signed(mercato, report()))
    await sign_in(page, await story.links["merchant"]())
    await page.goto(f"{mercato.base}/console/certification")
    await page.get_by_label("The report's file").set_input_files(file)
    await page.get_by_role("button", name="Upload report").click()
    await page.get_by_role("status").get_by_text("The report was uploaded.").wait_for()
    assert await page.get_by_role("table", name="Checks").get_by_role("row").count() == 3
