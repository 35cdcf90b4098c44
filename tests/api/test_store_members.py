"""Each member of a store that a merchant may send comes back to every reader whose shape declares it.

The members are read from the contract, so that one which is accepted and then dropped fails here, and so does one that
is declared and never returned.
"""

from typing import Any

import pytest
from msgspec import Struct
from tests.api.members import differences, members_of, sample
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind
from mercato_contract.discovery import DiscoveredStore
from mercato_contract.stores import MarketfrontStore, OnboardingRequest, Store, StoreUpdate

pytestmark = shared

ONBOARDINGS = "/v1/commerce/onboarding/stores"
STORES = "/v1/commerce/stores"
NOT_SHOWN = {
    "webhookToken": "a secret",
    "catalogCallbackUrl": "what the first pull reads: the catalog comes from there",
}
"""Members of a request that no reader gets, and why."""


def sent_as(shape: type[Struct], turn: int, shop: MerchantServer) -> dict[str, Any]:
    """Return a request with every member; its street is sent under one of its two names.

    Charges are for stores that aren't called, and each has a rate or an amount.
    """
    body = sample(shape, turn, shop.base)
    del body["address"]["address1"]
    for charge in body.get("charges", ()):
        charge |= {"kind": "tax", "rate": "7", "amount": None}
        body["orderHandling"] = "manual"
    return body


def faults(sent: dict[str, Any], shown: dict[str, Any], shape: type[Struct]) -> list[str]:
    """Return what the answer lacks of what was sent. Storefronts get the street as address1."""
    address = sent["address"] | {"address1": sent["address"]["street"]}
    return list(differences(sent | {"address": address}, shown, shape))


class Readers:
    """Everybody who reads a store."""

    def __init__(self, pos: Client, storefront: Client, store_id: str) -> None:
        self.pos, self.storefront, self.store_id = pos, storefront, store_id

    async def shown(self) -> list[tuple[str, dict[str, Any], type[Struct]]]:
        """Return what each of them gets, and its shape."""
        own = (await self.pos.get(f"{STORES}/{self.store_id}")).json()
        [listed] = (await self.pos.get(STORES)).json()["stores"]
        detail = (await self.storefront.get(f"/v1/marketfront/stores/{self.store_id}")).json()
        near = own["address"]["coordinates"]
        search = {"location": {"latitude": near["lat"], "longitude": near["lng"]}}
        [found] = (await self.storefront.post("/v1/marketfront/stores/discover", search)).json()["stores"]
        return [
            ("Get Store", own, Store),
            ("List Stores", listed, Store),
            ("the storefront's store", detail, MarketfrontStore),
            ("Discover Stores", found, DiscoveredStore),
        ]


@pytest.fixture
async def storefront(mercato: Service) -> Client:
    return (await mercato.partner(PartnerKind.MARKETFRONT))[1]


@pytest.mark.parametrize("request_type", [OnboardingRequest, StoreUpdate])
def test_a_merchant_sees_every_member_that_it_may_send(request_type: type[Struct]) -> None:
    unseen = members_of(request_type).keys() - members_of(Store).keys() - NOT_SHOWN.keys()
    assert not unseen, f"Store doesn't declare {unseen}: a merchant sends them and never sees them again."


async def test_each_member_that_is_sent_comes_back_to_every_reader(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
) -> None:
    body = sent_as(OnboardingRequest, 0, shop) | {"catalogCallbackUrl": shop.host(CATALOG)}
    made = await pos.post(ONBOARDINGS, body)
    assert made.status == 201, made.body
    path = made.headers["Location"]
    await mercato.until(pos, path, lambda status: status["status"] == "ready_to_activate")
    store = (await pos.post(f"{path}/activate")).json()
    assert faults(body, store, Store) == []
    readers = Readers(pos, storefront, store["storeId"])
    for who, shown, shape in await readers.shown():
        assert (who, faults(body, shown, shape)) == (who, [])

    # Twice, so that each boolean is sent with both values.
    for turn in (1, 2):
        update = sent_as(StoreUpdate, turn, shop)
        changed = await pos.call("PUT", f"{STORES}/{store['storeId']}", update)
        assert changed.status == 200, changed.body
        assert faults(update, changed.json(), Store) == []
        modes = {"PICKUP": update["pickupAllowed"], "DELIVERY_BY_MERCHANT": update["deliveryAllowed"]}
        for who, shown, shape in await readers.shown():
            assert (who, faults(update, shown, shape)) == (who, [])
            assert (who, members_of(shape).keys() - shown.keys()) == (who, set())
            assert shown.get("fulfillmentTypes", [name for name in modes if modes[name]]) == [
                name for name in modes if modes[name]
            ]
