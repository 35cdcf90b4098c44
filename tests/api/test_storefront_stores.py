"""A store as storefronts see it, and whether it is open and why."""

from typing import Any
from uuid import uuid4

import pytest
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, ITEM, SECTION, Client, MerchantServer, Service
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/marketfront/stores"
LUNCH = [{"dayOfWeek": "Monday", "start": "11:30:00", "end": "14:00:00"}]
NIGHT = [
    {"dayOfWeek": "Saturday", "start": "22:00:00", "end": "00:00:00"},
    {"dayOfWeek": "Sunday", "start": "00:00:00", "end": "02:00:00"},
]


@pytest.fixture
async def storefront(mercato: Service) -> Client:
    return (await mercato.partner(PartnerKind.MARKETFRONT))[1]


def with_hours(*catalogs: Any) -> Any:
    made = {f"c{n}": {"sectionIds": [SECTION], "availability": hours} for n, hours in enumerate(catalogs)}
    return CATALOG | {"catalogs": made}


async def at(client: Client, store: Any, instant: str) -> tuple[bool, str]:
    reply = await client.get(f"{STORES}/{store['storeId']}/availability", params={"at": instant})
    assert reply.status == 200, reply.body
    return reply.json()["isOpen"], reply.json()["reason"]


@on_both
async def test_a_store_is_shown_with_shape_b_hours_and_what_is_sold_out(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"/v1/commerce/stores/{store['storeId']}"
    change = {
        "address": {"street": "1 Main St", "coordinates": {"lat": 1.5, "lng": 2.5}},
        "deliveryAllowed": False,
    }
    await pos.call("PUT", path, change | {"minimumOrderAmount": "5"})
    await pos.post(f"{path}/item-availability", {"items": [{"itemId": ITEM, "available": False}]})
    reply = await storefront.get(f"{STORES}/{store['storeId']}")
    assert reply.headers["Cache-Control"] == "no-store"
    shown = reply.json()
    assert shown["address"] == {
        "address1": "1 Main St",
        "address2": None,
        "city": None,
        "coordinates": {"lat": 1.5, "lng": 2.5},
        "postalCode": None,
        "state": None,
    }
    assert (shown["isOpen"], shown["status"], shown["fulfillmentTypes"]) == (True, "online", ["PICKUP"])
    assert (shown["minimumOrderAmount"], shown["unavailableItemIds"]) == ("5.00", [ITEM])
    assert [window["dayOfWeek"] for window in shown["availability"]] == [
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
    ]  # fmt: skip
    assert {(window["start"], window["end"]) for window in shown["availability"]} == {
        ("00:00:00", "00:00:00")
    }
    assert "webhookUrl" not in shown
    assert "partnerStoreId" not in shown


@on_both
async def test_a_paused_store_is_closed_and_says_so(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
):
    store = await mercato.live(pos, shop.host(CATALOG))
    pause = {"status": "paused", "resumeAt": "2099-01-01T00:00:00Z"}
    await pos.post(f"/v1/commerce/stores/{store['storeId']}/status", pause)
    shown = (await storefront.get(f"{STORES}/{store['storeId']}")).json()
    assert (shown["isOpen"], shown["status"]) == (False, "paused")
    assert (shown["opensAt"], shown["closesAt"]) == ("2099-01-01T00:00:00.000Z", None)
    assert await at(storefront, store, "2098-12-31T23:59:59Z") == (False, "PAUSED")
    # At the instant of its end the pause is over.
    assert await at(storefront, store, "2099-01-01T00:00:00Z") == (True, "OPEN")


@on_both
async def test_hours_are_local_across_midnight_and_changes_of_the_clock(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
):
    store = await mercato.live(pos, shop.host(with_hours(LUNCH, NIGHT)))
    await pos.call("PUT", f"/v1/commerce/stores/{store['storeId']}", {"timezone": "America/New_York"})
    # 2026-03-08 is the Sunday on which New York goes from 02:00 to 03:00.
    expected = {
        "2026-03-08T03:00:00Z": True,  # Saturday 22:00 in winter time
        "2026-03-08T04:59:59Z": True,  # Saturday 23:59:59
        "2026-03-08T05:00:00Z": True,  # Sunday 00:00
        "2026-03-08T06:59:59Z": True,  # Sunday 01:59:59
        "2026-03-08T07:00:00Z": False,  # Sunday 03:00 in summer time
        "2026-03-09T15:30:00Z": True,  # Monday 11:30 in summer time
        "2026-03-09T18:00:00Z": False,  # Monday 14:00: a window ends before its end
        "2026-03-02T16:30:00Z": True,  # Monday 11:30 in winter time
        "2026-03-02T15:30:00Z": False,
    }
    assert {when: (await at(storefront, store, when))[0] for when in expected} == expected
    path = f"{STORES}/{store['storeId']}/availability"
    for when, opens_at, closes_at in (
        ("2026-03-08T03:00:00Z", None, "2026-03-08T07:00:00.000Z"),
        ("2026-03-08T07:00:00Z", "2026-03-09T15:30:00.000Z", None),
    ):
        found = (await storefront.get(path, params={"at": when})).json()
        assert (found["opensAt"], found["closesAt"]) == (opens_at, closes_at)
    last = (await storefront.get(path, params={"at": "9998-12-31T23:59:59Z"})).json()
    assert last["opensAt"] == "9999-01-03T03:00:00.000Z"


async def test_windows_of_all_catalogs_are_shown_merged(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
):
    late = [{"dayOfWeek": "Monday", "start": "13:00:00", "end": "00:00:00"}]
    store = await mercato.live(pos, shop.host(with_hours(LUNCH, late)))
    shown = (await storefront.get(f"{STORES}/{store['storeId']}")).json()
    assert shown["availability"] == [{"dayOfWeek": "Monday", "start": "11:30:00", "end": "00:00:00"}]
    never = await mercato.live(pos, shop.host(with_hours([]), "/never.json"), name="never")
    shown = (await storefront.get(f"{STORES}/{never['storeId']}")).json()
    assert (shown["availability"], shown["isOpen"]) == ([], False)


async def test_an_unknown_store_is_404_and_an_instant_without_offset_422(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
):
    assert (await storefront.get(f"{STORES}/{uuid4()}")).json()["errorCode"] == "STORE_NOT_FOUND"
    store = await mercato.live(pos, shop.host(CATALOG))
    reply = await storefront.get(f"{STORES}/{store['storeId']}/availability?at=2026-01-01T00:00:00")
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (422, None)


async def test_local_time_has_four_digits_of_the_year_however_long_ago(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
):
    store = await mercato.live(pos, shop.host(CATALOG))
    reply = await storefront.get(f"{STORES}/{store['storeId']}/availability?at=0999-06-01T12:34:56.789Z")
    assert reply.json()["localTime"] == "0999-06-01T12:34:56"


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
async def test_an_instant_at_the_end_of_the_calendar_is_422_in_every_zone(
    mercato: Service, pos: Client, storefront: Client, shop: MerchantServer, at: str
):
    store = await mercato.live(pos, shop.host(CATALOG))
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        changed = await pos.call("PUT", f"/v1/commerce/stores/{store['storeId']}", {"timezone": zone})
        assert changed.status == 200
        reply = await storefront.get(f"{STORES}/{store['storeId']}/availability?at={at}")
        assert reply.status == 422, reply.body
