"""The board without JavaScript: what is on it, every button, who may press it, and what the loser of a race reads."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.api.test_order_handling import asked, cancel, end_time, ended, handled, read
from tests.api.trade import CUSTOMER, MERCHANT, Time, Trade, tea, trade
from tests.catalog.documents import cafe
from tests.console.browser import Browser, Element, Page
from tests.console.visiting import enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service, service
from tests.sharing import own, shared

from mercato.console.screens.board import PER_SESSION
from mercato.features.orders.privacy import erase_all
from mercato.features.partners.model import PartnerKind
from mercato.features.requests.log import RequestLog
from mercato.features.sign_in.roles import Role
from mercato_contract import clock
from mercato_contract.wire import parse_instant, rfc3339

pytestmark = [shared, mostly_sqlite]

BOARD = "/console/board"
WHO = "Ada L."
TIMES = "\N{MULTIPLICATION SIGN}"
DELIVERY = {
    "mode": "DELIVERY_BY_MERCHANT",
    "scheduleType": "ASAP",
    "deliveryType": "LEAVE_AT_DOOR",
    "instructions": "Second door",
    "address": {"address1": "1 Main St", "city": "Springfield", "postalCode": "62701"},
}


@pytest.fixture
async def manual(mercato: Service, shop: MerchantServer) -> Trade:
    trading = await trade(mercato, shop, webhook=False)
    await handled(trading, orderHandling="manual")
    return trading


@pytest.fixture
async def tablet(mercato: Service, manual: Trade) -> Browser:
    return await enter_as_partner(mercato, manual.pos)


def number_of(order: Any) -> str:
    return str(order["orderId"])[-5:].upper()


def cards(page: Page, column: str) -> list[Element]:
    [lane] = page.root.all("section", id=column)
    return [one for one in lane.all("li") if one.attributes.get("id", "").startswith("o-")]


def numbers(page: Page, column: str) -> list[str]:
    return [card.all("h3")[0].text for card in cards(page, column)]


async def press(page: Page, browser: Browser, button: str, **fields: str) -> Page:
    pressed = await browser.press(page, button, **fields)
    return await browser.press(pressed, "Confirm") if button == "Refuse" else pressed


# --- what is on it --------------------------------------------------------------------------------------


async def test_an_order_is_on_the_board_with_what_a_kitchen_needs(manual: Trade, tablet: Browser):
    order = manual.order(tea(quantity=2) | {"note": "Very hot"}, note="Ring twice", fulfillment=DELIVERY)
    placed = await manual.placed(order)
    page = await tablet.open(BOARD)
    assert (page.title, "Board" in page.navigation) == ("Board", True)
    [card] = cards(page, "new")
    assert numbers(page, "new") == [number_of(placed)]
    for text in (
        WHO,
        "Delivery",
        "as soon as possible",
        f"2 {TIMES} Tea",
        "Milk",
        "Lemon",
        "Very hot",
        "Ring twice",
    ):
        assert text in card.text, text
    assert "0 min" in card.text
    # What was chosen stands below its item: as a list in it, which a screen reader says, too.
    item, *choices = card.all("ul")[0].all("li")
    assert item.all("li") == choices
    assert [one.text for one in choices] == ["Milk", "Lemon"]
    # A board may have thousands of them: each costs its name and four bytes.
    assert b"<ul><li>Milk<li>Lemon</ul>" in page.body
    assert [numbers(page, column) for column in ("preparing", "ready")] == [[], []]


async def test_an_order_that_its_stores_system_takes_is_not_on_the_board(
    mercato: Service, shop: MerchantServer
):
    trading = await trade(mercato, shop)
    await trading.placed()
    browser = await enter_as_partner(mercato, trading.pos)
    page = await browser.open(BOARD)
    assert [numbers(page, column) for column in ("new", "preparing", "ready")] == [[], [], []]


@on_both
async def test_an_order_that_the_service_accepted_is_new_until_somebody_takes_it(
    mercato: Service, shop: MerchantServer
):
    trading = await trade(mercato, shop, webhook=False)
    order = await trading.placed()
    browser = await enter_as_partner(mercato, trading.pos)
    page = await browser.open(BOARD)
    assert numbers(page, "new") == [number_of(order)]
    assert "Cancelled unless accepted" not in page.text
    assert numbers(await browser.press(page, "20 min"), "preparing") == [number_of(order)]


@on_both
async def test_a_scheduled_order_is_new_with_its_time_in_the_stores_zone_and_accepted_for_it(
    manual: Trade, tablet: Browser
):
    await handled(manual, timezone="Asia/Tokyo")
    at = clock.now().replace(microsecond=0) + timedelta(days=2)
    scheduled = {"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": rfc3339(at)}
    order = await manual.placed(manual.order(fulfillment=scheduled))
    page = await tablet.open(BOARD)
    local = at + timedelta(hours=9)
    assert f"for {local:%a} {local.day} {local:%b} {local:%H:%M}" in cards(page, "new")[0].text
    assert "20 min" not in page.buttons
    await tablet.press(page, "Accept")
    now = await read(manual, order)
    assert parse_instant(now["estimatedReadyAt"]) == at


async def test_an_order_is_late_after_its_time(manual: Trade, tablet: Browser, clock_ahead: Time):
    await manual.placed()
    page = await tablet.press(await tablet.open(BOARD), "10 min")
    assert "late" not in cards(page, "preparing")[0].attributes["class"]
    clock_ahead.ahead = timedelta(minutes=12)
    card = cards(await tablet.open(BOARD), "preparing")[0]
    assert "late" in card.attributes["class"].split()
    assert "12 min" in card.text


@own()
async def test_an_erased_customer_is_not_on_the_board_or_on_the_ticket(manual: Trade, tablet: Browser):
    order = await manual.placed(manual.order(note="For Ada", fulfillment=DELIVERY))
    await erase_all(manual.mercato.app.db, CUSTOMER["email"])
    pages = [await tablet.open(path) for path in (BOARD, f"/console/orders/{order['orderId']}/ticket")]
    for page in pages:
        assert page.status == 200
        assert "Tea" in page.text
        for text in ("Ada", "Lovelace", "Main St", "Second door", "15550100"):
            assert text not in page.text, text


async def test_one_store_has_a_board_of_its_own(mercato: Service, manual: Trade, shop: MerchantServer):
    members = {"name": "Other", "orderHandling": "manual"}
    store = await mercato.live(manual.pos, shop.host(cafe(), "/b.json"), name="b", members=members)
    other = replace(manual, store=store)
    orders = [await one.placed() for one in (manual, other)]
    browser = await enter_as_partner(mercato, manual.pos)
    everything = await browser.open(BOARD)
    assert numbers(everything, "new") == [number_of(order) for order in orders]
    assert [option.text for option in everything.field("Store").all("option")] == [
        "All",
        "Other",
        "Test Store",
    ]
    page = await browser.open(f"{BOARD}?storeId={store['storeId']}")
    assert numbers(page, "new") == [number_of(orders[1])]
    accepted = await browser.press(page, "30 min")
    assert accepted.url.endswith(f"{BOARD}?storeId={store['storeId']}")
    assert numbers(accepted, "preparing") == [number_of(orders[1])]
    question = await browser.press(await browser.open(f"{BOARD}?storeId={manual.store['storeId']}"), "Refuse")
    refused = await browser.press(question, "Confirm")
    assert refused.url.endswith(f"{BOARD}?storeId={manual.store['storeId']}")


# --- what people do -------------------------------------------------------------------------------------


@on_both
async def test_an_order_goes_through_the_columns_by_the_buttons(manual: Trade, tablet: Browser):
    order = await manual.placed()
    number = number_of(order)
    page = await tablet.open(BOARD)
    before = clock.now()
    page = await tablet.press(page, "20 min")
    assert page.status_region == f"Order {number} is accepted."
    assert [numbers(page, column) for column in ("new", "preparing")] == [[], [number]]
    now = await read(manual, order)
    ready = parse_instant(now["estimatedReadyAt"])
    assert ready is not None
    assert timedelta(minutes=20) <= ready - before + timedelta(seconds=1) <= timedelta(minutes=22)
    assert (now["status"], ready.second) == ("confirmed", 0)
    page = await tablet.press(page, "Ready")
    assert (numbers(page, "ready"), page.status_region) == ([number], f"Order {number} is ready.")
    page = await tablet.press(page, "Handed over")
    assert page.status_region == f"Order {number} is handed over."
    assert (await read(manual, order))["state"] == "completed"
    assert numbers(page, "ready") == []


async def test_sixty_cards_have_at_most_100_kb_and_their_buttons_are_grouped_by_the_orders_number(
    manual: Trade, tablet: Browser
):
    for status in (None, "confirmed", "ready"):
        order = await manual.placed()
        if status is not None:
            assert (await manual.update(order, status=status)).status == 200
    page = await tablet.open(f"{BOARD}?storeId={manual.store['storeId']}")
    shown = [found[0] for found in (cards(page, column) for column in ("new", "preparing", "ready"))]
    assert len(shown) == 3
    for card in shown:
        (group,) = card.all("fieldset")
        number = number_of({"orderId": card.attributes["id"]})
        assert (card.all("h3")[0].text, group.attributes["aria-label"]) == (number, number)
        assert len(group.all("button")) == len(card.all("button"))
    sizes = [len(found) for found in re.findall(rb'<li id="o-.*?</section>', page.body, re.DOTALL)]
    assert len(sizes) == 3
    # A new order has the most buttons, so the largest board has nothing else; its items may have names of 80 letters.
    assert max(sizes) == sizes[0]
    assert len(page.body) - sum(sizes) + 60 * (sizes[0] + 80) <= 100_000


async def test_other_minutes_are_typed(manual: Trade, tablet: Browser):
    order = await manual.placed()
    page = await tablet.open(BOARD)
    await tablet.press(page, "Accept", other="45")
    ready = parse_instant((await read(manual, order))["estimatedReadyAt"])
    assert ready is not None
    assert timedelta(minutes=44) <= ready - clock.now() <= timedelta(minutes=46)


async def test_a_button_with_minutes_counts_before_typed_ones(manual: Trade, tablet: Browser):
    order = await manual.placed()
    await tablet.press(await tablet.open(BOARD), "20 min", other="45")
    ready = parse_instant((await read(manual, order))["estimatedReadyAt"])
    assert ready is not None
    assert ready - clock.now() <= timedelta(minutes=22)


@pytest.mark.parametrize("minutes", ["0", "-5", "1441", "soon", "1e3"])
async def test_minutes_that_cannot_be_change_nothing(manual: Trade, tablet: Browser, minutes: str):
    order = await manual.placed()
    page = await tablet.press(await tablet.open(BOARD), "Accept", other=minutes)
    assert page.status in {400, 422}
    assert (await read(manual, order))["status"] == "pending"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"reason": "TOO_BUSY"}, "TOO_BUSY"), ({"reason": "OTHER", "words": "Out of dough"}, "Out of dough")],
)
async def test_an_order_is_refused_for_a_reason_that_the_storefront_reads(
    manual: Trade, tablet: Browser, fields: dict[str, str], reason: str
):
    order = await manual.placed()
    question = await tablet.press(await tablet.open(BOARD), "Refuse")
    assert question.heading == f"Refuse order {number_of(order)}?"
    page = await tablet.press(question, "Confirm", **fields)
    assert page.status_region == f"Order {number_of(order)} is refused."
    now = await read(manual, order)
    assert (now["state"], now["cancelReason"]) == ("cancelled", reason)


@on_both
@pytest.mark.parametrize(
    ("button", "state", "cancellation"),
    [("Cancel order", "cancelled", "accepted"), ("Keep order", "open", "refused")],
)
async def test_a_person_decides_what_a_storefront_asks_for(
    manual: Trade, tablet: Browser, button: str, state: str, cancellation: str
):
    order = await asked(manual)
    page = await tablet.open(BOARD)
    assert "The customer wants to cancel." in cards(page, "preparing")[0].text
    page = await tablet.press(page, button)
    now = await read(manual, order)
    assert (now["state"], now["cancellation"]["status"]) == (state, cancellation)
    assert "The customer wants to cancel." not in page.text


# --- races ----------------------------------------------------------------------------------------------


@on_both
async def test_the_second_to_decide_reads_what_happened_on_the_board(manual: Trade, tablet: Browser):
    for button, act, words in (
        ("20 min", {"state": "cancelled", "cancelReason": "Fire"}, "Refused just now by"),
        ("Refuse", {"status": "confirmed"}, "Confirmed just now by"),
        ("20 min", {"status": "preparing"}, "In preparation at"),
        ("Refuse", {"state": "cancelled", "cancelReason": "Fire"}, "Fire"),
    ):
        order = await manual.placed()
        page = await tablet.open(BOARD)
        assert (await manual.update(order, **act)).status == 200
        late = await press(page, tablet, button)
        assert late.status == 409, button
        assert f"Order {number_of(order)}: nothing was done, because it has changed." in late.text
        assert words in late.text
        assert late.title == "Board"
        await manual.update(order, state="completed")


@on_both
async def test_after_the_time_the_board_says_that_nobody_accepted_the_order(manual: Trade, tablet: Browser):
    order = await manual.placed()
    page = await tablet.open(BOARD)
    assert "Cancelled unless accepted by" in page.text
    await end_time(manual)
    await ended(manual, order)
    late = await tablet.press(page, "10 min")
    assert late.status == 409
    assert "nobody at Test Store accepted it in time" in late.text


@on_both
async def test_of_two_tablets_one_wins_and_the_other_reads_what_happened(mercato: Service, manual: Trade):
    tablets = [(await enter_as_partner(mercato, manual.pos)) for _ in range(2)]
    for _ in range(4):
        order = await manual.placed()
        accept, refuse = [await one.open(BOARD) for one in tablets]
        question = await tablets[1].press(refuse, "Refuse")
        accepted, refused = await asyncio.gather(
            tablets[0].press(accept, "20 min"), tablets[1].press(question, "Confirm")
        )
        now = await read(manual, order)
        assert sorted([accepted.status, refused.status]) == [200, 409]
        assert now["state"] == ("open" if accepted.status == 200 else "cancelled")
        loser = refused if accepted.status == 200 else accepted
        assert "nothing was done, because it has changed" in loser.text
        await manual.update(order, state="completed")


async def test_two_who_press_the_same_button_both_see_it_done(mercato: Service, manual: Trade):
    tablets = [(await enter_as_partner(mercato, manual.pos)) for _ in range(2)]
    await manual.placed()
    for button in ("Ready", "Handed over"):
        if button == "Ready":
            await tablets[0].press(await tablets[0].open(BOARD), "20 min")
        pages = [await one.open(BOARD) for one in tablets]
        done = await asyncio.gather(
            *(one.press(page, button) for one, page in zip(tablets, pages, strict=True))
        )
        assert [page.status for page in done] == [200, 200]


async def test_a_decision_about_a_cancellation_that_is_over_is_explained(manual: Trade, tablet: Browser):
    order = await asked(manual)
    page = await tablet.open(BOARD)
    await manual.update(order, cancellation={"accepted": False, "reason": "On the grill"})
    late = await tablet.press(page, "Cancel order")
    assert (late.status, "On the grill" in late.text) == (409, True)
    assert (await read(manual, order))["state"] == "open"


# --- what leads to it -----------------------------------------------------------------------------------


async def test_an_orders_page_has_the_number_that_the_board_and_the_ticket_have(
    mercato: Service, manual: Trade, tablet: Browser, shop: MerchantServer
):
    order = await manual.placed()
    path = f"/console/orders/{order['orderId']}"
    said = f"{number_of(order)} on the board and on the ticket"
    page = await tablet.open(path)
    assert (page.heading, said in page.region("Now")) == (f"Test Store {order['orderId'][:8]}", True)
    assert (await manual.update(order, status="confirmed", partnerOrderId="T-65")).status == 200
    page = await tablet.open(path)
    assert (page.heading, "on the ticket" in page.text) == ("Test Store T-65", False)
    called = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, called.pos)
    page = await browser.open(f"/console/orders/{(await called.placed())['orderId']}")
    assert "on the ticket" not in page.text


async def test_an_order_is_found_by_the_number_of_its_ticket_by_those_who_see_it(
    mercato: Service, manual: Trade, tablet: Browser
):
    orders = [await manual.placed() for _ in range(3)]
    order, number = orders[1], number_of(orders[1])
    path = f"/console/orders/{order['orderId']}"

    async def finds(browser: Browser, text: str) -> list[str]:
        page = await browser.post("/console/search", {"text": text})
        return [one.attributes["href"] for one in page.row_links]

    one_store = await enter_as_partner(mercato, manual.pos, store_id=manual.store["storeId"])
    storefront = await enter_as_partner(mercato, manual.front)
    for browser in (tablet, one_store, storefront):
        for text in (number, number.lower(), f"#{number}"):
            assert await finds(browser, text) == [path], text
    stranger = await enter_as_partner(mercato, (await mercato.partner(PartnerKind.BOTH))[1])
    assert await finds(stranger, number) == []
    assert (await manual.update(order, status="confirmed", partnerOrderId="T-65")).status == 200
    assert (await finds(tablet, number), await finds(tablet, "T-65")) == ([], [path])


@pytest.mark.parametrize("handling", ["manual", "automatic", "webhook"])
async def test_a_stores_page_leads_those_to_its_board_who_handle_its_orders(
    mercato: Service, shop: MerchantServer, handling: str
):
    deal = await trade(mercato, shop, webhook=handling == "webhook")
    if handling != "webhook":
        await handled(deal, orderHandling=handling)
    account = (await mercato.app.callers.get((deal.pos.key or "").encode())).partner_id
    path = f"/console/stores/{deal.store['storeId']}"
    board = f"{BOARD}?storeId={deal.store['storeId']}"
    for role in (Role.MANAGER, Role.SUPPORT, Role.READ_ONLY):
        browser, _ = await enter_as_person(mercato, role, account, name=f"Eve {role}")
        page = await browser.open(path)
        assert page.status == 200
        links = [one.attributes["href"] for one in page.root.all("a") if one.text == "Open the board"]
        assert links == ([board] if handling != "webhook" and role is not Role.READ_ONLY else []), role
    storefront = await enter_as_partner(mercato, deal.front)
    assert "Open the board" not in (await storefront.open(path)).text


# --- who may --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.MANAGER, Role.SUPPORT, Role.READ_ONLY])
async def test_a_manager_and_support_have_the_board_and_read_only_has_not(mercato: Service, role: Role):
    account, _ = await mercato.partner()
    browser, _ = await enter_as_person(mercato, role, account.id)
    page = await browser.open(BOARD)
    has_it = role is not Role.READ_ONLY
    assert page.status == (200 if has_it else 403)
    assert ("Board" in page.navigation) is has_it


@own()
async def test_a_storefront_and_an_operator_have_no_board(mercato: Service, manual: Trade):
    storefront = await enter_as_partner(mercato, manual.front)
    operator, _ = await enter_as_person(mercato, Role.SUPPORT)
    order = await manual.placed()
    for browser in (storefront, operator):
        for path in (BOARD, f"{BOARD}/changes?after=x", f"/console/orders/{order['orderId']}/ticket"):
            assert (await browser.open(path)).status == 404, path


async def test_another_partners_board_order_and_ticket_do_not_exist(mercato: Service, manual: Trade):
    order = await manual.placed()
    _, stranger = await mercato.partner(PartnerKind.COMMERCE)
    browser = await enter_as_partner(mercato, stranger)
    assert (await browser.open(f"{BOARD}?storeId={manual.store['storeId']}")).status == 404
    assert (await browser.open(f"{BOARD}?storeId={uuid4()}")).status == 404
    assert WHO not in (await browser.open(BOARD)).text
    id_ = order["orderId"]
    assert (await browser.open(f"/console/orders/{id_}/ticket")).status == 404
    assert (await browser.open(f"{BOARD}/{id_}/refuse")).status == 404
    for act in ("accept", "refuse", "ready", "hand-over", "cancellation"):
        fields = {"minutes": "10"} if act == "accept" else {"accepted": "true"}
        assert (await browser.post(f"{BOARD}/{id_}/{act}", fields)).status == 404, act
    assert (await read(manual, order))["status"] == "pending"


@pytest.mark.parametrize("sends", [{}, {"HX-Request": "true"}])
async def test_an_act_on_a_board_that_does_not_exist_does_nothing(
    mercato: Service, manual: Trade, tablet: Browser, sends: dict[str, str]
):
    _, stranger = await mercato.partner(PartnerKind.COMMERCE)
    theirs = await mercato.live(stranger, manual.shop.host(cafe(), "/theirs.json"))
    order = await manual.placed()
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    for store_id in (str(uuid4()), theirs["storeId"]):
        for act, fields in (("accept", {"minutes": "10"}), ("refuse", {}), ("ready", {}), ("hand-over", {})):
            path = f"{BOARD}/{order['orderId']}/{act}"
            assert (await tablet.post(path, fields | {"storeId": store_id}, **own, **sends)).status == 404, (
                act
            )
    now = await read(manual, order)
    assert (now["state"], now["status"]) == ("open", "pending")


@on_both
async def test_a_session_of_one_store_has_that_stores_board_alone(
    mercato: Service, manual: Trade, shop: MerchantServer
):
    order = await manual.placed()
    own = await trade(mercato, shop, webhook=False)
    browser = await enter_as_partner(mercato, own.pos, store_id=own.store["storeId"])
    placed = await own.placed()
    page = await browser.open(BOARD)
    assert numbers(page, "new") == [number_of(placed)]
    assert (await browser.open(f"/console/orders/{order['orderId']}/ticket")).status == 404


# --- what its script asks for ---------------------------------------------------------------------------


async def wait(browser: Browser, page: Page) -> str:
    cursor = page.root.all("div", id="board")[0].attributes["data-cursor"]
    changes = await browser.open(f"{BOARD}/changes?after={cursor}", **{"HX-Request": "true"})
    assert changes.status == 200, changes.body
    return changes.body.decode().strip()


async def test_a_waiting_request_is_answered_when_an_order_comes(manual: Trade, tablet: Browser):
    page = await tablet.open(BOARD)
    waiting = asyncio.create_task(wait(tablet, page))
    order = await manual.placed()
    assert await waiting == "changed"
    part = await tablet.open(BOARD, **{"HX-Request": "true"})
    assert part.body.lstrip().startswith(b'<div id="board"')
    assert b"<html" not in part.body
    assert number_of(order) in part.body.decode()


@on_both
async def test_a_cursor_of_before_has_the_change_at_once(manual: Trade, tablet: Browser):
    page = await tablet.open(BOARD)
    order = await manual.placed()
    assert await wait(tablet, page) == "changed"
    page = await tablet.open(BOARD)
    await manual.update(order, status="confirmed")
    assert await wait(tablet, page) == "changed"


@pytest.mark.parametrize("cursor", ["x", "AAAA", "a" * 200])
async def test_a_cursor_that_is_not_ours_reads_everything_anew(tablet: Browser, cursor: str):
    page = await tablet.open(f"{BOARD}/changes?after={cursor}")
    assert page.body.decode().strip() == "changed"


@own()
async def test_a_session_has_few_waiting_requests_and_the_end_of_the_service_answers_them(
    mercato: Service, manual: Trade, tablet: Browser
):
    page = await tablet.open(BOARD)
    waiters = mercato.app.feeds.waiters
    tasks = [asyncio.create_task(wait(tablet, page)) for _ in range(PER_SESSION)]
    while waiters.count < PER_SESSION:
        await asyncio.sleep(0.01)
    assert await wait(tablet, page) == "same"
    # The partner's own programs still may wait.
    with waiters.waiting(uuid4(), None) as woken:
        assert woken is not None
    waiters.close()
    assert await asyncio.gather(*tasks) == ["same"] * PER_SESSION
    assert waiters.count == 0


async def test_a_request_that_waits_is_not_counted_as_slow(
    database_url: str, tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    recorded: list[str | None] = []
    monkeypatch.setattr(RequestLog, "record", lambda _self, request: recorded.append(request.operation))
    async with service(database_url, tmp_path / "slow", slow_ms=1) as mercato:
        manual = await trade(mercato, shop, webhook=False)
        await handled(manual, orderHandling="manual")
        tablet = await enter_as_partner(mercato, manual.pos)
        page = await tablet.open(BOARD)
        waiting = asyncio.create_task(wait(tablet, page))
        await manual.placed()
        assert await waiting == "changed"
    assert "console" in recorded, "what answers at once may be slow"
    assert "boardChanges" not in recorded


@on_both
async def test_an_act_of_the_script_is_answered_with_the_board(manual: Trade, tablet: Browser):
    order = await manual.placed()
    path = f"{BOARD}/{order['orderId']}/accept"
    sent = {"Sec-Fetch-Site": "same-origin", "HX-Request": "true"}
    done = await tablet.post(path, {"minutes": "20"}, **sent)
    root = done.root.all("div", id="board")[0]
    assert root.attributes["data-said"] == f"Order {number_of(order)} is accepted."
    await manual.update(order, state="cancelled", cancelReason="Fire")
    late = await tablet.post(f"{BOARD}/{order['orderId']}/ready", {}, **sent)
    assert late.status == 409
    assert "Fire" in late.root.all("div", id="board")[0].attributes["data-refused"]


async def test_the_manifest_lets_a_tablet_install_the_board(mercato: Service, tablet: Browser):
    page = await tablet.open(BOARD)
    href = next(
        one.attributes["href"] for one in page.root.all("link") if one.attributes["rel"] == "manifest"
    )
    found = await mercato.anonymous().get(href)
    assert found.headers["Content-Type"] == "application/manifest+json"
    manifest = found.json()
    assert (manifest["start_url"], manifest["display"]) == (BOARD, "standalone")
    assert (await mercato.anonymous().get(manifest["icons"][0]["src"])).status == 200
    # iPads take the icon from the page, and only as a PNG.
    [icon] = [
        one.attributes["href"] for one in page.root.all("link") if one.attributes["rel"] == "apple-touch-icon"
    ]
    picture = await mercato.anonymous().get(icon)
    assert (picture.status, picture.headers["Content-Type"]) == (200, "image/png")
    assert (picture.body[:8], picture.body[16:24]) == (b"\x89PNG\r\n\x1a\n", bytes((0, 0, 0, 180)) * 2)


@on_both
async def test_without_javascript_the_board_reloads_itself(manual: Trade, tablet: Browser):
    order = await manual.placed()
    page = await tablet.open(BOARD)
    [refresh] = page.root.all("meta", **{"http-equiv": "refresh"})
    assert refresh.attributes["content"] == f"15; url={BOARD}"
    await manual.update(order, state="completed")
    late = await tablet.press(page, "20 min")
    # Not at the button's address, where there is nothing to show.
    assert late.root.all("meta", **{"http-equiv": "refresh"})[0].attributes["content"] == f"15; url={BOARD}"


# --- the ticket -----------------------------------------------------------------------------------------


async def test_the_ticket_has_the_order_for_those_who_make_and_bring_it(manual: Trade, tablet: Browser):
    order = await manual.placed(manual.order(note="Ring twice", fulfillment=DELIVERY))
    page = await tablet.press(await tablet.open(BOARD), "Print")
    assert page.heading == number_of(order)
    for text in ("DELIVERY", "Ada Lovelace", "+15550100", "1 Main St", "62701 Springfield", "Second door"):
        assert text in page.text, text
    for text in (f"2 {TIMES} Tea", "Milk", "Ring twice", "5.80 USD", "Leave it at the door."):
        assert text in page.text, text
    await manual.update(order, state="cancelled", cancelReason="Fire")
    assert "CANCELLED" in (await tablet.open(page.url)).text


@on_both
async def test_the_ticket_has_what_the_order_costs_after_its_adjustments(manual: Trade, tablet: Browser):
    order = await manual.placed()
    await manual.update(order, status="confirmed")
    refund = {"type": "refund", "amount": "2.90", "reason": "One is sold out"}
    headers = {"Idempotency-Key": order["orderId"]}
    reply = await manual.pos.post(f"{MERCHANT}/{order['orderId']}/adjustments", refund, headers=headers)
    assert reply.json()["amounts"]["totalAfterAdjustments"] == "2.90"
    page = await tablet.press(await tablet.open(BOARD), "Print")
    assert "Total 2.90 USD" in page.text


@on_both
async def test_the_boards_of_all_change_when_anybody_acts(mercato: Service, manual: Trade, tablet: Browser):
    order = await manual.placed()
    page = await tablet.open(BOARD)
    waiting = asyncio.create_task(wait(tablet, page))
    other = await enter_as_partner(mercato, manual.pos)
    await other.press(await other.open(BOARD), "20 min")
    assert await waiting == "changed"
    assert (await manual.pos.get(f"{MERCHANT}/{order['orderId']}")).json()["status"] == "confirmed"
    assert numbers(await tablet.open(BOARD), "preparing") == [number_of(order)]
    assert (await cancel(manual, order)).status == 503
    assert "The customer wants to cancel." in (await tablet.open(BOARD)).text


async def test_the_board_says_whose_clocks_its_times_are_of(mercato: Service, shop: MerchantServer):
    """A card says its times in the zone of its store, whatever zone the account's pages have."""
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    for path in ("/console/board", f"/console/board?storeId={deal.store['storeId']}"):
        page = await browser.open(path)
        assert "Times are those of clocks at the store of each order." in page.text
        assert "Times are in" not in page.text
