"""An instant may be any of the calendar's, also the first and the last that programs send for "always" and "never"."""

from typing import Any

import pytest
from tests.api.test_order_handling import handled
from tests.api.trade import MERCHANT, ORDERS, trade
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import first_on_postgresql, mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

pytestmark = [shared, mostly_sqlite]

FIRST, LAST = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"
WEST, EAST = "Pacific/Honolulu", "Pacific/Kiritimati"


@own()
@on_both
@first_on_postgresql
@pytest.mark.parametrize("timezone", [WEST, EAST])
@pytest.mark.parametrize("handling", ["manual", "webhook"])
async def test_an_order_may_be_promised_for_any_instant_and_everybody_can_read_it(
    mercato: Service, shop: MerchantServer, handling: str, timezone: str
):
    deal = await trade(mercato, shop)
    await handled(deal, orderHandling=handling, timezone=timezone)
    people = [await enter_as_partner(mercato, one) for one in (deal.pos, deal.front)]
    people.append(await enter_as_operator(mercato))
    promised: list[tuple[str, Any]] = []
    for at in (FIRST, LAST):
        shop.answers["place"] = {"accepted": True, "estimatedReadyAt": at}
        promised.append((at, await deal.placed()))
    paths = [f"/console/orders/{order['orderId']}" for _, order in promised]
    for status in ("confirmed", "preparing", "ready"):
        for at, order in promised:
            change = {"status": status, "estimatedReadyAt": at, "estimatedDeliveryAt": at}
            assert (await deal.update(order, **change)).status == 200
        # The lists and the board show both at once.
        for person in people:
            for page in (*paths, "/console/orders", "/console/overview", "/console/board"):
                shown = await person.open(page)
                assert shown.status in {200, 403, 404}, (page, shown.text[:300])
        for path in paths if handling == "manual" else ():
            assert (await people[0].open(f"{path}/ticket")).status == 200
    for at, order in promised:
        for client, prefix in ((deal.pos, MERCHANT), (deal.front, ORDERS)):
            read = (await client.get(f"{prefix}/{order['orderId']}")).json()
            assert read["estimatedReadyAt"] == at


@on_both
@pytest.mark.parametrize("timezone", [WEST, EAST])
async def test_a_store_may_be_paused_until_the_last_instant(
    mercato: Service, shop: MerchantServer, timezone: str
):
    deal = await trade(mercato, shop)
    await handled(deal, timezone=timezone)
    store = f"/v1/commerce/stores/{deal.store['storeId']}"
    paused = await deal.pos.post(f"{store}/status", {"status": "paused", "resumeAt": LAST})
    assert (paused.status, paused.json()["resumeAt"]) == (200, LAST)
    front = f"/v1/marketfront/stores/{deal.store['storeId']}"
    for path in (front, f"{front}/availability", f"{front}/availability?at=9998-12-31T23:59:59Z"):
        assert (await deal.front.get(path)).status == 200
    assert (await deal.validate(deal.order()))["order"]["errors"][0]["code"] == "STORE_CLOSED"
    assert (await deal.front.post("/v1/marketfront/stores/discover", {"openNow": False})).status == 200
    for client in (deal.pos, deal.front):
        browser = await enter_as_partner(mercato, client)
        for page in ("stores", f"stores/{deal.store['storeId']}", "overview"):
            assert (await browser.open(f"/console/{page}")).status == 200


async def test_an_instant_that_no_calendar_has_in_utc_is_refused_for_what_it_is(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    path = f"/v1/commerce/stores/{deal.store['storeId']}/status"
    refused = await deal.pos.post(path, {"status": "paused", "resumeAt": "0001-01-01T00:00:00+14:00"})
    assert refused.status == 422
    assert "resumeAt is before the year 1 in UTC" in refused.json()["detail"]
    scheduled = {"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": "9999-12-31T23:59:59-01:00"}
    order = await deal.front.post(f"{ORDERS}/validate", deal.order(fulfillment=scheduled))
    assert order.status == 422
    assert "scheduledTime is after the year 9999 in UTC" in order.json()["detail"]


async def test_lists_and_redeliveries_begin_and_end_at_any_instant(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    for query, found in ((f"since={FIRST}", True), (f"since={LAST}", False)):
        listed = (await deal.front.get(f"{ORDERS}?{query}")).json()["orders"]
        assert [one["orderId"] for one in listed] == ([order["orderId"]] if found else [])
        for path in ("requests", "webhook-deliveries"):
            assert (await deal.front.get(f"/v1/marketfront/{path}?{query}")).status == 200
    body: dict[str, Any] = {"since": FIRST, "until": LAST}
    assert (await deal.front.post("/v1/marketfront/webhook-deliveries/redeliver", body)).status == 202


@pytest.mark.parametrize("at", [FIRST, LAST, "0001-06-01T00:00:00Z", "9999-06-01T00:00:00Z"])
async def test_the_availability_of_a_year_that_lacks_local_times_is_refused_with_the_years_that_it_has(
    mercato: Service, shop: MerchantServer, at: str
):
    deal = await trade(mercato, shop)
    reply = await deal.front.get(f"/v1/marketfront/stores/{deal.store['storeId']}/availability?at={at}")
    assert reply.status == 422
    assert reply.json()["errors"][0]["message"] == "at must be of the years 2 to 9998."
