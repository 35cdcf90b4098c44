"""What a partner may store in a day is bounded, in all processes together: beyond it, 429 until the day ends."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import func, select
from tests.api.trade import PLACE, VALIDATE, Time, Trade, trade
from tests.catalog.documents import cafe
from tests.databases import mostly_sqlite, on_both
from tests.service import Client, MerchantServer, Service, service

from mercato.features.orders.tables import orders
from mercato.features.partners.model import PartnerKind
from mercato.features.partners.queries import ORDER_BYTES
from mercato.features.partners.tables import stored_bytes
from mercato.features.stores.tables import stores
from mercato.features.upkeep import Upkeep
from mercato.features.webhooks.tables import deliveries
from mercato_client.testing.caller import Answer
from mercato_contract.webhooks import DeliveryStatus

pytestmark = mostly_sqlite

QUOTA = 3 * ORDER_BYTES
NOTIFY = "/v1/commerce/catalogset-notification"


@pytest.fixture
async def mercato(database_url: str, tmp_path: Path, time: Time) -> AsyncIterator[Service]:
    async with limited(database_url, tmp_path, time) as made:
        yield made


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, pulls=True)


def limited(database_url: str, tmp_path: Path, time: Time, **settings: Any) -> Any:
    """Run a service whose partners may store `QUOTA` bytes a day."""
    bounds = {"rate_limits": True, "stored_bytes_per_day": QUOTA} | settings
    return service(database_url, tmp_path / "data", now=time, **bounds)


def used_up(reply: Answer, time: Time) -> None:
    """Check that the reply names the quota, and when it is renewed."""
    body = reply.json()
    now = time()
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    assert (reply.status, body["errorCode"], body["retryable"]) == (429, "RATE_LIMITED", True)
    assert abs(body["retryAfter"] - (midnight - now).total_seconds()) < 60
    assert reply.headers["Retry-After"] == str(body["retryAfter"])
    assert f"{QUOTA:,} bytes" in body["detail"]
    assert "MERCATO_STORED_BYTES_PER_DAY" in body["detail"]


async def count(here: Trade, table: Any, *conditions: Any) -> int:
    async with here.mercato.app.db.read() as tx:
        number: int = await tx.scalar(select(func.count()).select_from(table).where(*conditions))
    return number


@on_both
async def test_a_storefront_that_has_stored_all_that_it_may_is_429_until_the_day_ends(
    here: Trade, time: Time
):
    for _ in range(3):
        await here.placed()
    key, token = str(uuid4()), await here.token(here.order())
    used_up(await here.place(here.order(validatedOrderToken=token), key=key), time)
    used_up(await here.place(here.order(), key=key), time)
    assert await count(here, orders) == 3
    other = (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]
    assert (await here.place(here.order(), front=other)).status == 201
    time.ahead += timedelta(days=1)
    # The key was left free: the same request is placed.
    assert (await here.place(here.order(), key=key)).status == 201


@on_both
async def test_the_quota_holds_for_all_processes_together(
    here: Trade, database_url: str, tmp_path: Path, time: Time
):
    async with limited(database_url, tmp_path, time) as other:
        front = Client(other.base, here.front.key, other.session)
        replies = [
            await (front if number % 2 else here.front).post(
                PLACE, here.order(), headers={"Idempotency-Key": str(uuid4())}
            )
            for number in range(6)
        ]
    assert sorted(reply.status for reply in replies) == [201] * 3 + [429] * 3


@on_both
async def test_validations_that_no_store_answers_count_for_the_storefront(here: Trade, time: Time):
    for _ in range(2):
        await here.placed()
    here.shop.answers["validate"] = unwell
    statuses = [(await here.front.post(VALIDATE, here.order())).status for _ in range(8)]
    assert set(statuses) == {503, 429}
    assert statuses == sorted(statuses, reverse=True)
    # The validations that the store answered are written a second later.
    failed = deliveries.c.status == DeliveryStatus.FAILED
    assert await count(here, deliveries, failed) == statuses.count(503)


@on_both
async def test_a_merchant_that_has_stored_all_that_it_may_gets_no_new_catalog_until_the_day_ends(
    here: Trade, time: Time
):
    path = f"{NOTIFY}?storeId={here.store['storeId']}"
    async with here.mercato.app.db.write() as tx:
        await here.mercato.app.stores.quota.take(tx, await merchant_of(here), QUOTA, now=time())
    used_up(await here.pos.post(path, {"callbackUrl": here.shop.host(renamed("Broth"))}), time)
    status = await here.mercato.onboard(here.pos, here.shop.host(renamed("Soup")), name="store-2")
    assert status["status"] == "catalog_failed"
    assert "MERCATO_STORED_BYTES_PER_DAY" in status["error"]
    time.ahead += timedelta(days=1)
    run = await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(renamed("Stew")))
    assert run["status"] == "succeeded"


async def merchant_of(here: Trade) -> UUID:
    async with here.mercato.app.db.read() as tx:
        partner_id: UUID = await tx.scalar(select(stores.c.partner_id))
    return partner_id


def renamed(name: str) -> Any:
    document = cafe()
    for item in document["items"].values():
        item["name"] = name
    return document


async def unwell(_request: web.Request, _body: bytes) -> web.StreamResponse:
    return web.Response(status=500)


@on_both
async def test_counts_of_days_that_are_over_are_deleted(here: Trade, time: Time):
    await here.placed()
    assert await count(here, stored_bytes) == 2
    time.ahead += timedelta(days=3)
    await Upkeep(here.mercato.app.db, time, catalog_days=30, delivery_days=30).once()
    assert await count(here, stored_bytes) == 0


@pytest.mark.parametrize("settings", [{"stored_bytes_per_day": 0}, {"rate_limits": False}])
async def test_nothing_is_counted_without_a_quota(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time, settings: dict[str, Any]
):
    async with limited(database_url, tmp_path, time, **settings) as mercato:
        here = await trade(mercato, shop)
        for _ in range(4):
            await here.placed()
        assert await count(here, stored_bytes) == 0
