"""What one process has acknowledged is in force in every other, for Validate, Place and Commerce reads.

Two services on one database, both with the store cached. One changes it, and the other is called at once, before its
caches are invalidated.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from tests.agents.agent import Agent
from tests.api.examples import example, in_turn
from tests.api.trade import CUSTOMER, MERCHANT, VALIDATE, Trade, line, tea, trade
from tests.catalog.documents import CAKE, TEA, cafe
from tests.databases import first_on_postgresql, new_database
from tests.service import Client, MerchantServer, Service, service

from mercato.features.orders.validation import Validations
from mercato.features.stores import queries
from mercato.platform.db.changes import ChangeFeed
from mercato_client.testing.caller import Answer


@dataclass
class Two:
    """A trade whose merchant and storefront talk to one service; `there` is the same store at the other."""

    here: Trade
    there: Trade

    @property
    def path(self) -> str:
        return f"/v1/commerce/stores/{self.here.store['storeId']}"

    async def warm(self) -> None:
        """Cache the store in the other service."""
        await self.there.validate(self.there.order())


@asynccontextmanager
async def pair(url: str, data: Path) -> AsyncIterator[tuple[Service, Service]]:
    """Run two services on one database. The caches of the second aren't invalidated by changes at the first."""

    async def hear_nothing(_feed: ChangeFeed) -> None:
        await asyncio.Event().wait()

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(service(url, data))
        # No test may depend on when that happens.
        with patch.object(ChangeFeed, "run", hear_nothing):
            second = await stack.enter_async_context(service(url, data, works=False))
        yield first, second


async def two_of(services: tuple[Service, Service], shop: MerchantServer) -> Two:
    first, second = services
    here = await trade(first, shop)

    def at_second(client: Client) -> Client:
        return Client(second.base, client.key, client.session)

    return Two(here, replace(here, mercato=second, pos=at_second(here.pos), front=at_second(here.front)))


Pairs = Callable[[str], Awaitable[tuple[Service, Service]]]


@pytest.fixture(scope="module")
async def pairs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pairs]:
    """Return the two services of a kind of database, which the tests share."""
    running: dict[str, tuple[Service, Service]] = {}
    async with AsyncExitStack() as stack:

        async def of(kind: str) -> tuple[Service, Service]:
            if kind not in running:
                url = await stack.enter_async_context(new_database(kind))
                running[kind] = await stack.enter_async_context(pair(url, tmp_path_factory.mktemp("pair")))
            return running[kind]

        yield of


@pytest.fixture
async def two(pairs: Pairs, database_kind: str, shared_shop: MerchantServer) -> Two:
    return await two_of(await pairs(database_kind), shared_shop)


@pytest.fixture
async def alone(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[Two]:
    """Two services of the test's own, whose reads it counts."""
    async with pair(database_url, tmp_path / "data") as services:
        yield await two_of(services, shop)


Act = Callable[[Two], Awaitable[None]]


async def pause(two: Two) -> None:
    await done(two.here.pos.post(f"{two.path}/status", {"status": "paused"}))


async def resume(two: Two) -> None:
    await done(two.here.pos.post(f"{two.path}/status", {"status": "online"}))


async def sell_out(two: Two, *, available: bool = False) -> None:
    body = {"items": [{"itemId": TEA, "available": available}]}
    await done(two.here.pos.post(f"{two.path}/item-availability", body))


async def bring_back(two: Two) -> None:
    await sell_out(two, available=True)


async def raise_price(two: Two) -> None:
    await serve(two, lambda menu: menu["items"][TEA].update(basePrice="3.50"))


async def take_off(two: Two) -> None:
    def without_tea(menu: Any) -> None:
        del menu["items"][TEA]
        menu["sections"][next(id_ for id_, one in menu["sections"].items() if TEA in one["itemIds"])][
            "itemIds"
        ].remove(TEA)

    await serve(two, without_tea)


async def serve_first_menu(two: Two) -> None:
    await serve(two, lambda _menu: None)


async def serve(two: Two, change: Callable[[Any], None]) -> None:
    menu = cafe()
    change(menu)
    run = await two.here.mercato.run(two.here.pos, two.here.store["storeId"], two.here.shop.host(menu))
    assert run["status"] == "succeeded", run


async def raise_minimum(two: Two) -> None:
    await update(two, minimumOrderAmount="100.00")


async def drop_minimum(two: Two) -> None:
    await update(two, minimumOrderAmount=None)


async def update(two: Two, **members: Any) -> None:
    await done(two.here.pos.call("PUT", two.path, members))


async def done(asked: Awaitable[Answer]) -> None:
    reply = await asked
    assert reply.status == 200, reply.body


CHANGES = [
    (pause, resume, "STORE_CLOSED"),
    (sell_out, bring_back, "ITEM_UNAVAILABLE"),
    (raise_price, serve_first_menu, "ORDER_TOTAL_DIFFERENT"),
    (take_off, serve_first_menu, "ITEM_UNAVAILABLE"),
    (raise_minimum, drop_minimum, "ORDER_BELOW_MINIMUM"),
]
"""What changes, what undoes it, and the error meanwhile. Each test tries all at one store, one after the other."""


def refused(reply: Answer, code: str) -> None:
    assert (reply.status, reply.json()["errorCode"]) == (400, code), reply.body


@pytest.mark.parametrize("with_token", [True, False], ids=["token", "no token"])
async def test_after_an_acknowledged_change_no_order_is_placed_against_the_state_before(
    two: Two, with_token: bool
):
    for number, (change, undo, code) in enumerate(CHANGES, 1):
        with example(change.__name__):
            # What the customer was shown: without a token the request itself says what it costs.
            order = two.there.order(amounts={"total": "5.80"})
            if with_token:
                order["validatedOrderToken"] = await two.there.token(order)
            await two.warm()
            await change(two)
            refused(await two.there.place(order), code)
            # Nor is one refused for a reason that has passed.
            await undo(two)
            assert (await two.there.place(order)).status == 201
            assert len((await two.here.pos.get(MERCHANT)).json()["orders"]) == number


@in_turn(("change", "undo", "code"), CHANGES)
async def test_after_an_acknowledged_change_no_order_is_validated_against_the_state_before(
    two: Two, change: Act, undo: Act, code: str
):
    await two.warm()
    await change(two)
    said = await two.there.validate(two.there.order())
    if code == "ORDER_TOTAL_DIFFERENT":
        assert said["order"]["amounts"]["total"] == "7.80"
    else:
        assert [one["code"] for one in said["order"]["errors"]] == [code]
    await undo(two)
    said = await two.there.validate(two.there.order())
    assert (said["isValid"], said["order"]["amounts"]["total"]) == (True, "5.80")


def quoted(two: Two, **line: Any) -> Awaitable[Any]:
    """Let an agent of the other service quote an order of two teas."""
    agent = Agent(two.there.front)
    return agent.result(
        "quote_order",
        storeId=two.here.store["storeId"],
        lines=[{"item": "Tea", "quantity": 2, "choices": [{"group": "Extras", "option": "Milk"}]} | line],
        fulfillment={"mode": "PICKUP"},
        customer=CUSTOMER,
    )


@in_turn(("change", "undo", "code"), CHANGES)
async def test_after_an_acknowledged_change_no_agent_gets_a_quote_of_the_state_before(
    two: Two, change: Act, undo: Act, code: str
):
    before = (await quoted(two))["structuredContent"]["total"]
    await change(two)
    said = (await quoted(two))["structuredContent"]
    if code == "ORDER_TOTAL_DIFFERENT":
        assert Decimal(said["total"]) == Decimal(before) + 2
    else:
        assert said["errorCode"] == code
    # Nor is one refused for a reason that has passed.
    await undo(two)
    said = (await quoted(two))["structuredContent"]
    assert said.get("total") == before, said


async def test_a_name_of_a_menu_in_force_is_what_an_agent_gets(two: Two):
    """What was called so before is still on the menu, under another name."""

    def swap(menu: Any) -> None:
        menu["items"][TEA]["name"], menu["items"][CAKE]["name"] = "Cake", "Tea"

    await quoted(two)
    await serve(two, swap)
    result = await quoted(two, choices=[])
    assert [line["itemId"] for line in result["structuredContent"]["lines"]] == [CAKE]


@pytest.mark.parametrize("name", ["validate", "place", "place without a token"])
async def test_after_an_update_the_store_is_called_where_it_is_now(two: Two, name: str):
    order = two.there.order()
    with_token = order | {"validatedOrderToken": await two.there.token(order)}
    await two.warm()
    await update(two, webhookUrl=two.here.shop.base + "/moved")
    while not two.here.shop.received.empty():
        two.here.shop.received.get_nowait()
    if name == "validate":
        await two.there.validate(order)
    else:
        placed = await two.there.place(with_token if name == "place" else order)
        assert placed.status == 201
    path, _, _ = await two.here.shop.webhook()
    assert path == ("/moved/place" if name == "place" else "/moved/validate")


@pytest.mark.parametrize(
    ("change", "status"),
    [(pause, 400), (raise_price, 400), (sell_out, 400), (None, 201)],
    ids=["paused", "another price", "sold out", "a new name"],
)
async def test_a_store_that_changes_during_its_validation_is_checked_again_before_the_order_is_stored(
    two: Two, change: Act | None, status: int
):
    async def meanwhile(_request: web.Request, _body: bytes) -> web.Response:
        await (update(two, name="Renamed") if change is None else change(two))
        return web.json_response({"isValid": True, "amounts": {"fees": "1.00"}})

    two.here.shop.answers["validate"] = meanwhile
    reply = await two.there.place(two.there.order())
    assert reply.status == status, reply.body
    if status == 201:
        # The store's quote stays valid, and the store isn't called twice.
        assert reply.json()["amounts"]["total"] == "6.80"
    orders = (await two.here.pos.get(MERCHANT)).json()["orders"]
    assert len(orders) == (status == 201)
    called = [two.here.shop.received.get_nowait()[0] for _ in range(two.here.shop.received.qsize())]
    assert called.count("/hooks/validate") == 1


async def charge(two: Two) -> None:
    await update(two, charges=[{"kind": "fee", "name": "Service", "amount": "1.00"}])


@first_on_postgresql
@pytest.mark.parametrize("handling", ["automatic", "manual"])
@pytest.mark.parametrize(
    ("change", "sent", "said"),
    [
        (raise_price, None, "7.80"),
        (charge, None, "6.80"),
        (raise_price, "5.80", "ORDER_TOTAL_DIFFERENT"),
        (charge, "5.80", "ORDER_TOTAL_DIFFERENT"),
        (sell_out, None, "ITEM_UNAVAILABLE"),
    ],
    ids=["price", "charges", "the old total sent", "charges not sent", "sold out"],
)
async def test_an_order_of_a_store_that_is_not_called_has_the_prices_in_force_when_it_is_stored(
    two: Two, monkeypatch: pytest.MonkeyPatch, handling: str, change: Act, sent: str | None, said: str
):
    await update(two, orderHandling=handling)
    validate = Validations.validate_with_store

    async def meanwhile(*args: Any, **options: Any) -> Any:
        result = await validate(*args, **options)
        await change(two)
        return result

    monkeypatch.setattr(Validations, "validate_with_store", meanwhile)
    order = two.there.order(**({} if sent is None else {"amounts": {"total": sent}}))
    reply = await two.there.place(order)
    body = reply.json()
    assert (body["amounts"]["total"] if reply.status == 201 else body["errorCode"]) == said, reply.body
    orders = (await two.here.pos.get(MERCHANT)).json()["orders"]
    assert [one["amounts"]["total"] for one in orders] == ([said] if reply.status == 201 else [])


async def test_a_store_that_changes_repeatedly_is_a_retryable_refusal(
    two: Two, monkeypatch: pytest.MonkeyPatch
):
    token = await two.there.token(two.there.order())
    check = two.there.mercato.app.validations.checker.menus.cache.find_in_force

    async def changed_again(store_id: Any) -> Any:
        row = await check(store_id)
        await update(two, name="Again")
        return row

    monkeypatch.setattr(two.there.mercato.app.cache, "find_in_force", changed_again)
    await update(two, name="Another")
    reply = await two.there.place(two.there.order(validatedOrderToken=token), key="k")
    said = reply.json()
    assert (reply.status, said["errorCode"], said["retryable"]) == (503, "SERVICE_UNAVAILABLE", True)
    monkeypatch.undo()
    assert (await two.there.place(two.there.order(validatedOrderToken=token), key="k")).status == 201


async def test_a_merchant_reads_its_own_writes_in_every_process(two: Two):
    pos = two.there.pos
    await two.warm()
    for status in ("paused", "online") * 10:
        await done(two.here.pos.post(f"{two.path}/status", {"status": status}))
        assert (await pos.get(f"{two.path}/status")).json()["status"] == status
        assert (await pos.get(two.path)).json()["status"] == status
        listed = (await pos.get(f"/v1/commerce/stores?status={status}")).json()["stores"]
        assert [one["storeId"] for one in listed] == [two.here.store["storeId"]]
    await raise_price(two)
    set_id = (await pos.get(two.path)).json()["catalogSetId"]
    assert set_id == (await two.here.pos.get(two.path)).json()["catalogSetId"]
    runs = (await pos.get(f"{two.path}/catalog-ingest")).json()["runs"]
    assert [run["status"] for run in runs] == ["succeeded"]


async def test_an_item_of_a_set_that_has_just_become_current_can_be_sold_out_in_every_process(two: Two):
    await two.there.pos.get(two.path)
    cocoa = "aaaaaaaa-aaaa-5aaa-8aaa-aaaaaaaaaaaa"
    await serve(two, lambda menu: menu["items"].update({cocoa: menu["items"][CAKE] | {"itemId": cocoa}}))
    body = {"items": [{"itemId": cocoa, "available": False}]}
    reply = await two.there.pos.post(f"{two.path}/item-availability", body)
    assert reply.json() == {"unavailableItemIds": [cocoa]}


async def test_carts_go_on_without_a_read_of_the_database(alone: Two, monkeypatch: pytest.MonkeyPatch):
    """Only Place and Validate pay for consistency across processes."""
    await alone.warm()
    reads = 0
    find_versions = queries.find_versions

    async def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        return await find_versions(*arguments, **options)

    monkeypatch.setattr(queries, "find_versions", counted)
    ids = {name: alone.here.store[name] for name in ("storeId", "catalogSetId")}
    for item in (tea(), line(CAKE)):
        assert (await alone.there.front.post("/v1/marketfront/carts/add", {"item": item} | ids)).status == 200
    assert reads == 0
    assert (await alone.there.front.post(VALIDATE, alone.there.order())).status == 200
    assert reads == 1


async def test_validations_that_come_together_read_versions_once(alone: Two, monkeypatch: pytest.MonkeyPatch):
    await alone.warm()
    cache = alone.there.mercato.app.cache
    store_id = UUID(alone.here.store["storeId"])
    asked: list[int] = []
    find_versions = queries.find_versions

    async def counted(tx: Any, ids: Any) -> Any:
        asked.append(len(ids))
        return await find_versions(tx, ids)

    monkeypatch.setattr(queries, "find_versions", counted)
    found = await asyncio.gather(*(cache.find_in_force(store_id) for _ in range(20)))
    assert None not in found
    assert asked == [1]
    # One that is cancelled leaves the read to the others.
    first, second = (asyncio.create_task(cache.find_in_force(store_id)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is not None
    with pytest.raises(asyncio.CancelledError):
        await first
    # Whoever asks later reads again.
    await update(alone, name="Renamed")
    row = await cache.find_in_force(store_id)
    assert row is not None
    assert row.name == "Renamed"


async def test_the_versions_of_any_number_of_stores_are_read(alone: Two):
    known = UUID(alone.here.store["storeId"])
    async with alone.there.mercato.app.db.read() as tx:
        for others in range(20):
            unknown = [uuid4() for _ in range(others)]
            for ids in ([known, *unknown], [*unknown, known]):
                assert list(await queries.find_versions(tx, ids)) == [known.int]
        assert await queries.find_versions(tx, [uuid4()]) == {}
