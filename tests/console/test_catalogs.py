"""The console's catalogs: runs with their errors and changes, and a store's menu as a tree."""

import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.api.trade import Trade, trade
from tests.catalog.documents import cafe
from tests.console.browser import Browser, Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.catalogs import queries
from mercato_contract import clock
from mercato_contract.wire import rfc3339

pytestmark = [shared, mostly_sqlite]


async def publish(deal: Trade, document: Any, path: str) -> Any:
    """Publish another catalog of the store and return the run's status."""
    return await deal.mercato.run(deal.pos, deal.store["storeId"], deal.shop.host(document, path))


async def first_run(browser: Browser) -> Page:
    """Return the page of the newest run."""
    listed = await browser.open("/console/catalogs")
    return await browser.open(f"/console/catalogs/{listed.ids('Runs')[0]}")


@on_both
async def test_a_failed_run_shows_every_error_by_its_pointer(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    broken = cafe()
    key = next(iter(broken["items"]))
    broken["items"][key]["basePrice"] = "<b>4.5</b>"
    broken["items"][key]["name"] = 7
    ended = await publish(deal, broken, "/broken.json")
    assert ended["status"] == "failed"
    browser = await enter_as_partner(mercato, deal.pos)
    listed = await browser.open("/console/catalogs?status=failed")
    assert [row[0] for row in listed.rows("Runs")] == ["failed"]
    assert listed.rows("Runs")[0][3].startswith(ended["errors"][0]["message"][:60])
    page = await browser.open(f"/console/catalogs/{listed.ids('Runs')[0]}")
    check_frame(page)
    assert [row[0] for row in page.rows("Errors")] == [one["path"] for one in ended["errors"]]
    assert [row[1] for row in page.rows("Errors")] == [one["message"] for one in ended["errors"]]
    assert "isn't stored" in page.text
    for row in page.rows("Errors"):
        assert json.loads(row[2]) == broken["items"][key]
    assert set(ended["errors"][0]) == {"code", "message", "path", "pointer"}


async def test_a_document_that_is_not_json_is_shown_around_the_place_where_it_breaks(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    broken = (json.dumps(cafe())[:-1] + ", <script>alert(1)</script>").encode()
    await publish(deal, broken, "/broken.json")
    browser = await enter_as_partner(mercato, deal.pos)
    page = await first_run(browser)
    check_frame(page)
    assert page.rows("Errors")[0][2].endswith(", ▶<script>alert(1)</script>")


@on_both
@own()
async def test_the_excerpts_of_a_run_are_deleted_with_it(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    ended = await publish(deal, b"{oops", "/broken.json")
    await publish(deal, cafe() | {"note": 1}, "/right.json")
    run_id = UUID(ended["catalogIngestId"])
    async with mercato.app.db.write() as tx:
        assert await queries.find_excerpts(tx, run_id) == ("{▶oops",)
        await queries.prune_runs(tx, before=mercato.app.clock() + timedelta(days=1), limit=100)
        assert await queries.find_excerpts(tx, run_id) == ()


async def test_a_run_shows_its_changes_from_the_previous_set(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    assert "no previous set" in (await first_run(browser)).text
    dearer = cafe()
    tea = next(item for item in dearer["items"].values() if item["name"] == "Tea")
    before, tea["basePrice"] = tea["basePrice"], "9.99"
    await publish(deal, dearer, "/dearer.json")
    page = await first_run(browser)
    assert ["Items repriced", "1", f"Tea: {before} → 9.99"] in page.rows("Changes")
    assert "The store serves this CatalogSet now." in page.text
    await publish(deal, dearer, "/dearer.json")
    assert (await browser.open("/console/catalogs")).rows("Runs")[0][0] == "succeeded"


@own()
async def test_the_menu_is_a_tree_with_prices(mercato: Service, shop: MerchantServer):
    document = cafe()
    for item in document["items"].values():
        item["name"] += HOSTILE
    deal = await trade(mercato, shop, catalog=document)
    browser = await enter_as_partner(mercato, deal.pos)
    listed = await browser.open("/console/catalogs")
    page = await browser.open(listed.link("Test Store"))
    check_frame(page)
    assert "Tea<script>alert(1)</script>" in page.text
    places = [one.attributes["href"] for one in page.root.all("a") if "place=" in one.attributes["href"]]
    menus = [await browser.open(f"{page.url}{place}") for place in places]
    operator = await enter_as_operator(mercato)
    of_store = await operator.open(f"/console/stores/{deal.store['storeId']}")
    seen = await operator.open(of_store.link("Menu"))
    check_frame(seen)
    assert seen.root.all("main")[0].text == page.root.all("main")[0].text, "operators see it, too"
    text = " ".join(one.text for one in menus)
    assert "choose" in text
    assert "+" in text
    assert (await browser.open(f"{page.url}?place=9999")).status == 404


async def test_a_page_of_a_very_large_menu_is_small_and_leads_to_the_rest(
    mercato: Service, shop: MerchantServer
):
    ids = [str(UUID(int=2**100 + number)) for number in range(2000)]
    document = {
        "currency": "USD",
        "sections": {
            f"s{number}": {
                "sectionId": f"s{number}",
                "name": "é" * 90,
                "itemIds": ids if number == 0 else ids[:9],
            }
            for number in range(150)
        },
        "items": {key: {"itemId": key, "name": f"{key} {'ж' * 90}", "basePrice": "1.00"} for key in ids},
    }
    deal = await trade(mercato, shop, catalog=document)
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/stores/{deal.store['storeId']}/menu", **{"Accept-Encoding": "gzip"})
    places: list[str] = []
    while True:
        assert int(page.headers["Content-Length"]) < 50_000
        places += [href for one in page.root.all("a") if "place=" in (href := one.attributes["href"])]
        if not page.root.all("a", rel="next"):
            break
        page = await browser.open(page.link("Next page"), **{"Accept-Encoding": "gzip"})
    assert places == [f"?place={number}" for number in range(151)]
    section = await browser.open(f"/console/stores/{deal.store['storeId']}/menu?place=1")
    shown: list[str] = []
    while True:
        shown += [line.text for line in section.root.all("span", **{"class": "line"})]
        following = [one for one in section.root.all("a") if one.text == "Next page"]
        if not following or len(shown) > 150:
            break
        section = await browser.open(following[0].attributes["href"])
    assert len(shown) == len(set(shown)) == 200


@own()
async def test_runs_are_visible_only_to_their_merchant_and_operators(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    run = (await browser.open("/console/catalogs")).ids("Runs")[0]
    store = deal.store["storeId"]
    strangers = [
        await enter_as_partner(mercato, (await mercato.partner())[1]),
        await enter_as_partner(mercato, deal.front),
        await enter_as_operator(mercato),
    ]
    for stranger, of_run, of_menu in zip(strangers, (404, 404, 200), (404, 200, 200), strict=True):
        assert (await stranger.open(f"/console/catalogs/{run}")).status == of_run, "operators see runs"
        menu = await stranger.open(f"/console/stores/{store}/menu")
        assert menu.status == of_menu, "storefronts read menus"
    other = await mercato.live(
        deal.pos, shop.host({"currency": "USD", "sections": {}, "items": {}}, "/b.json"), name="b"
    )
    only = await enter_as_partner(mercato, deal.pos, store_id=other["storeId"])
    assert len((await only.open(f"/console/catalogs?storeId={store}")).rows("Runs")) == 1
    assert (await only.open(f"/console/catalogs/{run}")).status == 404
    assert (await only.open(f"/console/stores/{store}/menu")).status == 404
    assert (await only.open(f"/console/stores/{other['storeId']}/menu")).status == 200


@on_both
async def test_runs_are_listed_page_by_page(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mercato.console.screens.catalogs.PAGE", 1)
    deal = await trade(mercato, shop)
    await publish(deal, cafe(), "/catalog.json")
    browser = await enter_as_partner(mercato, deal.pos)
    first = await browser.open(f"/console/catalogs?storeId={deal.store['storeId']}&since=2026-01-01T00:00")
    second = await browser.open(first.link("Next page"))
    assert len({page.ids("Runs")[0] for page in (first, second)}) == 2


@on_both
async def test_an_earlier_set_is_activated_after_its_differences_are_shown(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    dearer = cafe()
    key = next(iter(dearer["items"]))
    dearer["items"][key]["basePrice"] = "9.75"
    earlier = await publish(deal, cafe(), "/earlier.json")
    await publish(deal, dearer, "/dearer.json")
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/catalogs/{earlier['catalogIngestId']}")
    question = await browser.press(page, "Activate this set")
    check_frame(question)
    assert "Items repriced (1)" in question.text
    assert "9.75 → " in question.text
    done = await browser.press(question, "Confirm")
    assert done.status_region == "The store serves this set now."
    assert "The store serves this CatalogSet now." in done.text
    store = (await deal.pos.get(f"/v1/commerce/stores/{deal.store['storeId']}")).json()
    assert store["catalogSetId"] == earlier["catalogSetId"]


@on_both
async def test_a_run_is_compared_with_the_set_that_it_replaced_not_with_the_one_built_before_its_own(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)

    def at_price(price: str) -> Any:
        document = cafe()
        tea = next(item for item in document["items"].values() if item["name"] == "Tea")
        tea["basePrice"] = price
        return document

    async def repriced(run_id: str) -> list[str]:
        page = await browser.open(f"/console/catalogs/{run_id}")
        return [row[2] for row in page.rows("Changes")] if "Items repriced" in page.text else []

    browser = await enter_as_partner(mercato, deal.pos)
    first, second = [await publish(deal, at_price(price), f"/{price}.json") for price in ("11.00", "12.00")]
    store = f"/v1/commerce/stores/{deal.store['storeId']}"
    await deal.pos.post(f"{store}/catalog-sets/{first['catalogSetId']}/activate")
    back = (await browser.open("/console/catalogs")).ids("Runs")[0]
    assert await repriced(back) == ["Tea: 12.00 → 11.00"]
    third = await publish(deal, at_price("13.00"), "/13.00.json")
    assert await repriced(third["catalogIngestId"]) == ["Tea: 11.00 → 13.00"]
    # The page of a run whose set was served again later still shows what it changed.
    assert await repriced(second["catalogIngestId"]) == ["Tea: 11.00 → 12.00"]
    at = rfc3339(clock.now() + timedelta(days=1))
    accepted = (await deal.pos.call("PUT", f"{store}/catalog?activateAt={at}", at_price("14.00"))).json()
    await mercato.until(deal.pos, accepted["statusUrl"], lambda run: "catalogSetId" in run)
    await publish(deal, at_price("15.00"), "/15.00.json")
    assert await repriced(accepted["catalogIngestId"]) == ["Tea: 15.00 → 14.00"]


@on_both
async def test_a_scheduled_switch_is_shown_and_cancelled(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    at = rfc3339(clock.now() + timedelta(days=1))
    put = f"/v1/commerce/stores/{deal.store['storeId']}/catalog?activateAt={at}"
    accepted = (await deal.pos.call("PUT", put, cafe())).json()
    await mercato.until(deal.pos, accepted["statusUrl"], lambda run: "catalogSetId" in run)
    browser = await enter_as_partner(mercato, deal.pos)
    page = await first_run(browser)
    check_frame(page)
    assert "Switches at" in page.text
    done = await browser.press(page, "Cancel activation")
    assert done.status_region == "The activation was cancelled. The store keeps its catalog."
    [(_, message, *_)] = done.rows("Errors")
    assert re.fullmatch(r"The switch at \S+ was cancelled\. The store keeps its catalog\.", message)
