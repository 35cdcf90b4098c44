"""The state of a store in words: trouble first, then until when it is open or closed, then why."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from sqlalchemy import update
from tests.api.trade import VALIDATE, Trade, trade
from tests.catalog.documents import cafe
from tests.console.browser import Browser
from tests.console.test_screens import check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service

from mercato.console.store_states import state_of
from mercato.features.doctor import State, checks
from mercato.features.stores.operators import (
    CallFailures,
    StoreFilter,
    StoreSummary,
    list_stores,
    list_stores_of,
)
from mercato.features.stores.search import Opening
from mercato.features.stores.views import ORDERS_UNSEEN_MESSAGE
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.features.webhooks.store_health import list_failing_stores
from mercato.features.webhooks.tables import failing_stores
from mercato.platform.db.engine import Write
from mercato_contract import clock
from mercato_contract.stores import StoreStatusValue

pytestmark = mostly_sqlite

CALLS = "/v1/commerce/webhook-deliveries"
ENDPOINTS = "/v1/commerce/webhook-endpoints"

NOW = datetime(2026, 1, 30, 18, 20, tzinfo=UTC)
"""A Friday."""


def summary(**members: Any) -> StoreSummary:
    values: dict[str, Any] = {
        "id": clock.new_id(),
        "partner_id": clock.new_id(),
        "partner": "Lucia",
        "partner_store_id": "1",
        "name": "Forno Lucia",
        "status": StoreStatusValue.ONLINE,
        "pause_reason": None,
        "resume_at": None,
        "suspended": False,
        "is_unseen": False,
        "failing": None,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return StoreSummary(**values | members)


def opening(*, is_open: bool, hours: float | None) -> Opening:
    return Opening(is_open, None if hours is None else NOW + timedelta(hours=hours), "Europe/Rome")


PAUSED = StoreStatusValue.PAUSED
ALWAYS = opening(is_open=True, hours=None)
FAILING = {"failing": CallFailures(NOW, 2, "The receiver answered 500.")}
FAILING_FOR_LONG = {"failing": CallFailures(NOW - timedelta(days=50), 2, None)}
BREAK = {"status": PAUSED, "resume_at": NOW + timedelta(hours=1), "pause_reason": "Holiday"}


@pytest.mark.parametrize(
    ("store", "hours", "shows_calls", "words", "why", "is_trouble"),
    [
        ({}, opening(is_open=True, hours=2), True, "open", "until 21:20", False),
        ({}, ALWAYS, True, "open", "24 hours a day", False),
        ({}, opening(is_open=False, hours=48), True, "closed until Sunday 19:20", "hours", False),
        ({}, opening(is_open=False, hours=216), True, "closed until 2026-02-08 19:20", "hours", False),
        ({}, opening(is_open=False, hours=None), True, "closed", "no hours", True),
        (FAILING, ALWAYS, True, "unreachable", "2 calls failed, since 19:20", True),
        (FAILING_FOR_LONG, ALWAYS, True, "unreachable", "since 2025-12-11 19:20", True),
        (FAILING, ALWAYS, False, "open", "24 hours a day", False),
        (FAILING | {"status": PAUSED}, ALWAYS, True, "paused", "no reason", True),
        (BREAK, ALWAYS, True, "paused until 20:20", "Holiday", True),
        ({"suspended": True}, None, True, "hidden", "suspended", True),
        ({}, None, True, "closed", "don't find", True),
    ],
)
def test_a_store_is_open_closed_until_paused_or_unreachable(
    store: dict[str, Any], hours: Opening | None, shows_calls: bool, words: str, why: str, is_trouble: bool
):
    state = state_of(summary(**store), hours, shows_calls=shows_calls, now=NOW)
    assert (state.words, state.is_trouble) == (words, is_trouble)
    assert why in state.why
    assert (state.advice is not None) == is_trouble, "what to do about it"
    assert ("by itself" in (state.advice or "")) == ("paused until" in words)


async def fail(deal: Trade, shop: MerchantServer, times: int) -> None:
    """Make calls to the deal's store that fail, and await that they are recorded."""
    shop.answers["validate"] = broken
    for _ in range(times):
        assert (await deal.front.post(VALIDATE, deal.order())).status == 503
    await deal.mercato.app.store_health.flush()


async def succeed(deal: Trade, shop: MerchantServer) -> None:
    shop.answers["validate"] = {"isValid": True}
    await deal.validate(deal.order())
    await deal.mercato.app.store_health.flush()


async def told(deal: Trade, merchant: Browser, operator: Browser) -> dict[str, bool]:
    """Return who says that the deal's store is in trouble, and who doesn't."""
    store_id = deal.store["storeId"]
    path = f"/console/stores/{store_id}"
    async with deal.mercato.app.db.read() as tx:
        found = [check async for check in checks(tx, deal.mercato.app.settings)]
        [summary] = await list_stores_of(tx, [UUID(store_id)], now=NOW)
        listed = await list_stores(tx, StoreFilter(failing=True), limit=9, now=NOW)
    health = await operator.open("/console/health")
    return {
        "store for its merchant": "unreachable" in (await merchant.open(path)).region("Now"),
        "store for operators": "unreachable" in (await operator.open(path)).region("Now"),
        "stores of the merchant": (await merchant.open("/console/stores")).rows("Stores")[0][0]
        == "unreachable",
        "stores in trouble": "unreachable" in (await operator.open("/console/stores?inTrouble=true")).text,
        "search of the merchant": "unreachable"
        in (await merchant.post("/console/search", {"text": "Test Store"})).text,
        "search of operators": "unreachable"
        in (await operator.post("/console/search", {"text": "Test Store"})).text,
        "overview": "calls failed" in (await merchant.open("/console/overview")).text,
        "health": "Stores in trouble" in health.captions
        and health.rows("Stores in trouble")[0][0] == "unreachable",
        "health's check": "none is failing" not in health.text,
        "doctor": next(check for check in found if check.name == "stores").state is not State.OK,
        "command": summary.failing is not None,
        "command's list": [one.id for one in listed] == [UUID(store_id)],
    }


@on_both
async def test_a_store_that_failed_its_last_calls_is_in_trouble_everywhere_until_one_succeeds(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    merchant = await enter_as_partner(mercato, deal.pos)
    operator = await enter_as_operator(mercato)
    await fail(deal, shop, 1)
    assert not any((await told(deal, merchant, operator)).values()), "one failure isn't a dead store"
    await fail(deal, shop, 1)
    assert all((await told(deal, merchant, operator)).values()), await told(deal, merchant, operator)
    page = await merchant.open(f"/console/stores/{deal.store['storeId']}")
    assert "The last call to the store failed. " in page.text
    async with mercato.app.db.write() as tx:
        long_ago = clock.now() - timedelta(days=40)
        await tx.execute(update(failing_stores).values(failing_since=long_ago, failed_at=long_ago))
    assert all((await told(deal, merchant, operator)).values()), "however long ago that was"
    await succeed(deal, shop)
    assert not any((await told(deal, merchant, operator)).values()), await told(deal, merchant, operator)


async def test_a_refusal_is_an_answer_and_a_success_between_two_failures_counts(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    await fail(deal, shop, 1)
    shop.answers["validate"] = refusing
    assert not (await deal.front.post(VALIDATE, deal.order())).json()["isValid"]
    await fail(deal, shop, 1)
    async with mercato.app.db.read() as tx:
        assert await list_failing_stores(tx, limit=9) == []
    await fail(deal, shop, 1)
    async with mercato.app.db.read() as tx:
        [found] = await list_failing_stores(tx, limit=9)
    assert (str(found.store_id), found.calls) == (deal.store["storeId"], 2)


@on_both
async def test_another_webhook_url_is_a_new_beginning(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await fail(deal, shop, 2)
    async with mercato.app.db.read() as tx:
        [before] = await list_failing_stores(tx, limit=9)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    assert (await deal.pos.call("PUT", path, {"webhookUrl": shop.base + "/other"})).status == 200
    late = StoreCall(
        store_id=UUID(deal.store["storeId"]),
        partner_id=before.partner_id,
        url=shop.base + "/hooks/validate",
        webhook_id=clock.new_id(),
        body=b"",
        traceparent="",
    )
    for _ in range(2):
        mercato.app.store_health.record(
            late, CallResult(at=clock.now(), ms=1, error="The receiver answered 500.")
        )
    await mercato.app.store_health.flush()
    async with mercato.app.db.read() as tx:
        assert await list_failing_stores(tx, limit=9) == [], "a late result is about the address before"


async def test_a_result_that_is_written_after_a_store_is_no_longer_called_says_nothing_of_it(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    deal = await trade(mercato, shop)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    db = mercato.app.db
    write = db.write

    @asynccontextmanager
    async def changed_meanwhile() -> AsyncIterator[Write]:
        monkeypatch.setattr(db, "write", write)
        assert (await deal.pos.call("PUT", path, {"orderHandling": "automatic"})).status == 200
        async with write() as tx:
            yield tx

    shop.answers["validate"] = broken
    for _ in range(2):
        assert (await deal.front.post(VALIDATE, deal.order())).status == 503
    monkeypatch.setattr(db, "write", changed_meanwhile)
    await mercato.app.store_health.flush()
    assert (await deal.pos.get(path)).json()["orderHandling"] == "automatic"
    async with db.read() as tx:
        assert await list_failing_stores(tx, limit=9) == []


async def test_a_store_without_a_webhook_url_says_so_wherever_its_state_is_shown(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    onboarding = f"/v1/commerce/onboarding/stores/{deal.store['onboardingId']}"
    merchant = await enter_as_partner(mercato, deal.pos)
    operator = await enter_as_operator(mercato)
    front = await enter_as_partner(mercato, deal.front)
    for url, said in ((shop.base + "/hooks", False), (None, True)):
        store = (await deal.pos.call("PUT", path, {"webhookUrl": url})).json()
        read = (await deal.pos.get(path)).json()
        [listed] = (await deal.pos.get("/v1/commerce/stores")).json()["stores"]
        status = (await deal.pos.get(onboarding)).json()
        for one in (store, read, listed, status):
            assert ("ORDERS_UNSEEN" in {warning["code"] for warning in one["warnings"]}) == said
        for browser in (merchant, operator):
            for page in (path.removeprefix("/v1/commerce"), "/stores"):
                assert (ORDERS_UNSEEN_MESSAGE in (await browser.open(f"/console{page}")).text) == said
            assert (
                ORDERS_UNSEEN_MESSAGE in (await browser.post("/console/search", {"text": "Test Store"})).text
            ) == said
        assert (
            ORDERS_UNSEEN_MESSAGE not in (await front.post("/console/search", {"text": "Test Store"})).text
        ), "that is its merchant's"


async def refusing(_request: web.Request, _body: bytes) -> web.Response:
    return web.json_response({"errors": [{"code": "STORE_CLOSED"}]}, status=422)


@on_both
async def test_a_webhook_to_an_endpoint_that_failed_is_no_failed_call_to_the_store(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    store = deal.store["storeId"]
    shop.answers["catalog-sync"] = broken
    endpoint = (await deal.pos.post(ENDPOINTS, {"url": shop.base + "/catalog-sync"})).json()
    menu = cafe()
    menu["items"][next(iter(menu["items"]))]["basePrice"] = "9.99"
    assert (await deal.pos.put(f"/v1/commerce/stores/{store}/catalog", menu)).status == 202
    sent = f"{CALLS}?endpointId={endpoint['endpointId']}"
    await mercato.until(deal.pos, sent, lambda page: page["deliveries"])
    gone = await deal.pos.call("DELETE", f"{ENDPOINTS}/{endpoint['endpointId']}")
    assert gone.status == 204
    await mercato.until(deal.pos, f"{CALLS}?status=failed", lambda page: page["deliveries"])
    merchant = await enter_as_partner(mercato, deal.pos)
    assert "The last call" not in (await merchant.open(f"/console/stores/{store}")).text


async def broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def test_stores_are_listed_with_their_state_first_and_found_by_it(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    paused = await mercato.live(deal.pos, shop.host(cafe(), "/2.json"), name="store-2")
    path = f"/v1/commerce/stores/{paused['storeId']}"
    assert (await deal.pos.call("PUT", path, {"name": "Café Luna"})).status == 200
    pause = {"status": "paused", "pauseReason": "Holiday"}
    assert (await deal.pos.post(f"{path}/status", pause)).status == 200
    merchant = await enter_as_partner(mercato, deal.pos)
    operator = await enter_as_operator(mercato)
    for browser in (merchant, operator):
        page = await browser.open("/console/stores")
        check_frame(page)
        listed = [(row[0], row[1]) for row in page.rows("Stores")]
        assert listed == [("paused", "Café Luna"), ("open", "Test Store")]
        # This one has no webhookUrl.
        assert page.rows("Stores")[0][3] == f"Holiday {ORDERS_UNSEEN_MESSAGE}"
        for filters, names in (
            ({"name": "luna"}, ["Café Luna"]),
            ({"openNow": "true"}, ["Test Store"]),
            ({"inTrouble": "true"}, ["Café Luna"]),
            ({"name": "luna", "openNow": "true"}, []),
            ({"name": "%"}, []),
        ):
            query = "&".join(f"{name}={value}" for name, value in filters.items()).replace("%", "%25")
            found = await browser.open(f"/console/stores?{query}")
            assert [row[1] for row in found.rows("Stores") if len(row) > 1] == names, filters
            said = [one.text for one in found.root.all("span", **{"class": "fault"})]
            assert said == (["No store has this name."] if filters == {"name": "%"} else []), filters
        shown = await browser.open(f"/console/stores/{paused['storeId']}")
        assert "paused" in shown.region("Now")
        assert "Holiday" in shown.region("Now")

    await fail(deal, shop, 2)
    path = f"/console/stores/{deal.store['storeId']}"
    assert (await operator.open("/console/stores?inTrouble=true")).rows("Stores")[1][0] == "unreachable"
    assert "unreachable" in (await merchant.open(path)).region("Now")
    front = await enter_as_partner(mercato, deal.front)
    assert "unreachable" not in (await front.open(path)).text, "how its calls go is the merchant's"
