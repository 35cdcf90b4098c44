"""Updates of many orders, or of many stores, in one request: each has a result of its own, in their order."""

import asyncio
import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from tests.api.agent_keys import AGENTS, assistant
from tests.api.trade import MERCHANT, Trade, trade
from tests.databases import mostly_sqlite, on_both, only_postgresql
from tests.service import CATALOG, MerchantServer, Service
from tests.sharing import shared
from tests.waiting import PATIENCE

from mercato.features.partners import accounts
from mercato.features.partners.queries import hold_for_deletion
from mercato.platform.db.engine import Database
from mercato_client.testing.caller import Answer

pytestmark = [shared, mostly_sqlite]

ORDERS = f"{MERCHANT}/status"
STORES = "/v1/commerce/stores"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


async def send(here: Trade, *updates: Any) -> list[Any]:
    reply = await here.pos.post(ORDERS, {"updates": list(updates)})
    assert reply.status == 200, reply.body
    results: list[Any] = reply.json()["results"]
    return results


def told(result: Any) -> Any:
    """Return the status and state of an updated order, or the code of a refusal."""
    if "problem" in result:
        assert "order" not in result
        return result["problem"]["errorCode"]
    order = result["order"]
    assert order["orderId"] == result["orderId"]
    return order["status"], order["state"]


@on_both
async def test_each_update_has_its_result_and_a_refusal_stops_no_other(
    here: Trade, mercato: Service, shop: MerchantServer
):
    other = await trade(mercato, shop)
    first, second, closed, theirs = [one["orderId"] for one in [
        *[await here.placed() for _ in range(3)], await other.placed()
    ]]  # fmt: skip
    await send(here, {"orderId": closed, "state": "completed"})
    unknown = str(uuid4())
    results = await send(
        here,
        {"orderId": first, "status": "Preparing", "more": [1]},
        {"orderId": theirs, "status": "confirmed"},
        {"orderId": unknown, "status": "confirmed"},
        {"orderId": closed, "status": "ready"},
        {"orderId": second, "state": "cancelled"},
        {"orderId": second, "status": "pending"},
        {"orderId": second},
        {"orderId": second.upper(), "status": "ready", "estimatedReadyAt": "2099-01-31T18:30:00Z"},
    )
    assert [one["orderId"] for one in results[:3]] == [first, theirs, unknown]
    assert [told(one) for one in results] == [
        ("preparing", "open"),
        *("ORDER_NOT_FOUND", "ORDER_NOT_FOUND", "ORDER_CLOSED"),
        *("VALIDATION_FAILED", "VALIDATION_FAILED", "VALIDATION_FAILED"),
        ("ready", "open"),
    ]
    pointers = [one["problem"]["errors"][0]["pointer"] for one in results[4:7]]
    assert pointers == ["/updates/4/cancelReason", "/updates/5/status", "/updates/6"]
    assert results[1]["problem"]["status"] == 404
    assert (await other.front.get(f"/v1/marketfront/orders/{theirs}")).json()["status"] == "pending"
    order = (await here.pos.get(f"{MERCHANT}/{second}")).json()
    assert (order["status"], order["estimatedReadyAt"]) == ("ready", "2099-01-31T18:30:00.000Z")


@on_both
async def test_updates_of_one_order_are_applied_one_after_the_other(here: Trade, shop: MerchantServer):
    one, two = [(await here.placed())["orderId"] for _ in range(2)]
    results = await send(
        here,
        {"orderId": one, "status": "preparing"},
        {"orderId": two, "status": "confirmed"},
        {"orderId": one, "status": "confirmed"},
        {"orderId": one, "status": "ready"},
        {"orderId": one, "status": "ready"},
        {"orderId": one, "state": "completed"},
    )
    assert [told(result) for result in results] == [
        ("preparing", "open"),
        ("confirmed", "open"),
        "INVALID_STATUS_TRANSITION",
        ("ready", "open"),
        ("ready", "open"),
        ("ready", "completed"),
    ]
    entries = (await here.pos.get(f"{MERCHANT}/{one}/timeline")).json()["entries"]
    changes = [entry["detail"] for entry in entries if entry["type"] in {"updated", "completed"}]
    assert changes == [{"status": "preparing"}, {"status": "ready"}, {"state": "completed"}]
    path = f"/v1/marketfront/webhook-deliveries?orderId={one}&limit=100"
    events = await here.mercato.until(
        here.front, path, lambda page: [row["status"] for row in page["deliveries"]] == ["succeeded"] * 4
    )
    assert {row["type"] for row in events["deliveries"]} == {"order.created", "order.updated"}


@pytest.mark.parametrize("path", [ORDERS, f"{STORES}/status"])
async def test_a_request_has_at_most_100_updates_and_a_malformed_one_changes_nothing(here: Trade, path: str):
    order = (await here.placed())["orderId"]
    name, own = ("orderId", order) if path == ORDERS else ("storeId", here.store["storeId"])
    good = {name: own, "status": "confirmed" if path == ORDERS else "paused"}
    for updates, status, pointer in (
        ([good] * 101, 422, "/updates"),
        ([good, {name: "x", "status": "ready"}], 422, f"/updates/1/{name}"),
        ([good, {"status": "ready"}], 400, f"/updates/1/{name}"),
        ([good, {name: own, "status": 7}], 400, "/updates/1/status"),
        ([good, None], 400, "/updates/1"),
        ({}, 400, "/updates"),
        (None, 400, "/updates"),
    ):
        reply = await here.pos.post(path, {"updates": updates})
        assert (reply.status, reply.json()["errors"][0]["pointer"]) == (status, pointer)
    assert (await here.pos.get(f"{MERCHANT}/{order}")).json()["status"] == "pending"
    assert (await here.pos.get(f"{STORES}/{here.store['storeId']}/status")).json()["status"] == "online"
    assert (await here.pos.post(path, {"updates": []})).json() == {"results": []}
    assert (await here.pos.post(path, {"updates": [good] * 100})).status == 200


async def test_a_storefronts_key_updates_nothing(here: Trade):
    assert (await here.front.post(ORDERS, {"updates": []})).status == 403
    assert (await here.front.post(f"{STORES}/status", {"updates": []})).status == 403


@on_both
async def test_many_stores_are_paused_and_resumed_in_one_request(
    here: Trade, mercato: Service, shop: MerchantServer
):
    other = await mercato.live((await mercato.partner())[1], shop.host(CATALOG, "/other.json"))
    second = await mercato.live(here.pos, shop.host(CATALOG, "/second.json"), name="second")
    ids = [store["storeId"] for store in (here.store, second, other)]
    until = "2099-01-31T18:30:00.000Z"
    reply = await here.pos.post(
        f"{STORES}/status",
        {
            "updates": [
                {"storeId": ids[0], "status": "PAUSED", "pauseReason": "Storm", "resumeAt": until},
                {"storeId": ids[1], "status": "paused"},
                {"storeId": ids[2], "status": "paused"},
                {"storeId": ids[1], "status": "paused", "resumeAt": "2001-01-01T00:00:00Z"},
                {"storeId": ids[1], "status": "online", "pauseReason": [[1.5]]},
                {"storeId": ids[0], "status": "closed"},
            ]
        },
    )
    results = reply.json()["results"]
    assert [one["storeId"] for one in results] == [*ids, ids[1], ids[1], ids[0]]
    assert results[0]["status"] == {"status": "paused", "pauseReason": "Storm", "resumeAt": until}
    assert results[1]["status"]["status"] == "paused"
    assert (results[2]["problem"]["status"], results[2]["problem"]["errorCode"]) == (404, "STORE_NOT_FOUND")
    assert results[3]["problem"]["errors"][0]["pointer"] == "/updates/3/resumeAt"
    assert results[4]["status"] == {"status": "online", "pauseReason": None, "resumeAt": None}
    assert results[5]["problem"]["errors"][0]["pointer"] == "/updates/5/status"
    found = [(await here.pos.get(f"{STORES}/{one}/status")).json()["status"] for one in ids[:2]]
    assert found == ["paused", "online"]
    paused = (await here.front.get(f"/v1/marketfront/stores/{ids[0]}")).json()
    assert (paused["status"], paused["isOpen"]) == ("paused", False)


@only_postgresql
@on_both
async def test_requests_for_the_same_orders_in_other_orders_do_not_deadlock(here: Trade, database_kind: str):
    ids = [(await here.placed())["orderId"] for _ in range(10)]

    def update(order_ids: Any, status: str) -> Any:
        updates = [{"orderId": one, "status": status} for one in order_ids]
        return here.pos.post(ORDERS, {"updates": updates})

    replies: list[Answer] = await asyncio.gather(
        *(update(ids if turn % 2 else reversed(ids), "confirmed") for turn in range(8))
    )
    assert {reply.status for reply in replies} == {200}
    assert all(told(one) == ("confirmed", "open") for reply in replies for one in reply.json()["results"])


async def test_pauses_of_stores_take_as_long_however_many_items_are_sold_out(
    here: Trade, shop: MerchantServer
):
    ids = [str(uuid4()) for _ in range(3000)]
    menu = {"items": {one: {"name": "Soup", "basePrice": "4.50"} for one in ids}}
    few, many = [
        await here.mercato.live(here.pos, shop.host(menu, "/menu.json"), name=name)
        for name in ("few", "many")
    ]
    for start in range(0, len(ids), 1000):
        items = [{"itemId": one, "available": False} for one in ids[start : start + 1000]]
        reply = await here.pos.post(f"{STORES}/{many['storeId']}/item-availability", {"items": items})
        assert len(reply.json()["unavailableItemIds"]) == start + 1000

    async def seconds(store: Any) -> float:
        updates = [
            {"storeId": store["storeId"], "status": ("paused", "online")[place % 2]} for place in range(40)
        ]
        began = time.process_time()
        reply = await here.pos.post(f"{STORES}/status", {"updates": updates})
        assert [one["status"]["status"] for one in reply.json()["results"]] == ["paused", "online"] * 20
        return time.process_time() - began

    least = {
        name: min([await seconds(store) for _ in range(3)]) for name, store in (("few", few), ("many", many))
    }
    assert least["many"] < 2.5 * least["few"], least


@only_postgresql
@on_both
async def test_cancelled_orders_of_two_agents_give_back_in_one_order_of_locks(
    here: Trade, database_kind: str
):
    agents = [(await assistant(here, name=name)).client for name in ("First", "Second")]

    async def several(first: int) -> Any:
        """Return updates that cancel an order of one agent at once, and one of the other in a second step."""
        placed = [await here.place(here.order(), front=agents[agent]) for agent in (first, 1 - first)]
        ids = [reply.json()["orderId"] for reply in placed]
        cancel = {"state": "cancelled", "cancelReason": "Closed"}
        steps = [(ids[0], cancel), (ids[1], {"status": "confirmed"}), (ids[1], cancel)]
        return {"updates": [{"orderId": order_id} | update for order_id, update in steps]}

    requests = [await several(first) for first in (0, 1)]
    async with here.mercato.app.db.write() as tx:
        # Both requests wait here, so that they go on at the same instant.
        await tx.execute(text("SELECT 1 FROM agent_spending FOR UPDATE"))
        sent = [asyncio.create_task(here.pos.post(ORDERS, request)) for request in requests]
        await until_waiting(here.mercato.app.db, len(sent))
    replies: list[Answer] = await asyncio.gather(*sent)
    assert {reply.status for reply in replies} == {200}
    states = [told(one)[1] for reply in replies for one in reply.json()["results"]]
    assert states == ["cancelled", "open", "cancelled"] * 2
    listed = (await here.front.get(AGENTS)).json()["agents"]
    assert [spending["amount"] for agent in listed for spending in agent["spentToday"]] == ["0.00", "0.00"]


@only_postgresql
@on_both
async def test_a_storefront_is_deleted_while_its_agents_orders_are_cancelled_without_a_deadlock(
    mercato: Service, shop: MerchantServer, database_kind: str
):
    here = await trade(mercato, shop)
    db = here.mercato.app.db
    first, second = [await assistant(here, name=name) for name in ("First", "Second")]
    placed = [await here.place(here.order(), front=agent.client) for agent in (first, second)]
    ids = [reply.json()["orderId"] for reply in placed]
    async with db.read() as tx:
        row = await tx.first(text("SELECT storefront_id FROM orders WHERE id = :id"), {"id": UUID(ids[0])})
        assert row is not None
        storefront = row.storefront_id
    # The first one's row stands behind the other's, as after an update that found no room, so that a DELETE alone
    # comes to it last.
    moved = text(
        "WITH gone AS (DELETE FROM agents WHERE id = :id RETURNING *) INSERT INTO agents SELECT * FROM gone"
    )
    async with db.write() as tx:
        await tx.execute(moved, {"id": UUID(first.created["agentId"])})

    async def deleted() -> None:
        async with db.write() as tx:
            await hold_for_deletion(tx, storefront)
            await accounts.delete_partner(tx, storefront)

    lock = text("SELECT 1 FROM agent_spending WHERE agent_id = :id FOR UPDATE SKIP LOCKED")
    rows = [{"id": UUID(agent.created["agentId"])} for agent in (first, second)]
    cancel = [{"orderId": one, "state": "cancelled", "cancelReason": "Closed"} for one in ids]
    async with db.write() as of_second:
        await of_second.execute(lock, rows[1])
        async with db.write() as of_first:
            await of_first.execute(lock, rows[0])
            cancelling = asyncio.create_task(here.pos.post(ORDERS, {"updates": cancel}))
            await until_waiting(db, 1)
            deleting = asyncio.create_task(deleted())
            await until_waiting(db, 2)
        # One of the two goes on, and has the first row when the second is free.
        async with asyncio.timeout(PATIENCE):
            is_free = True
            while is_free:
                async with db.write() as tx:
                    is_free = await tx.scalar(lock, rows[0]) is not None
    await deleting
    reply: Answer = await cancelling
    assert reply.status == 200, reply.body
    assert [told(one) for one in reply.json()["results"]] == [("pending", "cancelled")] * 2


async def until_waiting(db: Database, count: int) -> None:
    """Wait until this many transactions wait for a lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(PATIENCE):
        while True:
            async with db.read() as tx:
                if await tx.scalar(waiting) >= count:
                    return
            await asyncio.sleep(0.01)
