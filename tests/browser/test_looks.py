"""What every page has in a browser: keys for the search, a menu, a font, paper, and rows that lead somewhere."""

from typing import Any

import pytest
from tests.api.trade import tea, trade
from tests.browser.accessibility import violations, widest
from tests.browser.contexts import new_context
from tests.browser.test_screens import sign_in
from tests.catalog.documents import TEA, cafe
from tests.console.visiting import partner_link
from tests.service import MerchantServer, Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_slash_and_ctrl_k_lead_to_the_search_but_not_while_somebody_types(
    page: Any, mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/orders")
    search = page.get_by_role("searchbox")
    for keys in ("/", "Control+k"):
        await page.locator("main").focus()
        await page.keyboard.press(keys)
        assert await search.evaluate("field => field === document.activeElement"), keys
        assert await search.input_value() == ""
    assert (await search.bounding_box())["width"] >= 360
    store = page.get_by_label("Store", exact=True)
    await store.focus()
    await page.keyboard.type("a/b")
    assert await store.input_value() == "a/b"
    await page.keyboard.press("Control+k")
    assert await search.evaluate("field => field === document.activeElement")


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_small_window_has_the_navigation_behind_a_button(
    chromium: Any, mercato: Service, shop: MerchantServer, scripts: bool
):
    deal = await trade(mercato, shop)
    context = await new_context(chromium, java_script_enabled=scripts, viewport={"width": 360, "height": 780})
    page = await context.new_page()
    await sign_in(page, await partner_link(deal.pos))
    navigation = page.get_by_role("navigation", name="Console")
    assert not await navigation.is_visible()
    await page.get_by_role("button", name="Menu", exact=True).click()
    if scripts:
        assert await violations(page) == []
        assert await widest(page) <= 0
    await navigation.get_by_role("link", name="Stores", exact=True).click()
    await page.get_by_role("heading", name="Stores", exact=True).wait_for()
    await page.set_viewport_size({"width": 1280, "height": 900})
    assert await navigation.is_visible()
    assert not await page.get_by_role("button", name="Menu", exact=True).is_visible()
    await context.close()


async def test_pages_have_a_font_of_their_own_with_figures_of_one_width(
    page: Any, mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    await deal.placed()
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/orders")
    assert await page.evaluate("document.fonts.ready.then(() => document.fonts.check('14px Inter'))")
    widths = await page.locator("td.number").first.evaluate(
        """cell => ['11111', '00000'].map(text => {
             const one = cell.appendChild(document.createElement('span'));
             one.textContent = text;
             return one.getBoundingClientRect().width;
           })"""
    )
    assert widths[0] == widths[1]


async def test_a_click_anywhere_in_a_row_opens_its_order_and_its_other_links_stay_links(
    page: Any, mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/orders")
    total = await page.get_by_role("table", name="Orders").get_by_role("cell", name="5.80 USD").bounding_box()
    await page.mouse.click(total["x"] + total["width"] / 2, total["y"] + total["height"] / 2)
    await page.wait_for_url(f"**/console/orders/{order['orderId']}")
    await page.goto(f"{mercato.base}/console/orders")
    await page.get_by_role("table", name="Orders").get_by_role("link", name="Test Store").click()
    await page.wait_for_url(f"**/console/stores/{deal.store['storeId']}")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1100), ("light", 360)])
async def test_an_orders_page_fits_and_has_its_money_beside_its_items_where_there_is_room(
    page: Any, mercato: Service, shop: MerchantServer, scheme: str, width: int
):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 900})
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/orders/{order['orderId']}")
    items = await page.get_by_role("region", name="Items").bounding_box()
    amounts = await page.get_by_role("region", name="Amounts").bounding_box()
    assert (amounts["x"] >= items["x"] + items["width"]) == (width >= 1100)
    assert await violations(page) == []
    assert await widest(page) <= 0


async def test_what_somebody_unfolded_stays_open_when_an_order_refreshes_itself(
    page: Any, mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    await sign_in(page, await partner_link(deal.pos))
    await page.clock.install()
    await page.goto(f"{mercato.base}/console/orders/{order['orderId']}")
    events = page.get_by_role("region", name="Events")
    await events.locator("summary").click()
    assert (await deal.update(order, status="preparing")).status == 200
    await page.clock.run_for(10_500)
    await events.get_by_text("In preparation").wait_for()
    assert await events.locator("details").evaluate("one => one.open")


async def test_on_paper_there_is_the_order_alone(page: Any, mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/orders/{order['orderId']}")
    await page.emulate_media(media="print")
    for hidden in ("Cancel order", "Sign out", "Copy"):
        assert not await page.get_by_text(hidden, exact=True).first.is_visible(), hidden
    assert not await page.get_by_role("searchbox").is_visible()
    for name in ("Items", "Amounts", "Timeline"):
        assert await page.get_by_role("table", name=name).is_visible(), name
    # An order of many items begins on the page that its heading is on.
    assert await page.locator(".what .scroll").evaluate("one => getComputedStyle(one).breakInside") == "auto"
    # How long ago it was placed is nothing to read later.
    when = (
        await page.get_by_role("region", name="Progress")
        .locator("time")
        .first.evaluate("one => getComputedStyle(one, '::after').content")
    )
    assert "20" in when
    # Whoever makes the order reads its choices from the paper.
    for choice in ("Milk", "Lemon"):
        assert await page.get_by_role("table", name="Items").get_by_text(choice).is_visible(), choice


LISTS = ("orders", "stores", "catalogs", "webhooks", "refused-requests", "keys", "account", "reports")


@pytest.mark.parametrize("width", [1024, 1280])
async def test_every_column_of_a_list_is_in_sight_beside_the_navigation(
    page: Any, mercato: Service, shop: MerchantServer, width: int
):
    deal = await trade(mercato, shop)
    await deal.placed()
    assert (await deal.pos.get("/v1/commerce/stores/x")).status == 404
    await mercato.app.request_log.flush()
    await page.set_viewport_size({"width": width, "height": 600})
    await sign_in(page, await partner_link(deal.pos))
    for path in LISTS:
        await page.goto(f"{mercato.base}/console/{path}")
        # The letters of a key's name are random: let them be the widest.
        hidden = await page.evaluate(
            """[...document.querySelectorAll('td bdi')]
                 .forEach(one => one.innerText = one.innerText.replace(/_\\w{6}$/, '_WWWWWW'));
               [...document.querySelectorAll('.scroll')]
                 .filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)"""
        )
        assert hidden == [], path


@pytest.mark.parametrize("price", ["99.99", "99999.99"])
async def test_what_a_day_came_to_is_always_in_sight_in_a_report(
    page: Any, mercato: Service, shop: MerchantServer, price: str
):
    document = cafe()
    document["items"][TEA]["basePrice"] = price
    deal = await trade(mercato, shop, catalog=document)
    await deal.placed(deal.order(tea(quantity=90)))
    await page.set_viewport_size({"width": 1280, "height": 800})
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/reports")
    table = page.get_by_role("region", name="By day (USD)")
    total = table.locator("tbody tr").first.locator("td").last
    await table.evaluate("one => one.scrollIntoView()")
    right = (await table.bounding_box())["x"] + (await table.bounding_box())["width"]
    its = await total.bounding_box()
    assert its["x"] + its["width"] <= right
    assert await total.evaluate(
        """cell => {
             const {x, y, width, height} = cell.getBoundingClientRect();
             return document.elementFromPoint(x + width - 20, y + height / 2) === cell;
           }"""
    )


async def test_every_button_of_the_page_keys_is_in_sight_once_there_are_keys(
    page: Any, mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/keys")
    for name in ("Create key", "Roll key", "Revoke key", "Rotate secret"):
        assert await page.get_by_role("button", name=name, exact=True).is_visible(), name
    await page.get_by_role("button", name="Create key").click()
    await page.get_by_role("region", name="Shown once").wait_for()


@pytest.mark.parametrize("width", [360, 640, 768, 1024, 1280, 1440])
async def test_the_days_of_a_busy_store_fit_a_report_of_every_width(
    page: Any, mercato: Service, shop: MerchantServer, width: int
):
    """All columns are in sight, and where a row is a list, each amount is beside its name."""
    deal = await trade(mercato, shop)
    await deal.placed()
    await page.set_viewport_size({"width": width, "height": 800})
    await sign_in(page, await partner_link(deal.pos))
    await page.goto(f"{mercato.base}/console/reports")
    table = page.get_by_role("region", name="By day (USD)")
    await table.evaluate(
        """one => one.querySelectorAll('tbody td.number').forEach((cell, place) => {
             cell.textContent = place % 11 < 2 ? '321' : '4321.09';
           })"""
    )
    assert await table.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    overlapping = await table.evaluate(
        """one => [...one.querySelectorAll('tbody td')].filter(cell => {
             const label = getComputedStyle(cell, '::before');
             if (label.content === 'none' || label.position !== 'absolute') return false;
             const text = document.createRange();
             text.selectNodeContents(cell);
             return text.getBoundingClientRect().x - cell.getBoundingClientRect().x < parseFloat(label.width);
           }).map(cell => cell.dataset.label)"""
    )
    assert overlapping == []


FIELDS = {
    "playground": ("Store", "Item", "Quantity"),
    "people": ("Name", "Role"),
    "orders": ("Store",),
    "webhooks": ("State", "Type", "Store"),
    "refused-requests": ("Code", "Store"),
}


@pytest.mark.parametrize("path", FIELDS)
async def test_a_field_has_its_label_alone_as_its_name_and_nothing_else_has_it(
    page: Any, mercato: Service, shop: MerchantServer, path: str
):
    deal = await trade(mercato, shop)
    await sign_in(page, await partner_link(deal.front))
    await page.goto(f"{mercato.base}/console/{path}")
    for label in FIELDS[path]:
        assert await page.get_by_label(label, exact=True).count() == 1, label
        assert await page.get_by_label(label).count() == 1, label
