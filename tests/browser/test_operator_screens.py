"""The operator's screens in a browser: readable in both colour schemes and at both widths, and drawn."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.browser.accessibility import violations, widest
from tests.console.test_jobs import add_dead
from tests.console.visiting import operator_link
from tests.service import Client, Service

from mercato.platform.db.audit import audit
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato_contract.clock import new_id

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCREENS = [
    *("jobs", "partners/new", "search"),
    # test_screens.py opens these for an operator with more in them, in both looks.
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in ("health", "requests", "partners", "audit", "erasure")
    ),
]


async def sign_in(page: Any, mercato: Service) -> None:
    await page.goto(await operator_link(mercato))
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", name="Health", exact=True).wait_for()


@pytest.fixture(scope="session")
def data() -> dict[str, Any]:
    """What the screens show, made once."""
    return {}


async def fill(mercato: Service, data: dict[str, Any]) -> dict[str, Any]:
    if not data:
        data["partner"], client = await mercato.partner(name="Café <i>Zoë</i>")
        await refuse(mercato, client)
        await add_dead(mercato, error="TimeoutError: the handler did not end within 60 s")
    return data


async def refuse(mercato: Service, client: Client) -> None:
    await client.get("/v1/commerce/stores/x")
    await client.post("/v1/commerce/onboarding/stores", {"name": 5})
    await mercato.app.request_log.flush()


@pytest.mark.parametrize("screen", SCREENS)
async def test_a_screen_of_the_operator_is_accessible_and_fits(
    page: Any, mercato: Service, data: dict[str, Any], look: tuple[str, int], screen: str
):
    await fill(mercato, data)
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, mercato)
    await page.goto(f"{mercato.base}/console/{screen}")
    await check(page, f"{screen}-{scheme}-{width}")
    link = page.locator("main tbody a")
    if await link.count():
        await link.first.click()
        await check(page, f"{screen}-one-{scheme}-{width}")


async def check(page: Any, name: str) -> None:
    await page.locator("h1").wait_for()
    if "MERCATO_TEST_SCREENSHOTS" in os.environ:
        path = Path(os.environ["MERCATO_TEST_SCREENSHOTS"]) / f"{name.replace('/', '-')}.png"
        await page.screenshot(path=path, full_page=True)
    assert await violations(page) == []
    assert await widest(page) <= 0


async def test_the_columns_of_the_audit_trail_fit_a_window_of_1280_pixels(
    page: Any, mercato: Service, data: dict[str, Any]
):
    await fill(mercato, data)
    set_context(
        WorkContext(
            action="console.setItemAvailability",
            console=f"key:{new_id()}",
            request_id=str(new_id()),
            trace_id="0",
        )
    )
    async with mercato.app.db.write() as tx:
        detail = {
            "changed": ["webhookUrl", "minimumOrderAmount", "deliveryAllowed"],
            "onboardingId": new_id(),
        }
        await audit(tx, "webhookEndpoint", new_id(), partner_id=data["partner"].id, detail=detail)
    await page.set_viewport_size({"width": 1280, "height": 900})
    await sign_in(page, mercato)
    await page.goto(f"{mercato.base}/console/audit")
    table = page.get_by_role("region", name="Audit entries")
    assert await table.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    await check(page, "audit-long-light-1280")


async def test_the_charts_of_health_are_drawn_and_follow_the_requests(
    page: Any, mercato: Service, look: tuple[str, int]
):
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await mercato.app.traffic.look()
    _, client = await mercato.partner()
    for _ in range(4):
        for _ in range(5):
            await client.get("/v1/commerce/stores")
        await mercato.app.traffic._sample()
    await sign_in(page, mercato)
    await page.locator("#chart-rates canvas").wait_for()
    await page.locator("#chart-durations canvas").wait_for()
    assert await page.get_by_text("The chart needs JavaScript").count() == 0
    await check(page, f"charts-{scheme}-{width}")
