"""Filters take names as well as ids; one that nothing matches says so beside its field and keeps the rest."""

from itertools import product
from typing import Final
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from tests.api.trade import trade
from tests.console.browser import Browser, Page
from tests.console.test_screens import HOSTILE, answer_gone, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service

from mercato.features.partners.model import PartnerKind

pytestmark = mostly_sqlite

UNKNOWN = "0190f5fe-7e3b-7ccc-8000-00000000000a"

CAPTIONS = {
    "orders": "Orders",
    "stores": "Stores",
    "webhooks": "Deliveries",
    "refused-requests": "Requests",
    "audit": "Audit entries",
    "catalogs": "Runs",
}


def count(page: Page, screen: str) -> int:
    return sum(len(row) > 1 for row in page.rows(CAPTIONS[screen]))


def fault(page: Page, label: str) -> str:
    """Return what is said beside the field. It describes the field, whose name stays the label's own words."""
    around = next(one for one in page.root.all("label") if one.text.startswith(label))
    said, field = around.all("span"), page.field(label).attributes
    assert bool(said) == ("aria-invalid" in field)
    if said:
        assert around.text.startswith(field["aria-label"] + " "), "the fault is no part of the name"
        assert [one.attributes["id"] for one in said] == field["aria-describedby"].split()
    return " ".join(one.text for one in said)


_opened: Final = WeakKeyDictionary[Browser, dict[str, Page]]()
"""The lists that a browser has open, without a filter."""


async def filtered(browser: Browser, screen: str, **fields: str) -> Page:
    opened = _opened.setdefault(browser, {})
    if screen not in opened:
        opened[screen] = await browser.open(f"/console/{screen}")
    page = await browser.press(opened[screen], "Filter", **fields)
    assert page.status == 200
    check_frame(page)
    return page


async def test_a_partners_name_is_found_in_any_letter_case_and_by_the_beginning_of_its_id(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, name="Café Zoë", event_url=shop.base + "/events")
    await deal.placed()
    assert (await deal.front.get("/v1/marketfront/stores/x")).status == 404
    await mercato.app.request_log.flush()
    browser = await enter_as_operator(mercato)
    front = (await browser.open("/console/partners")).link("Café Zoë").rpartition("/")[2]
    for text in ("Café Zoë", "CAFÉ ZOË", "café zoë", front, front.upper(), front[:30]):
        for screen in ("orders", "refused-requests"):
            page = await filtered(browser, screen, partner=text)
            assert (count(page, screen), fault(page, "Partner")) == (1, ""), (screen, text)
            assert page.field("Partner").attributes["value"] == text
        assert count(await filtered(browser, "webhooks", partner=text), "webhooks") >= 1
    _, pos = await mercato.partner(name="Acme")
    await mercato.partner(name="ACME")
    assert (await pos.get("/v1/commerce/stores/x")).status == 404
    await mercato.app.request_log.flush()
    assert count(await filtered(browser, "refused-requests", partner="Acme"), "refused-requests") == 1, (
        "its own name comes first"
    )
    several = await filtered(browser, "refused-requests", partner="acme")
    assert fault(several, "Partner") == "Several partners have this name. Use an id."
    assert count(several, "refused-requests") == 0


NOBODY = ("nobody", "%", "_", "'", UNKNOWN, UNKNOWN[:8], HOSTILE, "\x00", "x" * 3000)


async def test_a_partner_that_does_not_exist_is_reported_beside_its_field_and_the_rest_stays(
    mercato: Service,
):
    await mercato.partner()
    browser = await enter_as_operator(mercato)
    for screen, text in product(("orders", "stores", "webhooks", "refused-requests", "audit"), NOBODY):
        page = await filtered(browser, screen, partner=text)
        assert fault(page, "Partner") == "No partner has this name or id."
        assert count(page, screen) == 0
    page = await filtered(
        browser, "orders", partner="nobody", state="open", since="2026-01-01T10:00", storeId="pizza"
    )
    assert page.field("Since").attributes["value"] == "2026-01-01T10:00"
    assert next(one.text for one in page.field("State").all("option", selected="")) == "open"
    assert page.field("Store").attributes["value"] == "pizza"
    assert fault(page, "Store") == "No store has this name or id."


@on_both
async def test_a_store_is_found_by_its_name_its_own_id_and_its_id(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    assert (await deal.pos.call("PUT", path, {"name": "Joe's Pizzeria"})).status == 200
    await deal.placed()
    stranger = (await mercato.partner())[1]
    own = (deal.store["storeId"], deal.store["storeId"][:30], "joe's PIZZERIA")
    for browser, texts, screens in (
        (await enter_as_operator(mercato), own, ("orders", "webhooks")),
        (await enter_as_partner(mercato, deal.pos), (*own, "store-1"), ("orders", "webhooks", "catalogs")),
        (await enter_as_partner(mercato, deal.front), own, ("orders", "webhooks")),
    ):
        for screen in screens:
            for text in texts:
                page = await filtered(browser, screen, storeId=text)
                assert (count(page, screen) > 0, fault(page, "Store")) == (True, ""), (screen, text)
            page = await filtered(browser, screen, storeId="Joe")
            assert (count(page, screen), fault(page, "Store")) == (0, "No store has this name or id.")
    other = await enter_as_partner(mercato, stranger)
    for text in (*own, "store-1"):
        assert (
            fault(await filtered(other, "orders", storeId=text), "Store") == "No store has this name or id."
        )


async def test_an_order_of_deliveries_is_found_by_the_beginning_of_its_id_by_both_sides_alone(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    order = (await deal.placed())["orderId"]
    stranger = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    path = "/v1/marketfront/webhook-deliveries"
    await mercato.until(deal.front, path, lambda page: page["deliveries"])
    for client, found in ((deal.pos, True), (deal.front, True), (stranger, False)):
        browser = await enter_as_partner(mercato, client)
        for text in (order, order[:30]):
            page = await filtered(browser, "webhooks", orderId=text)
            assert count(page, "webhooks") == found
            assert fault(page, "Order") == ("" if found else "No order has this number or id.")


async def test_values_that_cannot_be_read_are_reported_beside_their_fields(mercato: Service):
    operator = await enter_as_operator(mercato)
    page = await operator.open("/console/webhooks?type=pizza&code=9x&since=yesterday&status=lost&partner=")
    assert page.status == 200
    for label in ("State", "Type", "Code", "Since"):
        assert fault(page, label), label
    assert page.field("Code").attributes["value"] == "9x"
    assert fault(page, "Code") == "The code must be a number from 100 to 599."
    assert fault(page, "State") == "No delivery is in this state. Choose pending, sent, failed or all."
    for code, is_known in (("099", False), ("600", False), ("²00", False), ("-10", False), ("410", True)):
        found = await operator.open(f"/console/webhooks?{urlencode({'code': code})}")
        assert (found.status, fault(found, "Code") == "") == (200, is_known), code
    assert count(page, "webhooks") == 0
    page = await operator.open("/console/refused-requests?errorCode=NO_SUCH")
    assert fault(page, "Code") == "No code has this name."
    page = await operator.open("/console/audit?action=nothing&since=2020-01-01T00:00")
    assert fault(page, "Action") == "Nothing was done under this name."
    assert (
        fault(await operator.open("/console/audit?actor=nobody"), "Actor")
        == "Nobody of this name has done anything."
    )
    merchant = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert fault(await merchant.open("/console/catalogs?status=lost"), "State")
    assert fault(await merchant.open("/console/stores?status=lost"), "Status")
    page = await merchant.open("/console/stores?name=Nowhere&status=paused")
    assert fault(page, "Name") == "No store has this name."
    assert page.field("Name").attributes["value"] == "Nowhere"


@on_both
async def test_resend_failed_sends_nothing_if_a_filter_fits_nothing(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    shop.answers["events"] = answer_gone
    await deal.placed()
    path = "/v1/marketfront/webhook-deliveries?status=failed"
    await mercato.until(deal.front, path, lambda page: page["deliveries"])
    browser = await enter_as_operator(mercato)
    page = await browser.press(await filtered(browser, "webhooks", partner="nobody"), "Resend failed")
    assert (page.status, "Nothing was done" in page.text) == (422, True)
    assert (await deal.front.get(path)).json()["deliveries"], "it is as it was"
    page = await browser.press(
        await filtered(browser, "webhooks", partner="nobody", code="410"), "Filter", partner=""
    )
    assert (await browser.press(page, "Resend failed")).status_region == "1 failed delivery sent again."


async def test_a_search_that_finds_nothing_keeps_its_field(mercato: Service):
    made, _ = await mercato.partner()
    browser = await enter_as_operator(mercato)
    none = await browser.post("/console/search", {"text": "Café <Zoë>"})
    assert "Nothing found" in none.text
    assert none.field("Search").attributes["value"] == "Café <Zoë>"
    unknown = made.key[:-1] + ("a" if made.key[-1] != "a" else "b")
    none = await browser.post("/console/search", {"text": unknown})
    assert unknown not in none.body.decode(), "a page repeats no key"
