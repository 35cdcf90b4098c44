"""A menu that somebody has uploaded waits until it is published, once; the run then reads it as any that was sent."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select
from tests.api.trade import Time
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, Client, MerchantServer, Service, service

from mercato.features.catalogs import uploads
from mercato.features.catalogs.errors import DraftNotFound
from mercato.features.catalogs.runs import Run
from mercato.features.catalogs.tables import catalog_uploads
from mercato.features.partners.model import Caller, Limits, Surface
from mercato.features.stores.model import StoreNotFound
from mercato.features.upkeep import Upkeep
from mercato_contract.wire import as_json

pytestmark = mostly_sqlite

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MENU = as_json(CATALOG | {"currency": "EUR"})


@pytest.fixture
async def mercato(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
) -> AsyncIterator[Service]:
    assert shop.base  # It outlives the service.
    async with service(database_url, tmp_path / "data", now=time) as running:
        yield running


@pytest.fixture
async def partner(mercato: Service) -> tuple[Caller, Client]:
    made, client = await mercato.partner()
    return caller_of(made.id), client


def caller_of(partner_id: UUID) -> Caller:
    return Caller(partner_id, uuid4(), Surface.COMMERCE, Limits())


async def kept(mercato: Service) -> int:
    async with mercato.app.db.read() as tx:
        return int(await tx.scalar(select(func.count()).select_from(catalog_uploads)))


async def ended(mercato: Service, pos: Client, store: Any, run_id: UUID) -> Any:
    path = f"/v1/commerce/stores/{store['storeId']}/catalog-ingest/{run_id}/status"
    return await mercato.until(pos, path, lambda run: run["status"] in {"succeeded", "failed"})


async def publish(mercato: Service, caller: Caller, store: Any, draft_id: UUID) -> Run:
    return await mercato.app.stores.publish_menu(caller, UUID(store["storeId"]), draft_id, trace=TRACE)


async def test_a_menu_that_was_kept_is_published_once(
    mercato: Service, shop: MerchantServer, partner: tuple[Caller, Client]
):
    caller, pos = partner
    store = await mercato.live(pos, shop.host(CATALOG))
    draft_id = await mercato.app.stores.keep_menu(caller, MENU)
    run = await publish(mercato, caller, store, draft_id)
    assert (await ended(mercato, pos, store, run.id))["status"] == "succeeded"
    served = (await pos.get(f"/v1/commerce/catalog-sets/{store['catalogSetId']}")).json()
    after = (await pos.get(f"/v1/commerce/stores/{store['storeId']}")).json()
    assert after["catalogSetId"] != served["catalogSetId"]
    current = (await pos.get(f"/v1/commerce/catalog-sets/{after['catalogSetId']}")).json()
    assert (served["currency"], current["currency"]) == ("USD", "EUR")
    with pytest.raises(DraftNotFound):
        await publish(mercato, caller, store, draft_id)
    assert await kept(mercato) == 0
    runs = (await pos.get(f"/v1/commerce/stores/{store['storeId']}/catalog-ingest")).json()
    assert len(runs["runs"]) == 1


@on_both
async def test_nobody_else_publishes_a_menu_or_publishes_it_to_their_store(
    mercato: Service, shop: MerchantServer, partner: tuple[Caller, Client]
):
    caller, pos = partner
    store = await mercato.live(pos, shop.host(CATALOG))
    made, other = await mercato.partner()
    theirs = await mercato.live(other, shop.host(CATALOG))
    draft_id = await mercato.app.stores.keep_menu(caller, MENU)
    with pytest.raises(DraftNotFound):
        await publish(mercato, caller_of(made.id), theirs, draft_id)
    with pytest.raises(StoreNotFound):
        await publish(mercato, caller, theirs, draft_id)
    with pytest.raises(DraftNotFound):
        await publish(mercato, caller, store, uuid4())
    assert await kept(mercato) == 1
    await publish(mercato, caller, store, draft_id)


async def test_the_newest_menus_of_a_partner_are_kept_for_an_hour(
    mercato: Service, shop: MerchantServer, partner: tuple[Caller, Client], time: Time
):
    caller, pos = partner
    store = await mercato.live(pos, shop.host(CATALOG))
    made = []
    for _ in range(uploads.DRAFTS + 2):
        made.append(await mercato.app.stores.keep_menu(caller, MENU))
        # Menus of one millisecond have no order: ids have the time of the machine.
        await asyncio.sleep(0.005)
    other, _ = await mercato.partner()
    await mercato.app.stores.keep_menu(caller_of(other.id), MENU)
    assert await kept(mercato) == uploads.DRAFTS + 1
    with pytest.raises(DraftNotFound):
        await publish(mercato, caller, store, made[1])
    time.ahead += timedelta(minutes=59)
    await Upkeep(mercato.app.db, time, catalog_days=30, delivery_days=30, rest=0).once()
    await publish(mercato, caller, store, made[2])
    await mercato.app.stores.keep_menu(caller, MENU)
    time.ahead += timedelta(minutes=2)
    await Upkeep(mercato.app.db, time, catalog_days=30, delivery_days=30, rest=0).once()
    assert await kept(mercato) <= 2
    with pytest.raises(DraftNotFound):
        await publish(mercato, caller, store, made[-1])
