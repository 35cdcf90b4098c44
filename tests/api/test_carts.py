"""The cart helpers over the wire."""

import json
from typing import Any
from uuid import uuid4

import pytest
from tests.api.examples import in_turn
from tests.catalog.documents import CAKE, EXTRAS, HOT, LEMON, MILK, TEA, cafe
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.live_stores import live_store
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind

pytestmark = [shared, mostly_sqlite]

CARTS = "/v1/marketfront/carts"


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await live_store(mercato, pos, shop, cafe(), webhook=False)


@pytest.fixture
async def front(mercato: Service) -> Client:
    """A storefront with its marketfront key."""
    return (await mercato.partner(PartnerKind.MARKETFRONT))[1]


def line(item: str, quantity: int = 1, *groups: Any, **more: Any) -> dict[str, Any]:
    return {"itemId": item, "quantity": quantity, "modifierGroups": list(groups)} | more


def extras(*lines: Any) -> dict[str, Any]:
    return {"modifierGroupId": EXTRAS, "lineItems": list(lines)}


def new_cart(store: Any, item: Any) -> dict[str, Any]:
    return {"storeId": store["storeId"], "catalogSetId": store["catalogSetId"], "item": item}


async def add(front: Client, store: Any, item: Any, cart: Any = None) -> Any:
    body = new_cart(store, item) if cart is None else {"cart": cart, "item": item}
    reply = await front.post(f"{CARTS}/add", body)
    assert reply.status == 200, reply.body
    return reply.json()


async def test_a_cart_is_made_grown_changed_and_emptied(front: Client, store: Any):
    cart = await add(front, store, line(TEA, 2, extras(line(MILK, 1), line(LEMON, 1))))
    assert (cart["storeId"], cart["catalogSetId"]) == (store["storeId"], store["catalogSetId"])
    assert cart["amounts"] == {"currency": "USD", "subTotal": "5.80", "total": "5.80"}
    (tea,) = cart["lineItems"]
    assert tea["amounts"] == {"unitPrice": "2.90", "total": "5.80"}
    assert "unavailable" not in tea
    milk, lemon = tea["modifierGroups"][0]["lineItems"]
    assert milk["lineItemId"] != lemon["lineItemId"] != tea["lineItemId"]
    assert "amounts" not in milk

    more = await add(front, store, line(TEA, 1, extras(line(LEMON, 1), line(MILK, 1))), cart)
    assert [(one["lineItemId"], one["quantity"]) for one in more["lineItems"]] == [(tea["lineItemId"], 3)]
    assert more["lineItems"][0]["modifierGroups"] == tea["modifierGroups"]
    assert more["amounts"]["total"] == "8.70"

    both = await add(front, store, line(CAKE), more)
    assert [one["itemId"] for one in both["lineItems"]] == [TEA, CAKE]

    change = {"cart": both, "lineItemId": milk["lineItemId"]}
    plainer = (await front.post(f"{CARTS}/remove", change)).json()
    assert plainer["lineItems"][0]["amounts"] == {"unitPrice": "2.60", "total": "7.80"}

    change = {"cart": plainer, "lineItemId": tea["lineItemId"].upper(), "quantity": 0}
    cake_alone = (await front.post(f"{CARTS}/update", change)).json()
    assert cake_alone["amounts"]["total"] == "4.00"

    change = {"cart": cake_alone, "lineItemId": cake_alone["lineItems"][0]["lineItemId"]}
    empty = (await front.post(f"{CARTS}/remove", change)).json()
    assert empty["lineItems"] == []
    assert empty["amounts"] == {"currency": "USD", "subTotal": "0.00", "total": "0.00"}
    body = {"cart": empty, "item": line(CAKE)}
    refused = await front.post(f"{CARTS}/add", body)
    assert (refused.status, refused.json()["errorCode"]) == (400, "MISSING_STORE_ID")
    # An empty cart is a new one, whatever it carries.
    body |= {"storeId": empty["storeId"], "catalogSetId": empty["catalogSetId"]}
    again = await front.post(f"{CARTS}/add", body)
    assert again.json()["amounts"]["total"] == "4.00"


async def test_a_new_cart_without_store_or_set_is_refused_with_its_code(front: Client, store: Any):
    for gone, code in (("storeId", "MISSING_STORE_ID"), ("catalogSetId", "CATALOGSET_REQUIRED")):
        body = new_cart(store, line(TEA)) | {gone: None}
        reply = await front.post(f"{CARTS}/add", body)
        assert (reply.status, reply.json()["errorCode"]) == (400, code)


async def test_an_unknown_store_and_a_set_that_is_not_the_stores_are_404(
    mercato: Service, front: Client, store: Any, shop: MerchantServer
):
    _, rival = await mercato.partner()
    other = await mercato.live(rival, shop.host(CATALOG, "/other.json"))
    for change, code in (
        ({"storeId": str(uuid4())}, "STORE_NOT_FOUND"),
        ({"catalogSetId": str(uuid4())}, "CATALOGSET_NOT_FOUND"),
        ({"catalogSetId": other["catalogSetId"]}, "CATALOGSET_NOT_FOUND"),
    ):
        reply = await front.post(f"{CARTS}/add", new_cart(store, line(TEA)) | change)
        assert (reply.status, reply.json()["errorCode"]) == (404, code)
        cart = {name: new_cart(store, None)[name] for name in ("storeId", "catalogSetId")} | change
        cart["lineItems"] = [line(TEA, lineItemId=str(uuid4()))]
        body = {"cart": cart, "lineItemId": cart["lineItems"][0]["lineItemId"]}
        reply = await front.post(f"{CARTS}/remove", body)
        assert (reply.status, reply.json()["errorCode"]) == (404, code)


@on_both
async def test_a_cart_of_a_superseded_set_is_rebased_while_every_line_resolves(
    mercato: Service, pos: Client, front: Client, store: Any, shop: MerchantServer
):
    old = await add(front, store, line(TEA, 1, extras(line(MILK))))
    old = await add(front, store, line(CAKE), old)
    document = cafe()
    document["items"][TEA]["basePrice"] = "3.00"
    await mercato.run(pos, store["storeId"], shop.host(document))
    new = await add(front, store, line(CAKE), old)
    assert new["catalogSetId"] != old["catalogSetId"]
    assert new["amounts"]["total"] == "11.30"

    document["modifierGroups"][EXTRAS]["itemIds"] = [LEMON]
    document["sections"][HOT]["itemIds"] = [TEA]
    del document["items"][CAKE]
    ended = await mercato.run(pos, store["storeId"], shop.host(document))
    assert ended["status"] == "succeeded", ended
    refused = await front.post(f"{CARTS}/add", {"cart": new, "item": line(TEA)})
    assert (refused.status, refused.json()["errorCode"]) == (400, "ITEM_UNAVAILABLE")
    assert [(one["code"], one["pointer"]) for one in refused.json()["errors"]] == [
        ("ITEM_UNAVAILABLE", "/cart/lineItems/0/modifierGroups/0/lineItems/0"),
        ("ITEM_UNAVAILABLE", "/cart/lineItems/1"),
    ]

    body = {"cart": new, "lineItemId": new["lineItems"][1]["lineItemId"], "quantity": 0}
    mended = await front.post(f"{CARTS}/update", body)
    assert mended.status == 200
    cart = mended.json()
    assert "amounts" not in cart
    (tea,) = cart["lineItems"]
    assert (tea["unavailable"], "amounts" in tea) == (True, False)
    (milk,) = tea["modifierGroups"][0]["lineItems"]
    assert milk["unavailable"] is True
    whole = await front.post(f"{CARTS}/remove", {"cart": cart, "lineItemId": milk["lineItemId"]})
    assert whole.json()["amounts"]["total"] == "3.00"


async def test_an_item_that_is_sold_out_now_cannot_be_added_until_it_is_back(
    pos: Client, front: Client, store: Any
):
    path = f"/v1/commerce/stores/{store['storeId']}/item-availability"
    await pos.post(path, {"items": [{"itemId": CAKE, "available": False}]})
    refused = await front.post(f"{CARTS}/add", new_cart(store, line(CAKE)))
    assert (refused.status, refused.json()["errorCode"]) == (400, "ITEM_UNAVAILABLE")
    assert refused.json()["errors"][0]["pointer"] == "/item"
    await pos.post(path, {"items": [{"itemId": CAKE, "available": True}]})
    await add(front, store, line(CAKE))


async def test_a_paused_store_does_not_stop_a_cart(pos: Client, front: Client, store: Any):
    await pos.post(f"/v1/commerce/stores/{store['storeId']}/status", {"status": "paused"})
    await add(front, store, line(CAKE))


async def test_modifier_rules_are_422_with_a_pointer_into_the_request(front: Client, store: Any):
    reply = await front.post(f"{CARTS}/add", new_cart(store, line(TEA, 1, extras(line(MILK, 3)))))
    assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED")
    (fault,) = reply.json()["errors"]
    assert (fault["code"], fault["pointer"]) == ("MODIFIER_LIMIT_EXCEEDED", "/item/modifierGroups/0")


@only_sqlite
async def test_an_unknown_line_item_is_404(front: Client, store: Any):
    cart = await add(front, store, line(CAKE))
    for name, more in (("remove", {}), ("update", {"quantity": 2}), ("update", {"quantity": 0})):
        reply = await front.post(f"{CARTS}/{name}", {"cart": cart, "lineItemId": str(uuid4())} | more)
        assert (reply.status, reply.json()["errorCode"]) == (404, "LINE_ITEM_NOT_FOUND")


@only_sqlite
@in_turn(
    ("quantity", "status"),
    [(0, 422), (-1, 422), (2**31, 422), (10**400, 422), ("1", 400), (1.5, 400), (2.0, 200)],
)
async def test_a_quantity_is_an_int32_of_at_least_one(front: Client, store: Any, quantity: Any, status: int):
    reply = await front.post(f"{CARTS}/add", new_cart(store, line(TEA, quantity)))
    assert reply.status == status, reply.body


@only_sqlite
async def test_two_hundred_lines_and_depth_eight_are_the_most(front: Client, store: Any):
    cart = new_cart(store, None) | {"lineItems": [line(CAKE, 1, lineItemId=str(uuid4()))] * 201}
    body = {"cart": cart, "lineItemId": str(uuid4())}
    reply = await front.post(f"{CARTS}/remove", body)
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (422, "/cart/lineItems")
    deep = line(TEA)
    for _ in range(9):
        deep = line(TEA, 1, extras(deep))
    reply = await front.post(f"{CARTS}/add", new_cart(store, deep))
    assert reply.status == 422
    assert reply.json()["errors"][0]["message"] == "Modifiers may be nested at most 8 deep."


@only_sqlite
@in_turn("depth", [50, 200, 1000, 3000])
async def test_modifiers_that_are_nested_at_any_depth_are_422(front: Client, store: Any, depth: int):
    before, after = json.dumps(line(TEA, 1, extras("@"))).split('"@"')
    deep = f"{before * depth}{json.dumps(line(TEA))}{after * depth}"
    body = json.dumps(new_cart(store, "@")).replace('"@"', deep)
    reply = await front.post(f"{CARTS}/add", body.encode())
    assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED")
    assert reply.json()["errors"][0]["pointer"].startswith(
        "/item/modifierGroups/0/lineItems/0/modifierGroups"
    )
