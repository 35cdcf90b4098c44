"""Many deliveries are sent again with one request: in the background, the oldest first."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.api.examples import in_turn
from tests.api.test_webhook_endpoints import FRONT, calls, finished, put, register
from tests.api.trade import Trade, trade
from tests.databases import first_on_postgresql, mostly_sqlite, on_both, only_sqlite
from tests.service import CATALOG, MerchantServer, Service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.partners.model import PartnerKind
from mercato.features.webhooks import redelivery
from mercato.features.webhooks.redelivery import KIND
from mercato.platform.db.engine import Database
from mercato.platform.db.tables import jobs
from mercato_contract import clock
from mercato_contract.wire import rfc3339

pytestmark = [shared, mostly_sqlite]

MANY = "/v1/marketfront/webhook-deliveries/redeliver"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


def ago(**delta: float) -> str:
    return rfc3339(clock.now() - timedelta(**delta))


async def redeliver(here: Trade, **wanted: Any) -> int:
    reply = await here.front.post(MANY, {"since": ago(hours=1)} | wanted)
    assert reply.status == 202, reply.body
    count: int = reply.json()["count"]
    return count


@asynccontextmanager
async def under_way_together(here: Trade) -> AsyncIterator[None]:
    """Let what is requested in the block begin at its end: a slow machine takes longer than the second of `START`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redelivery, "START", timedelta(hours=1))
        yield
    async with here.mercato.app.db.write() as tx:
        waiting = (jobs.c.kind == KIND) & (jobs.c.state == "waiting")
        await tx.execute(update(jobs).where(waiting).values(run_at=clock.now()))


async def ids_of(here: Trade, path: str, *, count: int) -> list[str]:
    return [headers["webhook-id"] for headers, _ in await calls(here.shop, path, count=count)]


async def test_what_was_delivered_is_sent_again_with_the_same_ids_oldest_first(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(redelivery, "BATCH", 2)
    order = await here.placed()
    for status in ("confirmed", "preparing", "ready"):
        await here.update(order, status=status)
    first = await ids_of(here, "/events", count=4)
    path = "/v1/marketfront/webhook-deliveries?status=succeeded"
    await here.mercato.until(here.front, path, lambda page: len(page["deliveries"]) == 4)
    assert await redeliver(here, status="succeeded") == 4
    assert await ids_of(here, "/events", count=4) == first


@on_both
async def test_only_what_matches_is_sent_again(here: Trade):
    mine = await register(here.front, here.shop.base + "/mine")
    own = (await here.front.get(FRONT)).json()["endpoints"][0]
    assert own["kind"] == "eventUrl"
    order = await here.placed()
    await here.update(order, status="confirmed")
    await finished(here, mine, count=2)
    path = "/v1/marketfront/webhook-deliveries?status=succeeded"
    await here.mercato.until(here.front, path, lambda page: len(page["deliveries"]) == 4)
    for wanted, count in [
        ({"status": "failed"}, 0),
        ({"until": ago(minutes=30)}, 0),
        ({"types": ["order.created"], "endpointId": mine["endpointId"]}, 1),
        ({"types": ["ping"]}, 0),
        ({"storeId": here.store["storeId"], "types": ["order.updated"]}, 2),
        ({"endpointId": own["endpointId"], "types": ["order.updated"]}, 1),
    ]:
        assert await redeliver(here, **wanted) == count, wanted
        await here.mercato.until(here.front, path, lambda page: len(page["deliveries"]) == 4)


@on_both
async def test_what_failed_while_an_endpoint_was_disabled_is_sent_again_when_it_is_enabled(here: Trade):
    mine = await register(here.front, "http://127.0.0.1:1/nobody")
    order = await here.placed()
    path = f"/v1/marketfront/webhook-deliveries?endpointId={mine['endpointId']}"
    await here.mercato.until(
        here.front, path, lambda page: [o["attempts"] for o in page["deliveries"]] == [1]
    )
    await put(here.front, mine, enabled=False)
    await finished(here, mine)
    assert await redeliver(here, endpointId=mine["endpointId"]) == 0
    await put(here.front, mine, url=here.shop.base + "/mine", enabled=True)
    assert await redeliver(here, endpointId=mine["endpointId"], status="failed") == 1
    page = await here.mercato.until(here.front, path + "&status=succeeded", lambda page: page["deliveries"])
    assert [one["orderId"] for one in page["deliveries"]] == [order["orderId"]]


@on_both
async def test_a_store_narrows_the_webhook_url_of_another_to_nothing(here: Trade):
    other = await here.mercato.live(
        here.pos, here.shop.host(CATALOG, "/other.json"), name="other", webhook=here.shop.base + "/other"
    )
    for store_id in (here.store["storeId"], other["storeId"]):
        await here.mercato.run(here.pos, store_id, here.shop.base + "/other.json")
    path = "/v1/commerce/webhook-deliveries?status=succeeded&type=catalog.sync.succeeded"
    await here.mercato.until(here.pos, path, lambda page: len(page["deliveries"]) == 2)
    for wanted, count in [
        ({"endpointId": other["storeId"]}, 1),
        ({"endpointId": other["storeId"], "storeId": other["storeId"]}, 1),
        ({"endpointId": other["storeId"], "storeId": here.store["storeId"]}, 0),
    ]:
        reply = await here.pos.post(
            "/v1/commerce/webhook-deliveries/redeliver", {"since": ago(hours=1)} | wanted
        )
        assert (reply.status, reply.json()) == (202, {"count": count}), wanted


async def test_calls_to_stores_are_left_out(here: Trade):
    await here.placed()
    reply = await here.pos.post("/v1/commerce/webhook-deliveries/redeliver", {"since": ago(hours=1)})
    assert (reply.status, reply.json()) == (202, {"count": 0})


@only_sqlite
@in_turn(
    ("body", "status", "pointer"),
    [
        ({}, 400, "/since"),
        ({"since": 7}, 400, "/since"),
        ({"since": "yesterday"}, 422, "/since"),
        ({"since": "2026-03-01T00:00:00"}, 422, "/since"),
        ({"since": "2999-03-01T00:00:00Z"}, 422, "/since"),
        ({"since": "2026-03-02T00:00:00Z", "until": "2026-03-01T00:00:00Z"}, 422, "/until"),
        ({"since": "2026-03-02T00:00:00Z", "until": "x"}, 422, "/until"),
        ({"since": "2026-03-02T00:00:00Z", "status": "pending"}, 422, "/status"),
        ({"since": "2026-03-02T00:00:00Z", "types": []}, 422, "/types"),
        ({"since": "2026-03-02T00:00:00Z", "types": ["order.place"]}, 422, "/types/0"),
        ({"since": "2026-03-02T00:00:00Z", "storeId": "x"}, 422, "/storeId"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(here: Trade, body: Any, status: int, pointer: str):
    reply = await here.front.post(MANY, body)
    assert reply.status == status, reply.body
    assert [fault["pointer"] for fault in reply.json()["errors"]] == [pointer]


async def test_stores_and_endpoints_of_nobody_and_of_others_are_not_found(here: Trade):
    mine = await register(here.front, here.shop.base + "/mine")
    other = (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]
    for client, wanted in [
        (other, {"endpointId": mine["endpointId"]}),
        (here.front, {"endpointId": str(clock.new_id())}),
        (here.front, {"storeId": str(clock.new_id())}),
    ]:
        reply = await client.post(MANY, {"since": ago(hours=1)} | wanted)
        assert reply.status == 404, reply.body
        assert "storeIds" not in reply.json()["detail"], "the member is storeId here"
    stranger = (await here.mercato.partner())[1]
    body = {"since": ago(hours=1), "storeId": here.store["storeId"]}
    assert (await stranger.post("/v1/commerce/webhook-deliveries/redeliver", body)).status == 404


async def test_more_than_fit_are_refused(here: Trade, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redelivery, "MAX_REDELIVERIES", 0)
    await here.placed()
    reply = await here.front.post(MANY, {"since": ago(hours=1)})
    assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED")


@own()
async def test_a_sixth_request_waits_for_the_others(here: Trade, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redelivery, "AT_ONCE", 0)
    await here.placed()
    reply = await here.front.post(MANY, {"since": ago(hours=1)})
    assert (reply.status, reply.json()["errorCode"]) == (429, "RATE_LIMITED")
    assert int(reply.headers["Retry-After"]) > 0
    async with here.mercato.app.db.read() as tx:
        assert await tx.all(select(jobs.c.id).where(jobs.c.kind == KIND)) == []


async def sent_deliveries(here: Trade) -> list[str]:
    """Place an order, move it three times, and return the webhook-ids of the four events, once they are recorded."""
    order = await here.placed()
    for status in ("confirmed", "preparing", "ready"):
        await here.update(order, status=status)
    found = await ids_of(here, "/events", count=4)
    path = "/v1/marketfront/webhook-deliveries?status=succeeded"
    await here.mercato.until(here.front, path, lambda page: len(page["deliveries"]) == 4)
    return found


async def under_way(here: Trade) -> int:
    async with here.mercato.app.db.read() as tx:
        return len(await tx.all(select(jobs.c.id).where(jobs.c.kind == KIND)))


async def ended(here: Trade) -> None:
    async with asyncio.timeout(PATIENCE):
        while await under_way(here):
            await asyncio.sleep(0.02)


async def attempts_of(here: Trade) -> list[int]:
    """Return the number of attempts of each delivery, once none is due."""
    path = "/v1/marketfront/webhook-deliveries"
    page = await here.mercato.until(
        here.front, path, lambda page: all(one["status"] == "succeeded" for one in page["deliveries"])
    )
    return [one["attempts"] for one in page["deliveries"]]


@pytest.mark.parametrize("batch", [1, 100])
@own()
@on_both
@first_on_postgresql
async def test_requests_that_overlap_send_nothing_twice(
    here: Trade, monkeypatch: pytest.MonkeyPatch, batch: int
):
    monkeypatch.setattr(redelivery, "BATCH", batch)
    await sent_deliveries(here)
    body = {"since": ago(hours=1)}
    filters: list[dict[str, Any]] = [
        {},
        {"status": "succeeded"},
        {"types": ["order.created", "order.updated"]},
    ]
    wanted = [body | filters[number % 3] for number in range(40)]
    async with under_way_together(here):
        replies = await asyncio.gather(*(here.front.post(MANY, one) for one in wanted))
        statuses = sorted(reply.status for reply in replies)
        assert statuses == [202] * 5 + [429] * 35
        assert await under_way(here) == 5
    await ended(here)
    assert await attempts_of(here) == [2] * 4
    # When none is under way, all are sent again.
    assert await redeliver(here) == 4
    await ended(here)
    assert await attempts_of(here) == [3] * 4


@on_both
async def test_a_request_beside_another_sends_what_that_one_leaves_out(here: Trade):
    await sent_deliveries(here)
    async with under_way_together(here):
        assert await redeliver(here, types=["order.created"]) == 1
        assert await redeliver(here) == 4
    await ended(here)
    assert await attempts_of(here) == [2] * 4


async def test_what_is_counted_keeps_nobody_else_from_writing(here: Trade, monkeypatch: pytest.MonkeyPatch):
    await here.placed()
    await ids_of(here, "/events", count=1)
    writes: list[str] = []
    write = Database.write

    def count(self: Database) -> Any:
        writes.append(sys._getframe(1).f_globals["__name__"])
        return write(self)

    monkeypatch.setattr(Database, "write", count)
    assert await redeliver(here, types=["ping"]) == 0
    monkeypatch.setattr(redelivery, "MAX_REDELIVERIES", 0)
    assert (await here.front.post(MANY, {"since": ago(hours=1)})).status == 422
    assert redelivery.__name__ not in writes
