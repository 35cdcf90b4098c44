"""The screen `Health`: orders an hour, what is in trouble, the checks of the doctor, and request rates."""

import asyncio
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.api.trade import Time, trade
from tests.console.browser import Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite
from tests.service import MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.features.metrics import CommerceMetrics
from mercato.features.orders import operators
from mercato.features.webhooks import endpoint_health
from mercato.platform.db.engine import Read
from mercato.platform.telemetry.metrics import BUCKETS, INTERVAL, Traffic, quantile
from mercato.platform.telemetry.multiprocess import DIRECTORY
from mercato_contract import clock

pytestmark = mostly_sqlite


async def test_health_shows_what_the_doctor_finds(mercato: Service):
    browser = await enter_as_operator(mercato)
    first = await browser.open("/console")
    assert first.heading == "Health", "the operator's first page"
    checks = {row[0]: row[1:] for row in first.rows("Checks")}
    assert checks["schema"][0] == "ok"
    assert {"storage", "clock", "workers", "due work", "dead work", "endpoints", "stores"} <= checks.keys()
    check_frame(first)
    assert (await browser.open("/console/health/traffic")).status == 200


async def test_an_operator_lands_where_orders_stores_in_trouble_and_failing_webhooks_are_shown(
    mercato: Service, shop: MerchantServer, clock_ahead: Time
):
    browser = await enter_as_operator(mercato)
    deal = await trade(mercato, shop, name="Zoe's front")
    # From here no hour ends but those that the test lets pass.
    clock_ahead.begun = clock.now()
    for _ in range(3):
        await deal.placed()
    clock_ahead.ahead = timedelta(hours=2)
    path = f"/v1/commerce/stores/{deal.store['storeId']}/status"
    paused = {"status": "paused", "pauseReason": "Out of dough<script>"}
    assert (await deal.pos.post(path, paused)).status == 200
    front = (await mercato.partner(name="<b>Front"))[0]
    async with mercato.app.db.write() as tx:
        url = "https://example.com/hooks/secret"
        await endpoint_health.insert_failing(tx, front.id, url, since=clock.now())
    first = await browser.open("/console")
    counts = [row[1] for row in first.rows("Orders an hour")]
    assert (len(counts), counts[0], sum(map(int, counts))) == (24, "0", 3)
    charts = [one for one in first.root.all("svg") if "aria-label" in one.attributes]
    assert [one.attributes["aria-label"] for one in charts] == [
        f"Orders an hour: at most {max(map(int, counts))} in one"
    ]
    state, store, _, why = first.rows("Stores in trouble")[0]
    assert (state, store, why) == ("paused", "Test Store", "Out of dough<script>")
    (row,) = first.rows("Failing webhooks")
    assert row[1:] == ["<b>Front", "https://example.com", "Failed webhooks"]
    assert "secret" not in first.text
    check_frame(first)
    clock_ahead.ahead = timedelta(hours=3)
    later = await browser.open("/console/health")
    assert [row[1] for row in later.rows("Orders an hour")][:-1] == counts[1:], "an hour later"


async def test_where_nothing_is_wrong_the_landing_page_says_so(mercato: Service):
    first = await (await enter_as_operator(mercato)).open("/console")
    assert "No store is unreachable or paused, and no partner has an address that fails." in first.text
    assert "No orders in the last 48 hours." in first.text
    assert first.captions == ["Checks"], "no empty tables"


async def test_an_hour_is_counted_once_from_that_of_the_first_order_on_and_not_beyond_its_bound(
    mercato: Service, shop: MerchantServer, clock_ahead: Time, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(operators, "MAX_COUNTED", 1)
    deal = await trade(mercato, shop)
    for _ in range(2):
        await deal.placed()
    clock_ahead.ahead = timedelta(hours=2)
    counted: list[object] = []
    count = operators._count

    async def spy(tx: Read, wanted: operators.OrderFilter, at: datetime) -> int:
        counted.append(at)
        return await count(tx, wanted, at)

    monkeypatch.setattr(operators, "_count", spy)
    for expected in (3, 1):
        counted.clear()
        async with mercato.app.db.read() as tx:
            found = await mercato.app.hourly_orders.look(tx)
        # An hour is counted again for five minutes after its end.
        assert (len(counted) <= expected + 1, len(found)) == (True, 48)
        assert max(one.count for one in found) == 1


async def test_health_names_disabled_addresses_without_their_paths(mercato: Service):
    made, _ = await mercato.partner(name="<b>Bold")
    url = "https://example.com/hooks/secret"
    async with mercato.app.db.write() as tx:
        await endpoint_health.insert_failing(tx, made.id, url, since=clock.now())
        await endpoint_health.disable(tx, made.id, url, reason=HOSTILE, now=clock.now())
    page = await (await enter_as_operator(mercato)).open("/console")
    (row,) = page.rows("Disabled addresses")
    assert row[1:3] == ["<b>Bold", "https://example.com"]
    assert "<script>alert(1)" in row[3], "as text"
    assert "secret" not in page.text
    assert {cells[0]: cells[1] for cells in page.rows("Checks")}["endpoints"] == "note"


async def test_health_without_javascript_promises_no_figures_that_are_not_there(mercato: Service):
    browser = await enter_as_operator(mercato)
    first = await browser.open("/console")
    assert "Measuring has just started" in first.text
    assert "figures above" not in first.text
    assert "Open the page again" in first.text
    await mercato.app.traffic._sample()
    await mercato.app.traffic._sample()
    page = await browser.open("/console/health")
    assert "Requests per second" in [one.text for one in page.root.all("dt")]
    assert "The figures above don't." in page.text


async def test_a_partner_has_no_health(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    for path in ("health", "health/traffic"):
        assert (await browser.open(f"/console/{path}")).status == 404


async def test_requests_are_measured_from_the_first_visit_on():
    metrics = CommerceMetrics()
    measured = Traffic(metrics.totals, clock.now)
    metrics.answered("getStore", 200, 0.004)
    assert list(await measured.look()) == []
    assert await measured.recent() is None
    for _ in range(9):
        metrics.answered("getStore", 200, 0.004)
    metrics.answered("placeOrder", 500, 0.2)
    metrics.answered("console", 200, 9.0)
    await measured._sample()
    (found,) = await measured.look()
    assert found.per_second > 0
    assert found.failed_per_second * 10 == pytest.approx(found.per_second)
    assert found.median is not None
    assert found.p95 is not None
    assert 2.5 < found.median <= 5
    assert 100 < found.p95 <= 250


async def test_nothing_is_measured_without_a_visit_and_the_history_is_bounded(mercato: Service):
    assert not mercato.app.traffic._wanted.is_set()
    await (await enter_as_operator(mercato)).open("/console")
    assert mercato.app.traffic._wanted.is_set()
    assert mercato.app.traffic._samples.maxlen == timedelta(hours=1) // INTERVAL + 1


def test_the_requests_of_all_processes_of_a_port_are_counted(tmp_path: Path):
    script = """
import sys
from mercato.platform.telemetry import multiprocess
multiprocess.join(int(sys.argv[1]))
from mercato.features.metrics import CommerceMetrics
metrics = CommerceMetrics()
for _ in range(5):
    metrics.answered("getStore", 200, 0.004)
metrics.answered("placeOrder", 503, 0.2)
metrics.answered("console", 200, 9.0)
print(metrics.totals().requests, metrics.totals().failed, metrics.totals().buckets[-1])
"""
    environment = os.environ | {DIRECTORY: str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", script, slot], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        for slot in "01"
    ]
    assert said == ["6.0 1.0 6.0", "12.0 2.0 12.0"]


def test_a_quantile_is_interpolated_within_its_bucket():
    none = (0.0,) * (len(BUCKETS) + 1)
    assert quantile(none, 0.5) is None
    all_in_the_second = (0.0,) + (8.0,) * len(BUCKETS)
    assert quantile(all_in_the_second, 0.5) == 1.75
    beyond = (0.0,) * len(BUCKETS) + (1.0,)
    assert quantile(beyond, 0.95) == BUCKETS[-1] * 1000


async def test_the_series_has_a_column_for_each_line(mercato: Service):
    browser = await enter_as_operator(mercato)
    await mercato.app.traffic._sample()
    page = await browser.open("/console/health")
    columns = msgspec.json.decode(page.root.all(id="traffic")[0].attributes["data-series"])
    assert [len(column) for column in columns] == [1] * 5


async def test_what_is_wrong_stands_before_the_chart_and_the_checks_that_are_ok(
    mercato: Service, shop: MerchantServer
):
    browser = await enter_as_operator(mercato)
    async with asyncio.timeout(PATIENCE):
        # Until this process listens to PostgreSQL, nobody is known to do background work.
        while _checks(await browser.open("/console"))["workers"] != "ok":
            await asyncio.sleep(0.05)
    assert set(_checks(await browser.open("/console")).values()) == {"ok"}
    deal = await trade(mercato, shop)
    await deal.placed()
    await deal.placed()
    shop.answers["validate"] = _fail
    for _ in range(3):
        await deal.front.post("/v1/marketfront/orders/validate", deal.order())
    await mercato.app.store_health.flush()
    page = await browser.open("/console/health")
    assert page.captions[0] == "Stores in trouble"
    assert page.captions.index("Orders an hour") < page.captions.index("Checks")
    assert next(iter(_checks(page).items())) == ("stores", "note")
    assert "11.60 USD today" in page.text
    check_frame(page)


def _checks(page: Page) -> dict[str, str]:
    """Return the states of the checks in their order, but for PostgreSQL's own: all tests share its connections."""
    return {row[0]: row[1] for row in page.rows("Checks") if row[0] != "storage"}


async def _fail(_request: Any, _body: bytes) -> web.Response:
    return web.Response(status=500)
