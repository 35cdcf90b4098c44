"""The board on a tablet: it updates itself, says when it can't, and comes back by itself."""

import asyncio
import re
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
from tests.api.test_order_handling import cancel, handled
from tests.api.trade import Trade, tea, trade
from tests.browser.test_screens import faults_of, sign_in
from tests.catalog.documents import cafe
from tests.console.visiting import partner_link
from tests.databases import sqlite_template
from tests.service import MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.app import running
from mercato.asgi import application
from mercato.http.server import serving
from mercato.settings import Settings
from mercato_contract import clock
from mercato_contract.texts import Secret
from mercato_contract.wire import parse_instant

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON: Final = 2.0
"""Seconds in which a committed order is on the board."""

LOOK: Final = 0.02
"""Seconds between two looks at a page."""


@pytest_asyncio.fixture(loop_scope="session")
async def manual(mercato: Service, shop: MerchantServer) -> Trade:
    trading = await trade(mercato, shop, webhook=False, catalog=cafe())
    await handled(trading, orderHandling="manual")
    return trading


async def open_board(page: Any, manual: Trade) -> None:
    await sign_in(page, await partner_link(manual.pos))
    await page.goto(f"{manual.mercato.base}/console/board")
    await page.get_by_role("heading", name="New").wait_for()


def card(page: Any, order: Any) -> Any:
    return page.locator(f"#o-{order['orderId']}")


def number_of(order: Any) -> str:
    return str(order["orderId"])[-5:].upper()


async def until(page: Any, expression: str, value: object) -> None:
    """Wait until the page has the value: Playwright's own waiting evaluates text, which the policy forbids."""
    async with asyncio.timeout(PATIENCE):
        while await page.evaluate(expression) != value:
            await asyncio.sleep(0.05)


async def soon(shown: Any) -> None:
    """Wait until it is shown, for so many looks as fit into `SOON`: a busy browser answers each of them later."""
    for _ in range(round(SOON / LOOK)):
        if await shown.is_visible():
            return
        await asyncio.sleep(LOOK)
    assert await shown.is_visible()


async def settled(manual: Trade) -> None:
    """Wait until the board's request waits: then a change answers it."""
    while not manual.mercato.app.feeds.waiters.count:
        await asyncio.sleep(0.02)


async def test_a_new_order_is_on_the_board_in_two_seconds_with_its_number_in_the_title(
    page: Any, manual: Trade, look: tuple[str, int]
):
    scheme, width = look
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 800})
    await open_board(page, manual)
    assert await page.title() == "Board"
    await settled(manual)
    order = await manual.placed(manual.order(tea() | {"note": "Very hot"}, note="Ring twice " * 40))
    await soon(card(page, order))
    await page.get_by_role("status").get_by_text(f"New order {number_of(order)}").wait_for()
    await until(page, "document.title", "(1) Board")
    assert await faults_of(page) == []
    await card(page, order).get_by_role("button", name="20 min", exact=True).click()
    await page.locator("#preparing").get_by_text(number_of(order)).wait_for()
    await page.get_by_role("status").get_by_text(f"Order {number_of(order)} is accepted.").wait_for()
    await until(page, "document.title", "Board")
    assert (await cancel(manual, order)).status == 503
    await soon(card(page, order).get_by_role("button", name="Keep order", exact=True))
    assert await faults_of(page) == []
    keep = card(page, order).get_by_role("button", name="Keep order", exact=True)
    await keep.click()
    # A card takes one press at a time.
    await keep.wait_for(state="detached")
    await card(page, order).get_by_role("button", name="Ready", exact=True).click()
    await page.locator("#ready").get_by_text(number_of(order)).wait_for()
    await card(page, order).get_by_role("button", name="Handed over", exact=True).click()
    await card(page, order).wait_for(state="detached")


async def test_two_tablets_see_each_others_acts_and_the_second_reads_what_happened(
    context: Any, page: Any, manual: Trade
):
    await open_board(page, manual)
    other = await context.new_page()
    await other.goto(f"{manual.mercato.base}/console/board")
    order = await manual.placed()
    for tablet in (page, other):
        await soon(card(tablet, order))
    # The other one doesn't hear of it: it is opened anew, so that no request of it waits, and none can be made.
    await other.route("**/console/board/changes**", lambda route: route.abort())
    await other.reload()
    await card(page, order).get_by_role("button", name="10 min", exact=True).click()
    await page.locator("#preparing").get_by_text(number_of(order)).wait_for()
    await other.locator("#new").get_by_role("button", name="30 min", exact=True).click()
    await other.get_by_role("status").get_by_text("nothing was done, because it has changed").wait_for()
    await other.unroute_all()
    await other.locator("#preparing").get_by_text(number_of(order)).wait_for()


async def test_a_lost_network_is_a_banner_with_a_time_and_the_board_comes_back_by_itself(
    context: Any, page: Any, manual: Trade
):
    await open_board(page, manual)
    order = await manual.placed()
    await soon(card(page, order))
    await context.set_offline(True)
    banner = page.get_by_role("alert").filter(has_text="No connection.")
    await banner.wait_for()
    assert re.search(r"at \d\d:\d\d:\d\d", await banner.inner_text())
    assert (await page.title()).startswith("! ")
    missed = await manual.placed()
    await manual.update(order, state="completed")
    await context.set_offline(False)
    await card(page, missed).wait_for()
    await card(page, order).wait_for(state="detached")
    await banner.wait_for(state="hidden")
    assert await page.locator("#new .card").count() == 1


async def test_the_board_comes_back_after_a_restart_of_the_service_without_a_missed_order(
    page: Any, shop: MerchantServer, tmp_path: Path
):
    shutil.copyfile(await sqlite_template(), tmp_path / "mercato.db")
    options: dict[str, Any] = {"allow_private_networks": True, "rate_limits": False}
    settings = Settings(
        database_url=Secret(f"sqlite:///{tmp_path / 'mercato.db'}"), data_dir=tmp_path, **options
    )
    async with aiohttp.ClientSession() as session:
        async with running(settings) as app, serving(application(app)) as base:
            manual = await trade(Service(app, base, session), shop, webhook=False)
            await handled(manual, orderHandling="manual")
            await open_board(page, manual)
            first = await manual.placed()
            await soon(card(page, first))
            await settled(manual)
            # As `mercato serve` ends: what waits is answered, and the rest is let end.
            app.feeds.waiters.close()
        banner = page.get_by_role("alert").filter(has_text="No connection.")
        await banner.wait_for()
        async with running(settings) as app, serving(application(app), port=int(base.rpartition(":")[2])):
            missed = await manual.placed()
            await card(page, missed).wait_for()
            await banner.wait_for(state="hidden")
            assert await page.locator("#new .card").count() == 2
            await page.goto("about:blank")
            app.feeds.waiters.close()


async def test_a_board_that_is_drawn_for_a_week_keeps_its_size(page: Any, manual: Trade):
    for _ in range(6):
        await manual.placed()
    await page.clock.install()
    drawn = 0

    async def count(route: Any) -> None:
        nonlocal drawn
        drawn += 1
        await route.continue_()

    # Something has always changed, so it draws twice in a second.
    await page.route("**/console/board/changes**", lambda route: route.fulfill(body="changed"))
    await open_board(page, manual)
    await page.route("**/console/board", count)
    developer = await page.context.new_cdp_session(page)

    async def sizes_after(drawings: int) -> tuple[int, ...]:
        wanted = drawn + drawings
        async with asyncio.timeout(PATIENCE):
            while drawn < wanted:
                await page.clock.run_for(550)
        # One that is being drawn at that moment has the page twice, so the least of several counts.
        return tuple(min(sizes) for sizes in zip(*[await sizes_now() for _ in range(5)], strict=True))

    async def sizes_now() -> tuple[int, int, int]:
        await developer.send("HeapProfiler.collectGarbage")
        counted = await developer.send("Memory.getDOMCounters")
        used = (await developer.send("Runtime.getHeapUsage"))["usedSize"]
        return counted["nodes"], counted["jsEventListeners"], used

    before = await sizes_after(20)
    after = await sizes_after(100)
    assert await page.locator("#new .card").count() == 6
    for first, last, share in zip(before, after, (1.2, 1.2, 1.3), strict=True):
        assert last <= first * share


async def test_what_somebody_is_typing_stays_when_an_order_comes(page: Any, manual: Trade):
    await open_board(page, manual)
    first = await manual.placed()
    await soon(card(page, first))
    minutes = card(page, first).get_by_label("Other minutes")
    await minutes.fill("42")
    second = await manual.placed()
    await soon(card(page, second))
    assert await minutes.input_value() == "42"
    assert await page.evaluate("document.activeElement.type") == "number"


async def test_enter_after_typed_minutes_accepts_with_them_and_impossible_ones_only_stop_their_own_button(
    page: Any, manual: Trade
):
    await open_board(page, manual)
    typed, pressed = [await manual.placed() for _ in range(2)]
    for order in (typed, pressed):
        await soon(card(page, order))
        await card(page, order).get_by_label("Other minutes").fill("0")
        await card(page, order).get_by_role("button", name="Accept", exact=True).click()
        assert await page.evaluate("document.querySelectorAll('#new input:user-invalid').length") > 0
    await card(page, typed).get_by_label("Other minutes").fill("240")
    await card(page, typed).get_by_label("Other minutes").press("Enter")
    await card(page, pressed).get_by_role("button", name="20 min", exact=True).click()
    for order, minutes in ((typed, 240), (pressed, 20)):
        await page.locator("#preparing").get_by_text(number_of(order)).wait_for()
        now = (await manual.pos.get(f"/v1/commerce/orders/{order['orderId']}")).json()
        ready = parse_instant(now["estimatedReadyAt"])
        assert ready is not None
        assert timedelta(minutes=minutes - 2) <= ready - clock.now() <= timedelta(minutes=minutes + 1)


async def test_orders_that_were_read_before_a_press_are_not_drawn_after_its_answer(page: Any, manual: Trade):
    await open_board(page, manual)
    order = await manual.placed()
    await soon(card(page, order))
    read, drawn = asyncio.Event(), asyncio.Event()

    async def hold(route: Any) -> None:
        if read.is_set():
            await route.continue_()
            return
        answer = await route.fetch()
        read.set()
        await drawn.wait()
        await route.fulfill(response=answer)

    async def follow(route: Any) -> None:
        await read.wait()
        await route.continue_()

    await settled(manual)
    await page.route("**/console/board", hold)
    await page.route(f"**/console/board/{order['orderId']}/**", follow)
    await card(page, order).get_by_role("button", name="20 min", exact=True).click()
    status = page.get_by_role("status").get_by_text(f"Order {number_of(order)} is accepted.")
    await status.wait_for()
    # It waits for changes again once it has drawn, or left, the orders that it read.
    async with page.expect_request("**/console/board/changes**"):
        drawn.set()
    assert await status.is_visible()
    assert await page.locator("#new .card").count() == 0


async def test_a_new_order_rings_once_the_person_has_allowed_it(page: Any, manual: Trade):
    await open_board(page, manual)
    await page.evaluate(
        "window.rings = 0; document.addEventListener('board:rang', () => { window.rings += 1; });"
    )
    silent = await manual.placed()
    await soon(card(page, silent))
    assert await page.evaluate("window.rings") == 0
    sound = page.get_by_role("button", name="Sound", exact=True)
    assert await sound.get_attribute("aria-pressed") == "false"
    await sound.click()
    await until(page, "window.rings", 1)
    await page.locator("#sound[aria-pressed=true]").wait_for()
    loud = await manual.placed()
    await soon(card(page, loud))
    await until(page, "window.rings", 2)
    await sound.click()
    await page.locator("#sound[aria-pressed=false]").wait_for()


@pytest.mark.parametrize("size", [(360, 800), (1024, 600), (1280, 720)], ids=lambda size: str(size[0]))
async def test_a_card_has_one_button_for_each_act_and_the_board_the_search_of_every_page(
    page: Any, manual: Trade, size: tuple[int, int]
):
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await open_board(page, manual)
    order = await manual.placed()
    await soon(card(page, order))
    for name in ("Accept", "10 min", "20 min", "30 min", "Refuse", "Print"):
        assert await page.get_by_role("button", name=name).count() == 1, name
    navigation = page.get_by_role("navigation", name="Console")
    if size[0] < 1280:
        assert not await navigation.is_visible()
        await page.get_by_role("button", name="Menu").click()
    assert await navigation.get_by_role("button", name="Sign out").is_visible()
    await page.keyboard.press("Escape")
    search = page.get_by_role("searchbox")
    await search.fill(number_of(order))
    await search.press("Enter")
    await page.get_by_role("heading", name="Search", exact=True).wait_for()


async def test_the_keyboard_reaches_every_button_of_a_card(page: Any, manual: Trade):
    await open_board(page, manual)
    order = await manual.placed()
    await soon(card(page, order))
    await card(page, order).get_by_role("link").focus()
    names = []
    for _ in range(7):
        await page.keyboard.press("Tab")
        names.append(
            await page.evaluate(
                "document.activeElement.ariaLabel || document.activeElement.innerText || 'minutes'"
            )
        )
    times = ["10 min", "20 min", "30 min"]
    assert names == [*times, "minutes", "Accept", "Refuse", "Print"]


async def test_a_session_that_has_ended_says_so_and_shows_no_order_as_if_it_were_alive(
    page: Any, manual: Trade
):
    await open_board(page, manual)
    order = await manual.placed()
    await soon(card(page, order))
    await page.context.clear_cookies()
    await manual.placed()
    banner = page.get_by_role("alert").filter(has_text="You are signed out")
    await banner.get_by_role("link", name="Sign in again", exact=True).wait_for()


async def test_an_order_prints_alone(page: Any, manual: Trade):
    order = await manual.placed(manual.order(note="Ring twice"))
    await open_board(page, manual)
    async with page.context.expect_page() as opened:
        await card(page, order).get_by_role("button", name="Print", exact=True).click()
    ticket = await opened.value
    await ticket.get_by_role("heading", name=number_of(order)).wait_for()
    assert await faults_of(ticket) == []
    await ticket.emulate_media(media="print", color_scheme="dark")
    assert not await ticket.get_by_role("button", name="Print").is_visible()
    assert await ticket.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert await ticket.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"


@pytest.mark.parametrize("lines", [1, 30])
async def test_a_ticket_is_one_page_of_80_mm_as_long_as_the_order(page: Any, manual: Trade, lines: int):
    order = await manual.placed(manual.order(*(tea(quantity=number + 1) for number in range(lines))))
    await open_board(page, manual)
    await page.goto(f"{manual.mercato.base}/console/orders/{order['orderId']}/ticket")
    paper = await page.pdf(prefer_css_page_size=True)
    sizes = [tuple(map(float, one.split())) for one in re.findall(rb"/MediaBox \[0 0 ([\d. ]+)\]", paper)]
    assert len(sizes) == 1
    width, height = (round(points / 72 * 25.4) for points in sizes[0])
    content = await page.evaluate("document.querySelector('main').offsetHeight / 96 * 25.4")
    assert width == 80
    assert content <= height <= content + 15


@pytest.mark.parametrize(("width", "height"), [(1024, 600), (360, 800)])
async def test_long_names_thirty_modifiers_and_a_long_note_fit(
    page: Any, mercato: Service, shop: MerchantServer, manual: Trade, width: int, height: int
):
    document = cafe()
    document["items"] = {
        key: one | {"name": (one["name"] + " of the house" * 9)[:80]}
        for key, one in document["items"].items()
    }
    store = await mercato.live(
        manual.pos, shop.host(document, "/long.json"), name="long", members={"orderHandling": "manual"}
    )
    long = replace(manual, store=store)
    name = {"firstName": "W" * 40, "lastName": "o" * 40, "email": "w@example.com", "phone": "+15550100"}
    order = await long.placed(long.order(*[tea()] * 15, note="N" * 250 + "o " * 125, customer=name))
    await page.set_viewport_size({"width": width, "height": height})
    await open_board(page, manual)
    await card(page, order).wait_for()
    assert await faults_of(page) == []
    # On a phone links lead to the columns: on one line, also with orders of two digits.
    heights = await page.evaluate(
        """[...document.querySelectorAll('.jumps a')].map(link => {
             link.querySelector('strong').textContent = '60';
             return link.offsetHeight;
           })"""
    )
    assert len(set(heights)) == 1
