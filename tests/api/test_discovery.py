"""Decisions §2 "Discover Stores": by place, by words, by what stores offer and whether they are open."""

from typing import Any

import pytest
from tests.service import CATALOG, Client, Merchant, Service

from mercato.partners.model import PartnerKind

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
    """Live stores of one merchant, made and changed in a line."""

    def __init__(self, mercato: Service, pos: Client, shop: Merchant) -> None:
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
async def shops(mercato: Service, pos: Client, shop: Merchant) -> Shops:
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


async def test_a_found_store_is_the_store_that_get_store_answers(shops: Shops, storefront: Client):
    store = await shops.open("One", (1.5, 2.5), description="Good", phone="1", minimumOrderAmount="5")
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
    for query in ("beta", "soup beta", "late soup x", "oodles"):
        assert await names(storefront, query=query) == [], query


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
