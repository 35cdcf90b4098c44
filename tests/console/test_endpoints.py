"""Webhook endpoints in the console: added, tested, disabled, enabled and deleted."""

import pytest
from tests.api.trade import trade
from tests.console.browser import Page
from tests.console.test_keys import shown
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_whole_account
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.partners.model import PartnerKind
from mercato.features.webhooks import endpoint_health
from mercato.features.webhooks.model import OPERATORS
from mercato_client import verify_webhook

pytestmark = [shared, mostly_sqlite]

PATH = "/console/webhooks/endpoints"


def id_of(page: Page) -> str:
    """Return the id of the first listed endpoint."""
    cells = [one.attributes["id"] for one in page.root.all("td") if "id" in one.attributes]
    return cells[0].removeprefix("endpoint-")


@on_both
async def test_an_endpoint_is_added_tested_disabled_enabled_and_deleted(
    mercato: Service, shop: MerchantServer
):
    client = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    browser = await enter_as_partner(mercato, client)
    page = await browser.open((await browser.open("/console/webhooks")).link("Webhook endpoints"))
    assert (page.title, page.heading) == ("Webhook endpoints", "Webhook endpoints")
    made = await browser.press(
        page,
        "Add endpoint",
        url=shop.base + "/mine?key=hidden",
        types="order.created, order.updated",
        description=HOSTILE[:-1],
    )
    secret = shown(made)
    page = await browser.open(made.link("Back to Webhook endpoints"))
    check_frame(page)
    [row] = page.rows("Webhook endpoints")
    assert row[:4] == ["enabled", shop.base + "/mine", "order.created, order.updated", "all"]
    assert "<script>alert(1)" in row[4]
    assert secret not in page.body.decode()
    sent = await browser.press(page, "Send test")
    assert sent.heading.startswith("Webhook ")
    assert "A ping is sent" in (sent.status_region or "")
    _, headers, body = await shop.webhook()
    assert verify_webhook(headers, body, [secret]).type == "ping"
    disabled = await browser.press(page, "Disable")
    assert disabled.status_region == "Nothing is sent to the endpoint any more."
    assert disabled.rows("Webhook endpoints")[0][0] == "disabled"
    enabled = await browser.press(disabled, "Enable")
    assert enabled.rows("Webhook endpoints")[0][0] == "enabled"
    assert shown(await browser.press(enabled, "Rotate secret")) != secret
    question = await browser.open(f"{PATH}/{id_of(enabled)}/delete")
    assert shop.base + "/mine" in question.text
    done = await browser.press(question, "Confirm")
    assert done.status_region == "The endpoint is deleted."
    assert "Your events go nowhere yet" in done.text


@own()
async def test_operators_have_endpoints_of_their_own_that_no_partner_sees(
    mercato: Service, shop: MerchantServer
):
    operator = await enter_as_operator(mercato)
    page = await operator.open((await operator.open("/console/webhooks")).link("Webhook endpoints"))
    check_frame(page)
    assert "Operators' events go nowhere yet" in page.text
    refused = await operator.press(page, "Add endpoint", url=shop.base + "/ops", types="order.created")
    assert "partner.failing" in refused.text
    made = await operator.press(page, "Add endpoint", url=shop.base + "/ops", types="partner.failing")
    secret = shown(made)
    page = await operator.open(made.link("Back to Webhook endpoints"))
    assert page.rows("Webhook endpoints")[0][:3] == ["enabled", shop.base + "/ops", "partner.failing"]
    sent = await operator.press(page, "Send test")
    assert "A ping is sent" in (sent.status_region or "")
    _, headers, body = await shop.webhook()
    assert verify_webhook(headers, body, [secret]).type == "ping"
    assert "ping" in (await operator.open("/console/webhooks")).rows("Deliveries")[0]
    stranger = await enter_as_partner(mercato, (await mercato.partner(PartnerKind.COMMERCE))[1])
    for action in ("test", "disable", "delete"):
        assert (await stranger.post(f"{PATH}/{id_of(page)}/{action}")).status == 404, action
    delivery = (await operator.open("/console/webhooks")).ids("Deliveries")[0]
    shown_of_ping = await operator.open(f"/console/webhooks/{delivery}")
    assert shown_of_ping.link("Operators") == PATH, "they are no partner, which has a page"
    async with mercato.app.db.write() as tx:
        await endpoint_health.insert_failing(tx, OPERATORS, shop.base + "/ops", since=mercato.app.clock())
    assert (await operator.open("/console/health")).link("Operators") == PATH
    await operator.press(page, "Disable")
    done = await operator.press(await operator.open(f"{PATH}/{id_of(page)}/delete"), "Confirm")
    assert done.status_region == "The endpoint is deleted."


async def test_an_endpoint_of_one_store_shows_the_stores_name(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    body = {"url": shop.base + "/mine", "storeIds": [deal.store["storeId"]]}
    assert (await deal.front.post("/v1/marketfront/webhook-endpoints", body)).status == 201
    browser = await enter_as_partner(mercato, deal.front)
    page = await browser.open(PATH)
    assert page.rows("Webhook endpoints")[0][3] == deal.store["name"]
    assert page.link(deal.store["name"]) == f"/console/stores/{deal.store['storeId']}"


async def test_addresses_that_are_set_elsewhere_have_no_buttons(mercato: Service, shop: MerchantServer):
    here = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, here.pos)
    page = await browser.open(PATH)
    [row] = page.rows("Webhook endpoints")
    assert (row[0], row[1], row[5]) == ("enabled", shop.base + "/hooks", "")
    assert (await browser.post(f"{PATH}/{here.store['storeId']}/disable")).status == 409


async def test_another_partners_endpoint_is_not_found(mercato: Service, shop: MerchantServer):
    owner, stranger = [(await mercato.partner(PartnerKind.MARKETFRONT))[1] for _ in range(2)]
    browser = await enter_as_partner(mercato, owner)
    await browser.press(await browser.open(PATH), "Add endpoint", url=shop.base + "/mine")
    endpoint = id_of(await browser.open(PATH))
    other = await enter_as_partner(mercato, stranger)
    for action in ("test", "enable", "disable", "rotate-secret", "delete"):
        assert (await other.post(f"{PATH}/{endpoint}/{action}")).status == 404, action
    assert "Your events go nowhere yet" in (await other.open(PATH)).text


async def test_read_only_sessions_see_endpoints_and_change_none(mercato: Service, shop: MerchantServer):
    client = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    browser = await enter_as_partner(mercato, client)
    await browser.press(await browser.open(PATH), "Add endpoint", url=shop.base + "/mine")
    reader = await enter_as_partner(mercato, client, read_only=True)
    page = await reader.open(PATH)
    assert page.rows("Webhook endpoints")[0][1] == shop.base + "/mine"
    assert not {"Add endpoint", "Send test", "Disable", "Rotate secret", "Delete"} & set(page.buttons)
    assert (await reader.post(f"{PATH}/{id_of(page)}/disable")).status == 403


@pytest.mark.parametrize(
    ("side", "type_"), [("commerce", "order.cancelled"), ("marketfront", "order.created")]
)
async def test_a_partner_of_both_kinds_has_endpoints_of_each_side(
    mercato: Service, shop: MerchantServer, side: str, type_: str
):
    browser = await enter_whole_account(mercato, (await mercato.partner(PartnerKind.BOTH))[0].id)
    page = await browser.open(f"{PATH}?side={side}")
    await browser.press(page, "Add endpoint", url=shop.base + "/mine", types=type_)
    [row] = (await browser.open(f"{PATH}?side={side}")).rows("Webhook endpoints")
    assert row[2] == type_
    other = {"commerce": "marketfront", "marketfront": "commerce"}[side]
    assert "Your events go nowhere yet" in (await browser.open(f"{PATH}?side={other}")).text


async def test_a_form_that_makes_no_sense_is_refused(mercato: Service, shop: MerchantServer):
    client = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    browser = await enter_as_partner(mercato, client)
    page = await browser.open(PATH)
    for wrong in ({"url": "nowhere"}, {"url": shop.base, "types": "order.place"}):
        assert (await browser.press(page, "Add endpoint", **wrong)).status == 422
