"""A store's menu for storefronts: a tree with prices, whose items lead to the playground."""

from tests.api.trade import trade
from tests.catalog.documents import CAKE, cafe
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_partner
from tests.service import Merchant, Service


async def test_a_storefront_goes_from_a_store_by_its_menu_to_the_playground(mercato: Service, shop: Merchant):
    deal = await trade(mercato, shop)
    browser, _ = await enter_as_partner(mercato, deal.front)
    store = await browser.open((await browser.open("/console/stores")).link("Test Store"))
    menu = await browser.open(store.link("Menu"))
    assert menu.title == "Menu of Test Store"
    check_frame(menu)
    for path in (menu.url + "?place=2", menu.url):
        menu = await browser.open(path)
        page = await browser.open(menu.link("Cake"))
        assert page.field("Item").all("option", selected="")[0].attributes["value"] == CAKE
    assert (await browser.press(page, "Add to cart")).rows("Cart")[0][0] == "Cake"
    tried = await browser.open(store.link("Try it in the playground"))
    assert tried.title == "Playground"


async def test_a_merchants_menu_leads_to_no_playground(mercato: Service, shop: Merchant):
    deal = await trade(mercato, shop)
    browser, _ = await enter_as_partner(mercato, deal.pos)
    store = await browser.open(f"/console/stores/{deal.store['storeId']}")
    menu = await browser.open(store.link("Menu"))
    assert "Cake" in menu.text
    assert not [one for one in menu.root.all("a") if "playground" in one.attributes["href"]]


async def test_a_menu_of_hostile_names_is_text(mercato: Service, shop: Merchant):
    document = cafe()
    document["items"] = {key: item | {"name": HOSTILE} for key, item in document["items"].items()}
    deal = await trade(mercato, shop, catalog=document)
    browser, _ = await enter_as_partner(mercato, deal.front)
    menu = await browser.open(f"/console/stores/{deal.store['storeId']}/menu?place=2")
    assert "<script>alert(1)" in menu.text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in menu.body.decode()
    check_frame(menu)


async def test_a_session_of_one_store_sees_its_menu_alone(mercato: Service, shop: Merchant):
    deal = await trade(mercato, shop)
    other = await mercato.live(deal.pos, shop.host(cafe(), "/b.json"), name="Other")
    browser, _ = await enter_as_partner(mercato, deal.front, storeId=deal.store["storeId"])
    assert (await browser.open(f"/console/stores/{deal.store['storeId']}/menu")).status == 200
    assert (await browser.open(f"/console/stores/{other['storeId']}/menu")).status == 404
    assert (await browser.open(f"/console/stores/{CAKE}/menu")).status == 404
