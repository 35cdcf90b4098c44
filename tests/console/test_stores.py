"""The stores of the console: whether they can be ordered from, pausing them, and what is sold out."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select
from tests.api.trade import trade
from tests.catalog.documents import TEA, cafe
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_whole_account
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service, service
from tests.sharing import own, shared

from mercato.features.partners.model import PartnerKind
from mercato.features.stores.tables import stores
from mercato.platform.db.audit import list_entries
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]


@on_both
@own()
async def test_a_store_is_paused_and_resumed(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    store, zone = deal.store["storeId"], ZoneInfo(deal.store["timezone"])
    for browser in (await enter_as_partner(mercato, deal.pos), await enter_as_operator(mercato)):
        listed = await browser.open("/console/stores?status=online")
        assert len(listed.rows("Stores")) == 1
        page = await browser.open(f"/console/stores/{store}")
        until = f"{(clock.now() + timedelta(hours=1)).astimezone(zone):%Y-%m-%dT%H:%M}"
        paused = await browser.press(page, "Pause store", pauseReason="<b>Fire</b>", resumeAt=until)
        assert (
            paused.status_region
            == f"The store is paused until {until.replace('T', ' ')} {zone.key}: it takes no orders."
        )
        assert "paused until" in paused.region("Now")
        assert "<b>Fire</b>" in paused.text
        seen = (await deal.front.get(f"/v1/marketfront/stores/{store}/availability")).json()
        assert seen["reason"] == "PAUSED"
        resumed = await browser.press(paused, "Resume store")
        assert resumed.status_region.startswith("The store is resumed")
        seen = (await deal.front.get(f"/v1/marketfront/stores/{store}/availability")).json()
        assert seen["isOpen"]
    async with mercato.app.db.read() as tx:
        entries = await list_entries(tx, action="console.pauseStore", limit=5)
    assert [one.actor.split(":")[1] for one in entries] == ["cli", "key"]


async def test_a_pause_that_ends_in_the_past_is_refused_with_the_reason(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/stores/{deal.store['storeId']}")
    refused = await browser.press(page, "Pause store", resumeAt="2020-01-01T10:00")
    assert refused.status == 422
    assert "resumeAt" in refused.text


async def test_a_store_says_whether_it_is_open_at_a_chosen_instant(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    store = deal.store["storeId"]
    for client in (deal.pos, deal.front):
        browser = await enter_as_partner(mercato, client)
        page = await browser.open(f"/console/stores/{store}?at=2026-03-02T12:00:00Z")
        api = await deal.front.get(f"/v1/marketfront/stores/{store}/availability?at=2026-03-02T12:00:00Z")
        assert api.json()["detail"] in page.text
    assert (await browser.open(f"/console/stores/{store}?at=0001-01-01T00:00")).status == 422


async def test_items_are_found_by_name_and_switched(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/stores/{deal.store['storeId']}?item=TEA")
    assert [row[0] for row in page.rows("Items")] == ["Tea"]
    sold_out = await browser.press(page, "Mark sold out")
    assert sold_out.status_region == "Tea is sold out."
    assert [row[0] for row in sold_out.rows("Items")] == ["Tea sold out"], "the search stays"
    assert not (await deal.validate(deal.order()))["isValid"]
    available = await browser.press(sold_out, "Mark available")
    assert available.status_region == "Tea is available."
    assert (await deal.validate(deal.order()))["isValid"]


@on_both
async def test_a_storefront_finds_stores_and_changes_none(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    store = deal.store["storeId"]
    browser = await enter_as_partner(mercato, deal.front)
    found = await browser.open("/console/stores?query=tea")
    assert found.rows("Stores")[0][0] == "Test Store"
    page = await browser.open(f"/console/stores/{store}")
    assert "Pause store" not in page.buttons
    assert "Mark sold out" not in page.buttons
    for path in ("pause", "resume", "items"):
        assert (await browser.post(f"/console/stores/{store}/{path}")).status == 404
    both = await enter_whole_account(mercato, (await mercato.partner(PartnerKind.BOTH))[0].id)
    assert (await both.post(f"/console/stores/{store}/pause")).status == 404
    assert (await both.open(f"/console/stores/{store}")).status == 200
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert (await stranger.open(f"/console/stores/{store}")).status == 404


PICTURE = "https://pictures.example.com/tea.png"


def pictured() -> Any:
    document = cafe()
    for key, item in document["items"].items():
        item["imageUrl"] = PICTURE if key == TEA else "http://pictures.example.com/plain.png"
    return document


async def test_a_stores_page_says_its_state_once_then_what_can_be_done_then_facts_then_items(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/stores/{deal.store['storeId']}")
    now = page.region("Now")
    assert now.startswith("open 24 hours a day ")
    assert page.text.count("open") - page.text.lower().count("is it open") == 1
    shown = page.body.decode()
    order = [
        shown.index(text) for text in ("Pause store", "Handed over", "Hours</h2>", "Mark sold out", "Details")
    ]
    assert order == sorted(order)
    ids = [one for one in (deal.store["storeId"], deal.store["catalogSetId"]) if one in page.text]
    assert len(ids) == 2, "they are there"
    assert all(page.text.index(one) > page.text.index("Details") for one in ids)


@own()
async def test_pictures_of_items_are_loaded_from_elsewhere_only_where_the_page_has_some(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, catalog=pictured())
    plain = await mercato.live(deal.pos, shop.host(cafe(), "/plain.json"), name="Plain")
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/stores/{deal.store['storeId']}")
    (image,) = page.root.all("img", **{"class": "thumbnail"})
    assert image.attributes["src"] == PICTURE
    assert (image.attributes["loading"], image.attributes["referrerpolicy"]) == ("lazy", "no-referrer")
    assert "img-src 'self' https:;" in page.headers["content-security-policy"]
    for other in (
        await browser.open(f"/console/stores/{plain['storeId']}"),
        await browser.open("/console/stores"),
        await (await enter_as_operator(mercato)).open(f"/console/stores/{deal.store['storeId']}"),
    ):
        assert "img-src 'self';" in other.headers["content-security-policy"]
        assert PICTURE not in other.text
        assert not other.root.all("img", **{"class": "thumbnail"})


async def test_a_setting_turns_pictures_of_items_off(database_url: str, tmp_path: Path, shop: MerchantServer):
    async with service(database_url, tmp_path / "data", console_pictures=False) as mercato:
        deal = await trade(mercato, shop, catalog=pictured())
        browser = await enter_as_partner(mercato, deal.pos)
        page = await browser.open(f"/console/stores/{deal.store['storeId']}")
        assert "img-src 'self';" in page.headers["content-security-policy"]
        assert not page.root.all("img", **{"class": "thumbnail"})


async def test_an_operator_finds_a_partners_store_by_its_name_among_many_of_that_name(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mercato.console.screens.stores.PAGE", 1)
    deals = [await trade(mercato, shop) for _ in range(3)]
    operator = await enter_as_operator(mercato)
    async with mercato.app.db.read() as tx:
        own = select(stores.c.partner_id)
        owners = [await tx.scalar(own.where(stores.c.id == UUID(deal.store["storeId"]))) for deal in deals]
    for deal, owner in zip(deals, owners, strict=True):
        page = await operator.open(
            f"/console/stores?{urlencode({'name': deal.store['name'], 'partner': owner})}"
        )
        assert [row.attributes["href"] for row in page.row_links] == [
            f"/console/stores/{deal.store['storeId']}"
        ]
