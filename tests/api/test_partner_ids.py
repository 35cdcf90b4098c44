"""Lines carry the merchant's own ids, and a merchant reads its own sets and ids."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest
from tests.api.test_catalog_sets import read
from tests.api.trade import MERCHANT, ORDERS, Trade, line, trade
from tests.catalog.documents import TEA, cafe
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service, service
from tests.sharing import shared

from mercato.features.catalogs.tables import catalog_bodies, catalog_sets

pytestmark = [shared, mostly_sqlite]

MENU: dict[str, Any] = {
    "items": {
        "soup": {"name": "Soup", "basePrice": "6.50", "modifierGroupIds": ["sides"]},
        "bread": {
            "name": "Bread",
            "basePrice": "1.00",
            "partnerItemId": "PLU-7",
            "modifierGroupIds": ["spreads"],
        },
        "butter": {"name": "Butter", "basePrice": "0.50"},
        TEA.upper(): {"name": "Tea", "basePrice": "2.00"},
    },
    "sections": {"all": {"name": "All", "itemIds": ["soup", TEA]}},
    "modifierGroups": [
        {"modifierGroupId": "sides", "name": "Sides", "itemIds": ["bread"]},
        {"modifierGroupId": "spreads", "name": "Spreads", "itemIds": ["butter"]},
    ],
}
PARTNER_IDS = {
    "soup": {"groups": {"sides": {"bread": {"groups": {"spreads": {"butter": {"groups": {}}}}}}}},
    TEA.upper(): {"groups": {}},
}
"""The lines of these tests' order, by the ids of the merchant's document."""


async def ids(here: Trade) -> Any:
    reply = await here.pos.get(f"/v1/commerce/stores/{here.store['storeId']}/ids")
    assert reply.status == 200, reply.body
    return reply.json()


async def ordered(here: Trade) -> dict[str, Any]:
    """Return an order of soup with buttered bread, and tea, by the ids that the merchant looked up."""
    known = await ids(here)
    items, groups = known["items"], known["modifierGroups"]
    bread = line(
        items["bread"], 1, {"modifierGroupId": groups["spreads"], "lineItems": [line(items["butter"])]}
    )
    soup = line(items["soup"], 1, {"modifierGroupId": groups["sides"], "lineItems": [bread]})
    return here.order(soup, line(items[TEA.upper()], 2))


def partner_ids(lines: Any) -> Any:
    """Return the lines by the merchant's own ids alone."""
    return {
        line["partnerItemId"]: {
            "groups": {
                group["partnerModifierGroupId"]: partner_ids(group["lineItems"])
                for group in line["modifierGroups"]
            }
        }
        for line in lines
    }


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, catalog=MENU)


async def test_every_line_and_group_that_a_merchant_reads_carries_the_id_of_its_document(here: Trade):
    placed = await here.placed(await ordered(here))
    for operation in ("validate", "place"):
        path, _, body = await here.shop.webhook()
        assert path == f"/hooks/{operation}"
        assert partner_ids(json.loads(body)["data"]["order"]["cart"]["lineItems"]) == PARTNER_IDS
    read = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}")).json()
    [listed] = (await here.pos.get(MERCHANT)).json()["orders"]
    assert partner_ids(read["cart"]["lineItems"]) == PARTNER_IDS
    assert listed == read


async def test_storefronts_read_no_partner_ids(here: Trade):
    order = await ordered(here)
    said = await here.validate(order)
    placed = await here.placed(order)
    read = (await here.front.get(f"{ORDERS}/{placed['orderId']}")).json()
    for cart in (said["order"]["cart"], placed["cart"], read["cart"]):
        assert "partner" not in json.dumps(cart)


@on_both
async def test_an_order_keeps_the_ids_of_the_set_it_was_placed_from(here: Trade):
    placed = await here.placed(await ordered(here))
    renamed = json.loads(json.dumps(MENU).replace(TEA.upper(), TEA))
    run = await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(renamed, "/new.json"))
    assert run["status"] == "succeeded"
    assert set((await ids(here))["items"]) == {"soup", "bread", "butter", TEA}
    async with here.mercato.app.db.write() as tx:
        # As if the old set had been pruned.
        old = UUID(here.store["catalogSetId"])
        await tx.execute(catalog_bodies.delete().where(catalog_bodies.c.set_id == old))
        await tx.execute(catalog_sets.delete().where(catalog_sets.c.id == old))
    read = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}")).json()
    assert partner_ids(read["cart"]["lineItems"]) == PARTNER_IDS


async def test_a_store_that_never_answered_gets_the_cancellation_with_its_own_ids(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", place_seconds=0.5, place_resend_seconds=1) as mercato:
        here = await trade(mercato, shop, catalog=MENU)
        shop.answers["place"] = "an unusable answer"
        assert (await here.place(await ordered(here))).status == 503
        while True:
            path, _, body = await shop.webhook()
            if path == "/hooks/order-cancelled":
                break
        assert partner_ids(json.loads(body)["data"]["order"]["cart"]["lineItems"]) == PARTNER_IDS


async def test_a_store_reads_which_id_each_of_its_own_is_served_under(here: Trade):
    served = (await here.front.get(f"/v1/marketfront/catalog-sets/{here.store['catalogSetId']}")).json()
    onboarding = UUID(here.store["onboardingId"])
    assert await ids(here) == {
        "items": {
            "soup": str(uuid5(onboarding, "soup")),
            "bread": str(uuid5(onboarding, "bread")),
            "butter": str(uuid5(onboarding, "butter")),
            TEA.upper(): TEA,
        },
        "modifierGroups": {name: str(uuid5(onboarding, name)) for name in ("sides", "spreads")},
    }
    assert list(served["items"]) == list((await ids(here))["items"].values())


async def test_ids_that_are_uuids_are_mapped_to_themselves(mercato: Service, shop: MerchantServer):
    here = await trade(mercato, shop)
    known = await ids(here)
    assert known["items"] == {key: key for key in cafe()["items"]}
    assert known["modifierGroups"] == {key: key for key in cafe()["modifierGroups"]}


async def test_another_partners_ids_and_sets_are_not_found(here: Trade):
    stranger = (await here.mercato.partner())[1]
    own = f"/v1/commerce/stores/{here.store['storeId']}/ids"
    assert (await stranger.get(own)).json()["errorCode"] == "STORE_NOT_FOUND"
    for set_id in (here.store["catalogSetId"], uuid4()):
        reply = await stranger.get(f"/v1/commerce/catalog-sets/{set_id}")
        assert (reply.status, reply.json()["errorCode"]) == (404, "CATALOGSET_NOT_FOUND")
    assert (await here.front.get(own)).status == 403


async def test_a_merchant_reads_its_own_sets_as_storefronts_do(here: Trade):
    own, theirs = (
        f"/v1/{surface}/catalog-sets/{here.store['catalogSetId']}" for surface in ("commerce", "marketfront")
    )
    for coding in ("zstd", "br", "gzip", "identity"):
        status, headers, body = await read(here.pos, own, coding)
        assert status == 200
        as_storefronts = await read(here.front, theirs, coding)
        assert body == as_storefronts[2]
        for name in ("ETag", "Vary", "Cache-Control", "Content-Encoding"):
            assert headers.get(name) == as_storefronts[1].get(name)
        known = {"If-None-Match": headers["ETag"]}
        assert (await read(here.pos, own, "br", **known))[0] == 304
