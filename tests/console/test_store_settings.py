"""Order handling, taxes and fees on a store's pages: seen by who owns the store, changed by who manages it."""

import asyncio
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from aiohttp import web
from tests.api.trade import Trade, trade
from tests.catalog.documents import TEA, cafe
from tests.console.browser import Page
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in.roles import Role
from mercato_contract import clock
from mercato_contract.stores import MAX_CHARGES

pytestmark = [shared, mostly_sqlite]


async def opened(mercato: Service, shop: MerchantServer, **options: Any) -> tuple[Trade, Any, str]:
    deal = await trade(mercato, shop, **options)
    browser = await enter_as_partner(mercato, deal.pos)
    return deal, browser, f"/console/stores/{deal.store['storeId']}"


def fault(page: Page, name: str) -> str:
    """Return what is said to be wrong beside a field."""
    (field,) = [one for one in page.root.all("input", "select") if one.attributes.get("name") == name]
    assert "aria-invalid" in field.attributes
    described = field.attributes["aria-describedby"].split()
    return next(one.text for one in page.root.all("p") if one.attributes.get("id") == described[0])


async def test_a_manager_chooses_that_a_person_accepts_orders_and_within_which_time(
    mercato: Service, shop: MerchantServer
):
    deal, browser, path = await opened(mercato, shop, webhook=False)
    page = await browser.open(path)
    assert "Accepted at once, nobody is asked" in page.text
    form = await browser.open(page.link("Change how orders are handled"))
    assert form.heading == "Handling of orders"
    done = await browser.press(form, "Save", orderHandling="manual", acceptWithin="15")
    assert done.status_region == "A person accepts each order from now on, within 15 minutes."
    assert "A person accepts each within 15 minutes" in done.text
    store = (await deal.pos.get(f"/v1/commerce/stores/{deal.store['storeId']}")).json()
    assert (store["orderHandling"], store["acceptWithin"]) == ("manual", 15)
    again = await browser.open(f"{path}/handling")
    assert again.field("Minutes to accept an order").attributes["value"] == "15"


WRONG_MINUTES: Final[tuple[tuple[str, str], ...]] = (
    ("61", "It must be at most 60."),
    ("0", "It must be at least 1."),
    ("soon", "Enter a whole number, like 10."),
    ("7,5", "Enter a whole number, like 10."),
    ("\N{ARABIC-INDIC DIGIT ONE}\N{ARABIC-INDIC DIGIT FIVE}", "Write 15: with the digits 0 to 9."),
    ("\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT FIVE}", "Write 15: with the digits 0 to 9."),
)
"""What may be typed for minutes, and what is said of it."""


async def test_minutes_that_do_not_fit_are_refused_beside_their_field_and_stay_as_they_were_typed(
    mercato: Service, shop: MerchantServer
):
    deal, browser, path = await opened(mercato, shop, webhook=False)
    form = await browser.open(f"{path}/handling")
    for minutes, said in WRONG_MINUTES:
        refused = await browser.press(form, "Save", orderHandling="manual", acceptWithin=minutes)
        assert refused.status == 422, minutes
        assert fault(refused, "acceptWithin") == said, minutes
        assert refused.field("Minutes to accept an order").attributes["value"] == minutes
    store = (await deal.pos.get(f"/v1/commerce/stores/{deal.store['storeId']}")).json()
    assert store["orderHandling"] == "automatic"


@on_both
async def test_only_a_store_with_a_webhook_url_can_have_its_own_system_answer(
    mercato: Service, shop: MerchantServer
):
    _, browser, path = await opened(mercato, shop, webhook=False)
    form = await browser.open(f"{path}/handling")
    assert "Our own system answers" not in form.text
    refused = await browser.press(form, "Save", orderHandling="webhook")
    assert refused.status == 422
    assert "needs a webhookUrl" in refused.text
    _, browser, path = await opened(mercato, shop)
    form = await browser.open(f"{path}/handling")
    assert "Our own system answers" in form.text
    assert (await browser.press(form, "Save")).status_region.startswith("The handling of orders is saved")


async def test_taxes_and_fees_are_set_in_a_form_and_an_order_has_them(mercato: Service, shop: MerchantServer):
    deal, browser, path = await opened(mercato, shop, webhook=False)
    form = await browser.open((await browser.open(path)).link("Change taxes and fees"))
    fields = {
        "name-0": "VAT",
        "value-0": "10 %",
        "appliesTo-0": "all",
        "kind-1": "fee",
        "name-1": "Bag",
        "value-1": "0.50",
        "unit-1": "amount",
        "mode-1": "PICKUP",
    }
    done = await browser.press(form, "Save", **fields)
    assert done.status_region == "The taxes and fees are saved: orders have them from now on."
    assert "VAT: 10 % of the items and the fees" in done.text
    assert "Bag: 0.50 USD, for pickup" in done.text
    amounts = (await deal.validate(deal.order()))["order"]["amounts"]
    assert (amounts["subTotal"], amounts["fees"], amounts["taxes"]) == ("5.80", "0.50", "0.63")
    again = await browser.open(f"{path}/charges")
    assert again.field("Name").attributes["value"] == "VAT"
    emptied = await browser.press(again, "Save", **{"name-0": "", "value-0": "", "included-1": "true"})
    assert emptied.status == 422
    assert fault(emptied, "included-1") == "Only a tax can be included: the prices contain no fee."
    fewer = await browser.press(again, "Save", **{"name-0": "", "value-0": ""})
    assert [one["name"] for one in (await stored(deal))["charges"]] == ["Bag"]
    assert "VAT" not in fewer.text


async def stored(deal: Trade) -> Any:
    return (await deal.pos.get(f"/v1/commerce/stores/{deal.store['storeId']}")).json()


WRONG_CHARGES: Final[tuple[tuple[dict[str, str], str, str], ...]] = (
    ({"name-0": "VAT"}, "value-0", "Enter a percent or an amount."),
    ({"value-0": "7"}, "name-0", "Fill this in."),
    ({"name-0": "VAT", "value-0": "7,5 %"}, "value-0", "Write 7.5: with the digits 0 to 9, and a point"),
    (
        {"name-0": "VAT", "value-0": "\N{BENGALI DIGIT NINE}"},
        "value-0",
        "Write 9: with the digits 0 to 9.",
    ),
    ({"name-0": "VAT", "value-0": "1,500"}, "value-0", '"1,500" is not a decimal number like 12.50.'),
    ({"name-0": "VAT", "value-0": "101"}, "value-0", "It must be a percent above 0, and at most 100."),
    ({"name-0": "Bag", "value-0": "0.123", "unit-0": "amount"}, "value-0", "decimal"),
    ({"name-0": "Bag", "value-0": "-1", "unit-0": "amount"}, "value-0", "It must not be negative."),
    ({"name-0": "x" * 130, "value-0": "1"}, "name-0", "At most 120 characters fit, not 130."),
    ({"name-0": "VAT", "value-0": "1", "kind-0": "gift"}, "kind-0", "tax, fee"),
    ({"name-3": "Late", "value-3": "x"}, "value-3", "is not a decimal number"),
)
"""What may be typed for a tax or a fee, the field of the fault, and what is said of it."""


async def test_a_fault_of_a_tax_or_a_fee_stands_beside_its_field_and_nothing_is_lost(
    mercato: Service, shop: MerchantServer
):
    deal, browser, path = await opened(mercato, shop, webhook=False)
    form = await browser.open(f"{path}/charges")
    for sent, name, said in WRONG_CHARGES:
        refused = await browser.press(form, "Save", **sent)
        assert refused.status == 422, sent
        assert said in fault(refused, name), sent
        values = {
            one.attributes["name"]: one.attributes["value"]
            for one in refused.root.all("input")
            if "id" in one.attributes
        }
        kept = {key: text for key, text in sent.items() if key in values and key != "unit-0"}
        assert kept.items() <= values.items(), sent
        assert (await stored(deal))["charges"] == [], sent


async def test_a_form_has_room_for_as_many_taxes_and_fees_as_a_store_may_have(
    mercato: Service, shop: MerchantServer
):
    deal, browser, path = await opened(mercato, shop, webhook=False)
    fields = {
        f"{part}-{row}": text
        for row in range(MAX_CHARGES)
        for part, text in (("name", f"Tax {row}"), ("value", "1"))
    }
    done = await browser.press(await browser.open(f"{path}/charges"), "Save", **fields)
    assert len((await stored(deal))["charges"]) == MAX_CHARGES
    full = await browser.open(f"{path}/charges")
    assert len(full.root.all("fieldset")) == MAX_CHARGES
    assert len(full.body) < 100_000
    assert done.status == 200


async def test_a_store_whose_own_system_answers_has_no_form_for_taxes_and_refuses_it(
    mercato: Service, shop: MerchantServer
):
    _, browser, path = await opened(mercato, shop)
    assert "Change taxes and fees" not in (await browser.open(path)).text
    page = await browser.open(f"{path}/charges")
    assert "Save" not in page.buttons
    assert "sets their taxes and fees itself" in page.text
    refused = await browser.post(f"{path}/charges", {"name-0": "VAT", "value-0": "7"})
    assert refused.status == 422
    assert "charges are for stores that aren't called" in refused.text


@own()
async def test_who_may_not_manage_a_store_sees_its_handling_and_has_no_way_to_change_it(
    mercato: Service, shop: MerchantServer
):
    deal, _, path = await opened(mercato, shop, webhook=False)

    row = await mercato.app.cache.find_in_force(UUID(deal.store["storeId"]))
    assert row is not None
    for browser in (
        (await enter_as_person(mercato, Role.SUPPORT, row.partner_id))[0],
        (await enter_as_person(mercato, Role.READ_ONLY, row.partner_id, name="Rea"))[0],
        await enter_as_operator(mercato),
    ):
        page = await browser.open(path)
        assert "Accepted at once, nobody is asked" in page.text
        assert "Change how orders" not in page.text
        assert "Change taxes" not in page.text
    front = await enter_as_partner(mercato, deal.front)
    assert "Accepted at once" not in (await front.open(path)).text


async def test_another_partners_store_can_not_be_changed(mercato: Service, shop: MerchantServer):
    deal, _, path = await opened(mercato, shop, webhook=False)
    for kind in (PartnerKind.COMMERCE, PartnerKind.BOTH):
        stranger = await enter_as_partner(mercato, (await mercato.partner(kind))[1])
        for part in ("handling", "charges", "hours"):
            assert (await stranger.open(f"{path}/{part}")).status == 404
            assert (await stranger.post(f"{path}/{part}", {"orderHandling": "manual"})).status == 404
    assert (await stored(deal))["orderHandling"] == "automatic"


MONDAYS = {
    f"{day}-closed": "true" for day in ("tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
} | {
    "monday-from-0": "18:00",
    "monday-to-0": "02:00",
}


async def test_the_hours_of_a_live_store_are_changed_and_its_menu_stays(
    mercato: Service, shop: MerchantServer
):
    deal, browser, path = await opened(mercato, shop)
    before = (await deal.front.get(f"/v1/marketfront/catalog-sets/{deal.store['catalogSetId']}")).json()
    form = await browser.open((await browser.open(path)).link("Change hours"))
    assert form.root.all("input", name="monday-from-0")[0].attributes["value"] == "00:00"
    hours = {f"{day}-{part}-0": "" for day in ("tuesday", "sunday") for part in ("from", "to")}
    late = await browser.press(form, "Save", **MONDAYS | {"monday-to-0": "late"})
    assert late.status == 422
    assert fault(late, "monday-to-0") == "Enter a time like 9:30 or 18:00."
    done = await browser.press(form, "Save", **hours | MONDAYS)
    assert done.status_region == "The hours are being published. They hold in a few seconds."
    store = await mercato.until(
        deal.pos,
        f"/v1/commerce/stores/{deal.store['storeId']}",
        lambda store: store["catalogSetId"] != deal.store["catalogSetId"],
    )
    after = (await deal.front.get(f"/v1/marketfront/catalog-sets/{store['catalogSetId']}")).json()
    assert after["items"] == before["items"]
    assert after["modifierGroups"] == before["modifierGroups"]
    windows = [one for catalog in after["catalogs"].values() for one in catalog["availability"]]
    assert [(one["dayOfWeek"], one["start"], one["end"]) for one in windows] == [
        ("Monday", "18:00:00", "00:00:00"),
        ("Tuesday", "00:00:00", "02:00:00"),
    ]
    stale = await browser.press(form, "Save", **MONDAYS)
    assert stale.status == 422
    assert "The store has got another menu meanwhile." in stale.text


async def test_changed_hours_take_back_no_menu_that_is_being_published(
    mercato: Service, shop: MerchantServer
):
    deal, browser, path = await opened(mercato, shop)
    store = f"/v1/commerce/stores/{deal.store['storeId']}"
    form = await browser.open(f"{path}/hours")
    pulled, go_on = asyncio.Event(), asyncio.Event()
    dearer = cafe()
    dearer["items"][TEA]["basePrice"] = "3.00"

    async def slowly(_request: web.Request) -> web.Response:
        pulled.set()
        await go_on.wait()
        return web.json_response(dearer)

    notify = f"/v1/commerce/catalogset-notification?storeId={deal.store['storeId']}"
    run = await deal.pos.post(notify, {"callbackUrl": shop.host(slowly, "/slow.json")})
    await pulled.wait()
    refused = await browser.press(form, "Save", **MONDAYS)
    go_on.set()
    assert refused.status == 422
    assert "The store is getting another menu just now, so nothing was saved." in refused.text
    assert refused.root.all("input", name="monday-from-0")[0].attributes["value"] == "18:00"
    ended = {"succeeded", "failed"}
    status = await mercato.until(deal.pos, run.json()["statusUrl"], lambda now: now["status"] in ended)
    assert status["status"] == "succeeded"
    assert len((await deal.pos.get(f"{store}/catalog-ingest")).json()["runs"]) == 1
    set_id = (await deal.pos.get(store)).json()["catalogSetId"]
    served = (await deal.front.get(f"/v1/marketfront/catalog-sets/{set_id}")).json()
    assert served["items"][TEA]["basePrice"] == "3.00"


OWN_IDS: dict[str, Any] = {
    "currency": "USD",
    "sections": [{"sectionId": "mains", "name": "Mains", "itemIds": ["burger"]}],
    "items": {
        "burger": {
            "name": "Burger",
            "basePrice": "5.00",
            "modifierGroupIds": ["sides"],
            "partnerItemId": "SKU-1",
        },
        "fries": {"name": "Fries", "basePrice": "1.00", "modifierGroupIds": None, "itemIds": "theirs"},
    },
    "modifierGroups": {
        "sides": {"name": "Sides", "itemIds": ["fries"], "priceOverrides": {"fries": "0.50"}, "note": 1.10}
    },
}


async def test_lines_say_what_the_merchant_calls_them_after_its_hours_were_changed_too(
    mercato: Service, shop: MerchantServer
):
    deal, browser, path = await opened(mercato, shop, catalog=OWN_IDS)
    ids = f"/v1/commerce/stores/{deal.store['storeId']}/ids"
    known = (await deal.pos.get(ids)).json()
    assert set(known["items"]) == {"burger", "fries"}
    front = f"/v1/marketfront/catalog-sets/{deal.store['catalogSetId']}"
    before = (await deal.front.get(front)).json()
    form = await browser.open(f"{path}/hours")
    another_day = f"{clock.now() + timedelta(days=3):%A}".lower()
    await browser.press(form, "Save", **{f"{another_day}-to-0": "12:00"})
    store = await mercato.until(
        deal.pos,
        f"/v1/commerce/stores/{deal.store['storeId']}",
        lambda store: store["catalogSetId"] != deal.store["catalogSetId"],
    )
    assert (await deal.pos.get(ids)).json() == known
    after = (await deal.front.get(f"/v1/marketfront/catalog-sets/{store['catalogSetId']}")).json()
    assert [after[name] for name in ("items", "modifierGroups", "sections")] == [
        before[name] for name in ("items", "modifierGroups", "sections")
    ]
    order = deal.order(
        {
            "itemId": known["items"]["burger"],
            "quantity": 1,
            "modifierGroups": [
                {
                    "modifierGroupId": known["modifierGroups"]["sides"],
                    "lineItems": [
                        {"itemId": known["items"]["fries"], "quantity": 1, "modifierGroups": []},
                    ],
                }
            ],
        }
    )
    order["cart"]["catalogSetId"] = store["catalogSetId"]
    placed = (await deal.place(order)).json()
    [line] = (await deal.pos.get(f"/v1/commerce/orders/{placed['orderId']}")).json()["cart"]["lineItems"]
    [group] = line["modifierGroups"]
    assert (
        line["partnerItemId"],
        group["partnerModifierGroupId"],
        group["lineItems"][0]["partnerItemId"],
    ) == (
        "burger",
        "sides",
        "fries",
    )


async def test_hours_of_several_catalogs_are_left_to_who_publishes_them(
    mercato: Service, shop: MerchantServer
):
    document = cafe()
    ((key, catalog),) = document["catalogs"].items()
    noon = [{"dayOfWeek": "Monday", "start": "12:00:00", "end": "14:00:00"}]
    document["catalogs"] = {key: catalog, "lunch": catalog | {"catalogId": "lunch", "availability": noon}}
    _, browser, path = await opened(mercato, shop, catalog=document)
    page = await browser.open(f"{path}/hours")
    assert "Save" not in page.buttons
    assert "its hours are set in the catalogs that are published for it" in page.text
    assert "Save" not in (await browser.post(f"{path}/hours", MONDAYS)).buttons


async def test_amounts_in_another_currency_than_the_menu_has_now_are_said_to_be_left_out(
    mercato: Service, shop: MerchantServer
):
    """On the store's page, where they are set, and before a menu in another currency is published."""
    deal, browser, path = await opened(mercato, shop, webhook=False)
    form = await browser.open(f"{path}/charges")
    both = {"name-0": "Bag", "value-0": "0.50", "kind-0": "fee", "unit-0": "amount"}
    await browser.press(form, "Save", **both, **{"name-1": "VAT", "value-1": "10", "kind-1": "tax"})
    upload = await browser.open("/console/catalogs/upload")

    async def uploaded(currency: str) -> str:
        sent = {"storeId": deal.store["storeId"], "currency": currency}
        page = await browser.press(upload, "Upload", menu=("m.csv", b"item,price\nTea,2.00\n"), **sent)
        assert page.status == 200, page.text
        return str(page.text)

    warning = "The store has taxes or fees of an amount in USD, and this menu is in EUR"
    assert warning in await uploaded("EUR")
    assert "taxes or fees of an amount" not in await uploaded("USD")
    assert "not added" not in (await browser.open(path)).text
    assert "aren't added" not in (await browser.open(f"{path}/charges")).text

    euros = shop.host(cafe() | {"currency": "EUR"}, "/euros.json")
    assert (await mercato.run(deal.pos, deal.store["storeId"], euros))["status"] == "succeeded"
    page = await browser.open(path)
    assert "Bag: 0.50 USD (not added: the menu is in EUR)" in page.text
    assert page.text.count("not added") == 1, "a rate is added in every currency"
    form = await browser.open(f"{path}/charges")
    assert "the amounts below were set in USD: they aren't added to orders" in form.text
    done = await browser.press(form, "Save", **both)
    assert "Bag: 0.50 EUR" in done.text
    assert "not added" not in done.text
