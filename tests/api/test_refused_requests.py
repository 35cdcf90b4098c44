"""Refused requests are kept for 7 days, without bodies, and each partner lists its own."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.agents.agent import Agent
from tests.api.examples import in_turn
from tests.api.trade import MERCHANT, PLACE, Time, Trade, trade
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service, service
from tests.sharing import own, shared
from tests.stored import text_of

from mercato.features import offboarding
from mercato.features.partners import credentials
from mercato.features.partners.model import PartnerKind
from mercato.features.requests import log, queries
from mercato.features.requests.queries import Filter, Refusal
from mercato.features.requests.tables import refused_requests
from mercato.features.upkeep import Upkeep
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato_contract import clock
from mercato_contract.clock import first_id, new_id, now
from mercato_contract.wire import rfc3339

pytestmark = [shared, mostly_sqlite]

COMMERCE = "/v1/commerce/requests"
MARKETFRONT = "/v1/marketfront/requests"
MEMBERS = {
    "requestId", "at", "operation", "method", "path", "status", "errorCode", "errors", "keyId", "milliseconds",
}  # fmt: skip


@pytest.fixture
async def house(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def listed(client: Client, path: str, mercato: Service, query: str = "") -> list[dict[str, Any]]:
    await mercato.app.request_log.flush()
    reply = await client.get(path + query)
    assert reply.status == 200, reply.body
    requests: list[dict[str, Any]] = reply.json()["requests"]
    return requests


async def test_a_refused_request_is_listed_with_its_faults_and_pointers(house: Trade):
    sent = await house.front.post(
        PLACE, {"cart": 1}, headers={"Idempotency-Key": "k", "X-Request-Id": "mine"}
    )
    assert sent.status == 400
    (entry,) = await listed(house.front, MARKETFRONT, house.mercato)
    assert entry.keys() == MEMBERS
    assert entry["requestId"] == "mine"
    assert (entry["operation"], entry["method"], entry["path"]) == ("placeOrder", "POST", PLACE)
    assert (entry["status"], entry["errorCode"]) == (400, sent.json()["errorCode"])
    assert [error["pointer"] for error in entry["errors"]] == [e["pointer"] for e in sent.json()["errors"]]
    assert UUID(entry["keyId"])
    assert entry["milliseconds"] >= 0


async def test_a_known_key_sees_its_requests_of_paths_that_do_not_exist(mercato: Service, pos: Client):
    await pos.get(COMMERCE)
    await pos.get("/v1/commerce/shops")
    await pos.call("DELETE", COMMERCE)
    found = {(one["operation"], one["errorCode"]) for one in await listed(pos, COMMERCE, mercato)}
    assert found == {(None, "NOT_FOUND"), (None, "METHOD_NOT_ALLOWED")}


async def test_another_partners_refused_requests_are_not_seen(house: Trade):
    _, stranger = await house.mercato.partner(PartnerKind.MARKETFRONT)
    await house.front.get("/v1/marketfront/stores/x")
    await house.pos.get("/v1/commerce/stores/x")
    assert await listed(stranger, MARKETFRONT, house.mercato) == []
    assert [entry["operation"] for entry in await listed(house.pos, COMMERCE, house.mercato)] == ["getStore"]


async def test_an_operator_sees_a_partners_requests_of_both_surfaces_in_one_list(mercato: Service):
    made, commerce = await mercato.partner(PartnerKind.BOTH)
    assert made.marketfront_key is not None
    front = Client(commerce.base, made.marketfront_key.text, commerce.session)
    for client, surface in ((commerce, "commerce"), (front, "marketfront")) * 2:
        await client.get(f"/v1/{surface}/stores/x")
    await mercato.app.request_log.flush()
    async with mercato.app.db.read() as tx:
        found = await queries.list_refused(tx, Filter(partner_id=made.id), limit=3)
    assert {one.surface for one in found} == {"commerce", "marketfront"}
    assert [one.id for one in found] == sorted((one.id for one in found), reverse=True)
    assert len(found) == 3


async def test_a_key_sees_the_requests_of_its_own_surface(mercato: Service):
    made, commerce = await mercato.partner(PartnerKind.BOTH)
    assert made.marketfront_key is not None
    front = Client(commerce.base, made.marketfront_key.text, commerce.session)
    await commerce.get("/v1/commerce/stores/x")
    await front.get("/v1/commerce/stores/x")
    (own,) = await listed(commerce, COMMERCE, mercato)
    (other,) = await listed(front, MARKETFRONT, mercato)
    assert (own["errorCode"], other["errorCode"]) == ("STORE_NOT_FOUND", "FORBIDDEN")


@on_both
async def test_refused_requests_are_filtered_by_code_store_and_instant_and_come_in_pages(house: Trade):
    unknown = str(new_id())
    for path in (f"/v1/marketfront/stores/{unknown}", "/v1/marketfront/orders/x"):
        await house.front.get(path)
    order = house.order()
    order["cart"]["lineItems"][0]["itemId"] = unknown
    assert (await house.place(order)).status >= 400
    found = await listed(house.front, MARKETFRONT, house.mercato)
    assert {entry["operation"] for entry in found} == {
        "placeOrder",
        "getMarketfrontOrder",
        "getMarketfrontStore",
    }

    async def codes(query: str) -> list[str]:
        return [entry["errorCode"] for entry in await listed(house.front, MARKETFRONT, house.mercato, query)]

    assert await codes("?errorCode=ORDER_NOT_FOUND") == ["ORDER_NOT_FOUND"]
    assert await codes(f"?storeId={unknown}") == ["STORE_NOT_FOUND"]
    assert len(await codes(f"?storeId={house.store['storeId']}")) == 1
    assert await codes(f"?since={rfc3339(now() + timedelta(minutes=1))}") == []
    assert len(await codes(f"?since={rfc3339(now() - timedelta(minutes=1))}")) == 3
    page = (await house.front.get(f"{MARKETFRONT}?limit=2")).json()
    rest = (await house.front.get(f"{MARKETFRONT}?cursor={page['nextCursor']}")).json()
    assert [*page["requests"], *rest["requests"]] == found
    assert (await house.front.get(f"{MARKETFRONT}?since=yesterday")).json()[
        "errorCode"
    ] == "VALIDATION_FAILED"


async def test_a_stores_refusal_is_kept_without_the_stores_words(house: Trade):
    words = "Ada Lovelace owes us money"
    house.shop.answers["place"] = {"errors": [{"code": "OTHER", "message": words}], "accepted": False}
    refused = await house.place(house.order(), key="one")
    assert refused.status >= 400
    await house.front.post(
        PLACE, house.order(), headers={"Idempotency-Key": "one", "Accept": "text/markdown"}
    )
    entries = await listed(house.front, MARKETFRONT, house.mercato)
    assert {entry["errorCode"] for entry in entries} <= {
        refused.json()["errorCode"],
        "IDEMPOTENCY_KEY_REUSED",
    }
    assert all(entry["errors"] for entry in entries)
    async with house.mercato.app.db.read() as tx:
        assert words not in await text_of(tx, refused_requests)


@own()
async def test_no_key_query_or_body_is_stored(house: Trade):
    key = house.front.key
    assert key is not None
    await house.front.get(f"/v1/marketfront/stores/{key}?at={key}")
    await house.front.get(f"/v1/marketfront/stores/{'x' * 2000}?note=hush")
    await house.mercato.anonymous().get(f"/v1/{key}", headers={"Authorization": f"Bearer {key}x"})
    await house.front.post(PLACE, house.order(customer={"email": "ada@example.com", "phone": 5}))
    await house.mercato.app.request_log.flush()
    async with house.mercato.app.db.read() as tx:
        text = await text_of(tx, refused_requests)
    assert text
    for secret in (key, key[12:], "hush", "ada@example.com", "Lovelace", "x" * (log.MAX_PATH + 1)):
        assert secret not in text


async def test_a_path_with_control_characters_is_stored_readable(mercato: Service, pos: Client):
    assert (await pos.get("/v1/commerce/stores/%00%1b[2J")).status == 404
    (entry,) = await listed(pos, COMMERCE, mercato)
    assert entry["path"] == "/v1/commerce/stores/\ufffd\ufffd[2J"


@own()
async def test_refused_requests_are_limited_per_partner_and_minute(
    mercato: Service, pos: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log, "PER_MINUTE", 3)
    _, other = await mercato.partner()
    for _ in range(5):
        await pos.get("/v1/commerce/stores/x")
    await other.get("/v1/commerce/stores/x")
    assert len(await listed(pos, COMMERCE, mercato)) == 3
    assert len(await listed(other, COMMERCE, mercato)) == 1
    metrics = (await mercato.anonymous().get("/metrics")).body.decode()
    assert 'mercato_request_log_dropped_total{reason="partner_limit"} 2.0' in metrics


@own()
async def test_requests_that_cannot_be_queued_are_dropped_and_counted(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log, "PER_MINUTE", log.MAX_WAITING + 1)
    refused = log.RequestRecord(
        request_id="r",
        operation=None,
        method="GET",
        path="/v1/x",
        status=404,
        seconds=0,
        error_code="NOT_FOUND",
    )
    for _ in range(log.MAX_WAITING + 1):
        mercato.app.request_log.record(refused)
    metrics = (await mercato.anonymous().get("/metrics")).body.decode()
    assert 'mercato_request_log_dropped_total{reason="queue_full"} 1.0' in metrics


@own()
@on_both
async def test_refused_requests_wait_while_the_database_is_unavailable(
    mercato: Service, pos: Client, monkeypatch: pytest.MonkeyPatch
):
    def away() -> Any:
        raise DatabaseUnavailable("gone")

    await pos.get("/v1/commerce/stores/x")
    with monkeypatch.context() as patch:
        patch.setattr(mercato.app.db, "write", away)
        await mercato.app.request_log.flush()
    assert len(await listed(pos, COMMERCE, mercato)) == 1


@own()
async def test_a_bug_in_the_writer_loses_its_batch_and_nothing_else(
    mercato: Service, pos: Client, monkeypatch: pytest.MonkeyPatch
):
    def broken(_tx: Any, _refusal: Refusal) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(queries, "insert", broken)
        assert (await pos.get("/v1/commerce/stores/x")).status == 404
        await mercato.app.request_log.flush()
    assert (await pos.get("/v1/commerce/stores/y")).status == 404
    assert [entry["path"][-1] for entry in await listed(pos, COMMERCE, mercato)] == ["y"]


async def test_queued_requests_are_stored_when_the_process_ends(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path / "data") as first:
        _, client = await first.partner()
        await client.get("/v1/commerce/stores/x")
    async with service(database_url, tmp_path / "data") as second:
        again = Client(second.base, client.key, second.session)
        assert len(await listed(again, COMMERCE, second)) == 1


@own()
async def test_refused_requests_are_deleted_after_7_days(
    database_url: str, tmp_path: Path, time: Time, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        _, client = await mercato.partner()
        await client.get("/v1/commerce/stores/x")
        assert len(await listed(client, COMMERCE, mercato)) == 1
        upkeep = Upkeep(mercato.app.db, time, catalog_days=1, delivery_days=1)
        time.ahead = timedelta(days=log.DAYS, minutes=-1)
        await upkeep.once()
        assert len(await listed(client, COMMERCE, mercato)) == 1
        time.ahead = timedelta(days=log.DAYS, minutes=1)
        await upkeep.once()
        assert await listed(client, COMMERCE, mercato) == []


@own()
@on_both
async def test_deleting_a_partner_deletes_its_refused_requests_alone(mercato: Service):
    made, client = await mercato.partner()
    _, other = await mercato.partner()
    for one in (client, other):
        await one.get("/v1/commerce/stores/x")
    await mercato.app.request_log.flush()
    await offboarding.delete(mercato.app.db, made.id, now=now)
    async with mercato.app.db.read() as tx:
        assert await queries.list_refused(tx, Filter(partner_id=made.id), limit=9) == []
        assert len(await queries.list_refused(tx, Filter(), limit=9)) == 1
    assert len(await listed(other, COMMERCE, mercato)) == 1


async def test_a_suspended_partners_requests_are_listed_with_the_partner_and_its_key(mercato: Service):
    made, pos = await mercato.partner(PartnerKind.BOTH)
    assert made.commerce_key is not None
    assert made.marketfront_key is not None
    shop = {
        "grant_type": "client_credentials",
        "client_id": str(made.marketfront_key.id),
        "client_secret": made.marketfront_key.text,
    }
    await offboarding.suspend(mercato.app.db, made.id, now=now)
    for path in ("/v1/commerce/stores", f"/v1/commerce/stores/{new_id()}", "/v1/commerce/shops"):
        await pos.get(path)
    async with mercato.session.post(f"{mercato.base}/v1/oauth/token", data=shop) as reply:
        assert reply.status == 400
    await mercato.app.request_log.flush()
    async with mercato.app.db.read() as tx:
        found = await queries.list_refused(tx, Filter(partner_id=made.id), limit=9)
    commerce, marketfront = made.commerce_key.id, made.marketfront_key.id
    assert {(one.operation, one.status, one.surface, one.key_id) for one in found} == {
        ("listStores", 403, "commerce", commerce),
        ("getStore", 403, "commerce", commerce),
        (None, 404, "commerce", commerce),
        ("getAccessToken", 400, "marketfront", marketfront),
    }
    await offboarding.resume(mercato.app.db, made.id, now=clock.now)
    assert {one["errorCode"] for one in await listed(pos, COMMERCE, mercato)} == {"FORBIDDEN", "NOT_FOUND"}


async def test_a_revoked_key_of_a_suspended_partner_is_refused_like_any_and_listed_without_a_partner(
    mercato: Service,
):
    made, pos = await mercato.partner()
    assert made.commerce_key is not None
    async with mercato.app.db.write() as tx:
        await credentials.revoke_key(tx, await credentials.get_key(tx, made.commerce_key.text), now=now)
    await offboarding.suspend(mercato.app.db, made.id, now=now)
    refused = await pos.get("/v1/commerce/stores")
    assert refused.status == 401
    assert b"suspended" not in refused.body
    await mercato.app.request_log.flush()
    async with mercato.app.db.read() as tx:
        assert await queries.list_refused(tx, Filter(partner_id=made.id), limit=9) == []


@own()
async def test_an_operator_sees_the_requests_of_all_partners_and_those_without_a_key(
    mercato: Service, pos: Client
):
    await pos.get("/v1/commerce/stores/x")
    await mercato.anonymous().get(MERCHANT)
    await mercato.anonymous().get("/favicon.ico")
    await mercato.app.request_log.flush()
    async with mercato.app.db.read() as tx:
        found = await queries.list_refused(tx, Filter(), limit=9)
    assert {(one.error_code, one.partner_id is None) for one in found} == {
        ("UNAUTHENTICATED", True),
        ("STORE_NOT_FOUND", False),
    }


@only_sqlite
@in_turn("which", ["caller", "code", "store", "all", "all_code", "all_store"])
async def test_every_list_is_read_by_an_index(db: Database, which: str):
    from sqlalchemy import select, text
    from sqlalchemy.dialects import sqlite

    c = refused_requests.c
    own = (c.partner_id == new_id(), c.surface == "commerce")
    conditions: dict[str, tuple[Any, ...]] = {
        "caller": own,
        "code": (*own, c.error_code == "X"),
        "store": (*own, c.store_id == new_id()),
        "all": (),
        "all_code": (c.error_code == "X",),
        "all_store": (c.store_id == new_id(),),
    }
    query = select(refused_requests).where(*conditions[which], c.id >= first_id(now())).order_by(c.id.desc())
    sql = str(query.limit(50).compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    async with db.read() as tx:
        plan = " ".join(str(row) for row in await tx.all(text(f"EXPLAIN QUERY PLAN {sql}")))
    assert "USING" in plan
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


async def test_a_refused_call_of_a_tool_is_named_as_the_tool_everywhere(house: Trade):
    agent = Agent(house.front)

    def counted() -> list[float]:
        read = house.mercato.app.metrics.registry.get_sample_value
        names = (("mcp.get_order", "200"), ("mcp.place_order", "200"), ("sendMcpMessage", "400"))
        labels = [{"operation": operation, "status": status} for operation, status in names]
        return [read("mercato_requests_total", one) or 0 for one in labels]

    before = counted()
    refused = await agent.refusal("get_order", orderId=str(new_id()))
    malformed = await agent.send("tools/call", {"name": "place_order", "arguments": {"quoteId": 5}})
    unknown = await agent.send("tools/call", {"name": "cook"})
    assert (malformed.status, unknown.status) == (200, 400)
    assert [after - one for after, one in zip(counted(), before, strict=True)] == [1, 1, 1]
    entries = await listed(house.front, MARKETFRONT, house.mercato)
    # In any order: those of one millisecond have none.
    assert {(entry["operation"], entry["status"], entry["errorCode"]) for entry in entries} == {
        ("sendMcpMessage", 400, "INVALID_REQUEST"),
        ("mcp.place_order", 200, "INVALID_REQUEST"),
        ("mcp.get_order", 200, refused["errorCode"]),
    }
    assert len(entries) == 3
