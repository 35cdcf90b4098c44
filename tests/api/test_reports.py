"""A report has a row for each order of its days, and adds up to the orders to the last minor unit."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncGenerator
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Self
from uuid import uuid4

import msgspec
import pytest
from tests.api.reporting import (
    AMOUNTS,
    at,
    expected_totals,
    forget_sold,
    move,
    open_stores,
    placed_orders_path,
    read_all,
    sell,
)
from tests.api.trade import Trade, trade
from tests.catalog.documents import cafe
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.orders import reports
from mercato.features.orders.privacy import erase_all
from mercato.features.orders.reports import COLUMNS, Days, csv_text
from mercato.features.partners.model import Surface
from mercato.http import edge
from mercato_client.testing.caller import Answer
from mercato_contract import clock
from mercato_contract.reports import OrderReport
from mercato_contract.wire import parse_uuid

pytestmark = [shared, mostly_sqlite]

SURFACES = ("commerce", "marketfront")


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def path_of(surface: str, first: object, last: object, **more: object) -> str:
    query = "".join(f"&{name}={value}" for name, value in more.items())
    return f"/v1/{surface}/reports/orders?from={first}&to={last}{query}"


def today() -> date:
    return clock.now().date()


def this_week(surface: str = "commerce", **more: object) -> str:
    """Return the path of a report of the days around the present: no test ends at midnight."""
    return path_of(surface, today() - timedelta(days=1), today() + timedelta(days=1), timezone="UTC", **more)


async def report(client: Client, path: str) -> Any:
    reply = await client.get(path)
    assert reply.status == 200, reply.body
    return reply.json()


async def table(client: Client, path: str) -> list[dict[str, str]]:
    reply = await client.get(path, headers={"Accept": "text/csv"})
    assert reply.status == 200, reply.body
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(reply.body.decode())))


# --- what it says -------------------------------------------------------------------------------------


async def test_each_side_gets_a_row_for_each_of_its_orders_and_their_sums(here: Trade):
    order = await here.placed()
    assert (await here.update(order, status="ready")).status == 200
    for client, surface in ((here.pos, "commerce"), (here.front, "marketfront")):
        found = await report(client, this_week(surface))
        [row] = found["orders"]
        assert (row["orderId"], row["storeId"]) == (order["orderId"], order["storeId"])
        assert (row["state"], row["status"], row["partnerOrderId"]) == ("open", "ready", "A-1")
        assert (row["items"], row["total"], row["placedTotal"], row["currency"]) == (2, "5.80", "5.80", "USD")
        assert row["createdAt"] <= row["acceptedAt"] <= row["readyAt"]
        assert row["date"] == row["createdAt"][:10]
        [total] = found["totals"]
        assert (total["orders"], total["cancelled"], total["total"]) == (1, 0, "5.80")
        assert (found["timezone"], found["storeId"]) == ("UTC", None)
    nobody = (await here.mercato.partner())[1]
    assert (await report(nobody, this_week()))["orders"] == []


ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC")
BERLIN_DST = (date(2026, 3, 28), date(2026, 3, 29), date(2026, 3, 30))
EDGES = [
    "2026-03-28T22:59:59.999Z", "2026-03-28T23:00:00.000Z", "2026-03-29T00:59:59.999Z", "2026-03-29T01:00:00Z",
    "2026-03-29T21:59:59.999Z", "2026-03-29T22:00:00.000Z", "2026-03-28T04:00:00Z", "2026-03-29T18:29:59.999Z",
    "2026-03-27T22:59:59.999Z", "2026-03-30T22:00:00.000Z",
]  # fmt: skip
"""Around the midnights and the hour that Berlin leaves out: the day of 2026-03-29 has 23 hours there."""


@on_both
async def test_totals_equal_the_orders_to_the_minor_unit_in_every_currency_and_zone(
    mercato: Service, shop: MerchantServer, database_kind: str, monkeypatch: pytest.MonkeyPatch
):
    # Several pages, whose ends fall anywhere.
    monkeypatch.setattr(reports, "PAGE", 3)
    random = Random(database_kind)
    history = await open_stores(mercato, shop, ("USD", "JPY", "KWD"))
    later = [at("2026-03-28T00:00:00Z") + timedelta(minutes=random.randint(0, 4000)) for _ in range(6)]
    await sell(history, random, [*map(at, EDGES), *later])
    for surface, client in zip(SURFACES, (history.pos, history.front), strict=True):
        placed = await read_all(client, placed_orders_path(surface))
        assert len(placed) == len(EDGES) + len(later)
        for zone in ZONES:
            for first, last in ((BERLIN_DST[0], BERLIN_DST[-1]), *((day, day) for day in BERLIN_DST)):
                for store in (None, history.stores[1]):
                    wanted = expected_totals(placed, first, last, zone, store=store)
                    more = {"timezone": zone} | ({} if store is None else {"storeId": store})
                    path = path_of(surface, first, last, **more)
                    found = await report(client, path)
                    said = {one.pop("currency"): one for one in found["totals"]}
                    assert {
                        currency: {name: Decimal(one[name]) for name in wanted[currency]}
                        for currency, one in said.items()
                    } == wanted, (zone, first, last)
                    assert summed(found["orders"]) == summed(await table(client, path))
                    assert summed(found["orders"]) == {
                        currency: {name: one[name] for name in AMOUNTS} for currency, one in wanted.items()
                    }


def summed(rows: list[dict[str, Any]]) -> dict[str, dict[str, Decimal]]:
    """Return the sums of the rows' own columns: of all, cancelled ones too, as a spreadsheet adds them."""
    sums: dict[str, dict[str, Decimal]] = {}
    for row in rows:
        own = sums.setdefault(row["currency"], dict.fromkeys(AMOUNTS, Decimal(0)))
        for name in AMOUNTS:
            own[name] += Decimal(row[name])
    return sums


@on_both
async def test_an_order_of_an_earlier_release_has_the_row_that_it_would_have_now(here: Trade):
    order = await here.placed()
    now = await report(here.pos, this_week())
    await forget_sold(here.mercato, _id(order))
    assert await report(here.pos, this_week()) == now
    assert now["orders"][0]["items"] == 2


@on_both
async def test_no_text_of_an_update_makes_an_order_ready(here: Trade):
    order = await here.placed()
    words = '"status":"ready"'
    assert (await here.update(order, status="preparing", partnerOrderId=words)).status == 200
    assert (await report(here.pos, this_week()))["orders"][0]["readyAt"] is None
    assert (await here.update(order, status="inTransit")).status == 200
    found = (await report(here.pos, this_week()))["orders"][0]
    assert (found["partnerOrderId"], found["readyAt"] is not None) == (words, True)


@on_both
async def test_a_cancelled_order_counts_nothing_and_says_what_it_was_placed_for(here: Trade):
    order = await here.placed()
    change = {"state": "cancelled", "cancelReason": "OUT_OF_TEA"}
    assert (await here.update(order, **change)).status == 200
    [row] = (await report(here.pos, this_week()))["orders"]
    assert (row["state"], row["cancelReason"], row["placedTotal"]) == ("cancelled", "OUT_OF_TEA", "5.80")
    assert {row[name] for name in AMOUNTS} == {"0.00"}
    [total] = (await report(here.pos, this_week()))["totals"]
    assert (total["orders"], total["cancelled"], total["total"]) == (0, 1, "0.00")


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("Africa/Cairo", "2026-04-24", 23),
        ("America/Havana", "2026-11-01", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("UTC", "2026-03-29", 24),
    ],
)
def test_a_day_is_as_long_as_clocks_make_it(zone: str, day: str, hours: float):
    one = Days(date.fromisoformat(day), date.fromisoformat(day), zone)
    assert one.end - one.start == timedelta(hours=hours)
    assert one.day_of(one.start) == one.first == one.day_of(one.end - clock.MILLISECOND)
    assert one.day_of(one.end) == one.last + timedelta(days=1)
    assert one.day_of(one.start - clock.MILLISECOND) == one.first - timedelta(days=1)


@on_both
async def test_days_are_those_that_the_accounts_stores_have_in_common(mercato: Service, shop: MerchantServer):
    pos = (await mercato.partner())[1]
    assert (await report(pos, path_of("commerce", "2026-03-01", "2026-03-01")))["timezone"] == "UTC"
    here = await trade(mercato, shop, webhook=False)
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    assert (await here.pos.call("PUT", path, {"timezone": "Asia/Kolkata"})).status == 200
    order = await here.placed()
    await move(mercato, _id(order), at("2026-03-01T18:30:00Z"))
    found = await report(here.pos, path_of("commerce", "2026-03-02", "2026-03-02"))
    assert (found["timezone"], [row["date"] for row in found["orders"]]) == ("Asia/Kolkata", ["2026-03-02"])
    other = await mercato.live(here.pos, shop.host(cafe()), name="2")
    path = f"/v1/commerce/stores/{other['storeId']}"
    assert (await here.pos.call("PUT", path, {"timezone": "Europe/Berlin"})).status == 200
    assert await report(here.pos, path_of("commerce", "2026-03-02", "2026-03-02")) == {
        "from": "2026-03-02", "to": "2026-03-02", "timezone": "UTC", "storeId": None, "orders": [], "totals": [],
    }  # fmt: skip


def _id(order: Any) -> Any:
    found = parse_uuid(order["orderId"])
    assert found is not None
    return found


@own()
@on_both
async def test_a_report_says_nothing_of_the_customer_and_stays_the_same_once_they_are_erased(here: Trade):
    order = await here.placed(here.order(note="Ring twice, Ada"))
    adjusted = await here.pos.post(
        f"/v1/commerce/orders/{order['orderId']}/adjustments",
        {"type": "refund", "amount": "1.00", "reason": "Ada's tea was cold"},
        headers={"Idempotency-Key": str(uuid4())},
    )
    assert adjusted.status == 201
    before = (await here.pos.get(this_week())).body
    told = (await here.pos.get(this_week(), headers={"Accept": "text/csv"})).body
    for word in (b"Ada", b"Lovelace", b"example.com", b"5550100", b"203.0.113.7", b"Ring"):
        assert word not in before + told
    assert (await erase_all(here.mercato.app.db, "ada@example.com"))[0] == 1
    assert (await here.pos.get(this_week())).body == before


# --- CSV ----------------------------------------------------------------------------------------------

FORMULAS = (
    "=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", '=HYPERLINK("http://x","y")', "a;=1+1", "a,=1+1",
    "a\t-1", 'a"=1', "a\n=1", "\uff1d1", "a;\uff0b1",
)  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_cell_of_a_partners_text_begins_a_formula_whatever_divides_the_cells(text: str, delimiter: str):
    line = f"x,{csv_text(text)},y\r\n"
    for row in csv.reader(io.StringIO(line, newline=""), delimiter=delimiter):
        for cell in row:
            assert not cell.lstrip(" ").startswith(tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")), row


@pytest.mark.parametrize("text", ["", "A-1", "12", "Ünïcode", 'say "hi"', "two\nlines", "a, b", "x=1", "1-2"])
def test_other_texts_are_read_back_as_they_are(text: str):
    [row] = csv.reader(io.StringIO(f"x,{csv_text(text)},y\r\n", newline=""))
    assert row == ["x", text, "y"]


@pytest.mark.parametrize("text", ["=1+1", "@SUM(1)", "-2+3"])
async def test_a_table_quotes_what_partners_wrote_and_leaves_amounts_numbers(here: Trade, text: str):
    here.shop.answers["place"] = {"accepted": True, "partnerOrderId": text}
    here.shop.answers["validate"] = {"amounts": {"adjustments": "-0.80"}}
    order = await here.placed()
    kept = await table(here.pos, this_week())
    assert [(row["partnerOrderId"], row["adjustments"]) for row in kept] == [("'" + text, "-0.80")]
    assert (await here.update(order, state="cancelled", cancelReason=text)).status == 200
    [row] = await table(here.pos, this_week())
    assert row["cancelReason"] == "'" + text
    assert tuple(row) == COLUMNS


async def test_the_table_has_the_members_of_the_rows(here: Trade):
    await here.placed()
    [row] = (await report(here.pos, this_week()))["orders"]
    [line] = await table(here.pos, this_week())
    assert line == {name: "" if row[name] is None else str(row[name]) for name in COLUMNS}
    assert set(COLUMNS) == set(row)


@on_both
async def test_json_is_sent_unless_csv_is_preferred(here: Trade):
    for accept, is_csv in (
        ("text/csv", True), ("*/*", False), ("application/json", False), ("text/csv, application/json", False),
        ("text/csv;q=1, application/json;q=0.5", True), ("text/csv;q=0.1, */*", False), ("", False),
    ):  # fmt: skip
        reply = await here.pos.get(this_week(), headers={"Accept": accept})
        assert (reply.headers["Content-Type"].startswith("text/csv")) == is_csv, accept
        assert reply.headers["Vary"] == "Accept"


# --- refusals -----------------------------------------------------------------------------------------


@only_sqlite
@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "2 faults"),
        ("from=2026-03-01", 400, "to"),
        ("from=2026-03-02&to=2026-03-01", 422, "from (2026-03-02) is after to (2026-03-01)"),
        ("from=2016-03-01&to=2026-03-01", 422, "3,653 days, and a report has at most 366"),
        ("from=0001-01-01&to=9999-12-31", 422, "at most 366"),
        ("from=9999-12-01&to=9999-12-31", 422, "years 1970 to 9000"),
        ("from=2026-02-30&to=2026-03-01", 422, "from must be a date, like 2026-03-01"),
        ("from=2026-03-01&to=20260301", 422, "to must be a date"),
        ("from=2026-03-01&to=2026-03-01T00:00:00Z", 422, "to must be a date"),
        (
            "from=2026-03-01&to=2026-03-01&timezone=Mars/Olympus",
            422,
            "timezone must be an IANA time zone name",
        ),
        ("from=2026-03-01&to=2026-03-01&timezone=../../etc/passwd", 422, "timezone"),
        ("from=2026-03-01&to=2026-03-01&storeId=x", 422, "storeId"),
    ],
)
async def test_days_that_make_no_period_are_refused_in_words(
    mercato: Service, database_kind: str, query: str, status: int, words: str
):
    pos = (await mercato.partner())[1]
    for accept in ("application/json", "text/csv"):
        reply = await pos.get(f"/v1/commerce/reports/orders?{query}", headers={"Accept": accept})
        assert (reply.status, reply.headers["Content-Type"]) == (status, "application/problem+json"), (
            reply.body
        )
        assert words in reply.json()["detail"]


@on_both
async def test_another_partners_store_is_not_found(here: Trade):
    stranger = (await here.mercato.partner())[1]
    reply = await stranger.get(this_week(storeId=here.store["storeId"]))
    assert (reply.status, reply.json()["errorCode"]) == (404, "STORE_NOT_FOUND")
    assert (await here.pos.get(this_week(storeId=here.store["storeId"]))).status == 200
    reply = await here.front.get(this_week("marketfront", storeId=uuid4()))
    assert (reply.status, reply.json()["errorCode"]) == (404, "STORE_NOT_FOUND")


async def test_an_agents_key_gets_no_report(here: Trade):
    made = (await here.front.post("/v1/marketfront/agents", {"name": "Lunch"})).json()
    agent = Client(here.mercato.base, made["key"], here.mercato.session)
    assert (await agent.get(this_week("marketfront"))).status == 403


# --- sending ------------------------------------------------------------------------------------------


@on_both
async def test_a_report_is_each_order_as_it_was_when_its_page_was_read(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reports, "PAGE", 1)
    first, second = await here.placed(), await here.placed()
    app = here.mercato.app
    caller = await app.callers.get((here.pos.key or "").encode())
    days = reports.days_of(str(today() - timedelta(days=1)), str(today() + timedelta(days=1)), "UTC")
    selection = reports.Selection(caller.partner_id, caller.surface, days)
    parts = app.order_reports.as_json(selection)
    body = await anext(parts)
    for order in (first, second):
        assert (await here.update(order, state="cancelled", cancelReason="OTHER")).status == 200
    body += b"".join([part async for part in parts])
    found = json.loads(body)
    assert [row["state"] for row in found["orders"]] == ["open", "cancelled"]
    assert [(one["orders"], one["cancelled"], one["total"]) for one in found["totals"]] == [(1, 1, "5.80")]


def test_a_page_is_searched_from_where_the_one_before_ended():
    """With a second lower bound a database may read all pages before it again: the square of a report's size."""
    selection = reports.Selection(
        uuid4(), Surface.COMMERCE, reports.days_of("2026-03-01", "2026-03-31", "UTC")
    )
    for last in (None, reports.AFTER):
        sql = str(reports._page(selection, reports._READ, last, reports.PAGE))
        assert (sql.count("orders.id >"), sql.count("orders.id <")) == (1, 1), sql


async def test_an_account_is_sent_some_reports_at_a_time(here: Trade):
    app = here.mercato.app
    selection = reports.Selection(
        (await app.callers.get((here.pos.key or "").encode())).partner_id,
        Surface.COMMERCE,
        reports.days_of("2026-03-01", "2026-03-01", "UTC"),
    )
    running = [app.order_reports.as_csv(selection) for _ in range(reports.MAX_RUNNING)]
    for one in running:
        await anext(one)
    reply = await here.pos.get(this_week())
    assert (reply.status, reply.headers["Retry-After"]) == (429, "10")
    assert (await here.front.get(this_week("marketfront"))).status == 200
    await running.pop().aclose()
    assert (await here.pos.get(this_week())).status == 200
    for _ in range(3):
        head = await here.pos.call("HEAD", this_week())
        assert (head.status, head.body) == (200, b"")
    for one in running:
        await one.aclose()


class _Socket:
    """A client that reads as little as it wants."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __aenter__(self) -> Self:
        host, port = self._client.base.removeprefix("http://").split(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port), limit=1)
        request = f"GET {this_week()} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {self._client.key}\r\n"
        self.writer.write(f"{request}Accept: text/csv\r\n\r\n".encode())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def rest(self) -> bytes:
        read = bytearray()
        async with asyncio.timeout(PATIENCE):
            # Without a number it would read a byte at a time, which is the reader's limit.
            while part := await self.reader.read(1 << 16):
                read += part
        return bytes(read)


async def _ended(here: Trade) -> None:
    async with asyncio.timeout(PATIENCE):
        while here.mercato.app.order_reports.slots.in_use:
            await asyncio.sleep(0.01)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a report never end; return the list that gets the size of each part."""
    sizes: list[int] = []

    async def pages(*_: object) -> AsyncGenerator[list[None], None]:
        while True:
            sizes.append(1 << 16)
            yield [None]

    monkeypatch.setattr(reports, "read_rows", pages)
    monkeypatch.setattr(reports, "csv_line", lambda _: "x" * (1 << 16))
    return sizes


async def test_a_client_that_stops_reading_stops_the_report_and_is_cut_off(
    here: Trade, endless: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edge, "PART_SECONDS", 0.2)
    async with _Socket(here.pos) as client:
        assert await client.reader.read(1)
        await _ended(here)
        # What the sockets' buffers hold, and no more.
        assert sum(endless) < 32 << 20
        assert not (await client.rest()).endswith(b"0\r\n\r\n")


@on_both
async def test_a_client_that_goes_away_ends_the_report(here: Trade, endless: list[int]):
    async with _Socket(here.pos) as client:
        assert await client.reader.read(1)
    await _ended(here)
    assert endless


async def test_a_report_that_fails_halfway_is_cut_off_and_does_not_look_whole(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    async def pages(*_: object) -> AsyncGenerator[list[None], None]:
        yield []
        raise RuntimeError("a bug")

    monkeypatch.setattr(reports, "read_rows", pages)
    async with _Socket(here.pos) as client:
        said = await client.rest()
    assert b"orderId" in said
    assert not said.endswith(b"0\r\n\r\n")
    assert here.mercato.app.order_reports.slots.in_use == 0


async def test_a_report_that_fails_before_its_first_row_is_a_problem(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(reports, "_page", fail)
    reply: Answer = await here.pos.get(this_week())
    assert (reply.status, reply.json()["errorCode"]) == (500, "INTERNAL_ERROR")


async def test_the_clients_type_is_what_is_sent(here: Trade):
    await here.placed()
    reply = await here.pos.get(this_week())
    decoded = msgspec.json.decode(reply.body, type=OrderReport)
    assert msgspec.json.encode(decoded) == reply.body
