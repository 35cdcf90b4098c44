"""The state of a store in words: trouble first, then until when it is open or closed, then why."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from tests.api.trade import VALIDATE, trade
from tests.catalog.documents import cafe
from tests.console.test_screens import check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.service import MerchantServer, Service

from mercato.console import store_states
from mercato.console.store_states import state_of
from mercato.features.stores.operators import StoreSummary
from mercato.features.stores.search import Opening
from mercato.features.webhooks.endpoint_health import FailingStore
from mercato.platform import clock
from mercato_contract.stores import StoreStatusValue

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
        "created_at": NOW,
        "updated_at": NOW,
    }
    return StoreSummary(**values | members)


def opening(*, is_open: bool, hours: float | None) -> Opening:
    return Opening(is_open, None if hours is None else NOW + timedelta(hours=hours), "Europe/Rome")


PAUSED = StoreStatusValue.PAUSED
ALWAYS = opening(is_open=True, hours=None)
BREAK = {"status": PAUSED, "resume_at": NOW + timedelta(hours=1), "pause_reason": "Holiday"}


@pytest.mark.parametrize(
    ("store", "hours", "failing", "words", "why", "is_trouble"),
    [
        ({}, opening(is_open=True, hours=2), False, "open", "until 21:20", False),
        ({}, ALWAYS, False, "open", "all the time", False),
        ({}, opening(is_open=False, hours=48), False, "closed until Sunday 19:20", "hours", False),
        ({}, opening(is_open=False, hours=216), False, "closed until 2026-02-08 19:20", "hours", False),
        ({}, opening(is_open=False, hours=None), False, "closed", "no hours", True),
        ({}, ALWAYS, True, "unreachable", "10 minutes", True),
        ({"status": PAUSED}, ALWAYS, True, "paused", "no reason", True),
        (BREAK, ALWAYS, False, "paused until 20:20", "Holiday", True),
        ({"suspended": True}, None, False, "hidden", "suspended", True),
        ({}, None, False, "closed", "don't find", True),
    ],
)
def test_a_store_is_open_closed_until_paused_or_unreachable(
    store: dict[str, Any], hours: Opening | None, failing: bool, words: str, why: str, is_trouble: bool
):
    state = state_of(summary(**store), hours, failing=failing, now=NOW)
    assert (state.words, state.is_trouble) == (words, is_trouble)
    assert why in state.why
    assert (state.advice is not None) == is_trouble, "what to do about it"
    assert ("by itself" in (state.advice or "")) == ("paused until" in words)


async def test_a_store_is_unreachable_from_its_third_failed_call_until_one_succeeds(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    merchant, _ = await enter_as_partner(mercato, deal.pos)
    operator, _ = await enter_as_operator(mercato)
    path = f"/console/stores/{deal.store['storeId']}"
    working = shop.answers["validate"]
    shop.answers["validate"] = broken
    for calls in range(1, 4):
        assert "unreachable" not in (await merchant.open(path)).region("Now"), calls
        await deal.front.post(VALIDATE, deal.order())
        await mercato.until(deal.pos, f"{CALLS}?status=failed", lambda page: len(page["deliveries"]) == calls)  # noqa: B023
    assert "unreachable" in (await merchant.open(path)).region("Now")
    assert "The last call to the store failed. order.validate: " in (await merchant.open(path)).text
    for browser in (merchant, operator):
        assert (await browser.open("/console/stores")).rows("Stores")[0][0] == "unreachable"
    assert "unreachable" in (await operator.open("/console/health")).text
    shop.answers["validate"] = working
    await deal.validate(deal.order())
    await mercato.until(deal.pos, f"{CALLS}?status=succeeded", lambda page: page["deliveries"])
    assert "unreachable" not in (await merchant.open(path)).region("Now"), "the last call succeeded"
    assert "The last call" not in (await merchant.open(path)).text


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
    merchant, _ = await enter_as_partner(mercato, deal.pos)
    assert "The last call" not in (await merchant.open(f"/console/stores/{store}")).text


async def broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def test_stores_are_listed_with_their_state_first_and_found_by_it(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    deal = await trade(mercato, shop)
    paused = await mercato.live(deal.pos, shop.host(cafe(), "/2.json"), name="store-2")
    path = f"/v1/commerce/stores/{paused['storeId']}"
    assert (await deal.pos.call("PUT", path, {"name": "Café Luna"})).status == 200
    pause = {"status": "paused", "pauseReason": "Holiday"}
    assert (await deal.pos.post(f"{path}/status", pause)).status == 200
    merchant, _ = await enter_as_partner(mercato, deal.pos)
    operator, _ = await enter_as_operator(mercato)
    for browser in (merchant, operator):
        page = await browser.open("/console/stores")
        check_frame(page)
        listed = [(row[0], row[1]) for row in page.rows("Stores")]
        assert listed == [("paused", "Café Luna"), ("open", "Test Store")]
        assert page.rows("Stores")[0][3] == "Holiday"
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

    async def failing(_tx: Any, **_options: Any) -> list[FailingStore]:
        return [FailingStore(UUID(deal.store["storeId"]), 9, 9)]

    monkeypatch.setattr(store_states, "list_failing_stores", failing)
    path = f"/console/stores/{deal.store['storeId']}"
    assert (await operator.open("/console/stores?inTrouble=true")).rows("Stores")[1][0] == "unreachable"
    assert "unreachable" in (await merchant.open(path)).region("Now")
    front, _ = await enter_as_partner(mercato, deal.front)
    assert "unreachable" not in (await front.open(path)).text, "how its calls go is the merchant's"
