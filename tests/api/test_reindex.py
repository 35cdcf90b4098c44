"""Stored search cards of an earlier shape are rewritten in the background, in small steps that may be interrupted."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import select, update
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.features.discovery.tables import store_cards
from mercato.features.partners.model import PartnerKind
from mercato.features.stores import search
from mercato.features.stores.tables import stores
from mercato.features.stores.views import CARD_VERSION
from mercato.features.upkeep import Upkeep
from mercato.platform.db.tables import jobs as jobs_table
from mercato_contract import clock
from mercato_contract.stores import StoreCard

pytestmark = mostly_sqlite

KINDS = {
    "StoreCard.storeId": "string",
    "StoreCard.catalogSetId": "string",
    "StoreCard.name": "string",
    "StoreCard.description": "string",
    "StoreCard.phone": "string",
    "StoreCard.logoUrl": "string",
    "StoreCard.timezone": "string",
    "StoreCard.address": "PostalAddress",
    "StoreCard.availability": "list of AvailabilityWindow",
    "StoreCard.categories": "list of string",
    "StoreCard.fulfillmentTypes": "list of FulfillmentMode",
    "StoreCard.minimumOrderAmount": "string",
    "PostalAddress.address1": "string or null",
    "PostalAddress.address2": "string or null",
    "PostalAddress.city": "string or null",
    "PostalAddress.coordinates": "Coordinates or null",
    "PostalAddress.postalCode": "string or null",
    "PostalAddress.state": "string or null",
    "Coordinates.lat": "number",
    "Coordinates.lng": "number",
    "AvailabilityWindow.dayOfWeek": "string",
    "AvailabilityWindow.start": "string",
    "AvailabilityWindow.end": "string",
}
"""The members of stored cards in their first version, and what each is. A member that is added raises the version."""


def kind_of(schema: dict[str, Any]) -> str:
    if schema.get("type") == "array":
        return f"list of {kind_of(schema['items'])}"
    choices = schema.get("anyOf", [schema])
    return " or ".join(one.get("$ref", one.get("type")).removeprefix("#/$defs/") for one in choices)


def test_a_change_of_the_card_that_adds_no_member_has_a_new_version() -> None:
    shapes = msgspec.json.schema(StoreCard)["$defs"].items()
    kinds = {
        f"{name}.{member}": kind_of(schema)
        for name, shape in shapes
        for member, schema in shape.get("properties", {}).items()
    }
    changed = {member: kinds.get(member) for member in KINDS if kinds.get(member) != KINDS[member]}
    assert not changed, (
        "Raise _RESHAPED in features/stores/views.py (by one more for each member gone), and renew KINDS."
    )


async def cards(mercato: Service) -> dict[UUID, tuple[int, bytes]]:
    async with mercato.app.db.read() as tx:
        rows = await tx.all(select(store_cards.c.store_id, store_cards.c.version, store_cards.c.card))
    return {row.store_id: (row.version, row.card) for row in rows}


async def make_outdated(mercato: Service) -> None:
    """Make all cards as a release before this one wrote them, which lacked a member."""
    async with mercato.app.db.write() as tx:
        await tx.execute(update(store_cards).values(version=CARD_VERSION - 1, card=b'{"name":"old"}'))


async def reindexed(mercato: Service, expected: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while await cards(mercato) != expected:
            await asyncio.sleep(0.02)


@pytest.fixture
async def network(mercato: Service, pos: Client, shop: MerchantServer) -> dict[UUID, tuple[int, bytes]]:
    """Three live stores, and their cards."""
    for number in range(3):
        await mercato.live(pos, shop.host(CATALOG, f"/{number}.json"), name=f"shop-{number}")
    return await cards(mercato)


async def test_upkeep_has_cards_of_an_earlier_version_rewritten(
    mercato: Service, network: dict[UUID, tuple[int, bytes]]
) -> None:
    await make_outdated(mercato)
    await Upkeep(mercato.app.db, clock.now, catalog_days=30, delivery_days=30).once()
    await reindexed(mercato, network)
    storefront = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    found = (await storefront.post("/v1/marketfront/stores/discover", {})).json()
    assert {UUID(store["storeId"]) for store in found["stores"]} == set(network)


@on_both
async def test_a_reindex_that_is_interrupted_continues_where_it_was(
    mercato: Service, network: dict[UUID, tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten: list[UUID] = []
    real, failed = search.refresh, asyncio.Event()

    async def interrupted(tx: Any, store_id: UUID) -> None:
        if len(rewritten) == 2 and not failed.is_set():
            failed.set()
            raise RuntimeError("killed")
        rewritten.append(store_id)
        await real(tx, store_id)

    monkeypatch.setattr(search, "BATCH", 1)
    monkeypatch.setattr(search, "refresh", interrupted)
    await make_outdated(mercato)
    await search.enqueue_reindex(mercato.app.db)
    async with asyncio.timeout(PATIENCE):
        await failed.wait()
    assert sorted(version for version, _ in (await cards(mercato)).values()) == [
        CARD_VERSION - 1,
        CARD_VERSION,
        CARD_VERSION,
    ]
    await reindexed(mercato, network)
    assert sorted(rewritten) == sorted(network)


async def test_a_job_ends_after_a_number_of_batches_and_another_continues(
    mercato: Service, network: dict[UUID, tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BATCH", 1)
    monkeypatch.setattr(search, "BATCHES", 1)
    await make_outdated(mercato)
    await search.enqueue_reindex(mercato.app.db)
    await reindexed(mercato, network)


@on_both
async def test_cards_of_a_later_release_are_left_alone(
    mercato: Service, network: dict[UUID, tuple[int, bytes]]
) -> None:
    async with mercato.app.db.write() as tx:
        await tx.execute(update(store_cards).values(version=CARD_VERSION + 1))
    later = await cards(mercato)
    await search.enqueue_reindex(mercato.app.db)
    async with mercato.app.db.read() as tx:
        assert await tx.first(select(jobs_table.c.id).where(jobs_table.c.kind == search.REINDEX)) is None
    assert await cards(mercato) == later


@on_both
async def test_the_card_of_a_store_that_is_gone_is_deleted(
    mercato: Service, network: dict[UUID, tuple[int, bytes]]
) -> None:
    gone, *left = network
    await make_outdated(mercato)
    async with mercato.app.db.write() as tx:
        await tx.execute(stores.delete().where(stores.c.id == gone))
    await search.enqueue_reindex(mercato.app.db)
    await reindexed(mercato, {store_id: network[store_id] for store_id in left})
