"""Reports in the console: what the orders of some days came to, equal to the orders to the minor unit."""

import asyncio
import csv
import io
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.api.reporting import AMOUNTS, at, expected_totals, move, open_stores, read_all, sell
from tests.api.trade import MERCHANT, ORDERS, Time, Trade, trade
from tests.console.browser import Page
from tests.console.test_screens import check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.console.screens.reports import MAX_DAYS
from mercato.features.orders import summaries
from mercato.features.orders.reports import Days, Selection
from mercato.features.orders.summaries import percentiles_of
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Role
from mercato.platform.errors import RateLimited
from mercato_contract.clock import new_id, now

pytestmark = [shared, mostly_sqlite]

FIRST, LAST = date(2026, 3, 28), date(2026, 3, 30)
QUERY = f"from={FIRST}&to={LAST}"
MINUTES = "Minutes since an order was placed"
CANCELLED = "Cancelled, by reason"


def amounts_of(cells: list[str]) -> dict[str, Any]:
    """Return the figures of a row of `By day` or `By store`."""
    names = ("orders", "cancelled", *AMOUNTS)
    return {name: Decimal(text.replace(",", "")) for name, text in zip(names, cells, strict=True)}


def all_of(page: Page, currency: str) -> dict[str, Any]:
    """Return the sums of a currency, from its table by day."""
    rows = page.rows(f"By day ({currency})")
    return amounts_of(rows[0][1:])


@on_both
async def test_the_page_adds_up_what_the_api_says_of_the_orders(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(summaries, "PAGE", 4)
    random = Random("orders")
    history = await open_stores(mercato, shop, ("EUR", "JPY", "BHD"))
    moments = [at("2026-03-28T00:00:00Z") + timedelta(minutes=random.randint(-600, 5000)) for _ in range(16)]
    await sell(history, random, [*moments, at("2026-03-28T23:00:00Z"), at("2026-03-29T22:00:00Z")])
    for client, path in ((history.pos, MERCHANT), (history.front, ORDERS)):
        placed = await read_all(client, path)
        browser = await enter_as_partner(mercato, client)
        for zone in ("Europe/Berlin", "America/New_York"):
            page = await browser.open("/console/account")
            await browser.press(page, "Set time zone", timezone=zone)
            page = await browser.open(f"/console/reports?{QUERY}")
            check_frame(page)
            check_report(page, placed, zone)


def check_report(page: Page, placed: list[Any], zone: str) -> None:
    """Check that the page adds up these orders by the days of the zone."""
    assert f"Days are in {zone}." in page.text
    wanted = expected_totals(placed, FIRST, LAST, zone)
    assert wanted, "the moments are around these days"
    for currency, totals in wanted.items():
        assert all_of(page, currency) == {name: totals[name] for name in ("orders", "cancelled", *AMOUNTS)}
        for row in page.rows(f"By day ({currency})"):
            if row[0] != "All":
                day = date.fromisoformat(row[0])
                one = expected_totals(placed, day, day, zone)[currency]
                assert amounts_of(row[1:]) == {name: one[name] for name in ("orders", "cancelled", *AMOUNTS)}
    assert [one for one in page.captions if one.startswith("By day")] == [
        f"By day ({currency})" for currency in sorted(wanted, key=lambda one: (-wanted[one]["orders"], one))
    ]
    reasons = Counter(
        {"OUT_OF_DOUGH": "Out of dough", "CHANGED_MIND": "Changed mind"}.get(
            order["cancelReason"], order["cancelReason"]
        )
        for order in placed
        if order["state"] == "cancelled" and expected_totals([order], FIRST, LAST, zone)
    )
    shown = {row[0]: int(row[1]) for row in page.rows(CANCELLED)} if reasons else {}
    assert shown == reasons


@on_both
async def test_one_report_is_of_the_whole_account_or_one_store_and_of_no_other_partners(
    mercato: Service, shop: MerchantServer
):
    history = await open_stores(mercato, shop, ("USD", "EUR"))
    await sell(history, Random(3), [at("2026-03-29T12:00:00Z")] * 6)
    browser = await enter_as_partner(mercato, history.pos)
    one = await browser.open(f"/console/reports?{QUERY}&storeId={history.stores[1]}")
    assert [caption for caption in one.captions if "USD" in caption] == []
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await stranger.open("/console")
    page = await stranger.open(f"/console/reports?{QUERY}")
    assert "No orders on these days." in page.text
    refused = await stranger.open(f"/console/reports?{QUERY}&storeId={history.stores[1]}")
    assert refused.status == 404
    limited = await enter_as_partner(mercato, history.pos, store_id=history.stores[1])
    only = await limited.open(f"/console/reports?{QUERY}")
    assert only.captions == one.captions


async def test_the_file_has_the_orders_of_the_page(mercato: Service, shop: MerchantServer):
    here = await trade(mercato, shop)
    order = await here.placed()
    await move(mercato, UUID(order["orderId"]), at("2026-03-29T12:00:00Z"))
    browser = await enter_as_partner(mercato, here.pos)
    page = await browser.open(f"/console/reports?{QUERY}")
    href = page.link("Download CSV")
    reply = await browser.open(href)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert reply.headers["Content-Disposition"] == f'attachment; filename="orders-{FIRST}-{LAST}.csv"'
    text = reply.body.decode("utf-8-sig")
    assert text.encode() != reply.body, "spreadsheets know it by its byte order mark"
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["total"], row["date"]) == ("5.80", "2026-03-29")
    nobody = await enter_as_partner(mercato, (await mercato.partner())[1])
    refused = await nobody.open(f"{href}&storeId={here.store['storeId']}")
    assert refused.status == 404


@on_both
@own()
async def test_an_operator_sees_a_partners_report_and_no_words_of_partners(
    mercato: Service, shop: MerchantServer
):
    here = await trade(mercato, shop)
    order = await here.placed()
    ended = {"state": "cancelled", "cancelReason": "Ada never came", "partnerOrderId": "Ada 7"}
    assert (await here.update(order, **ended)).status == 200
    await move(mercato, UUID(order["orderId"]), at("2026-03-29T12:00:00Z"))
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console/reports")
    check_frame(page)
    assert "Choose a partner" in page.text
    name = (await mercato.app.callers.get((here.pos.key or "").encode())).partner_id
    page = await browser.open(f"/console/reports?{QUERY}&partner={name}")
    assert page.rows(CANCELLED) == [["Other", "1"]]
    assert page.root.all("td", title="OTHER")
    text = (await browser.open(page.link("Download CSV"))).body.decode("utf-8-sig")
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["state"], row["cancelReason"]) == ("cancelled", "OTHER")
    assert "Ada" not in text
    page = await browser.open(f"/console/reports?{QUERY}&partner=nobody")
    assert "No partner has this name or id." in page.text
    own = await enter_as_partner(mercato, here.pos)
    page = await own.open(f"/console/reports?{QUERY}")
    assert page.rows(CANCELLED) == [["Ada never came", "1"]]
    assert b"Ada never came" in (await own.open(page.link("Download CSV"))).body


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from=2026-03-02&to=2026-03-01", "is after to"),
        ("from=2016-03-01&to=2026-03-01", "at most 366"),
        ("from=2026-01-01&to=2026-06-01", f"at most {MAX_DAYS} days"),
        ("from=yesterday&to=2026-06-01", "Write a date, like 2026-03-01."),
        ("from=2026-06-01&to=0000-00-00", "Write a date, like 2026-03-01."),
    ],
)
async def test_days_that_make_no_report_are_said_beside_the_field(mercato: Service, query: str, words: str):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await browser.open(f"/console/reports?{query}")
    check_frame(page)
    assert words in page.text
    assert not page.captions


@on_both
async def test_a_report_is_half_a_minute_old_at_most_also_after_the_clock_was_set_back(
    mercato: Service, shop: MerchantServer
):
    here = await trade(mercato, shop, webhook=False)
    partner_id = (await mercato.app.callers.get((here.pos.key or "").encode())).partner_id
    selection = Selection(partner_id, Surface.COMMERCE, Days(FIRST, LAST, "UTC"))
    time = Time(begun=now())
    sums = summaries.Summaries(mercato.app.db, time)
    assert (await sums.look(selection)).currencies == ()
    await move(mercato, UUID((await here.placed())["orderId"]), at("2026-03-29T12:00:00Z"))
    for ahead, count in ((timedelta(seconds=29), 0), (timedelta(hours=-1), 1)):
        time.ahead = ahead
        assert len((await sums.look(selection)).currencies) == count


async def test_an_account_waits_for_so_many_reports_at_a_time_and_others_for_no_more_of_it(mercato: Service):
    sums = summaries.Summaries(mercato.app.db, now)
    partner, other = new_id(), new_id()
    many = [
        Selection(partner, Surface.COMMERCE, Days(FIRST - timedelta(days=number), LAST, "UTC"))
        for number in range(summaries.MAX_WAITING + 1)
    ]
    *made, refused, others = await asyncio.gather(
        *(sums.look(one) for one in (*many, replace(many[0], partner_id=other))), return_exceptions=True
    )
    assert isinstance(refused, RateLimited)
    assert refused.detail.startswith("8 reports of this account are being made already.")
    assert all(isinstance(one, summaries.Summary) for one in (*made, others))
    assert isinstance(await sums.look(many[-1]), summaries.Summary)


async def test_only_so_many_orders_are_added_up_and_whole_days_of_them(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(summaries, "MAX_SUMMED", 3)
    monkeypatch.setattr("mercato.console.screens.reports.MAX_SUMMED", 3)
    here = await trade(mercato, shop, webhook=False)
    for text in (
        "2026-03-28T12:00:00Z",
        "2026-03-28T13:00:00Z",
        "2026-03-29T12:00:00Z",
        "2026-03-30T12:00:00Z",
    ):
        await move(mercato, UUID((await here.placed())["orderId"]), at(text))
    browser = await enter_as_partner(mercato, here.pos)
    page = await browser.open(f"/console/reports?{QUERY}")
    assert "at most 3 orders, so it shows the days since 2026-03-29" in page.text
    assert [row[0] for row in page.rows("By day (USD)")] == ["All", "2026-03-30", "2026-03-29"]
    assert all_of(page, "USD")["orders"] == 2
    page = await browser.open("/console/reports?from=2026-03-28&to=2026-03-28")
    assert page.rows("By day (USD)")[0][:2] == ["2026-03-28", "2"]
    for hour in (14, 15):
        await move(mercato, UUID((await here.placed())["orderId"]), at(f"2026-03-28T{hour}:00:00Z"))
    mercato.app.order_summaries._kept.clear()
    page = await browser.open("/console/reports?from=2026-03-28&to=2026-03-28")
    assert "more than 3 orders on 2026-03-28 alone" in page.text
    assert page.captions == []
    assert page.link("Download CSV")


async def test_a_report_shows_best_items_and_minutes(here: Trade):
    order = await here.placed()
    assert (await here.update(order, status="ready")).status == 200
    later = here.order(
        fulfillment={"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": _tomorrow(here)}
    )
    assert (await here.update(await here.placed(later), status="ready")).status == 200
    browser = await enter_as_partner(here.mercato, here.pos)
    page = await browser.open("/console/reports")
    assert page.rows("Best items") == [["Tea", "4"]]
    rows = page.rows(MINUTES)
    assert [(row[0], row[3]) for row in rows] == [("To accept", "2"), ("To be ready", "1")]


def _tomorrow(here: Trade) -> str:
    return (here.mercato.app.clock() + timedelta(days=1)).isoformat()


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def test_percentiles_are_the_nearest_ranks():
    def minutes(*numbers: int) -> list[timedelta]:
        return [timedelta(minutes=number) for number in numbers]

    def milliseconds(*numbers: int) -> list[int]:
        return [number * 60_000 for number in numbers]

    assert percentiles_of([]) is None
    for numbers, p50, p90 in (((7,), 7, 7), ((9, 1), 1, 9), ((3, 1, 2), 2, 3), (tuple(range(1, 11)), 5, 9)):
        found = percentiles_of(milliseconds(*numbers))
        assert found is not None
        assert (found.orders, found.p50, found.p90) == (len(numbers), *minutes(p50, p90))


@pytest.mark.parametrize(
    ("role", "is_seen"), [(Role.MANAGER, True), (Role.SUPPORT, False), (Role.READ_ONLY, False)]
)
async def test_managers_see_reports(mercato: Service, role: Role, is_seen: bool):
    made, _ = await mercato.partner()
    browser, _ = await enter_as_person(mercato, role, made.id)
    for path in ("/console/reports", f"/console/reports/orders?{QUERY}"):
        assert (await browser.open(path)).status == (200 if is_seen else 403)
    assert ("Reports" in (await browser.open("/console/overview")).text) == is_seen
