"""Suspending, resuming and deleting partners: what happens to their keys, stores, orders and deliveries."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from msgspec.structs import replace
from sqlalchemy import func, select, text, update
from tests.api.trade import ORDERS, VALIDATE, Trade, trade
from tests.databases import mostly_sqlite, on_both, only_postgresql
from tests.service import Client, MerchantServer, Service, service
from tests.slow_requests import SlowRequest
from tests.waiting import PATIENCE, loop_timeout

from mercato.features import offboarding
from mercato.features.catalogs.tables import catalog_bodies, catalog_owners, catalog_runs, catalog_sets
from mercato.features.discovery.tables import opening_hours, store_cards, store_search
from mercato.features.orders import queries
from mercato.features.orders.tables import orders
from mercato.features.partners import accounts, credentials
from mercato.features.partners.model import AccountError, PartnerKind
from mercato.features.partners.tables import api_keys, partners, webhook_endpoints
from mercato.features.stores.tables import onboardings, stores
from mercato.http import body as http_body
from mercato.platform.db.tables import jobs, metadata
from mercato_contract import clock
from mercato_contract.orders import OrderState

pytestmark = mostly_sqlite

DISCOVER = "/v1/marketfront/stores/discover"
STORES = "/v1/commerce/stores"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def owner(here: Trade) -> UUID:
    """Return the id of the merchant."""
    async with here.mercato.app.db.read() as tx:
        return UUID(str(await tx.scalar(select(stores.c.partner_id))))


async def storefront(here: Trade) -> UUID:
    async with here.mercato.app.db.read() as tx:
        found = await tx.scalar(select(partners.c.id).where(partners.c.kind == PartnerKind.MARKETFRONT))
    return UUID(str(found))


async def found(front: Client) -> int:
    total: int = (await front.post(DISCOVER, {})).json()["totalCount"]
    return total


async def until_status(client: Client, path: str, status: int) -> None:
    """Return once the path has this status. Raises TimeoutError after the 2 s in which a suspension is in force."""
    async with loop_timeout(2):
        while (await client.get(path)).status != status:
            await asyncio.sleep(0.02)


async def test_a_suspended_partners_keys_answer_403_in_every_process_within_2_s(
    here: Trade, database_url: str, tmp_path: Path
):
    async with service(database_url, tmp_path / "data", works=False) as second:
        elsewhere = Client(second.base, here.pos.key, second.session)
        assert (await elsewhere.get(STORES)).status == 200
        await offboarding.suspend(here.mercato.app.db, await owner(here), now=clock.now)
        await until_status(elsewhere, STORES, 403)
        refused = await here.pos.get(STORES)
        assert (refused.status, refused.json()["errorCode"]) == (403, "FORBIDDEN")
        assert "suspended" in refused.json()["detail"]
        await offboarding.resume(here.mercato.app.db, await owner(here), now=clock.now)
        await until_status(elsewhere, STORES, 200)
        assert (await here.pos.get(STORES)).status == 200


async def test_every_request_of_a_suspended_partner_is_refused(here: Trade):
    await offboarding.suspend(here.mercato.app.db, await owner(here), now=clock.now)
    assert [(await here.pos.get(STORES)).status for _ in range(3)] == [403, 403, 403]
    pause = {"status": "paused"}
    paused = await here.pos.post(f"{STORES}/{here.store['storeId']}/status", pause)
    assert paused.status == 403


@on_both
async def test_an_access_token_of_a_suspended_storefront_opens_nothing_and_none_is_issued(here: Trade):
    me = await storefront(here)
    async with here.mercato.app.db.read() as tx:
        key_id = await tx.scalar(select(api_keys.c.id).where(api_keys.c.partner_id == me))
    form = {"grant_type": "client_credentials", "client_id": str(key_id), "client_secret": here.front.key}
    url = f"{here.mercato.base}/v1/oauth/token"
    async with here.mercato.session.post(url, data=form) as reply:
        token = Client(here.mercato.base, (await reply.json())["access_token"], here.mercato.session)
    assert await found(token) == 1
    await offboarding.suspend(here.mercato.app.db, me, now=clock.now)
    for _ in range(2):
        assert (await token.post(DISCOVER, {})).status == 403
        async with here.mercato.session.post(url, data=form) as reply:
            assert (reply.status, (await reply.json())["error"]) == (400, "unauthorized_client")


async def test_a_suspended_partners_stores_are_neither_found_nor_ordered_from_until_resumed(here: Trade):
    token = await here.token(here.order())
    assert await found(here.front) == 1
    await offboarding.suspend(here.mercato.app.db, await owner(here), now=clock.now)
    assert await found(here.front) == 0
    for opened in (True, False):
        body = {"openNow": opened, "query": "tea", "location": {"latitude": 43.07, "longitude": -89.4}}
        assert (await here.front.post(DISCOVER, body)).json()["totalCount"] == 0
    store = f"/v1/marketfront/stores/{here.store['storeId']}"
    assert (await here.front.get(store)).status == 404
    assert (await here.front.post(VALIDATE, here.order())).status == 404
    placed = await here.place(here.order() | {"validatedOrderToken": token})
    assert (placed.status, placed.json()["errorCode"]) == (404, "STORE_NOT_FOUND")
    await offboarding.resume(here.mercato.app.db, await owner(here), now=clock.now)
    assert await found(here.front) == 1
    assert (await here.place(here.order())).status == 201


async def test_the_catalog_sets_of_a_suspended_partner_are_hidden_with_its_stores_also_those_read_before(
    here: Trade, database_url: str, tmp_path: Path
):
    path = f"/v1/marketfront/catalog-sets/{here.store['catalogSetId']}"
    async with service(database_url, tmp_path / "data", works=False) as second:
        elsewhere = Client(second.base, here.front.key, second.session)
        for client in (here.front, elsewhere):
            assert (await client.get(path)).status == 200
        await offboarding.suspend(here.mercato.app.db, await owner(here), now=clock.now)
        for client in (here.front, elsewhere):
            await until_status(client, path, 404)
        await offboarding.resume(here.mercato.app.db, await owner(here), now=clock.now)
        for client in (here.front, elsewhere):
            await until_status(client, path, 200)


@on_both
async def test_a_store_that_changes_while_its_partner_is_suspended_stays_hidden(here: Trade):
    run = here.pos.post(
        f"/v1/commerce/catalogset-notification?storeId={here.store['storeId']}",
        {"callbackUrl": here.shop.host({"items": {"a": {"name": "A", "basePrice": "1.00"}}}, "/new.json")},
    )
    assert (await run).status == 202
    await offboarding.suspend(here.mercato.app.db, await owner(here), now=clock.now)
    async with asyncio.timeout(PATIENCE):
        async with here.mercato.app.db.read() as tx:
            open_runs = select(func.count()).select_from(catalog_runs)
            open_runs = open_runs.where(catalog_runs.c.status.not_in(["succeeded", "failed"]))
        while True:
            async with here.mercato.app.db.read() as tx:
                if not await tx.scalar(open_runs):
                    break
            await asyncio.sleep(0.02)
    assert await found(here.front) == 0


@on_both
async def test_open_orders_and_deliveries_of_a_suspended_partner_go_on(here: Trade):
    order = await here.placed()
    await offboarding.suspend(here.mercato.app.db, await owner(here), now=clock.now)
    shown = await here.front.get(f"{ORDERS}/{order['orderId']}")
    assert (shown.status, shown.json()["state"]) == (200, "open")


@on_both
async def test_deletion_is_refused_while_an_order_is_open_on_either_side(here: Trade):
    await here.placed()
    db = here.mercato.app.db
    for partner_id in (await owner(here), await storefront(here)):
        with pytest.raises(AccountError, match="open orders: 1"):
            await offboarding.delete(db, partner_id, now=clock.now)
    assert (await here.pos.get(STORES)).status == 200
    assert await found(here.front) == 1


@on_both
@pytest.mark.parametrize("is_deleted", [True, False])
async def test_no_order_is_stored_for_a_storefront_that_was_gone_meanwhile(
    here: Trade, shop: MerchantServer, *, is_deleted: bool
):
    end = offboarding.delete if is_deleted else offboarding.suspend
    who, db = await storefront(here), here.mercato.app.db

    async def meanwhile(_request: web.Request, _body: bytes) -> web.Response:
        await end(db, who, now=clock.now)
        return web.json_response({"isValid": True})

    shop.answers["validate"] = meanwhile
    reply = await here.place(here.order())
    assert (reply.status, reply.json()["errorCode"]) == (403, "FORBIDDEN")
    async with db.read() as tx:
        assert await tx.scalar(select(func.count()).select_from(orders)) == 0
    path, _, _ = await shop.webhook()
    assert path.endswith("/validate")
    assert shop.received.empty(), "the store hears of no order"


@on_both
async def test_a_storefront_is_not_deleted_with_an_order_that_was_placed_while_it_was_suspended(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    who, db = await storefront(here), here.mercato.app.db
    await here.update(await here.placed(), state="completed")
    delete_stores = offboarding._delete_stores

    async def delete_and_place(*arguments: Any) -> bool:
        # As one that was stored in the moment of the suspension.
        more = await delete_stores(*arguments)
        async with db.write() as tx:
            await tx.execute(update(orders).values(state=OrderState.OPEN))
        return more

    monkeypatch.setattr(offboarding, "_delete_stores", delete_and_place)
    with pytest.raises(AccountError, match="open orders: 1"):
        await offboarding.delete(db, who, now=clock.now)
    async with db.read() as tx:
        assert await accounts.get_partner(tx, who)


@only_postgresql
async def test_a_deletion_waits_for_an_order_that_is_being_stored_and_is_refused(here: Trade):
    who, db = await storefront(here), here.mercato.app.db
    placed = await here.placed()
    await here.update(placed, state="completed")
    async with db.read() as tx:
        order = await queries.get_order(tx, UUID(placed["orderId"]))
        version = await tx.scalar(select(stores.c.version))
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM partners%'"
    )
    async with db.write() as tx:
        again = replace(order, id=here.mercato.app.new_id(), token_id=None, state=OrderState.OPEN)
        queries.insert_order(tx, again, store_version=version)
        await tx.scalar(select(func.count()).select_from(orders))  # what was deferred is sent before it
        deletion = asyncio.create_task(offboarding.delete(db, who, now=clock.now))
        async with loop_timeout(PATIENCE):
            while not deletion.done():
                async with db.read() as look:
                    if await look.scalar(waiting):
                        break
        assert not deletion.done(), "it waits for the order"
    with pytest.raises(AccountError, match="open orders: 1"):
        await deletion
    async with db.read() as tx:
        assert await accounts.get_partner(tx, who)


@on_both
async def test_a_deleted_partner_leaves_its_orders_and_nothing_else(here: Trade):
    order = await here.placed()
    assert (await here.update(order, state="completed")).status == 200
    db, me = here.mercato.app.db, await owner(here)
    async with db.read() as tx:
        held = await offboarding.count_holdings(tx, me)
    assert (held.keys, held.stores, held.onboardings, held.orders, held.open_orders) == (1, 1, 1, 1, 0)
    assert held.deliveries > 0
    await offboarding.delete(db, me, now=clock.now)
    async with loop_timeout(2):
        while (await here.pos.get(STORES)).status != 401:
            await asyncio.sleep(0.02)
    assert await found(here.front) == 0
    shown = await here.front.get(f"{ORDERS}/{order['orderId']}")
    assert (shown.status, shown.json()["state"]) == (200, "completed")
    assert (await here.front.get(f"{ORDERS}/{order['orderId']}/timeline")).status == 200
    owned = [
        table
        for table in metadata.sorted_tables
        if "partner_id" in table.c and table.name not in {"orders", "audit", "idempotency_keys"}
    ]
    async with db.read() as tx:
        for table in owned:
            count = select(func.count()).select_from(table).where(table.c.partner_id == me)
            assert await tx.scalar(count) == 0, table.name
        for table in (catalog_bodies, store_cards, store_search, opening_hours):
            assert await tx.scalar(select(func.count()).select_from(table)) == 0, table.name
        assert await accounts.get_partner(tx, await storefront(here))


@on_both
@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_request_that_began_before_its_partner_was_gone_makes_nothing_of_it(
    mercato: Service, monkeypatch: pytest.MonkeyPatch, *, is_deleted: bool
):
    # Its key isn't looked up again, as it is after a body that took more than a second: the transaction refuses.
    monkeypatch.setattr(http_body, "TRUSTED_SECONDS", PATIENCE)
    made, pos = await mercato.partner()
    store = {"partnerStoreId": "s", "name": "S", "address": {}, "catalogCallbackUrl": "http://127.0.0.1:1/c"}
    endpoint = {"url": "https://partner.example.com/events"}
    slow = [
        await SlowRequest.of(pos, "POST", "/v1/commerce/onboarding/stores", store),
        await SlowRequest.of(pos, "POST", "/v1/commerce/webhook-endpoints", endpoint),
    ]
    end = offboarding.delete if is_deleted else offboarding.suspend
    await end(mercato.app.db, made.id, now=clock.now)
    assert [await request.end() for request in slow] == [403, 403]
    for table in (onboardings, catalog_owners, webhook_endpoints):
        async with mercato.app.db.read() as tx:
            assert await tx.scalar(select(func.count()).select_from(table)) == 0, table.name


@on_both
async def test_a_key_that_is_revoked_while_bodies_arrive_does_nothing(here: Trade):
    store = f"{STORES}/{here.store['storeId']}"
    slow = [
        await SlowRequest.of(here.pos, "POST", f"{store}/status", {"status": "paused"}),
        await SlowRequest.of(here.pos, "PUT", f"{store}/catalog", {"items": {}}),
    ]
    async with here.mercato.app.db.write() as tx:
        await credentials.revoke_key(tx, await credentials.get_key(tx, here.pos.key or ""))
    await asyncio.sleep(1.5)  # a change of keys is known everywhere within a second
    assert [await request.end() for request in slow] == [401, 401]
    async with here.mercato.app.db.read() as tx:
        assert not await tx.scalar(select(stores.c.paused))
        assert await tx.scalar(select(func.count()).select_from(catalog_runs)) == 1


async def test_the_name_of_a_deleted_partner_is_free_again(here: Trade):
    db, me = here.mercato.app.db, await owner(here)
    async with db.read() as tx:
        name = (await accounts.get_partner(tx, me)).name
    await offboarding.delete(db, me, now=clock.now)
    await here.mercato.partner(name=name)


@on_both
async def test_a_catalog_that_is_pulled_while_its_partner_is_deleted_is_discarded(
    mercato: Service, shop: MerchantServer
):
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow(_request: object) -> object:
        from aiohttp import web

        asked.set()
        await release.wait()
        return web.json_response({"items": {"a": {"name": "A", "basePrice": "1.00"}}})

    made, pos = await mercato.partner()
    body = {"partnerStoreId": "s", "name": "S", "address": {}, "catalogCallbackUrl": shop.host(slow)}
    assert (await pos.post("/v1/commerce/onboarding/stores", body)).status == 201
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
    await offboarding.delete(mercato.app.db, made.id, now=clock.now)
    release.set()
    async with asyncio.timeout(PATIENCE):
        while True:
            async with mercato.app.db.read() as tx:
                if not await tx.scalar(select(func.count()).select_from(jobs)):
                    break
            await asyncio.sleep(0.02)
    async with mercato.app.db.read() as tx:
        assert await tx.scalar(select(func.count()).select_from(catalog_sets)) == 0
