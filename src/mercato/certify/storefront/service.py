"""The real service for one purchase: on a temporary database, with a merchant's double that runs its stores."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp
from msgspec.structs import replace

from mercato import clock
from mercato.certify.shop import Shop, shop_of
from mercato.certify.storefront.menus import Offer
from mercato.partners import accounts
from mercato.partners.accounts import NewPartner
from mercato.partners.model import PartnerKind
from mercato.testing.caller import Caller
from mercato.testing.merchant import MerchantDouble
from mercato.testing.order_simulator import OrderSimulator
from mercato.wire import as_json, parse_uuid

ONBOARDING: Final = "/v1/commerce/onboarding/stores"
STORES: Final = "/v1/commerce/stores"

STEP_SECONDS: Final = 0.2
"""How long an order takes from one status to the next."""

POLL_SECONDS: Final = 0.02
OPENED_AT_ONCE: Final = 16

ADDRESS: Final = {
    "street": "1 Main Street",
    "city": "Madison",
    "state": "WI",
    "postalCode": "53703",
    "country": "US",
    "coordinates": {"lat": 43.0731, "lng": -89.4012},
}


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: where it is, the storefront's key, and its stores."""

    base: str
    key: str = field(repr=False)
    shops: Sequence[Shop]


@asynccontextmanager
async def selling(offers: Sequence[Offer]) -> AsyncIterator[Service]:
    """Run a service whose stores sell the offers while the block runs."""
    from mercato.db.migrate import migrate
    from mercato.db.url import database_url
    from mercato.runtime import running
    from mercato.settings import Settings
    from mercato.web.app import application
    from mercato.web.server import serving

    with tempfile.TemporaryDirectory(prefix="mercato-certify-") as directory:
        settings = Settings(data_dir=Path(directory), allow_private_networks=True, rate_limits=False)
        await migrate(database_url(settings))
        async with (
            MerchantDouble() as merchant,
            running(settings) as app,
            serving(application(app)) as base,
            aiohttp.ClientSession() as session,
        ):
            async with app.db.write() as tx:
                pos = await accounts.create_partner(
                    tx, app.vault, name="Certification POS", kind=PartnerKind.COMMERCE
                )
                front = await accounts.create_partner(
                    tx, app.vault, name="Storefront", kind=PartnerKind.MARKETFRONT
                )
            merchant.trust(pos.signing_secret)
            caller = Caller(base, _key(pos), session)
            shops = await _open_all(offers, merchant, caller)
            working = asyncio.create_task(OrderSimulator(merchant, caller, STEP_SECONDS).run(workers=4))
            try:
                yield Service(base, _key(front), shops)
            finally:
                working.cancel()
                await asyncio.wait([working])


async def _open_all(offers: Sequence[Offer], merchant: MerchantDouble, caller: Caller) -> list[Shop]:
    places = asyncio.Semaphore(OPENED_AT_ONCE)

    async def open_one(number: int, offer: Offer) -> Shop:
        async with places:
            return await _open(offer, merchant, caller, path=f"/{number}.json")

    return await asyncio.gather(*(open_one(number, offer) for number, offer in enumerate(offers)))


async def _open(offer: Offer, merchant: MerchantDouble, caller: Caller, *, path: str) -> Shop:
    """Register a store, make it live, and bring it to the state that the offer wants."""
    url = merchant.host(path, offer.document if offer.old_document is None else offer.old_document)
    registration = {
        "partnerStoreId": offer.name,
        "name": offer.name,
        "address": ADDRESS,
        "timezone": "UTC",
        "catalogCallbackUrl": url,
        "webhookUrl": merchant.webhook_url,
    }
    reply = await caller.post(ONBOARDING, registration)
    onboarding_id = reply.expect(HTTPStatus.CREATED, "The store is not registered")["onboardingId"]
    await _until(caller, f"{ONBOARDING}/{onboarding_id}", "ready_to_activate")
    reply = await caller.post(f"{ONBOARDING}/{onboarding_id}/activate")
    store = reply.expect(HTTPStatus.OK, "The store is not activated")
    path_of_store = f"{STORES}/{store['storeId']}"
    old_set = None
    if offer.old_document is not None:
        old_set = store["catalogSetId"]
        merchant.host(path, offer.document)
        notified = await caller.post(
            f"/v1/commerce/catalogset-notification?storeId={store['storeId']}", {"callbackUrl": url}
        )
        run = notified.expect(HTTPStatus.ACCEPTED, "The catalog is not published")
        await _until(caller, run["statusUrl"], "succeeded")
        store = (await caller.get(path_of_store)).expect(HTTPStatus.OK, "The store can't be read")
    if offer.sold_out:
        entries = [{"itemId": str(item_id), "available": False} for item_id in offer.sold_out]
        reply = await caller.post(f"{path_of_store}/item-availability", {"items": entries})
        reply.expect(HTTPStatus.OK, "Items are not marked as sold out")
    if offer.is_paused:
        reply = await caller.post(f"{path_of_store}/status", {"status": "paused"})
        reply.expect(HTTPStatus.OK, "The store is not paused")
    return _shop(offer, store, old_set)


async def _until(caller: Caller, path: str, status: str) -> None:
    """Wait until a resource has a status; whoever certifies has a time limit for everything."""
    while (await caller.get(path)).expect(HTTPStatus.OK, "No status")["status"] != status:  # noqa: ASYNC110  # another side's
        await asyncio.sleep(POLL_SECONDS)


def _shop(offer: Offer, store: Any, old_set: str | None) -> Shop:
    store_id, set_id = parse_uuid(store["storeId"]), parse_uuid(store["catalogSetId"])
    assert store_id is not None
    assert set_id is not None
    shop = shop_of(
        as_json(offer.document),
        store_id=store_id,
        partner_store_id=offer.name,
        timezone="UTC",
        onboarding_id=clock.new_id(),
        is_theirs=False,
        name=offer.name,
        sold_out=offer.sold_out,
    )
    assert shop is not None, "the menu is valid"
    return Shop(replace(shop.store, catalog_set_id=set_id), shop.catalog, is_theirs=False, old_set=old_set)


def _key(partner: NewPartner) -> str:
    key = partner.commerce_key or partner.marketfront_key
    assert key is not None
    return key.text
