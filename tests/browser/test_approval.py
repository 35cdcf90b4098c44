"""The approval page in a browser: within the window of a phone, accessible, and without JavaScript."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.api.agent_keys import assistant
from tests.api.trade import ADDRESS, line, trade
from tests.browser.accessibility import violations, widest
from tests.browser.contexts import new_context
from tests.catalog.documents import EXTRAS, LEMON, MILK, TEA, cafe
from tests.quotes.quoting import Quoting
from tests.service import MerchantServer, Service

from mercato.features.quotes.model import ApprovalRequest

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = "Ceylon tea from the third garden of Nuwara Eliya with a slice of a lemon and sug"
NOTE = ("No sugar please, and the milk beside it. " * 13)[:500]


async def test_a_long_order_is_approved_on_a_phone_without_javascript(
    chromium: Any,
    mercato: Service,
    shop: MerchantServer,
    look: tuple[str, int],
):
    scheme, width = look
    document = cafe()
    for item in (TEA, MILK, LEMON):
        document["items"][item]["name"] = NAME
    here = Quoting(await trade(mercato, shop, catalog=document))
    here.trade.front = (await assistant(here.trade, {"name": "Lunch" * 16, "approval": "always"})).client
    extras = {"modifierGroupId": EXTRAS, "lineItems": [line(MILK), line(LEMON)]}
    lines = [line(TEA, n + 1, extras, note=NOTE if n % 10 == 0 else f"Cup {n}") for n in range(30)]
    delivery = {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "deliveryType": "DOOR_TO_DOOR",
        "address": ADDRESS | {"address1": "1 " + "Main" * 60},
        "instructions": NOTE,
    }
    customer = {"email": "a@" + "b" * 200, "firstName": "A" * 80, "lastName": "L" * 80, "phone": "+15550100"}
    quote = await here.quote(
        here.trade.order(*lines, note=NOTE, fulfillment=delivery, customer=customer, amounts={"tip": "5.00"})
    )
    assert quote.order.amounts
    approval = await here.place(quote, total=quote.order.amounts.total)
    assert isinstance(approval, ApprovalRequest)
    document["items"][TEA]["basePrice"] = "2.60"
    await mercato.run(here.trade.pos, here.trade.store["storeId"], shop.host(document))
    context = await new_context(
        chromium, java_script_enabled=False, color_scheme=scheme, viewport={"width": width, "height": 740}
    )
    page = await context.new_page()
    await page.goto(f"{mercato.base}/approve/{approval.secret}")
    await page.get_by_role("heading", name="Approve this order?").wait_for()
    await picture(page, f"approval-{scheme}-{width}")
    # The decision is in sight before anything is scrolled.
    assert await page.get_by_role("button", name="Place order").is_visible()
    with_scripts = await new_context(chromium, color_scheme=scheme, viewport={"width": width, "height": 740})
    measured = await with_scripts.new_page()
    await measured.goto(page.url)
    assert await widest(measured) <= 0
    assert await violations(measured) == []
    await with_scripts.close()
    await page.get_by_role("button", name="Place order").click()
    await page.get_by_role("heading", name="The order is placed").wait_for()
    await picture(page, f"approved-{scheme}-{width}")
    assert len(await here.orders()) == 1
    await context.close()


async def picture(page: Any, name: str) -> None:
    """Keep a picture of the page and of what is seen of it first, if somebody wants them."""
    folder = os.environ.get("MERCATO_APPROVAL_PICTURES")
    if folder:
        await page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
        await page.screenshot(path=Path(folder) / f"{name}-first.png")
