"""The playground: a cart is filled, validated and placed, without JavaScript."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from tests.api.trade import Trade, line, trade
from tests.catalog.documents import CAKE, EXTRAS, HOT, MILK, TEA, cafe
from tests.clients.programs import run
from tests.clients.typescript_project import BUILT, compile_project, skip_without, start_project
from tests.console.browser import Browser, Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_partner, enter_whole_account
from tests.databases import first_on_postgresql, mostly_sqlite, on_both, only_sqlite
from tests.service import MerchantServer, Service, service
from tests.sharing import own, shared

from mercato.features.partners.model import Limits, PartnerKind
from mercato.platform.db.audit import list_entries

pytestmark = [shared, mostly_sqlite]

PLAYGROUND = "/console/playground"

ZIPPED = {"Accept-Encoding": "gzip", "Sec-Fetch-Site": "same-origin"}


async def open_playground(mercato: Service, deal: Trade, **grant: Any) -> tuple[Browser, Page]:
    browser = await enter_as_partner(mercato, deal.front, **grant)
    return browser, await browser.open(f"{PLAYGROUND}?store={deal.store['storeId']}")


def answer(page: Page) -> tuple[str, Any]:
    """Return the status line and the JSON of the last answer."""
    text = page.region("Response").removeprefix("Response ")
    status, _, body = text.partition(" {")
    return status, json.loads("{" + body)


@own()
async def test_an_order_is_placed_from_a_cart_that_was_validated(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser, page = await open_playground(mercato, deal)
    assert page.title == "Playground"
    check_frame(page)
    assert page.field("Store").tag == page.field("Item").tag == "select"
    milk = page.field("Milk").attributes["name"]
    page = await browser.press(page, "Add to cart", quantity="2", **{milk: "1"})
    assert answer(page)[0] == "200 OK"
    assert page.rows("Cart")[0][0] == "Tea 1 \N{MULTIPLICATION SIGN} Milk"
    assert page.rows("Cart")[0][2:4] == ["2.80", "5.60"]
    assert "POST /v1/marketfront/carts/add" in page.region("Request")
    check_frame(page)
    page = await browser.press(page, "Validate")
    status, body = answer(page)
    assert (status, body["isValid"]) == ("200 OK", True)
    validated, key = page, page.root.all("input", name="key")[0].attributes["value"]
    page = await browser.press(page, "Place order")
    status, order = answer(page)
    assert (status, order["amounts"]["total"]) == ("201 Created", "5.60")
    assert f"Idempotency-Key: {key}" in page.region("Request")
    shown = await browser.open(page.link(f"Order {order['orderId']}"))
    assert "5.60 USD" in shown.text
    again = await browser.press(validated, "Place order", key=key)
    assert answer(again)[1]["orderId"] == order["orderId"], "the same key gets the same order"
    async with mercato.app.db.read() as tx:
        entry = (await list_entries(tx, action="console.placeOrder", limit=1))[0]
    assert entry.actor.startswith("console:key:")


async def test_lines_of_the_cart_are_changed_and_removed(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser, page = await open_playground(mercato, deal)
    page = await browser.press(page, "Add to cart")
    page = await browser.press(page, "Add to cart", item=CAKE)
    assert [row[0] for row in page.rows("Cart")] == ["Tea", "Cake"]
    first = page.root.all("button", name="line")[0].attributes["value"]
    page = await browser.press(page, "Update", **{f"units-{first}": "3"})
    assert page.rows("Cart")[0][2:4] == ["2.50", "7.50"]
    assert "Total before fees and taxes: 11.50 USD" in page.text
    page = await browser.press(page, "Remove")
    assert [row[0] for row in page.rows("Cart")] == ["Cake"]
    page = await browser.press(page, "Update", **{f"units-{page_line(page)}": "9"})
    assert answer(page)[0].startswith("4")
    assert page.rows("Cart")[0][3] == "4.00", "a refused change leaves the cart"


async def test_a_number_of_units_that_was_emptied_does_not_remove_the_line(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser, page = await open_playground(mercato, deal)
    page = await browser.press(page, "Add to cart")
    page = await browser.press(page, "Update", **{f"units-{page_line(page)}": ""})
    status, problem = answer(page)
    assert (status[:3], problem["errors"][0]["pointer"]) == ("400", "/quantity")
    assert [row[0] for row in page.rows("Cart")] == ["Tea"]


def page_line(page: Page) -> str:
    return page.root.all("button", name="line")[0].attributes["value"]


@pytest.mark.parametrize(
    ("quantity", "code"), [("0", "VALIDATION_FAILED"), ("some", "INVALID_REQUEST"), ("1" * 30, None)]
)
async def test_what_the_api_refuses_is_its_answer(
    mercato: Service, shop: MerchantServer, quantity: str, code: str | None
):
    deal = await trade(mercato, shop)
    browser, page = await open_playground(mercato, deal)
    page = await browser.press(page, "Add to cart", quantity=quantity)
    status, problem = answer(page)
    assert status[:2] == "42" or status[:2] == "40"
    assert problem["errors"][0]["pointer"] == "/item/quantity"
    if code is not None:
        assert problem["errorCode"] == code
    empty = await browser.press(page, "Validate")
    assert answer(empty)[1]["order"]["errors"][0]["code"] == "CART_EMPTY"


async def test_choices_belong_to_the_item_that_is_added(mercato: Service, shop: MerchantServer):
    document = cafe()
    extras = next(iter(document["modifierGroups"].values()))
    extras |= {"minimumAllowed": 1, "maximumAllowed": 1}
    deal = await trade(mercato, shop, catalog=document)
    browser, page = await open_playground(mercato, deal)
    assert page.field("Milk").attributes["type"] == "radio"
    added = await browser.press(page, "Add to cart")
    assert added.rows("Cart")[0][0] == "Tea 1 \N{MULTIPLICATION SIGN} Milk", "a required group has a choice"
    cake = await browser.press(page, "Add to cart", item=CAKE)
    assert cake.rows("Cart")[0][0] == "Cake", "what was chosen for tea is left out"
    chosen = await browser.press(cake, "Show choices", item=TEA)
    assert chosen.field("Milk").attributes["value"] == MILK
    assert chosen.rows("Cart")[0][0] == "Cake"


async def test_an_order_for_a_store_that_is_not_a_sandbox_must_be_confirmed(
    mercato: Service, shop: MerchantServer, monkeypatch: Any
):
    deal = await trade(mercato, shop)
    monkeypatch.setattr("mercato.console.screens.playground.is_loopback", lambda _host: False)
    browser, page = await open_playground(mercato, deal)
    page = await browser.press(page, "Add to cart")
    asked = await browser.press(page, "Place order")
    assert (asked.title, asked.buttons) == ("Place a real order?", ["Sign out", "Confirm", "Cancel"])
    kept = await browser.press(asked, "Cancel")
    assert kept.rows("Cart") == page.rows("Cart"), "the cart is kept"
    assert not (await deal.pos.get("/v1/commerce/orders")).json()["orders"]
    placed = await browser.press(asked, "Confirm")
    assert answer(placed)[0] == "201 Created"
    again = await browser.press(await browser.press(placed, "Add to cart"), "Place order")
    assert again.title == "Place a real order?", "each order is confirmed"


async def test_a_placed_order_is_not_offered_again_and_the_next_one_begins_with_an_empty_cart(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser, page = await open_playground(mercato, deal)
    placed = await browser.press(await browser.press(page, "Add to cart"), "Place order")
    first = answer(placed)[1]["orderId"]
    assert placed.status_region == f"Order {first} is placed, and the cart is empty again."
    assert not {"Validate", "Place order"} & set(placed.buttons)
    assert "you can place" not in placed.text
    assert placed.rows("Cart") == [["The cart is empty. Choose an item above, and add it."]]
    page = await browser.press(placed, "Add to cart")
    assert len(page.rows("Cart")) == 1
    second = answer(await browser.press(page, "Place order"))[1]["orderId"]
    assert first != second


@on_both
async def test_an_order_that_its_store_has_not_answered_is_placed_again_with_its_key(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", place_seconds=0.6) as mercato:
        deal = await trade(mercato, shop)
        browser, page = await open_playground(mercato, deal)
        shop.answers["place"] = _broken
        waiting = await browser.press(await browser.press(page, "Add to cart"), "Place order")
        status, problem = answer(waiting)
        assert status == "503 Service Unavailable"
        assert f"Order {problem['orderId']} waits for its store's answer" in waiting.text
        shop.answers["place"] = {"accepted": True}
        placed = await browser.press(waiting, "Place order")
        assert answer(placed)[1]["orderId"] == problem["orderId"]


async def _broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def test_an_account_of_both_kinds_places_in_its_own_stores_without_being_asked(
    mercato: Service, shop: MerchantServer, monkeypatch: Any
):
    monkeypatch.setattr("mercato.console.screens.playground.is_loopback", lambda _host: False)
    shop.answers |= {"validate": {"isValid": True}, "place": {"accepted": True}}
    made, client = await mercato.partner(PartnerKind.BOTH, webhook_token="token")
    store = await mercato.live(client, shop.host(cafe()), webhook=shop.base + "/hooks")
    browser = await enter_whole_account(mercato, made.id)
    page = await browser.open(f"{PLAYGROUND}?store={store['storeId']}")
    page = await browser.press(page, "Add to cart")
    assert answer(await browser.press(page, "Place order"))[0] == "201 Created"


async def test_a_read_only_session_fills_a_cart_and_calls_no_store(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser, page = await open_playground(mercato, deal, read_only=True)
    page = await browser.press(page, "Add to cart")
    assert page.rows("Cart")[0][0] == "Tea"
    assert not {"Validate", "Place order"} & set(page.buttons)
    for action in ("validate", "place"):
        refused = await browser.post(f"{PLAYGROUND}/{action}", {"store": deal.store["storeId"]})
        assert refused.status == 403


async def test_a_session_of_one_store_fills_carts_there_alone(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    other = await mercato.live(deal.pos, shop.host(cafe(), "/b.json"), name="Other")
    browser, page = await open_playground(mercato, deal, store_id=deal.store["storeId"])
    assert [one.text for one in page.field("Store").all("option")] == ["Test Store"]
    assert (await browser.open(f"{PLAYGROUND}?store={other['storeId']}")).status == 404
    for action in ("", "/add", "/validate", "/place"):
        assert (await browser.post(PLAYGROUND + action, {"store": other["storeId"]})).status == 404
    cart = (await browser.press(page, "Add to cart")).root.all("input", name="cart")[0].attributes["value"]
    theirs = cart.replace(deal.store["storeId"], other["storeId"])
    for action in ("update", "remove", "validate", "place"):
        sent = {"store": deal.store["storeId"], "cart": theirs}
        assert (await browser.post(f"{PLAYGROUND}/{action}", sent)).status == 404, action


async def test_only_storefronts_have_the_playground(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    assert (await browser.open(PLAYGROUND)).status == 404
    front, _ = await open_playground(mercato, deal)
    assert (await front.open(f"{PLAYGROUND}?store={CAKE}")).status == 404
    for cart in ("[]", "{", '{"storeId": 1}', "\N{SNOWMAN}" * 50_000):
        sent = {"store": deal.store["storeId"], "cart": cart}
        assert (await front.post(f"{PLAYGROUND}/validate", sent)).status in {400, 413, 422}


async def test_hostile_names_are_text_in_every_part_of_the_page(mercato: Service, shop: MerchantServer):
    document = cafe()
    document["items"] = {
        key: item | {"name": item["name"] + HOSTILE} for key, item in document["items"].items()
    }
    deal = await trade(mercato, shop, catalog=document)
    shop.answers["validate"] = {"isValid": False, "errors": [{"code": "OTHER", "message": HOSTILE}]}
    browser, page = await open_playground(mercato, deal)
    page = await browser.press(page, "Add to cart")
    page = await browser.press(page, "Validate")
    assert "<script>alert(1)" in page.region("Response")
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page.body.decode()
    page = await browser.press(page, "Place order", payment='{"note": "\N{RIGHT-TO-LEFT OVERRIDE}"}')
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page.body.decode()
    assert '"note": "\\u202e"' in page.region("Request")
    check_frame(page)
    assert not [one for one in page.root.all("img") if one.attributes["src"] == "x"]


@only_sqlite
async def test_a_page_of_a_large_menu_and_a_full_cart_is_small(mercato: Service, shop: MerchantServer):
    document = cafe()
    extras = document["modifierGroups"][EXTRAS]
    many = {str(uuid4()): {"name": f"Item {number} {uuid4()}", "basePrice": "1.00"} for number in range(2000)}
    document["items"] |= {key: item | {"itemId": key} for key, item in many.items()}
    document["sections"][HOT]["itemIds"] += list(many)
    extras["itemIds"] += list(many)[:500]
    deal = await trade(mercato, shop, catalog=document)
    browser, page = await open_playground(mercato, deal)
    assert len(page.field("Item").all("option")) == 300
    cart = deal.order(*(line(item) for item in list(many)[1000:1199]))["cart"]
    full = await deal.front.post("/v1/marketfront/carts/add", {"cart": cart, "item": line(TEA)})
    sent = {"store": deal.store["storeId"], "cart": full.body.decode()}
    page = await browser.post(f"{PLAYGROUND}/validate", sent, **ZIPPED)
    assert len(page.rows("Cart")) == 200
    assert page.region("Response").startswith("Response 200 OK")
    assert int(page.headers["Content-Length"]) <= 100_000


@on_both
@pytest.mark.parametrize("language", ["curl", "Python", "TypeScript"])
@first_on_postgresql
async def test_a_request_is_shown_as_a_program_that_runs(
    mercato: Service, shop: MerchantServer, language: str, tmp_path: Path
):
    if language == "TypeScript":
        skip_without(BUILT)
        start_project(tmp_path)
    elif shutil.which("curl") is None:
        pytest.skip("curl isn't installed")
    deal = await trade(mercato, shop)
    made, client = await mercato.partner(PartnerKind.MARKETFRONT)
    assert made.marketfront_key is not None
    key = made.marketfront_key.text
    browser = await enter_as_partner(mercato, client)
    page = await browser.open(f"{PLAYGROUND}?store={deal.store['storeId']}")
    page = await browser.press(page, "Add to cart")
    programs = [program(page, language)]
    page = await browser.press(page, "Validate")
    programs.append(program(page, language))
    page = await browser.press(page, "Place order", firstName="O'Brien \"${HOME}`\\")
    assert key not in page.body.decode()
    programs.append(program(page, language))
    added, validated, replayed = await results(language, programs, key, tmp_path)
    assert "2.50" in added
    assert "validatedOrderToken" in validated
    assert answer(page)[1]["orderId"] in replayed, "the same key gets the same order"


def program(page: Page, language: str) -> str:
    """Return the program as a user copies it."""
    shown = next(one for one in page.root.all("pre") if one.attributes.get("aria-label") == language)
    return "".join(str(child) for child in shown.children)


EACH = """
import sys
for program in sys.argv[1:]:
    exec(program, {"__name__": "__main__"})
    print(end="\\0")
"""
"""Runs programs one after the other: what they import takes longest."""


async def results(language: str, programs: list[str], key: str, project: Path) -> list[str]:
    """Return what each of the programs prints."""
    if language == "Python":
        printed = await run(sys.executable, "-c", EACH, *programs, MERCATO_KEY=key)
        return printed.split("\0")[: len(programs)]
    return [await result(language, code, key, project) for code in programs]


async def result(language: str, code: str, key: str, project: Path) -> str:
    """Return what the program prints; one in TypeScript has passed its strict types."""
    if language != "TypeScript":
        return await run("sh", "-c", code, MERCATO_KEY=key)
    (project / "program.ts").write_text(code)
    await compile_project(project)
    return await run("node", project / "made/program.js", MERCATO_KEY=key)


async def test_requests_count_in_the_limits_of_the_account(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", rate_limits=True) as mercato:
        deal = await trade(mercato, shop, limits=Limits(reads=3))
        browser, page = await open_playground(mercato, deal)
        for _ in range(8):  # a minute may end in between
            page = await browser.press(page, "Add to cart")
            if answer(page)[0] != "200 OK":
                break
    status, problem = answer(page)
    assert (status, problem["errorCode"]) == ("429 Too Many Requests", "RATE_LIMITED")
    assert problem["retryAfter"] > 0
    assert page.rows("Cart")[0][0] == "Tea", "the cart stays"
