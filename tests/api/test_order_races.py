"""Orders under concurrent requests, and while their store changes."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from msgspec.structs import replace
from sqlalchemy import select, update
from tests.api.trade import MERCHANT, Trade, trade
from tests.catalog.documents import TEA, cafe
from tests.databases import only_postgresql
from tests.service import Client, MerchantServer, Service, service
from tests.sharing import shared
from tests.waiting import PATIENCE, loop_timeout

from mercato.features.orders import queries
from mercato.features.orders.tables import orders
from mercato.features.partners.tables import partners
from mercato.features.webhooks.tables import deliveries
from mercato_client.testing.caller import Answer
from mercato_contract.events import EventType
from mercato_contract.wire import rfc3339

pytestmark = shared

MANY = 50


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


@pytest.fixture
async def two(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[tuple[Trade, Client]]:
    """A trade, and its storefront's client at another service on the same database."""
    async with AsyncExitStack() as stack:
        services = [
            await stack.enter_async_context(service(database_url, tmp_path / "data", place_seconds=PATIENCE))
            for _ in range(2)
        ]
        here = await trade(services[0], shop)
        yield here, Client(services[1].base, here.front.key, here.front.session)


def counted(replies: Iterable[Answer]) -> Counter[tuple[int, str | None]]:
    return Counter((r.status, r.json()["errorCode"] if r.status >= 400 else None) for r in replies)


async def until_settled(ask: Awaitable[Answer], again: Any) -> Answer:
    """Repeat the request while it is in progress elsewhere; return the reply."""
    reply = await ask
    async with asyncio.timeout(PATIENCE):
        while reply.status == 409 and reply.json()["errorCode"] == "REQUEST_IN_PROGRESS":
            await asyncio.sleep(0.02)
            reply = await again()
    return reply


def calls_of(shop: MerchantServer) -> Counter[str]:
    """Return how often the merchant got each order."""
    calls = [shop.received.get_nowait() for _ in range(shop.received.qsize())]
    return Counter(headers["webhook-id"] for path, headers, _ in calls if path.endswith("/place"))


async def listed(here: Trade) -> list[Any]:
    orders: list[Any] = (await here.pos.get(f"{MERCHANT}?limit=100")).json()["orders"]
    return orders


async def test_fifty_places_with_one_key_are_one_order_and_one_reply(here: Trade):
    order = here.order()
    replies = await asyncio.gather(
        *(until_settled(here.place(order, key="k"), lambda: here.place(order, key="k")) for _ in range(MANY))
    )
    assert counted(replies) == {(201, None): MANY}
    assert len({reply.body for reply in replies}) == 1
    assert Counter("Idempotent-Replayed" in reply.headers for reply in replies) == {True: MANY - 1, False: 1}
    assert calls_of(here.shop) == {replies[0].json()["orderId"]: 1}
    assert len(await listed(here)) == 1


@pytest.mark.parametrize("with_token", [True, False], ids=["token", "no token"])
async def test_of_fifty_concurrent_requests_the_others_get_retry_after(here: Trade, with_token: bool):
    order = here.order()
    if with_token:
        order["validatedOrderToken"] = await here.token(order)
    go = asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        await go.wait()
        return web.json_response({"accepted": True})

    here.shop.answers["place"] = slowly
    asked = [asyncio.create_task(here.place(order, key="k")) for _ in range(MANY)]
    done, left = await asyncio.wait(asked, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    while len(left) > 1:
        more, left = await asyncio.wait(left, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert more, "another request than the first waits for the store"
        done |= more
    assert counted(task.result() for task in done) == {(409, "REQUEST_IN_PROGRESS"): MANY - 1}
    go.set()
    assert (await left.pop()).status == 201
    assert sum(calls_of(here.shop).values()) == 1


async def test_fifty_places_with_one_token_are_one_order_and_the_others_are_shown_it(here: Trade):
    order = here.order(validatedOrderToken=await here.token(here.order()))
    replies = await asyncio.gather(*(here.place(order, key=f"k{n}") for n in range(MANY)))
    assert counted(replies) == {(201, None): 1, (409, "ORDER_ALREADY_PLACED"): MANY - 1}
    ids = {reply.json()["orderId"] for reply in replies}
    assert len(ids) == 1
    assert calls_of(here.shop) == {ids.pop(): 1}
    assert len(await listed(here)) == 1


async def test_fifty_places_with_fifty_keys_are_fifty_orders(here: Trade):
    replies = await asyncio.gather(*(here.place(here.order(), key=f"k{n}") for n in range(MANY)))
    assert counted(replies) == {(201, None): MANY}
    assert set(calls_of(here.shop).values()) == {1}
    assert {reply.json()["orderId"] for reply in replies} == {one["orderId"] for one in await listed(here)}


async def test_two_servers_on_one_database_place_the_order_of_a_key_once(two: tuple[Trade, Client]):
    here, other = two
    for number in range(5):
        order, key = here.order(), f"k{number}"

        def ask(client: Client, order: Any = order, key: str = key) -> Awaitable[Answer]:
            return here.place(order, key=key, front=client)

        replies = await asyncio.gather(
            *(
                until_settled(ask(client), lambda client=client, ask=ask: ask(client))
                for client in (here.front, other) * 4
            )
        )
        assert counted(replies) == {(201, None): 8}
        assert len({reply.body for reply in replies}) == 1
        assert calls_of(here.shop) == {replies[0].json()["orderId"]: 1}


async def test_two_services_on_one_database_use_a_token_once(two: tuple[Trade, Client]):
    here, other = two
    for number in range(5):
        order = here.order(validatedOrderToken=await here.token(here.order()))
        replies = await asyncio.gather(
            *(
                here.place(order, key=f"{number}-{n}", front=client)
                for n, client in enumerate((here.front, other) * 4)
            )
        )
        assert counted(replies) == {(201, None): 1, (409, "ORDER_ALREADY_PLACED"): 7}
        assert len({reply.json()["orderId"] for reply in replies}) == 1
        assert sum(calls_of(here.shop).values()) == 1


async def test_a_reply_of_one_service_is_given_again_by_the_other(two: tuple[Trade, Client]):
    here, other = two
    order = here.order()

    here.shop.answers["place"] = {"accepted": True, "partnerOrderId": "A"}
    first = await here.place(order, key="k", front=other)
    again = await here.place(order, key="k")
    assert again.body == first.body
    assert again.headers["Location"] == first.headers["Location"]


async def test_an_order_placed_during_a_catalog_switch_has_the_prices_of_one_catalog(here: Trade):
    prices = {here.store["catalogSetId"]: "5.80"}
    dearer = cafe()
    for round_ in range(4):
        dearer["items"][TEA]["basePrice"] = f"3.{round_}0"
        validated = await here.validate(here.order())
        with_token = here.order(validatedOrderToken=validated["validatedOrderToken"])
        run, *replies = await asyncio.gather(
            here.mercato.run(here.pos, here.store["storeId"], here.shop.host(dearer)),
            *(here.place(here.order(), key=f"{round_}-{n}") for n in range(8)),
            here.place(with_token, key=f"{round_}-token"),
            *(here.place(here.order(amounts={"total": "5.80"}), key=f"{round_}-{n}") for n in range(8, 12)),
        )
        assert run["status"] == "succeeded"
        current = (await here.validate(here.order()))["order"]
        prices[current["cart"]["catalogSetId"]] = current["amounts"]["total"]
        assert set(counted(replies)) <= {(201, None), (400, "ORDER_TOTAL_DIFFERENT")}
        for reply in replies:
            if reply.status == 201:
                placed = reply.json()
                assert placed["amounts"]["total"] == prices[placed["cart"]["catalogSetId"]]
        token = replies[8]
        if token.status == 201:
            assert token.json()["amounts"] == validated["order"]["amounts"]
    assert {one["orderId"] for one in await listed(here)} == set(calls_of(here.shop))


async def test_orders_placed_after_a_concurrent_pause_are_refused(here: Trade):
    path = f"/v1/commerce/stores/{here.store['storeId']}/status"
    for round_ in range(4):
        asked = [asyncio.create_task(here.place(here.order(), key=f"{round_}-{n}")) for n in range(8)]
        assert (await here.pos.post(path, {"status": "paused"})).status == 200
        after = await asyncio.gather(*(here.place(here.order(), key=f"{round_}-after-{n}") for n in range(4)))
        assert counted(after) == {(400, "STORE_CLOSED"): 4}
        assert set(counted(await asyncio.gather(*asked))) <= {(201, None), (400, "STORE_CLOSED")}
        assert (await here.pos.post(path, {"status": "online"})).status == 200
    orders = await listed(here)
    assert {one["orderId"] for one in orders} == set(calls_of(here.shop))


async def test_concurrent_updates_move_an_order_only_forward_and_number_each_event(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data") as mercato:
        here = await trade(mercato, shop, event_url=shop.base + "/events")
        placed = await here.placed()
        replies = await asyncio.gather(
            *(here.update(placed, status=status) for status in ("confirmed", "preparing", "ready") * 10)
        )
        assert set(counted(replies)) <= {(200, None), (409, "INVALID_STATUS_TRANSITION")}
        order = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}")).json()
        assert order["status"] == "ready"
        closed = await asyncio.gather(
            *(here.update(placed, state="completed") for _ in range(5)),
            *(here.update(placed, state="cancelled", cancelReason="x") for _ in range(5)),
        )
        assert counted(closed) == {(200, None): 5, (409, "ORDER_CLOSED"): 5}
        entries = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}/timeline")).json()["entries"]
        changes = [one for one in entries if one["type"] not in {"placed", "webhook.attempt"}]
        sequences: set[int] = set()
        while len(sequences) < len(changes):
            path, _, body = await shop.webhook()
            if path == "/events":
                sequences.add(json.loads(body)["data"]["sequence"])
        assert sequences == set(range(1, len(changes) + 1))


@pytest.mark.parametrize("before", [None, "/before"])
@pytest.mark.parametrize("after", [None, "/after"])
async def test_an_event_goes_where_its_storefront_has_said_before_the_store_answered(
    mercato: Service, shop: MerchantServer, before: str | None, after: str | None
):
    """Also if another process was told, and this one hasn't heard of it yet."""
    url = {None: None, "/before": f"{shop.base}/before", "/after": f"{shop.base}/after"}
    here = await trade(mercato, shop, event_url=url[before])
    db = mercato.app.db

    async def changes_it(request: web.Request, _body: bytes) -> web.Response:
        async with db.write() as tx:
            of_order = orders.c.id == UUID(request.headers["webhook-id"])
            storefront = select(orders.c.storefront_id).where(of_order).scalar_subquery()
            await tx.execute(update(partners).where(partners.c.id == storefront).values(event_url=url[after]))
        return web.json_response({"accepted": True})

    shop.answers["place"] = changes_it
    placed = await here.placed()
    async with db.read() as tx:
        sent = await tx.all(
            select(deliveries.c.url).where(
                deliveries.c.order_id == UUID(placed["orderId"]), deliveries.c.type == EventType.ORDER_CREATED
            )
        )
    assert [row.url for row in sent] == ([] if after is None else [url[after]])


async def test_an_update_that_waited_for_another_is_later_than_it(here: Trade):
    placed, app = await here.placed(), here.mercato.app
    async with app.db.write() as tx:
        order = await queries.get_order(tx, UUID(placed["orderId"]), lock=True)
        waits = asyncio.create_task(here.update(placed, status="confirmed"))
        await asyncio.sleep(0.2)
        now = app.clock()
        queries.update_order(tx, order, replace(order, updated_at=now))
    assert (await waits).json()["updatedAt"] >= rfc3339(now)


@only_postgresql
async def test_joining_an_order_does_not_wait_for_its_lock(here: Trade, database_kind: str):
    """The holder would wait for the key in turn: a deadlock."""
    app = here.mercato.app

    async def down(_request: web.Request, _body: bytes) -> web.Response:
        return web.Response(status=404, headers={"Retry-After": "60"})

    here.shop.answers["place"] = down
    order_id = (await here.place(here.order(), key="k")).json()["orderId"]
    assert (await here.update({"orderId": order_id}, status="confirmed")).status == 200
    async with app.db.write() as tx:
        assert await queries.get_order(tx, UUID(order_id), lock=True)
        async with loop_timeout(5):
            reply = await here.place(here.order(), key="k")
    assert (reply.status, reply.json()["status"]) == (201, "confirmed")
