"""The real service, on a temporary database, and the stores that a storefront finds there.

A merchant's double runs them: what can be bought is behind what can't.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final
from uuid import UUID, uuid5

from msgspec import Struct

from mercato.features.partners.model import PartnerKind
from mercato_client import AsyncClient
from mercato_client.testing.caller import Caller, open_session
from mercato_client.testing.merchant import MerchantDouble
from mercato_client.testing.order_simulator import OrderSimulator
from mercato_contract.stores import (
    AddressRequest,
    Coordinates,
    ItemAvailabilityEntry,
    OnboardingRequest,
    StoreStatusUpdate,
)
from mercato_contract.wire import as_json
from mercato_tools.certify.sample_store import SampleStore, item, sample_store

_NAMESPACE: Final = UUID("7c0e1c52-1f0e-4d8a-9a3c-7b5a2f2c9e10")

NAME: Final = "Harbour Ramen"


def _id(name: str) -> str:
    return str(uuid5(_NAMESPACE, name))


UNAVAILABLE: Final = _id("gone")
SOLD_OUT: Final = UUID(_id("sold out"))
SET: Final = _id("set")
RAMEN: Final = _id("ramen")
BROTH: Final = _id("broth")

PRICES: Final = {
    "USD": ("13.50", "6.25", "1.75"),
    "KWD": ("4.125", "1.905", "0.335"),
    "JPY": ("950", "480", "130"),
}
"""Of the main dish, the side and the modifier, in currencies of two, three and no decimals."""

PAUSED_STORES: Final = 101
"""More than fit on the largest page of a search."""


class Offer(Struct, frozen=True, kw_only=True):
    """A store that a scenario needs. With a `previous_document` it has changed its menu once."""

    name: str = NAME
    document: dict[str, Any]
    previous_document: dict[str, Any] | None = None
    sold_out: tuple[UUID, ...] = ()
    is_paused: bool = False

    def sample(self, **ids: Any) -> SampleStore:
        """Return the store as the certifier orders from it."""
        document, sold_out = as_json(self.document), self.sold_out
        sample = sample_store(document, partner_store_id=self.name, sold_out=sold_out, **ids)
        assert sample is not None, "the menu is valid"
        return sample


def offer(*, currency: str = "USD", unavailable_first: bool = False, choice_first: bool = False) -> Offer:
    """Return a store that has changed its menu once."""
    document = _menu(currency, unavailable_first=unavailable_first, choice_first=choice_first)
    previous_sections = [section | {"name": "Soups"} for section in document["sections"]]
    return Offer(
        document=document,
        previous_document=document | {"sections": previous_sections},
        sold_out=(SOLD_OUT,) if unavailable_first else (),
    )


def many_stores() -> Sequence[Offer]:
    """Return more stores than fit on a page; by name, the open ones come last."""
    document = _menu("USD")
    return [
        Offer(name=f"Corner {number:03}", document=document, is_paused=number < PAUSED_STORES)
        for number in range(PAUSED_STORES + 2)
    ]


def _menu(currency: str, *, unavailable_first: bool = False, choice_first: bool = False) -> dict[str, Any]:
    """Return a menu. It may begin with items that can't be ordered, or with one that requires a modifier."""
    main, side, modifier = PRICES[currency]
    unavailable = [
        item("Yesterday's ramen", main, UNAVAILABLE, isAvailable=False),
        item("Sold-out ramen", main, str(SOLD_OUT)),
        item("Ramen broth to go, with a dish only", None, _id("priceless")),
    ]
    required = item("Ramen set", main, SET, modifierGroupIds=[BROTH])
    plain = [item("Miso ramen", main, RAMEN), item("Gyoza with ramen crumbs", side, _id("gyoza"))]
    items = [required, *plain] if choice_first else [*plain, required]
    items = [*unavailable, *items] if unavailable_first else items
    broths = [item("Clear broth", "0", _id("clear")), item("Rich broth", modifier, _id("rich"))]
    broth_ids = [broth["itemId"] for broth in broths]
    return {
        "currency": currency,
        "sections": [{"name": "Ramen", "itemIds": [one["itemId"] for one in items]}],
        "items": {entity["itemId"]: entity for entity in [*items, *broths]},
        "modifierGroups": {
            BROTH: {"name": "Broth", "itemIds": broth_ids, "minimumAllowed": 1, "maximumAllowed": 1}
        },
    }


STEP_SECONDS: Final = 0.2
"""How long an order stays in one status."""

OPENED_AT_ONCE: Final = 4
"""Each asks until its menu is checked: more stores at a time would wait longer, and ask more often."""
OPEN_SECONDS: Final = 120.0
"""Many stores are opened at once, perhaps on a busy machine: only a service that hangs takes so long to answer."""

ADDRESS: Final = AddressRequest(
    street="1 Main Street", city="Madison", country="US", coordinates=Coordinates(lat=43.0731, lng=-89.4012)
)


@dataclass(frozen=True, slots=True)
class Service:
    """A running service as one storefront has it: its address, the storefront's key, and its stores."""

    base: str
    key: str = field(repr=False)
    stores: Sequence[SampleStore]


@asynccontextmanager
async def running_service(
    offers: Sequence[Offer], *, works: bool
) -> AsyncIterator[Callable[[], Awaitable[Service]]]:
    """Run a service whose stores sell the offers; each call of what is yielded is for one more storefront.

    Unless it `works`, the merchant leaves its orders as they are.
    """
    from mercato.local.service import temporary_service

    async with (
        MerchantDouble() as merchant,
        temporary_service("certify", rate_limits=False) as service,
        open_session() as session,
    ):
        pos = await service.create_partner("Certification POS", PartnerKind.COMMERCE)
        merchant.trust(pos.signing_secret)
        async with AsyncClient(service.base, pos.key, timeout=OPEN_SECONDS) as client:
            slots = asyncio.Semaphore(OPENED_AT_ONCE)

            async def open_one(number: int, offer: Offer) -> SampleStore:
                async with slots:
                    return await _open(offer, merchant, client, f"/{number}.json")

            stores = await asyncio.gather(*(open_one(number, offer) for number, offer in enumerate(offers)))

        numbers = count(1)

        async def admit() -> Service:
            front = await service.create_partner(f"Storefront {next(numbers)}", PartnerKind.MARKETFRONT)
            return Service(service.base, front.key, stores)

        simulator = OrderSimulator(merchant, Caller(service.base, pos.key, session), STEP_SECONDS)
        working = asyncio.create_task(simulator.run(workers=4 if works else 0))
        try:
            yield admit
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
