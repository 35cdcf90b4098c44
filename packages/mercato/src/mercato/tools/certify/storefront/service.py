"""The real service for one scenario: on a temporary database, with a merchant's double that runs its stores."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from mercato.features.partners.model import PartnerKind
from mercato.tools.certify.sample_store import SampleStore
from mercato.tools.certify.storefront.stores import Offer
from mercato_client import AsyncClient
from mercato_client.testing.caller import Caller
from mercato_client.testing.merchant import MerchantDouble
from mercato_client.testing.order_simulator import OrderSimulator
from mercato_contract.stores import (
    AddressRequest,
    Coordinates,
    ItemAvailabilityEntry,
    OnboardingRequest,
    StoreStatusUpdate,
)

STEP_SECONDS: Final = 0.2
"""How long an order stays in one status."""

OPENED_AT_ONCE: Final = 16
"""More stores at a time would make the database busy."""

ADDRESS: Final = AddressRequest(
    street="1 Main Street", city="Madison", country="US", coordinates=Coordinates(lat=43.0731, lng=-89.4012)
)


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: its address, the storefront's key, and its stores."""

    base: str
    key: str = field(repr=False)
    stores: Sequence[SampleStore]


@asynccontextmanager
async def running_service(offers: Sequence[Offer]) -> AsyncIterator[Service]:
    """Run a service whose stores sell the offers."""
    from mercato.tools.local import temporary_service

    async with (
        MerchantDouble() as merchant,
        temporary_service("certify", rate_limits=False) as service,
        aiohttp.ClientSession() as session,
    ):
        pos = await service.create_partner("Certification POS", PartnerKind.COMMERCE)
        front = await service.create_partner("Storefront", PartnerKind.MARKETFRONT)
        merchant.trust(pos.signing_secret)
        async with AsyncClient(service.base, pos.key) as client:
            slots = asyncio.Semaphore(OPENED_AT_ONCE)

            async def open_one(number: int, offer: Offer) -> SampleStore:
                async with slots:
                    return await _open(offer, merchant, client, f"/{number}.json")

            stores = await asyncio.gather(*(open_one(number, offer) for number, offer in enumerate(offers)))
        simulator = OrderSimulator(merchant, Caller(service.base, pos.key, session), STEP_SECONDS)
        working = asyncio.create_task(simulator.run(workers=4))
        try:
            yield Service(service.base, front.key, stores)
        finally:
            working.cancel()
            await asyncio.wait([working])


async def _open(offer: Offer, merchant: MerchantDouble, client: AsyncClient, path: str) -> SampleStore:
    """Register a store, make it live, and bring it to the state that the offer wants."""
    registration = OnboardingRequest(
        partner_store_id=offer.name,
        name=offer.name,
        address=ADDRESS,
        timezone="UTC",
        catalog_callback_url=merchant.host(path, offer.previous_document or offer.document),
        webhook_url=merchant.webhook_url,
    )
    onboarding = await client.register_store(registration)
    store = await client.wait_until_live(onboarding.onboarding_id)
    previous_set = None
    if offer.previous_document is not None:
        previous_set = store.catalog_set_id
        run = await client.notify_catalog_update(store.store_id, merchant.host(path, offer.document))
        # `replace_catalog` would first wait for as long as the service asks, which is for real networks.
        await client.wait_until_ingested(store.store_id, run.catalog_ingest_id)
        store = await client.get_store(store.store_id)
    if offer.sold_out:
        entries = [ItemAvailabilityEntry(item_id=str(item), available=False) for item in offer.sold_out]
        await client.set_item_availability(store.store_id, entries)
    if offer.is_paused:
        await client.set_store_status(store.store_id, StoreStatusUpdate(status="paused"))
    return offer.sample(
        store_id=store.store_id, catalog_set_id=store.catalog_set_id, previous_set=previous_set
    )
