"""A webhookUrl on another host gets no Authorization token unless the request carries it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from sqlalchemy import select
from tests.api.trade import Trade, trade
from tests.databases import first_on_postgresql, mostly_sqlite, on_both
from tests.service import Client, MerchantServer, Service, merchant
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.orders.tables import orders
from mercato.features.partners.accounts import set_event_url
from mercato.features.partners.model import PartnerKind
from mercato_client.testing.caller import Answer

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/commerce/stores"
REGISTER = "/v1/commerce/onboarding/stores"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


@pytest.fixture
async def elsewhere() -> AsyncIterator[MerchantServer]:
    """Another host: another port of this one."""
    async with merchant() as other:
        other.answers |= {"validate": {"isValid": True}, "place": {"accepted": True}}
        yield other


def of(here: Trade) -> str:
    return f"{STORES}/{here.store['storeId']}"


async def put(client: Client, path: str, change: Any) -> Answer:
    return await client.call("PUT", path, change)


def places(shop: MerchantServer) -> list[str | None]:
    """Return the Authorization header of each place webhook that arrived."""
    arrived = [shop.received.get_nowait() for _ in range(shop.received.qsize())]
    return [
        headers.get("authorization") for path, headers, _ in arrived if path.split("?")[0].endswith("/place")
    ]


async def event(shop: MerchantServer) -> tuple[str, Any, Any]:
    """Wait for the next `endpoint.changed`; return its path, headers and data."""
    async with asyncio.timeout(PATIENCE):
        while True:
            path, headers, body = await shop.received.get()
            if json.loads(body)["type"] == "endpoint.changed":
                return path, headers, json.loads(body)["data"]


async def test_a_changed_host_gets_orders_without_the_token_until_it_is_given(
    here: Trade, elsewhere: MerchantServer
):
    await here.placed()
    assert places(here.shop) == ["Bearer from-pos"]
    moved = await put(here.pos, of(here), {"webhookUrl": elsewhere.base + "/hooks"})
    assert moved.status == 200
    await here.placed()
    assert places(elsewhere) == [None]
    given = await put(here.pos, of(here), {"webhookToken": "for-elsewhere"})
    assert given.status == 200
    assert "for-elsewhere" not in given.body.decode()
    await here.placed()
    assert places(elsewhere) == ["Bearer for-elsewhere"]
    await put(here.pos, of(here), {"webhookUrl": here.shop.base + "/other"})
    await here.placed()
    assert places(here.shop) == ["Bearer from-pos"]


async def test_a_change_that_carries_the_token_keeps_it(here: Trade, elsewhere: MerchantServer):
    change = {"webhookUrl": elsewhere.base + "/hooks", "webhookToken": "from-pos-2"}
    assert (await put(here.pos, of(here), change)).status == 200
    await here.placed()
    assert places(elsewhere) == ["Bearer from-pos-2"]


async def test_a_second_store_on_another_host_gets_no_token_unless_its_registration_carries_one(
    here: Trade, elsewhere: MerchantServer
):
    for name, more, expected in (
        ("two", {}, None),
        ("three", {"webhookToken": "of-three"}, "Bearer of-three"),
        ("four", {}, "Bearer of-three"),
    ):
        url = here.shop.host({"items": {}})
        request = {"partnerStoreId": name, "name": name, "address": {}, "catalogCallbackUrl": url} | more
        registered = await here.pos.post(REGISTER, request | {"webhookUrl": elsewhere.base + "/hooks"})
        assert registered.status == 201, registered.body
        at = f"{REGISTER}/{registered.json()['onboardingId']}"
        await here.mercato.until(here.pos, at, lambda body: body["status"] == "ready_to_activate")
        store = (await here.pos.post(at + "/activate")).json()
        notified = await here.pos.post(
            f"/v1/commerce/catalogset-notification?storeId={store['storeId']}", {"callbackUrl": url}
        )
        assert notified.status == 202
        async with asyncio.timeout(PATIENCE):
            path, headers, _ = await elsewhere.received.get()
        assert (path, headers.get("authorization")) == ("/hooks/catalog-sync", expected)


@own()
async def test_the_change_is_announced_below_the_previous_url(here: Trade, elsewhere: MerchantServer):
    await put(here.pos, of(here), {"webhookUrl": here.shop.base + "/other?key=1"})
    await put(here.pos, of(here), {"webhookUrl": elsewhere.base + "/hooks?key=secret"})
    path, headers, data = await event(here.shop)
    assert (path, headers["authorization"]) == ("/other/endpoint-changed?key=1", "Bearer from-pos")
    assert data == {
        "endpoint": "webhookUrl",
        "storeId": here.store["storeId"],
        "partnerStoreId": here.store["partnerStoreId"],
        "previousOrigin": here.shop.base,
        "origin": elsewhere.base,
        "tokenSent": False,
    }
    await put(here.pos, of(here), {"webhookUrl": None})
    _, _, data = await event(elsewhere)
    assert (data["previousOrigin"], data["origin"]) == (elsewhere.base, None)


async def test_a_partner_with_an_event_url_is_notified_there(here: Trade, elsewhere: MerchantServer):
    _, both = await here.mercato.partner(PartnerKind.BOTH, event_url=elsewhere.base + "/events")
    store = await here.mercato.live(both, here.shop.host({"items": {}}), webhook=here.shop.base + "/hooks")
    await put(both, f"{STORES}/{store['storeId']}", {"webhookUrl": "https://thief.example/hooks"})
    path, headers, data = await event(elsewhere)
    assert path == "/events"
    assert "authorization" not in headers
    assert (data["storeId"], data["origin"]) == (store["storeId"], "https://thief.example")


@first_on_postgresql
@pytest.mark.parametrize("token", ["", "a b", "x" * 4097, "é"])
async def test_a_token_that_no_header_can_carry_is_refused_with_a_pointer(here: Trade, token: str):
    request = {"partnerStoreId": "2", "name": "2", "address": {}, "catalogCallbackUrl": "https://a.example/c"}
    for reply in (
        await put(here.pos, of(here), {"webhookToken": token}),
        await here.pos.post(REGISTER, request | {"webhookUrl": "https://a.example", "webhookToken": token}),
    ):
        assert reply.status == 422
        assert [one["pointer"] for one in reply.json()["errors"]] == ["/webhookToken"]
        assert not token or token not in reply.body.decode()


async def test_a_token_needs_a_webhook_url(here: Trade):
    request = {"partnerStoreId": "2", "name": "2", "address": {}, "catalogCallbackUrl": "https://a.example/c"}
    for reply in (
        await put(here.pos, of(here), {"webhookUrl": None, "webhookToken": "t"}),
        await here.pos.post(REGISTER, request | {"webhookToken": "t"}),
    ):
        assert reply.status == 422
        assert reply.json()["errors"][0]["pointer"] == "/webhookToken"


async def broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


@on_both
async def test_a_redelivery_goes_to_the_address_that_the_store_or_the_storefront_has_now(
    mercato: Service, shop: MerchantServer, elsewhere: MerchantServer
):
    here = await trade(mercato, shop, event_url=shop.base + "/events")
    shop.answers |= {"order-cancelled": broken, "events": broken}
    order = await here.placed()
    await here.mercato.app.orders.cancel(UUID(order["orderId"]), reason="Fraud")
    assert (await put(here.pos, of(here), {"webhookUrl": elsewhere.base + "/hooks?v=2"})).status == 200
    async with here.mercato.app.db.write() as tx:
        storefront = await tx.scalar(
            select(orders.c.storefront_id).where(orders.c.id == UUID(order["orderId"]))
        )
        await set_event_url(tx, storefront, elsewhere.base + "/events-now")
    sent = {}
    for client, surface, type_ in (
        (here.pos, "commerce", "order.cancelled"),
        (here.front, "marketfront", "order.updated"),
    ):
        path = f"/v1/{surface}/webhook-deliveries"
        wanted = f"{path}?orderId={order['orderId']}&type={type_}"
        listed = await mercato.until(
            client, wanted, lambda page: [one["attempts"] for one in page["deliveries"]] == [1]
        )
        [one] = listed["deliveries"]
        assert (await client.post(f"{path}/{one['deliveryId']}/redeliver")).status == 200
        sent[one["webhookId"]] = one["type"]
    assert sorted(sent.values()) == ["order.cancelled", "order.updated"]
    arrived: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE):
        while len(arrived) < len(sent):
            path, headers, _ = await elsewhere.received.get()
            if headers["webhook-id"] in sent:
                arrived[sent[headers["webhook-id"]]] = path
    assert arrived == {"order.cancelled": "/hooks/order-cancelled?v=2", "order.updated": "/events-now"}
