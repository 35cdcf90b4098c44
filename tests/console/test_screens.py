"""The screens of the console, used without JavaScript."""

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from aiohttp import web
from tests.api.trade import Trade, tea, trade
from tests.console.browser import Browser, Page
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_whole_account
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.console.screen import NAVIGATION, OPERATORS, Audience
from mercato.console.site import SCREENS
from mercato.features.partners.model import PartnerKind
from mercato.platform.db.audit import list_entries

pytestmark = [shared, mostly_sqlite]

MERCHANT = [
    "Overview",
    "Board",
    "Orders",
    "Stores",
    "Catalogs",
    "Reports",
    "Webhooks",
    "Refused requests",
    "Keys",
    "Certification",
    "People",
    "Account",
]
STOREFRONT = [
    "Overview",
    "Orders",
    "Stores",
    "Reports",
    "Webhooks",
    "Refused requests",
    "Playground",
    "Keys",
    "Agents",
    "People",
    "Account",
]
OPERATOR = [
    "Health", "Orders", "Stores", "Catalogs", "Reports", "Partners", "Webhooks", "Refused requests", "Jobs", "Audit",
    "Erasure", "People", "Account",
]  # fmt: skip

HOSTILE = "<script>alert(1)</script>{{ 7 * 7 }}\"'><img src=x onerror=alert(1)>\N{RIGHT-TO-LEFT OVERRIDE}"


def test_the_navigation_has_the_entries_of_each_audience_in_their_order():
    def entries(*audiences: Audience) -> list[str]:
        all_entries = (entry for group in NAVIGATION for entry in group.entries)
        return [entry.name for entry in all_entries if entry.audiences & set(audiences)]

    assert entries(Audience.COMMERCE) == MERCHANT
    assert entries(Audience.MARKETFRONT) == STOREFRONT
    assert entries(*OPERATORS) == OPERATOR
    assert set(entries(Audience.COMMERCE, Audience.MARKETFRONT)) == {*MERCHANT, *STOREFRONT}


@own()
async def test_every_entry_of_the_navigation_opens_a_page_of_its_name(mercato: Service):
    both = (await mercato.partner(PartnerKind.BOTH))[0].id
    for browser in (
        await enter_as_partner(mercato, (await mercato.partner())[1]),
        await enter_as_partner(mercato, (await mercato.partner(PartnerKind.MARKETFRONT))[1]),
        await enter_whole_account(mercato, both),
        await enter_as_operator(mercato),
    ):
        first = await browser.open("/console")
        assert len(first.navigation) >= 3
        for name in first.navigation:
            page = await browser.open(first.link(name))
            assert (page.status, page.title, page.heading) == (200, name, name)
            check_frame(page)


def check_frame(page: Page) -> None:
    """Check what every page has: a policy, no script of its own, a label for each field."""
    policy = page.headers["Content-Security-Policy"]
    for part in (
        "default-src 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "'nonce-",
    ):
        assert part in policy
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"
    assert all(one.attributes.get("src") and one.attributes.get("nonce") for one in page.root.all("script"))
    assert not page.root.all("style")
    for element in page.root.all():
        assert not [name for name in element.attributes if name.startswith("on") or name == "style"]
    labelled = [
        field for label in page.root.all("label") for field in label.all("input", "select", "textarea")
    ]
    shown = [
        one for one in page.root.all("input", "select", "textarea") if one.attributes.get("type") != "hidden"
    ]
    assert len(labelled) == len(shown)
    ids = [one.attributes["id"] for one in page.root.all() if "id" in one.attributes]
    for field in shown:
        for described in field.attributes.get("aria-describedby", "").split():
            assert ids.count(described) == 1, f"{described} describes a field"
    for form in page.root.all("form", action="/console/search"):
        (field,) = form.all("input")
        assert not field.attributes["value"] or "<h1>Search</h1>" in page.body.decode(), (
            "it shows what was typed"
        )
    assert next(one.text for one in page.root.all("a")) == "Skip to content"


@on_both
async def test_both_sides_see_an_order_with_its_timeline(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    for client in (deal.pos, deal.front):
        browser = await enter_as_partner(mercato, client)
        first = await browser.open("/console")
        assert order["orderId"] in first.ids("Orders")
        listed = await browser.open("/console/orders?state=open")
        assert order["orderId"] in listed.ids("Orders")
        page = await browser.open(f"/console/orders/{order['orderId']}")
        assert "5.80 USD" in page.text
        assert next(row[1] for row in page.rows("Timeline")) == "Placed by the storefront"
        assert any("order.place to the store, attempt 1: HTTP 200" in row[1] for row in page.rows("Calls"))
    for since, count in (("2026-01-01T10:00", 1), ("2999-01-01T10:00:30", 0)):
        listed = await browser.open(f"/console/orders?since={since}")
        assert listed.ids("Orders").count(order["orderId"]) == count
    assert "state must be one of" in (await browser.open("/console/orders?state=no")).text


@on_both
async def test_a_list_is_read_page_by_page(mercato: Service, shop: MerchantServer, monkeypatch: Any):
    monkeypatch.setattr("mercato.console.screens.orders.PAGE", 2)
    deal = await trade(mercato, shop)
    placed = [(await deal.placed())["orderId"] for _ in range(3)]
    browser = await enter_as_partner(mercato, deal.pos)
    first = await browser.open("/console/orders?state=open")
    second = await browser.open(first.link("Next page"))
    shown = [*first.ids("Orders"), *second.ids("Orders")]
    assert shown == placed[::-1]


async def failed_delivery(deal: Trade) -> tuple[Browser, Page]:
    """Let an event to the storefront fail for good, and return its page."""
    deal.shop.answers["events"] = answer_gone
    await deal.placed()
    path = "/v1/marketfront/webhook-deliveries?status=failed"
    await deal.mercato.until(deal.front, path, lambda page: page["deliveries"])
    browser = await enter_as_partner(deal.mercato, deal.front)
    listed = await browser.open("/console/webhooks?status=failed")
    delivery_id = listed.ids("Deliveries")[0]
    return browser, await browser.open(f"/console/webhooks/{delivery_id}")


async def answer_gone(_request: Any, _body: bytes) -> Any:
    from aiohttp import web

    return web.Response(status=410, text=HOSTILE)


async def test_a_failed_delivery_shows_its_attempts_and_is_sent_again(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    browser, page = await failed_delivery(deal)
    assert page.rows("Attempts")[0][2] == "HTTP 410"
    del shop.answers["events"]
    done = await browser.press(page, "Resend")
    assert done.status_region == "order.created is sent again, with the same id and body."
    path = page.url.rpartition("/")[2]
    status = f"/v1/marketfront/webhook-deliveries/{path}"
    await mercato.until(deal.front, status, lambda one: one["status"] == "succeeded")
    async with mercato.app.db.read() as tx:
        entry = (await list_entries(tx, action="console.resendDelivery", limit=1))[0]
    assert entry.actor.startswith("console:key:")
    assert entry.subject_id == path


@on_both
async def test_all_failed_deliveries_are_sent_again_at_once(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    browser, _ = await failed_delivery(deal)
    del shop.answers["events"]
    listed = await browser.open("/console/webhooks?status=failed")
    done = await browser.press(listed, "Resend failed")
    assert done.status_region == "1 failed delivery sent again."
    path = "/v1/marketfront/webhook-deliveries?status=failed"
    await mercato.until(deal.front, path, lambda page: not page["deliveries"])


async def test_resend_failed_says_why_it_sends_nothing(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    done = await browser.press(await browser.open("/console/webhooks"), "Resend failed")
    assert (
        done.status_region == "0 failed deliveries sent again. No delivery that the filters match has failed."
    )

    async def refuse(_request: web.Request, _body: bytes) -> web.Response:
        return web.Response(status=401)

    shop.answers["validate"] = refuse
    refused = await deal.front.post("/v1/marketfront/orders/validate", deal.order(tea()))
    assert refused.status == 503
    path = "/v1/commerce/webhook-deliveries?status=failed"
    await mercato.until(deal.pos, path, lambda page: page["deliveries"])
    listed = await browser.open("/console/webhooks?status=failed")
    done = await browser.press(listed, "Resend failed")
    assert "0 failed deliveries sent again. order.validate ask" in done.status_region
    delivery = (await deal.pos.get(path)).json()["deliveries"][0]
    assert "signing secret and the bearer token" in delivery["error"]


async def test_what_partners_write_is_shown_and_never_executed(mercato: Service, shop: MerchantServer):
    deal = await trade(
        mercato, shop, event_url=shop.base + "/events", name=HOSTILE.rstrip("\N{RIGHT-TO-LEFT OVERRIDE}")
    )
    _, page = await failed_delivery(deal)
    assert "<script>alert(1)" in page.text, "as text"
    assert "{{ 7 * 7 }}" in page.text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page.text
    check_frame(page)
    assert not [one for one in page.root.all("img") if one.attributes["src"] == "x"]


@own()
async def test_another_partners_ids_are_not_found(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    order = await deal.placed()
    path = "/v1/marketfront/webhook-deliveries"
    page = await mercato.until(deal.front, path, lambda page: page["deliveries"])
    delivery = page["deliveries"][0]["deliveryId"]
    stranger = (await mercato.partner(PartnerKind.BOTH))[1]
    browser = await enter_as_partner(mercato, stranger)
    for there in (f"/console/orders/{order['orderId']}", f"/console/webhooks/{delivery}"):
        assert (await browser.open(there)).status == 404
    assert (await browser.post(f"/console/webhooks/{delivery}/resend")).status == 404
    assert (await browser.open("/console/health")).status == 404
    # Nor is one side's delivery the other side's.
    merchant = await enter_as_partner(mercato, deal.pos)
    assert (await merchant.open(f"/console/webhooks/{delivery}")).status == 404
    operator = await enter_as_operator(mercato)
    for there in (f"/console/orders/{order['orderId']}", f"/console/webhooks/{delivery}"):
        assert (await operator.open(there)).status == 200


async def test_a_session_for_one_store_sees_that_store_alone(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    other = await mercato.live(
        deal.pos, shop.host({"currency": "USD", "sections": {}, "items": {}}, "/b.json"), name="b"
    )
    for store, there in ((deal.store["storeId"], True), (other["storeId"], False)):
        browser = await enter_as_partner(mercato, deal.pos, store_id=store)
        first = await browser.open("/console")
        assert (order["orderId"] in first.ids("Orders")) is there
        listed = await browser.open(f"/console/orders?storeId={deal.store['storeId']}")
        assert (order["orderId"] in listed.ids("Orders")) is there
        assert (await browser.open(f"/console/orders/{order['orderId']}")).status == (200 if there else 404)
    stranger = (await mercato.partner())[1]
    reply = await stranger.post("/v1/console/links", {"storeId": deal.store["storeId"]})
    assert (reply.status, reply.json()["errorCode"]) == (404, "STORE_NOT_FOUND")


async def test_a_page_is_small(mercato: Service):
    client = (await mercato.partner())[1]
    browser = await enter_as_partner(mercato, client)
    page = await browser.open("/console/orders", **{"Accept-Encoding": "gzip"})
    files = [one.attributes["src"] for one in page.root.all("script")]
    files += [one.attributes["href"] for one in page.root.all("link")]
    total = int(page.headers["Content-Length"])
    for file in files:
        reply = await browser.open(file, **{"Accept-Encoding": "gzip"})
        assert reply.status == 200
        assert "immutable" in reply.headers["Cache-Control"]
        total += int(reply.headers["Content-Length"])
    assert total <= 100_000


async def test_a_delivery_explains_the_signature_that_was_received(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await deal.placed()
    received: dict[str, tuple[dict[str, str], bytes]] = {}
    while "/events" not in received:
        path, headers, body = await shop.webhook()
        received[path] = headers, body
    headers, body = received["/events"]
    lines = "\r\n".join(f"{name}: {value}" for name, value in headers.items() if name.startswith("webhook-"))
    # The attempt's time, which the page has, is written after its answer has come.
    listed = await mercato.until(
        deal.front, "/v1/marketfront/webhook-deliveries?status=succeeded", lambda found: found["deliveries"]
    )
    delivery = listed["deliveries"][0]["deliveryId"]
    reader = await enter_as_partner(mercato, deal.front, read_only=True)
    assert (await reader.open(f"/console/webhooks/{delivery}/signature")).status == 403, "it has the customer"
    assert "signature fails" not in (await reader.open(f"/console/webhooks/{delivery}")).text
    browser = await enter_as_partner(mercato, deal.front)
    page = await browser.open(
        (await browser.open(f"/console/webhooks/{delivery}")).link("Find out why its signature fails")
    )
    assert body.decode() in page.root.all("textarea", name="body")[0].text
    assert f"webhook-timestamp: {headers['webhook-timestamp']}" in page.field("Headers").text
    right = await browser.press(page, "Explain", headers=lines, body=body.decode())
    assert "The signature is right" in right.text
    changed = await browser.press(page, "Explain", headers=lines, body=body.decode().replace("Tea", "Cake"))
    assert "BODY_CHANGED" in changed.text
    assert "The bodies differ at line 1" in changed.text
    old = await browser.press(
        page, "Explain", headers=lines, body=body.decode(), receivedAt="2040-01-01T00:00"
    )
    assert "CLOCK_SKEW" in old.text


NAMES = ("type", "query", "item", "partner", "state", "status", "cursor", "since", "at", "side", "errorCode")
HOSTILE_QUERIES = (
    "&".join(f"a{number}=1" for number in range(600)),
    *(f"{name}={value}" for name in NAMES for value in ("%00", "%ff", "x" * 3000)),
    *("&".join(f"{name}={value}" for name in NAMES) for value in ("%F0%9F%8D%95", "<script>", "%25", "'")),
    "at=0001-01-01T00:00",
)


@on_both
@own()
@pytest.mark.parametrize("share", [24, pytest.param(1, marks=pytest.mark.long)])
async def test_no_query_makes_a_screen_fail(mercato: Service, shop: MerchantServer, share: int):
    """`make test` asks each screen every 24th query, in each run others; `make test-long` asks all."""
    deal = await trade(mercato, shop)
    both = (await mercato.partner(PartnerKind.BOTH))[0].id
    shares = itertools.count(Random().randrange(share))
    await assert_none_stumbles(deal, await enter_as_operator(mercato), shares, share)
    await assert_none_stumbles(deal, await enter_whole_account(mercato, both), shares, share)


async def assert_none_stumbles(deal: Trade, browser: Browser, shares: Iterator[int], share: int) -> None:
    shown = {one.path.replace("{store}", deal.store["storeId"]) for one in SCREENS if one.show is not None}
    for there in sorted(path for path in shown if "{" not in path):
        for query in HOSTILE_QUERIES[next(shares) % share :: share]:
            page = await browser.open(f"/console/{there}?{query}")
            assert page.status < 500, (there, query[:60])
            assert all(b' nonce="' in script for script in page.scripts), (there, query[:60])


@on_both
async def test_a_delivery_that_a_receiver_accepted_is_sent_whatever_it_is_about(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    path = "/v1/commerce/catalogset-notification?storeId=" + deal.store["storeId"]
    assert (await deal.pos.post(path, {"callbackUrl": shop.base + "/none.json"})).status == 202
    wanted = "/v1/commerce/webhook-deliveries?type=catalog.sync.failed&status=succeeded"
    (sent,) = (await mercato.until(deal.pos, wanted, lambda page: page["deliveries"]))["deliveries"]
    browser = await enter_as_partner(mercato, deal.pos)
    listed = await browser.open("/console/webhooks?type=catalog.sync.failed&status=succeeded")
    assert listed.rows("Deliveries")[0][0] == "sent"
    assert [one.text for one in listed.field("State").all("option")] == ["All", "pending", "sent", "failed"]
    assert listed.field("State").all("option", selected="")[0].attributes["value"] == "succeeded"
    page = await browser.open(f"/console/webhooks/{sent['deliveryId']}")
    assert "State sent" in page.text
    assert "succeeded" not in page.text
