"""Words and lists: names of the navigation, short ids, times as people say them, and the account's time zone."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.api.trade import Time, trade
from tests.catalog.documents import cafe
from tests.console.test_screens import check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service

from mercato.console import times
from mercato_contract.wire import rfc3339

pytestmark = mostly_sqlite


async def test_earlier_paths_lead_to_the_present_ones(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await deal.placed()
    browser = await enter_as_partner(mercato, deal.front)
    page = await browser.open("/console")
    assert {"Webhooks", "Refused requests"} <= set(page.navigation)
    assert not {"Deliveries", "Requests"} & set(page.navigation)
    for old, new, heading in (
        ("deliveries", "webhooks", "Webhooks"),
        ("deliveries?status=failed", "webhooks?status=failed", "Webhooks"),
        ("requests", "refused-requests", "Refused requests"),
        ("requests?errorCode=X%20Y&since=", "refused-requests?errorCode=X%20Y&since=", "Refused requests"),
    ):
        page = await browser.open(f"/console/{old}")
        assert (page.heading, page.url) == (heading, f"{mercato.base}/console/{new}")
    row = (await browser.open("/console/webhooks")).row_links[0].attributes["href"]
    moved = await browser.open(row.replace("webhooks", "deliveries"))
    assert (moved.status, moved.url) == (200, mercato.base + row)
    assert (await browser.open("/console/deliveries/%0d%0aLocation:%20x")).status == 404
    # Every GET answers HEAD.
    async with mercato.session.head(f"{mercato.base}/console/deliveries", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, "/console/webhooks")


async def test_lists_show_the_last_eight_characters_of_ids_and_copy_them_whole(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    order = (await deal.placed())["orderId"]
    browser = await enter_as_operator(mercato)
    for path in ("orders", "webhooks", "catalogs"):
        page = await browser.open(f"/console/{path}")
        check_frame(page)
        copied = [one.attributes["data-copy"] for one in page.root.all("button", **{"class": "copy"})]
        links = page.row_links
        assert copied == [one.attributes["title"] for one in links]
        assert copied
        # An order is called by its store's number.
        shown = ["A-1"] if path == "orders" else [whole[-8:] for whole in copied]
        assert [one.text for one in links] == shown
        assert all(one.attributes["href"].endswith(whole) for one, whole in zip(links, copied, strict=True))
    page = await browser.open(f"/console/orders/{order}")
    assert order in page.region("Details"), "whole on the page of the thing"


async def test_an_order_without_a_number_of_its_store_is_listed_by_who_ordered_and_its_number_on_the_board(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, webhook=False)
    order = (await deal.placed())["orderId"]
    page = await (await enter_as_partner(mercato, deal.pos)).open("/console/orders")
    first = page.root.all("td")[0]
    (who,) = first.all("span", **{"class": "also"})
    assert "item" in who.text
    assert first.text.startswith(who.text)
    assert page.row_links[0].text.replace(" ", "") == order[-8:]
    assert [one.text for one in first.all("b")] == [order[-5:]]


async def test_times_are_told_as_people_say_them_in_the_time_zone_that_the_account_chooses(
    mercato: Service, shop: MerchantServer, clock_ahead: Time
):
    deal = await trade(mercato, shop)
    await deal.placed()
    clock_ahead.ahead = timedelta(minutes=3)
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open("/console")
    assert "Times are in UTC." in page.text
    page = await browser.open("/console/orders")
    (shown,) = page.root.all("td")[4].all("time")
    assert shown.text == "3 min ago"
    assert shown.attributes["title"].endswith(" UTC")
    account = await browser.open("/console/account")
    check_frame(account)
    done = await browser.press(account, "Set time zone", timezone="Asia/Tokyo")
    assert done.status_region == "Times are shown in Asia/Tokyo now."
    assert "Times are in Asia/Tokyo." in done.text
    (there,) = (await browser.open("/console/orders")).root.all("td")[4].all("time")
    assert there.attributes["datetime"] == shown.attributes["datetime"]
    at = datetime.fromisoformat(there.attributes["datetime"]) + timedelta(hours=9)
    assert there.attributes["title"] == f"{at:%Y-%m-%d %H:%M:%S} Asia/Tokyo"
    for unknown in ("Mars/Olympus", "../etc/passwd", "UTC\r\nX: y"):
        assert (await browser.post("/console/account/timezone", {"timezone": unknown})).status == 422
    assert "Asia/Tokyo" in (await browser.open("/console/orders")).text
    browser.cookies = {
        name: "x/y" if "timezone" in name else value for name, value in browser.cookies.items()
    }
    assert "Times are in UTC." in (await browser.open("/console/orders")).text


async def test_until_somebody_chooses_times_are_in_the_zone_that_the_stores_have_in_common(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    first = f"/v1/commerce/stores/{deal.store['storeId']}"
    assert (await deal.pos.call("PUT", first, {"timezone": "America/Chicago"})).status == 200
    merchant = await enter_as_partner(mercato, deal.pos)
    front = await enter_as_partner(mercato, deal.front)
    operator = await enter_as_operator(mercato)
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    for browser in (merchant, front, operator):
        assert "Times are in America/Chicago." in (await browser.open("/console/orders")).text
    assert "Times are in UTC." in (await stranger.open("/console/orders")).text, "it has no store"
    other = await mercato.live(deal.pos, shop.host(cafe()), name="store-2")
    await deal.pos.call("PUT", f"/v1/commerce/stores/{other['storeId']}", {"timezone": "America/New_York"})
    for browser in (merchant, front, operator):
        assert "Times are in UTC." in (await browser.open("/console/orders")).text
    alone = await enter_as_partner(mercato, deal.pos, store_id=other["storeId"])
    assert "Times are in America/New_York." in (await alone.open("/console/orders")).text
    account = await merchant.open("/console/account")
    await merchant.press(account, "Set time zone", timezone="")
    await deal.pos.call("PUT", first, {"timezone": "America/New_York"})
    assert "Times are in UTC." in (await merchant.open("/console/orders")).text, "as it was chosen"
    assert "Times are in America/New_York." in (await front.open("/console/orders")).text


async def test_fields_for_times_are_in_the_zone_that_lists_show(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await deal.placed()
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open("/console/orders")
    assert page.field("Since (UTC)").attributes["type"] == "datetime-local"
    await browser.press(await browser.open("/console/account"), "Set time zone", timezone="Asia/Tokyo")
    now = mercato.app.clock()
    for sent, count in ((now - timedelta(hours=1), 1), (now + timedelta(hours=1), 0)):
        local = f"{sent.astimezone(ZoneInfo('Asia/Tokyo')):%Y-%m-%dT%H:%M}"
        page = await browser.open(f"/console/orders?since={local}")
        assert page.field("Since (Asia/Tokyo)").attributes["value"] == local
        assert len(page.ids("Orders")) == count
        # An instant with its own zone, as in a link from elsewhere, is shown in the chosen one.
        page = await browser.open(f"/console/orders?since={rfc3339(sent)}")
        assert page.field("Since (Asia/Tokyo)").attributes["value"] == local
        assert len(page.ids("Orders")) == count
    for odd in ("0001-01-01T00:00", "9999-12-31T23:59", "2026-02-30T10:00", "2026-02-30"):
        page = await browser.open(f"/console/orders?since={odd}")
        assert page.status == 200
        assert page.field("Since (Asia/Tokyo)").attributes["value"] == odd


async def test_a_stores_page_shows_and_takes_times_in_the_stores_own_zone(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    api = f"/v1/commerce/stores/{deal.store['storeId']}"
    assert (await deal.pos.put(api, {"timezone": "Asia/Tokyo"})).status == 200
    for browser in (await enter_as_partner(mercato, deal.pos), await enter_as_operator(mercato)):
        await browser.press(await browser.open("/console/account"), "Set time zone", timezone="Europe/Berlin")
        page = await browser.open(f"/console/stores/{deal.store['storeId']}")
        now = mercato.app.clock().astimezone(ZoneInfo("Asia/Tokyo"))
        assert f"{now:%H}:" in page.region("Now")
        assert "at the store, Asia/Tokyo" in page.region("Now")
        assert "Times are in Asia/Tokyo, the store's own zone." in page.text
        assert page.field("Resume at (Asia/Tokyo, optional)").attributes["type"] == "datetime-local"
        paused = await browser.press(page, "Pause store", resumeAt="2999-01-01T08:00")
        assert paused.status_region == (
            "The store is paused until 2999-01-01 08:00 Asia/Tokyo: it takes no orders."
        )
        status = (await deal.pos.get(f"{api}/status")).json()
        assert status["resumeAt"] == "2998-12-31T23:00:00.000Z"
        await browser.press(paused, "Resume store")
        at_noon = await browser.open(f"/console/stores/{deal.store['storeId']}?at=2026-03-02T12:00")
        assert "2026-03-02 12:00:" in at_noon.text
        assert at_noon.field("Time (Asia/Tokyo)").attributes["value"] == "2026-03-02T12:00"


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(0), "just now"),
        (timedelta(minutes=89), "89 min ago"),
        (timedelta(hours=2), "2 h ago"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(days=61), "2026-01-01 00:00:00"),
        (timedelta(seconds=-1), "now"),
        (timedelta(minutes=-25), "in 25 min"),
        (timedelta(hours=-3), "in 3 h"),
        (timedelta(days=-61), "2026-01-01 00:00:00"),
    ],
)
def test_how_long_ago_or_ahead_an_instant_is_is_told_while_it_is_short(age: timedelta, words: str):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    context: Any = {"console": {"now": at + age, "timezone": "UTC"}}
    shown = times.since(context, at)
    assert f">{words}</time>" in shown
    assert 'title="2026-01-01 00:00:00 UTC"' in shown


@on_both
async def test_operators_see_the_catalogs_of_all_merchants_without_what_is_theirs(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    secret = "/failed.json?token=private-token"  # a made-up one
    shop.documents["/failed.json"] = {"currency": "private words", "items": 3}
    await mercato.onboard(deal.pos, shop.base + secret, name="failing")
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console")
    assert "Catalogs" in page.navigation
    page = await browser.open("/console/catalogs")
    assert [row[0] for row in page.rows("Runs")] == ["failed", "succeeded"]
    assert "private-token" not in page.body.decode()
    run = page.row_links[0].attributes["href"]
    shown = await browser.open(run)
    check_frame(shown)
    assert all(len(row) == 2 for row in shown.rows("Errors")), "without excerpts of the document"
    assert "private-token" not in shown.body.decode()
    failed = await browser.press(page, "Filter", status="failed", storeId="Test Store")
    assert failed.rows("Runs") == [[failed.root.all("td")[0].text]], "the live store has no failed run"
    none = await browser.press(page, "Filter", partner="nobody")
    assert "No partner has this name or id." in none.text
    front = await enter_as_partner(mercato, deal.front)
    assert (await front.open(run)).status == 404
    other = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert (await other.open(run)).status == 404
