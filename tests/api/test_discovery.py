"""Discover Stores: by place, by words, by fulfilment and category, and by opening hours."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, ITEM, SECTION, Client, MerchantServer, Service, service
from tests.waiting import PATIENCE

from mercato.features.discovery.service import LARGE
from mercato.features.partners.model import PartnerKind

pytestmark = mostly_sqlite

DISCOVER = "/v1/marketfront/stores/discover"


@pytest.fixture
async def storefront(mercato: Service) -> Client:
    return (await mercato.partner(PartnerKind.MARKETFRONT))[1]


async def discover(client: Client, **asked: Any) -> Any:
    reply = await client.post(DISCOVER, asked)
    assert reply.status == 200, reply.body
    return reply.json()


async def names(client: Client, **asked: Any) -> list[str]:
    found = await discover(client, **asked)
    assert found["totalCount"] == len(found["stores"])
    assert not found["hasMore"]
    return [store["name"] for store in found["stores"]]


class Shops:
    """Creates and changes live stores of one merchant."""

    def __init__(self, mercato: Service, pos: Client, shop: MerchantServer) -> None:
        self.mercato = mercato
        self.pos = pos
        self.shop = shop
        self.count = 0

    async def open(self, name: str, at: tuple[float, float] | None = None, **change: Any) -> Any:
        self.count += 1
        catalog = change.pop("catalog", CATALOG)
        url = self.shop.host(catalog, f"/{self.count}.json")
        store = await self.mercato.live(self.pos, url, name=f"shop-{self.count}")
        change["name"] = name
        if at is not None:
            change["address"] = {"coordinates": {"lat": at[0], "lng": at[1]}}
        return await self.change(store, **change)

    async def change(self, store: Any, **change: Any) -> Any:
        reply = await self.pos.call("PUT", f"/v1/commerce/stores/{store['storeId']}", change)
        assert reply.status == 200, reply.body
        return reply.json()

    async def pause(self, store: Any, **pause: Any) -> None:
        path = f"/v1/commerce/stores/{store['storeId']}/status"
        reply = await self.pos.post(path, {"status": "paused"} | pause)
        assert reply.status == 200, reply.body


@pytest.fixture
async def shops(mercato: Service, pos: Client, shop: MerchantServer) -> Shops:
    return Shops(mercato, pos, shop)


async def test_by_place_the_nearest_comes_first_with_its_distance(shops: Shops, storefront: Client):
    await shops.open("Far", (40.80, -74.0))
    await shops.open("Near", (40.71, -74.0))
    await shops.open("Elsewhere", (51.5, 0.0))
    await shops.open("Nowhere")
    found = await discover(storefront, location={"latitude": 40.70, "longitude": -74.0})
    assert [store["name"] for store in found["stores"]] == ["Near", "Far"]
    assert [store["distance"] for store in found["stores"]] == [
        pytest.approx(1112, abs=1),
        pytest.approx(11120, abs=10),
    ]
    assert (found["totalCount"], found["hasMore"]) == (2, False)


@on_both
async def test_a_found_store_is_the_store_that_get_store_answers(shops: Shops, storefront: Client):
    # Its zone is named: one that is looked up comes later.
    about = {"description": "Good", "phone": "1", "minimumOrderAmount": "5", "timezone": "Europe/Paris"}
    store = await shops.open("One", (1.5, 2.5), **about)
    await shops.pause(store)
    found = (await discover(storefront, location={"lat": 1.5, "lng": 2.5}))["stores"][0]
    assert found.pop("distance") == 0
    shown = (await storefront.get(f"/v1/marketfront/stores/{store['storeId']}")).json()
    assert found == shown


async def test_by_words_over_names_description_categories_sections_and_items(
    shops: Shops, storefront: Client
):
    await shops.open("Alpha", description="Open late", categories=["Noodles"])
    for query in ("alpha", "ALP", "late", "noodle", "mains", "soup", "soup open", "alpha nood"):
        assert await names(storefront, query=query) == ["Alpha"], query
    for query in ("beta", "soup beta", "late soup x", "oodle"):
        assert await names(storefront, query=query) == [], query


@on_both
async def test_by_fulfilment_category_and_whether_open_now(shops: Shops, storefront: Client):
    await shops.open("A", categories=["Pizza"])
    await shops.open("B", categories=["Sushi bar"], deliveryAllowed=False)
    c = await shops.open("C", pickupAllowed=False)
    await shops.pause(c)
    assert await names(storefront) == ["A", "B", "C"]
    assert await names(storefront, fulfillmentType="pickup") == ["A", "B"]
    assert await names(storefront, fulfillmentType="DELIVERY_BY_MERCHANT") == ["A", "C"]
    assert await names(storefront, categories=["PIZZA", "sushi  BAR"]) == ["A", "B"]
    assert await names(storefront, openNow=True) == ["A", "B"]
    assert await names(storefront, openNow=True, query="soup", fulfillmentType="pickup") == ["A", "B"]


def named(item: str) -> Any:
    return CATALOG | {"items": {ITEM: {"itemId": ITEM, "name": item, "basePrice": "4.50"}}}


async def test_a_new_catalogs_items_are_found_from_the_switch_on_and_the_old_ones_are_not(
    mercato: Service, shops: Shops, storefront: Client, shop: MerchantServer
):
    store = await shops.open("A")
    assert await names(storefront, query="soup") == ["A"]
    run = await mercato.run(shops.pos, store["storeId"], shop.host(named("Dumplings"), "/new.json"))
    assert run["status"] == "succeeded"
    assert await names(storefront, query="soup") == []
    assert await names(storefront, query="dumplings") == ["A"]
    found = (await discover(storefront))["stores"][0]
    shown = (await storefront.get(f"/v1/marketfront/stores/{store['storeId']}")).json()
    assert found == shown
    assert found["catalogSetId"] != store["catalogSetId"]


async def test_a_new_catalogs_hours_count_from_the_switch_on(
    mercato: Service, shops: Shops, storefront: Client, shop: MerchantServer
):
    store = await shops.open("A")
    assert await names(storefront, openNow=True) == ["A"]
    never = CATALOG | {"catalogs": {"c": {"sectionIds": [SECTION], "availability": []}}}
    await mercato.run(shops.pos, store["storeId"], shop.host(never, "/new.json"))
    assert await names(storefront, openNow=True) == []
    assert (await discover(storefront))["stores"][0]["isOpen"] is False


async def test_a_failed_run_changes_nothing_of_what_is_found(
    mercato: Service, shops: Shops, storefront: Client, shop: MerchantServer
):
    store = await shops.open("A")
    run = await mercato.run(shops.pos, store["storeId"], shop.host(b"{", "/new.json"))
    assert run["status"] == "failed"
    assert await names(storefront, query="soup") == ["A"]


@on_both
async def test_an_update_is_found_at_once(shops: Shops, storefront: Client):
    store = await shops.open("Before", description="Old words")
    await shops.change(store, name="After", description=None, categories=["Bakery"])
    assert await names(storefront, query="before") == []
    assert await names(storefront, query="words") == []
    assert await names(storefront, query="after bakery") == ["After"]
    await shops.pause(store)
    assert await names(storefront, openNow=True) == []
    await shops.pos.post(f"/v1/commerce/stores/{store['storeId']}/status", {"status": "online"})
    assert await names(storefront, openNow=True) == ["After"]


@on_both
async def test_a_found_store_lists_its_sold_out_items(shops: Shops, storefront: Client):
    store = await shops.open("A")
    items = [{"itemId": ITEM, "available": False}]
    await shops.pos.post(f"/v1/commerce/stores/{store['storeId']}/item-availability", {"items": items})
    assert (await discover(storefront))["stores"][0]["unavailableItemIds"] == [ITEM]


async def test_only_live_stores_are_found(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client, shops: Shops
):
    ready = await mercato.onboard(pos, shop.host(CATALOG), name="ready")
    assert ready["status"] == "ready_to_activate"
    cancelled = await mercato.onboard(pos, shop.host(CATALOG), name="cancelled")
    await pos.call("DELETE", f"/v1/commerce/onboarding/stores/{cancelled['onboardingId']}")
    assert await names(storefront) == []
    await pos.post(f"/v1/commerce/onboarding/stores/{ready['onboardingId']}/activate")
    assert await names(storefront) == ["Test Store"]


async def placed(client: Client, where: Any, expected: list[str]) -> None:
    """Wait for the background to find a place."""
    async with asyncio.timeout(PATIENCE):
        while await names(client, location=where) != expected:
            await asyncio.sleep(0.02)


MANHATTAN = {"lat": 40.7506, "lng": -73.9972}
BEVERLY_HILLS = {"lat": 34.0901, "lng": -118.4065}


@on_both
async def test_a_new_address_is_looked_up_and_its_time_zone_with_it(shops: Shops, storefront: Client):
    store = await shops.open("A", address={"postalCode": "10001", "country": "US"})
    await placed(storefront, MANHATTAN, ["A"])
    assert (await discover(storefront))["stores"][0]["timezone"] == "America/New_York"
    await shops.change(store, address={"postalCode": "90210", "country": "US"})
    await placed(storefront, BEVERLY_HILLS, ["A"])
    assert await names(storefront, location=MANHATTAN) == []
    assert (await discover(storefront))["stores"][0]["timezone"] == "America/Los_Angeles"


async def test_a_store_whose_new_address_is_unknown_has_no_location(shops: Shops, storefront: Client):
    store = await shops.open("A", (40.75, -73.99))
    await shops.change(store, address={"street": "1 Nowhere Lane", "country": "ZZ"})
    assert await names(storefront, location=MANHATTAN) == []
    assert await names(storefront, query="a") == ["A"]


@on_both
async def test_the_same_address_again_keeps_its_place(shops: Shops, storefront: Client):
    address = {"street": "1 Main St", "city": "Town", "country": "ZZ"}
    store = await shops.open("A", address=address | {"coordinates": MANHATTAN})
    await shops.change(store, address=address)
    assert await names(storefront, location=MANHATTAN) == ["A"]


@on_both
async def test_a_time_zone_that_was_named_stays_when_the_store_moves(shops: Shops, storefront: Client):
    store = await shops.open("A", timezone="Europe/Berlin", address={"postalCode": "10001", "country": "US"})
    await placed(storefront, MANHATTAN, ["A"])
    await shops.change(store, address={"coordinates": BEVERLY_HILLS})
    await placed(storefront, BEVERLY_HILLS, ["A"])
    assert (await discover(storefront))["stores"][0]["timezone"] == "Europe/Berlin"


BAD: dict[str, tuple[Any, int, list[str]]] = {
    "no object": ([], 400, [""]),
    "location isn't an object": ({"location": "here"}, 400, ["/location"]),
    "an empty location": ({"location": {}}, 400, ["/location"]),
    "half a location": ({"location": {"latitude": 1}}, 400, ["/location"]),
    "the other half": ({"location": {"lng": 1}}, 400, ["/location"]),
    "a latitude out of range": (
        {"location": {"latitude": 90.1, "longitude": 0}},
        422,
        ["/location/latitude"],
    ),
    "a longitude out of range": ({"location": {"lat": 0, "lng": -180.1}}, 422, ["/location/lng"]),
    "a latitude that is a text": (
        {"location": {"latitude": "1", "longitude": 0}},
        400,
        ["/location/latitude"],
    ),
    "a negative radius": ({"radius": -1}, 422, ["/radius"]),
    "a radius beyond the largest": ({"radius": 1_000_001}, 422, ["/radius"]),
    "another fulfilment": ({"fulfillmentType": "DINE_IN"}, 422, ["/fulfillmentType"]),
    "a fulfilment that is a number": ({"fulfillmentType": 1}, 400, ["/fulfillmentType"]),
    "a query that is too long": ({"query": "x" * 201}, 422, ["/query"]),
    "a query with a NUL": ({"query": "a\0b"}, 422, ["/query"]),
    "categories as a text": ({"categories": "Pizza"}, 400, ["/categories"]),
    "too many categories": ({"categories": ["x"] * 1001}, 422, ["/categories"]),
    "openNow as a text": ({"openNow": "yes"}, 400, ["/openNow"]),
    "a negative offset": ({"offset": -1}, 422, ["/offset"]),
    "a limit of 0": ({"limit": 0}, 422, ["/limit"]),
    "a limit beyond 100": ({"limit": 101}, 422, ["/limit"]),
    "all faults at once": ({"limit": 0, "offset": -1, "radius": -1}, 422, ["/limit", "/offset", "/radius"]),
}


@on_both
async def test_what_cannot_be_searched_for_is_refused_with_pointers(mercato: Service, storefront: Client):
    for name, (body, status, pointers) in BAD.items():
        reply = await storefront.post(DISCOVER, body)
        assert reply.status == status, (name, reply.body)
        assert sorted(fault["pointer"] for fault in reply.json()["errors"]) == pointers, name


@on_both
async def test_a_store_has_a_thousand_categories_and_is_found_by_the_last_of_as_many(
    shops: Shops, storefront: Client
):
    categories = [f"kitchen {number}" for number in range(998)]
    await shops.open("A", categories=[*categories, "Tacos", "Pho"])
    await shops.open("B")
    asked = [f"other {number}" for number in range(998)]
    assert await names(storefront, categories=[*asked, "more", "pho"]) == ["A"]
    assert await names(storefront, categories=[*asked, "more", "sushi"]) == []


async def test_null_is_absent_and_unknown_members_are_ignored(shops: Shops, storefront: Client):
    await shops.open("A")
    members = ("location", "radius", "fulfillmentType", "query", "categories", "openNow", "offset", "limit")
    assert await names(storefront, **dict.fromkeys(members), page=7) == ["A"]
    assert await names(storefront, limit=2.0) == ["A"]


async def test_discovery_has_its_own_window_of_60_a_minute(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path / "data", rate_limits=True) as mercato:
        client = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
        reply = await client.post(DISCOVER, {})
        assert (reply.headers["X-RateLimit-Limit"], reply.headers["X-RateLimit-Remaining"]) == ("60", "59")
        assert reply.headers["Cache-Control"] == "no-store"


@on_both
async def test_concurrent_changes_leave_consistent_entries(
    shops: Shops, storefront: Client, mercato: Service, shop: MerchantServer
):
    store = await shops.open("A")
    await asyncio.gather(
        *(shops.change(store, description=f"word{number}") for number in range(5)),
        shops.change(store, name="Renamed"),
        mercato.run(shops.pos, store["storeId"], shop.host(named("Dumplings"), "/new.json")),
        shops.change(store, categories=["Bakery"]),
    )
    assert await names(storefront, query="renamed bakery dumplings") == ["Renamed"]
    found = (await discover(storefront))["stores"][0]
    assert found == (await storefront.get(f"/v1/marketfront/stores/{store['storeId']}")).json()
    assert len(await names(storefront, query="word")) == 1
    assert await names(storefront, query="soup") == []


@pytest.mark.parametrize("large", [0, LARGE])
@on_both
async def test_a_found_store_lists_the_items_that_are_sold_out_now(
    mercato: Service, shop: MerchantServer, storefront: Client, large: int
):
    _, pos = await mercato.partner()
    ids = sorted(str(uuid4()) for _ in range(5))
    shops = Shops(mercato, pos, shop)
    menu = {"items": {one: {"name": "Soup", "basePrice": "4.50"} for one in ids}}
    store = await shops.open("Some", catalog=menu)
    await shops.open("None", catalog=menu)
    items = [{"itemId": one, "available": False} for one in reversed(ids[1:])]
    reply = await pos.post(f"/v1/commerce/stores/{store['storeId']}/item-availability", {"items": items})
    assert reply.status == 200, reply.body
    with patch("mercato.features.discovery.service.LARGE", large):
        found = await discover(storefront, query="soup")
    listed = {one["name"]: one["unavailableItemIds"] for one in found["stores"]}
    assert listed == {"Some": ids[1:], "None": []}
