"""`Register store`: from nothing to a live store, with what is wrong beside its field and nothing typed twice."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any, Final
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy import insert, select, update
from tests.console.browser import Browser, Page
from tests.console.test_store_settings import fault
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, on_both, only_postgresql
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.sharing import own, shared
from tests.spreadsheets.sheets import HEAD, xlsx_of
from tests.waiting import PATIENCE

from mercato.console.hours_form import WEEK, field_of
from mercato.console.screen import Visit
from mercato.console.screens import registration as screen
from mercato.features import offboarding
from mercato.features.catalogs.tables import catalog_runs
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in.roles import Role
from mercato.features.stores.onboarding import NewMenu, new_menu
from mercato.features.stores.registrations import (
    MAX_REGISTRATIONS,
    Registration,
    TooManyRegistrations,
    insert_registration,
)
from mercato.features.stores.tables import registrations
from mercato_contract.catalogs import RunStatus

pytestmark = [shared, mostly_sqlite, pytest.mark.usefixtures("reads_here")]

STORE = {
    "name": "Trattoria Ada",
    "street": "1 Main St",
    "city": "Springfield",
    "state": "IL",
    "postalCode": "62701",
    "country": "US",
    "phone": "+1 555 0100",
}
CLOSED = {field_of(day, "closed"): "true" for day in WEEK}
HOURS = {field: text for field, text in CLOSED.items() if "monday" not in field} | {
    "monday-from-0": "11:30",
    "monday-to-0": "14:00",
    "monday-from-1": "18:00",
    "monday-to-1": "02:00",
}
ORDERS = {"orderHandling": "manual", "acceptWithin": "15", "pickup": "true", "minimum": "5"}
CHARGES = {"name-0": "Sales tax", "value-0": "10"}


Begun = tuple[Client, Browser, Page]
"""A merchant, its browser, and a page of its registration."""

_walked: dict[Any, tuple[dict[str, Any], str]] = {}
"""The rows of registrations that were filled in on the pages, and the query of the last page."""


async def begun(mercato: Service) -> Begun:
    """Return the page after the step Store."""
    return await _like(mercato, None, lambda: walk_to_hours(mercato))


async def filled(mercato: Service, **upload: str) -> Begun:
    """Return the last page of a registration that lacks nothing."""
    return await _like(mercato, tuple(upload.items()), lambda: walk_to_the_end(mercato, **upload))


async def _like(mercato: Service, key: Any, walk: Callable[[], Awaitable[Begun]]) -> Begun:
    """Walk through the pages once in a worker; then copy what that has left for another merchant."""
    if key not in _walked:
        client, browser, page = await walk()
        path, _, query = page.url.partition("?")
        its = registrations.c.id == UUID(path.rpartition("/")[2])
        async with mercato.app.db.read() as tx:
            (row,) = await tx.all(select(registrations).where(its))
        _walked[key] = row._asdict(), query
        return client, browser, page
    made, client = await mercato.partner()
    kept, query = _walked[key]
    new_id, now = mercato.app.new_id(), mercato.app.clock()
    copy = kept | {"id": new_id, "partner_id": made.id, "created_at": now, "updated_at": now}
    async with mercato.app.db.write() as tx:
        await tx.execute(insert(registrations).values(copy))
    browser = await enter_as_partner(mercato, client)
    return client, browser, await browser.open(f"/console/stores/register/{new_id}?{query}")


async def walk_to_hours(mercato: Service) -> Begun:
    client = (await mercato.partner())[1]
    browser = await enter_as_partner(mercato, client)
    stores = await browser.open("/console/stores")
    page = await browser.open(stores.link("Register store"))
    assert (page.title, page.heading) == ("Register store", "Register store")
    return client, browser, await browser.press(page, "Save and continue", **STORE)


MENU = [HEAD, ("Mains", "Soup", None, 5.5, None, None, None), (None, "Bread", None, 2, None, None, None)]


async def walk_to_the_end(mercato: Service, **upload: str) -> Begun:
    client, browser, page = await walk_to_hours(mercato)
    page = await browser.press(page, "Save and continue", **HOURS)
    page = await browser.press(page, "Save and continue", **ORDERS)
    page = await browser.press(page, "Save and continue", **CHARGES)
    page = await browser.press(page, "Upload", menu=("menu.xlsx", xlsx_of({"menu": MENU})), **upload)
    assert ["Mains", "Soup", "5.50" + "0" * ("currency" in upload), "\N{EN DASH}", "yes"] in page.rows(
        "Items"
    )
    return client, browser, await browser.open(page.link("Continue"))


async def test_a_merchant_without_a_store_reads_first_how_to_register_one_and_goes_on_with_it(
    mercato: Service,
):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    overview = await browser.open("/console")
    assert "This account has no store yet. Register one" in overview.text
    assert "Nothing needs your attention." not in overview.text
    page = await browser.open(overview.link("Register store"))
    page = await browser.press(page, "Save and continue", **STORE)
    overview = await browser.open("/console/overview")
    assert "Go on with the one that was begun:" in overview.text
    page = await browser.open(overview.link("Continue with Trattoria Ada"))
    assert (page.heading, page.region("Hours")[:11]) == ("Register store", "Step 2 of 6")


@on_both
@pytest.mark.parametrize(
    ("name", "content", "is_open"),
    [
        # Nobody can tell what the file says: how to read it stands open.
        ("menu.csv", "section;item;price\nPizza;Margherita;9,50 \N{EURO SIGN}\n".encode("cp1252"), True),
        ("menu.csv", b"section,item,price\nPizza,Margherita,a lot\n", False),
    ],
)
async def test_how_a_file_is_read_can_be_chosen_at_once_where_its_fault_is_none_of_a_row(
    mercato: Service, name: str, content: bytes, is_open: bool
):
    _, browser, page = await begun(mercato)
    page = await browser.open(page.url.replace("step=hours", "step=menu"))
    refused = await browser.press(page, "Upload", menu=(name, content))
    assert refused.status == 422
    [fold] = [one for one in refused.root.all("details") if "Encoding (CSV)" in one.text]
    assert ("open" in fold.attributes) is is_open


async def until(browser: Browser, page: Page, text: str) -> Page:
    """Open the page again until it says this."""
    async with asyncio.timeout(PATIENCE):
        while text not in page.text:
            page = await browser.open(page.url)
    return page


async def test_a_person_comes_from_nothing_to_a_live_store_that_takes_orders(mercato: Service):
    client, browser, page = await walk_to_the_end(mercato)
    assert page.region("Go live").startswith("Step 6 of 6 Go live Everything is there.")
    page = await browser.press(page, "Register store")
    assert page.status_region == "The store is registered, and its menu is being checked."
    page = await until(browser, page, "The store can go live.")
    page = await browser.press(page, "Activate")
    assert page.status_region == "Trattoria Ada is live: storefronts find it, and it takes orders."
    assert page.heading == "Trattoria Ada"
    (store,) = (await client.get("/v1/commerce/stores")).json()["stores"]
    assert (store["name"], store["partnerStoreId"]) == ("Trattoria Ada", "trattoria-ada")
    assert (store["phone"], store["timezone"]) == ("+1 555 0100", "America/Chicago")
    assert (store["orderHandling"], store["acceptWithin"]) == ("manual", 15)
    assert (store["pickupAllowed"], store["deliveryAllowed"]) == (True, False)
    assert (store["minimumOrderAmount"], store["charges"][0]["name"]) == ("5.00", "Sales tax")
    front = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    seen = (await front.get(f"/v1/marketfront/stores/{store['storeId']}")).json()
    assert [(one["dayOfWeek"], one["start"], one["end"]) for one in seen["availability"]] == [
        ("Monday", "11:30:00", "14:00:00"),
        ("Monday", "18:00:00", "00:00:00"),
        ("Tuesday", "00:00:00", "02:00:00"),
    ]
    stores = await browser.open("/console/stores")
    assert "Not live yet" not in stores.captions
    assert (await browser.open(page.url)).status == 200


WRONG_STORES: Final[tuple[tuple[dict[str, str], str, str], ...]] = (
    ({"name": ""}, "name", "Fill this in."),
    ({"street": ""}, "street", "Fill this in."),
    ({"city": ""}, "city", "Fill this in."),
    ({"country": ""}, "country", "Fill this in."),
    ({"name": "x" * 256}, "name", "At most 255 characters fit, not 256."),
    ({"phone": "1" * 65}, "phone", "At most 64 characters fit, not 65."),
    ({"lat": "52.37"}, "lng", "Enter both, or none."),
    ({"lat": "north", "lng": "4.89"}, "lat", "Enter a number, like 52.37."),
    ({"lat": "52,37", "lng": "4.89"}, "lat", "Write 52.37: with the digits 0 to 9, and a point"),
    ({"lat": "\N{ARABIC-INDIC DIGIT FIVE}", "lng": "4"}, "lat", "Write 5: with the digits 0 to 9."),
    ({"lat": "91", "lng": "4.89"}, "lat", "It must be at most 90."),
    ({"partnerStoreId": "7" * 256}, "partnerStoreId", "At most 255 characters fit, not 256."),
)
"""What may be typed of the store, the field of the fault, and what is said of it."""


async def test_what_is_wrong_with_the_store_is_said_beside_its_field_and_stays_as_it_was_typed(
    mercato: Service,
):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    blank = await browser.open("/console/stores/register")
    stores = None
    for sent, name, said in WRONG_STORES:
        page = await browser.press(blank, "Save and continue", **STORE | sent)
        assert page.status == 422, sent
        assert said in fault(page, name), sent
        stores = stores or await browser.open("/console/stores")
        again = await browser.open(stores.link("Continue"))
        assert again.region("Store").startswith("Step 1 of 6"), sent
        assert said in fault(again, name), sent
        for field, text in (STORE | sent).items():
            assert [one.attributes["value"] for one in again.root.all("input", name=field)] == [text], field
        # From now on it is the same registration.
        blank = await browser.open(again.url)
        for one in blank.root.all("input"):
            if one.attributes.get("name") in {"lat", "lng", "partnerStoreId"}:
                one.attributes["value"] = ""


WRONG_HOURS: Final[tuple[tuple[dict[str, str], str, str], ...]] = (
    ({"monday-from-0": ""}, "monday-from-0", "Enter a time like 9:30 or 18:00."),
    ({"monday-to-0": "noon"}, "monday-to-0", "Enter a time like 9:30 or 18:00."),
    ({"monday-to-0": "25:00"}, "monday-to-0", "Enter a time like 9:30 or 18:00."),
    ({"monday-to-0": "19:00"}, "monday-from-1", "It begins before 11:30\N{EN DASH}19:00 of Monday ends."),
    (
        {"tuesday-closed": "", "tuesday-from-0": "01:00", "tuesday-to-0": "03:00"},
        "tuesday-from-0",
        "It begins before 18:00\N{EN DASH}02:00 of Monday ends.",
    ),
    ({"tuesday-closed": ""}, "tuesday-from-0", "Enter when Tuesday begins and ends, or tick Closed."),
    (CLOSED, "monday-from-0", "Every day is closed. Enter the hours of one day at least."),
    ({"monday-to-0": "11:30"}, "monday-to-0", "begins and ends at the same time"),
    ({"timezone": "Europe/Springfield"}, "timezone", "It must be an IANA time zone name"),
)
"""What may be typed of the hours, the field of the fault, and what is said of it."""


async def test_what_is_wrong_with_the_hours_is_said_beside_its_field(
    mercato: Service,
):
    _, browser, blank = await begun(mercato)
    for sent, name, said in WRONG_HOURS:
        hours = {field: text for field, text in (HOURS | sent).items() if text}
        page = await browser.press(blank, "Save and continue", **hours)
        assert page.status == 422, sent
        assert said in fault(page, name), sent
        assert page.region("Hours").startswith("Step 2 of 6"), sent


async def test_the_hours_of_one_day_are_copied_to_the_days_that_have_none(mercato: Service):
    _, browser, page = await begun(mercato)
    hours = {"sunday-closed": "true", "tuesday-from-0": "10:00", "tuesday-to-0": "18:00"}
    page = await browser.press(page, "Use the first day's hours for every empty day", **hours)
    values = {one.attributes["name"]: one.attributes["value"] for one in page.root.all("input", type="time")}
    assert {values[f"{day.lower()}-from-0"] for day in WEEK if day != "Sunday"} == {"10:00"}
    assert values["sunday-from-0"] == ""
    page = await browser.press(page, "Save and continue")
    assert page.region("Orders").startswith("Step 3 of 6")


@pytest.mark.parametrize("sent", [{}, {"sunday-closed": "true"}])
async def test_nothing_is_said_to_be_copied_while_no_day_has_hours(mercato: Service, sent: dict[str, str]):
    _, browser, page = await begun(mercato)
    page = await browser.press(page, "Use the first day's hours for every empty day", **sent)
    assert (page.status, "The hours are on every day" in page.text) == (422, False)
    assert fault(page, "monday-from-0") == "Enter when Monday begins and ends, or tick Closed."


async def test_a_store_whose_address_is_not_known_asks_for_its_time_zone_and_offers_a_position(
    mercato: Service,
):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await browser.open("/console/stores/register")
    nowhere = STORE | {"city": "Nowhereville", "postalCode": "", "state": "", "country": "Russia"}
    page = await browser.press(page, "Save and continue", **nowhere)
    assert page.region("Hours").startswith("Step 2 of 6")
    page = await browser.press(page, "Save and continue", **HOURS)
    assert page.status == 422
    assert "Choose it: the address doesn't tell" in page.text
    page = await browser.press(page, "Save and continue", timezone="Europe/Moscow", **HOURS)
    assert page.region("Orders").startswith("Step 3 of 6")
    page = await browser.open(page.url.replace("step=orders", "step=store"))
    assert "This place isn't known" in page.text


WRONG_HANDLING: Final[tuple[tuple[dict[str, str], str, str], ...]] = (
    ({"acceptWithin": "90"}, "acceptWithin", "It must be at most 60."),
    ({"acceptWithin": "\N{DEVANAGARI DIGIT NINE}"}, "acceptWithin", "Write 9: with the digits 0 to 9."),
    (
        {"acceptWithin": "10 min"},
        "acceptWithin",
        "Write 10: only the number, without words or a currency.",
    ),
    (
        {"minimum": "15 \N{EURO SIGN}"},
        "minimum",
        "Write 15: only the number, without words or a currency.",
    ),
    ({"minimum": "EUR 15,00"}, "minimum", "Write 15.00: with the digits 0 to 9, and a point"),
    ({"minimum": "12,50"}, "minimum", "Write 12.50: with the digits 0 to 9, and a point"),
    ({"orderHandling": "webhook"}, "webhookUrl", "Enter the address of your system"),
    ({"orderHandling": "webhook", "webhookUrl": "example"}, "webhookUrl", "Enter a web address"),
    ({"minimum": "five"}, "minimum", '"five" is not a decimal number like 12.50.'),
    ({"minimum": "-5"}, "minimum", "It must not be negative."),
    ({"minimum": "0" * 60 + "5"}, "minimum", "At most 40 characters fit, not 61."),
)
"""What may be typed of the handling of orders, the field of the fault, and what is said of it."""


async def test_what_is_wrong_with_the_handling_of_orders_is_said_beside_its_field(
    mercato: Service,
):
    _, browser, page = await begun(mercato)
    blank = await browser.open(page.url.replace("step=hours", "step=orders"))
    for sent, name, said in WRONG_HANDLING:
        page = await browser.press(blank, "Save and continue", **ORDERS | sent)
        assert page.status == 422, sent
        assert said in fault(page, name), sent


WRONG_CHARGES: Final[tuple[tuple[dict[str, str], str, str], ...]] = (
    ({"value-0": "7,5"}, "value-0", "Write 7.5: with the digits 0 to 9, and a point before decimals."),
    ({"value-0": ""}, "value-0", "Enter a percent or an amount."),
    ({"unit-0": "amount", "value-0": "-1"}, "value-0", "It must not be negative."),
    ({"kind-0": "fee", "included-0": "true"}, "included-0", "Only a tax can be included"),
)
"""What may be typed of taxes and fees, the field of the fault, and what is said of it."""


async def test_what_is_wrong_with_taxes_and_fees_is_said_beside_its_field(
    mercato: Service,
):
    _, browser, page = await begun(mercato)
    blank = await browser.open(page.url.replace("step=hours", "step=charges"))
    for sent, name, said in WRONG_CHARGES:
        page = await browser.press(blank, "Save and continue", **CHARGES | sent)
        assert page.status == 422, sent
        assert said in fault(page, name), sent


async def test_going_back_and_leaving_lose_nothing_that_was_typed(mercato: Service):
    _, browser, page = await begun(mercato)
    page = await browser.press(page, "Back", **HOURS, timezone="America/New_York")
    assert page.region("Store").startswith("Step 1 of 6")
    assert page.field("Name").attributes["value"] == "Trattoria Ada"
    page = await browser.press(page, "Hours", **STORE | {"name": "Ada's", "city": ""})
    assert page.root.all("input", name="monday-to-1")[0].attributes["value"] == "02:00"
    listed = await browser.open("/console/stores")
    assert [row[0] for row in listed.rows("Not live yet")] == ["Ada's"]
    again = await browser.open(listed.link("Continue"))
    assert fault(again, "city") == "Fill this in.", "it opens at the first step that isn't complete"
    assert "1 to correct" in again.region("Steps")


async def test_faults_of_a_menu_are_listed_by_their_cells_and_the_earlier_menu_is_kept(mercato: Service):
    _, browser, page = await filled(mercato)
    page = await browser.open(page.url.replace("step=live", "step=menu"))
    wrong = [*MENU, ("Mains", "Tea", None, "a lot", None, None, None)]
    page = await browser.press(page, "Upload", menu=("new.xlsx", xlsx_of({"menu": wrong})))
    assert page.status == 422
    (row,) = page.rows("Faults")
    assert row[:4] == ["menu", "4", "price (D)", "a lot"]
    nothing = await browser.press(page, "Upload")
    assert (nothing.status, "No file was sent." in nothing.text) == (422, True)
    page = await browser.open(page.url.removesuffix("/menu"))
    assert page.region("Go live").startswith("Step 6 of 6 Go live Everything is there.")


async def test_the_last_step_says_what_is_missing_on_each_and_registers_nothing_before(mercato: Service):
    client, browser, page = await begun(mercato)
    page = await browser.open(page.url.replace("step=hours", "step=live"))
    said = page.region("Go live")
    for text in ("Hours : Not filled in yet.", "Orders : Not filled in yet.", "Menu : Upload the menu."):
        assert text in said
    assert "Register store" not in page.buttons
    await browser.post(page.url.partition("?")[0] + "/submit")
    assert (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"] == []


@on_both
async def test_a_change_after_the_registration_withdraws_it_and_it_is_registered_again(mercato: Service):
    client, browser, page = await filled(mercato)
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")
    twice = await browser.post(page.url.partition("?")[0] + "/submit")
    assert "The store can go live." in twice.text
    (first,) = (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"]
    page = await browser.open(page.url.replace("step=live", "step=store"))
    page = await browser.press(page, "Save and continue", name="Ada's")
    assert (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"] == []
    page = await browser.open(page.url.replace("step=hours", "step=live"))
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")
    page = await browser.press(page, "Activate")
    assert page.heading == "Ada's"
    (second,) = (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"]
    assert first["onboardingId"] != second["onboardingId"]


async def test_an_onboarding_that_was_cancelled_with_the_api_is_registered_again(mercato: Service):
    client, browser, page = await filled(mercato)
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")
    (made,) = (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"]
    await client.call("DELETE", f"/v1/commerce/onboarding/stores/{made['onboardingId']}")
    page = await browser.open(page.url)
    assert "Register store" in page.buttons
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")


async def test_no_store_goes_live_by_the_api_without_what_was_typed_in_the_console(mercato: Service):
    client, browser, page = await filled(mercato)
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")
    (made,) = (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"]
    refused = await client.post(f"/v1/commerce/onboarding/stores/{made['onboardingId']}/activate")
    assert (refused.status, refused.json()["errorCode"]) == (409, "ONBOARDING_NOT_READY")
    assert "Let that person activate it" in refused.json()["detail"]
    assert (await client.get("/v1/commerce/stores")).json()["stores"] == []
    await browser.press(page, "Activate")
    (store,) = (await client.get("/v1/commerce/stores")).json()["stores"]
    assert store["phone"]


@on_both
async def test_a_retry_with_the_api_of_what_the_console_began_needs_an_address_and_says_so(
    mercato: Service, shop: MerchantServer
):
    client, browser, page = await filled(mercato)
    await until(browser, await browser.press(page, "Register store"), "The store can go live.")
    (made,) = (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"]
    async with mercato.app.db.write() as tx:
        its = catalog_runs.c.owner_id == UUID(made["onboardingId"])
        await tx.execute(update(catalog_runs).where(its).values(status=RunStatus.FAILED))
    path = f"/v1/commerce/onboarding/stores/{made['onboardingId']}"
    empty: dict[str, str] = {}
    for body in (None, empty):
        refused = await client.post(f"{path}/retry", body)
        assert refused.status == 422
        (found,) = refused.json()["errors"]
        assert found["pointer"] == "/catalogCallbackUrl"
        assert "an uploaded menu, which is no longer kept" in found["message"]
    assert (await client.get(path)).json()["status"] == "catalog_failed"
    again = await client.post(f"{path}/retry", {"catalogCallbackUrl": shop.host(CATALOG)})
    assert (again.status, again.json()["status"]) == (200, "pending_catalog")
    await mercato.until(client, path, lambda status: status["status"] == "ready_to_activate")


async def test_an_id_that_another_store_has_is_refused_beside_its_field(mercato: Service):
    client, browser, page = await filled(mercato)
    taken = {
        "partnerStoreId": "trattoria-ada",
        "name": "A",
        "address": {},
        "catalogCallbackUrl": "http://a.example/",
    }
    assert (await client.post("/v1/commerce/onboarding/stores", taken)).status == 201
    page = await browser.press(page, "Register store")
    assert page.status == 422
    assert fault(page, "partnerStoreId") == "Another store of this account has it. Enter another one."
    await browser.press(page, "Save and continue", partnerStoreId="ada-2")
    page = await browser.open(page.url.removesuffix("/submit") + "?step=live")
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")


async def test_amounts_that_do_not_fit_the_menus_currency_are_said_before_anything_is_registered(
    mercato: Service,
):
    _, browser, page = await filled(mercato, currency="KWD")
    assert "Minimum order" not in page.region("Go live")
    page = await browser.open(page.url.replace("step=live", "step=orders"))
    page = await browser.press(page, "Save and continue", minimum="5.5055")
    assert page.status == 422
    assert "at most 3 decimals" in fault(page, "minimum")


@own()
async def test_other_partners_and_other_roles_have_no_way_to_a_registration(mercato: Service):
    _, browser, page = await begun(mercato)
    path = page.url.partition("?")[0]
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    for found in (
        await stranger.open(path),
        await stranger.post(path, {"step": "store", "name": "Mine"}),
        *[await stranger.post(f"{path}/{action}") for action in ("menu", "submit", "activate", "delete")],
        await (await enter_as_operator(mercato)).open(path),
    ):
        assert found.status == 404
    account = (await owners_of(mercato, path))[0]
    for number, role in enumerate((Role.SUPPORT, Role.READ_ONLY)):
        person, _ = await enter_as_person(mercato, role, account, name=f"Eve {number}")
        listed = await person.open("/console/stores")
        assert "Not live yet" not in listed.captions
        assert "Register store" not in listed.text
        assert (await person.open(path)).status == 403
        assert (await person.post(path, {"step": "store", "name": "Mine"})).status == 403
    assert (await browser.open(path)).status == 200


async def owners_of(mercato: Service, path: str) -> list[UUID]:
    """Return the partner of the registration of the path, if there is one."""
    async with mercato.app.db.read() as tx:
        found = await tx.all(
            select(registrations.c.partner_id).where(registrations.c.id == UUID(path.rpartition("/")[2]))
        )
    return [row.partner_id for row in found]


@on_both
async def test_a_registration_is_deleted_after_a_question_and_its_onboarding_is_cancelled(mercato: Service):
    client, browser, page = await filled(mercato)
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")
    asked = await browser.press(page, "Delete registration")
    assert asked.heading == "Delete this registration?"
    assert "Trattoria Ada" in asked.text
    done = await browser.press(asked, "Confirm")
    assert done.status_region == "The registration is deleted."
    assert "Not live yet" not in done.captions
    assert (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"] == []


async def test_an_account_registers_a_bounded_number_of_stores_at_a_time(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await browser.open("/console/stores/register")
    for number in range(MAX_REGISTRATIONS):
        assert (await browser.press(page, "Save and continue", **STORE | {"name": f"{number}"})).status == 200
    refused = await browser.press(page, "Save and continue", **STORE)
    assert refused.status == 409
    assert "Finish or delete one of them first." in refused.text
    assert len((await browser.open("/console/stores")).rows("Not live yet")) == MAX_REGISTRATIONS


@only_postgresql
async def test_registrations_that_are_begun_at_once_do_not_exceed_the_bound(
    mercato: Service, database_kind: str
):
    """On SQLite one transaction at a time writes."""
    made, client = await mercato.partner()
    db, app = mercato.app.db, mercato.app

    async def begin() -> None:
        async with db.write() as tx:
            await insert_registration(tx, made.id, app.new_id(), {"store": STORE}, now=app.clock())

    for _ in range(MAX_REGISTRATIONS - 1):
        await begin()
    async with db.write() as tx:
        await insert_registration(tx, made.id, app.new_id(), {"store": STORE}, now=app.clock())
        second = asyncio.create_task(begin())
        async with asyncio.timeout(PATIENCE):
            while not (second.done() or await is_blocked(mercato)):
                await asyncio.sleep(0.01)
    with pytest.raises(TooManyRegistrations):
        await second
    browser = await enter_as_partner(mercato, client)
    assert len((await browser.open("/console/stores")).rows("Not live yet")) == MAX_REGISTRATIONS


async def is_blocked(mercato: Service) -> bool:
    """Return whether a session of PostgreSQL waits for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with mercato.app.db.read() as tx:
        return bool(await tx.scalar(sa.text(waiting)))


async def test_a_name_of_other_letters_gets_an_id_and_pages_stay_small(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await browser.open("/console/stores/register")
    page = await browser.press(
        page, "Save and continue", **STORE | {"name": "寿司", "description": "<b>&" * 500}
    )
    assert len(page.body) < 100_000
    page = await browser.open(page.url.replace("step=hours", "step=store"))
    assert "without it, store-" in page.text
    assert len(page.body) < 100_000


@on_both
async def test_a_deleted_partner_leaves_no_registration(mercato: Service):
    _, _, page = await begun(mercato)
    (account,) = await owners_of(mercato, page.url.partition("?")[0])
    await offboarding.delete(mercato.app.db, account, now=mercato.app.clock)
    assert await owners_of(mercato, page.url.partition("?")[0]) == []


async def test_a_form_that_is_no_step_is_refused_and_changes_nothing(mercato: Service):
    _, browser, page = await begun(mercato)
    path = page.url.partition("?")[0]
    for step, action in product(
        ("live", "menu", "nope", "", "\x00", "store "), (path, "/console/stores/register")
    ):
        refused = await browser.post(action, {"step": step, "name": "Other"})
        said = "Open it again from the page Stores." in refused.text
        assert (refused.status, said) == (422, True), (step, action)
    for shown in ("store", "menu", "live"):
        assert (await browser.open(f"{path}?step={shown}")).status == 200
    page = await browser.open(f"{path}?step=store")
    assert page.field("Name").attributes["value"] == STORE["name"]
    assert len((await browser.open("/console/stores")).rows("Not live yet")) == 1


@on_both
async def test_activate_pressed_twice_at_once_leads_to_the_store_both_times(mercato: Service):
    _, browser, page = await filled(mercato)
    page = await until(browser, await browser.press(page, "Register store"), "The store can go live.")
    pressed = await asyncio.gather(*(browser.press(page, "Activate") for _ in range(2)))
    assert [(one.status, one.heading) for one in pressed] == [(200, "Trattoria Ada")] * 2
    # One more that arrives when the store is live, and its registration gone.
    again = await browser.press(page, "Activate")
    assert (again.status, again.heading) == (200, "Trattoria Ada")
    _, stranger, _ = await begun(mercato)
    assert (await stranger.press(page, "Activate")).status == 404


@on_both
@pytest.mark.parametrize("change", ["save", "menu", "delete"])
async def test_a_registration_that_another_window_registers_meanwhile_is_not_changed(
    mercato: Service, monkeypatch: pytest.MonkeyPatch, change: str
):
    client, browser, page = await filled(mercato)
    path = page.url.partition("?")[0]
    menu_page = await browser.open(f"{path}?step=menu")
    withdraw = screen._withdraw

    async def register_meanwhile(visit: Visit, kept: Registration) -> Registration:
        withdrawn = await withdraw(visit, kept)
        monkeypatch.setattr(screen, "_withdraw", withdraw)
        assert (await browser.post(f"{path}/submit")).status == 200
        return withdrawn

    monkeypatch.setattr(screen, "_withdraw", register_meanwhile)
    if change == "save":
        refused = await browser.post(path, STORE | {"step": "store", "name": "Other"})
    elif change == "menu":
        refused = await browser.press(menu_page, "Upload", menu=("menu.xlsx", xlsx_of({"menu": MENU})))
    else:
        refused = await browser.post(f"{path}/delete")
    assert (refused.status, "Go back, and send it again." in refused.text) == (409, True)
    assert len((await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"]) == 1
    page = await until(browser, await browser.open(f"{path}?step=live"), "The store can go live.")
    assert (await browser.press(page, "Activate")).heading == "Trattoria Ada"


@pytest.mark.parametrize("change", ["save", "menu"])
async def test_what_was_changed_while_it_was_being_registered_is_not_registered_as_it_was_before(
    mercato: Service, monkeypatch: pytest.MonkeyPatch, change: str
):
    client, browser, page = await filled(mercato)
    path = page.url.partition("?")[0]
    menu_page = await browser.open(f"{path}?step=menu")

    async def change_meanwhile(*given: Any) -> NewMenu:
        made = await new_menu(*given)
        monkeypatch.setattr(screen, "new_menu", new_menu)
        if change == "save":
            await browser.post(path, STORE | {"step": "store", "name": "Other"})
        else:
            await browser.press(menu_page, "Upload", menu=("menu.xlsx", xlsx_of({"menu": MENU[:2]})))
        return made

    monkeypatch.setattr(screen, "new_menu", change_meanwhile)
    refused = await browser.post(f"{path}/submit")
    assert (refused.status, "press Register store" in refused.text) == (409, True)
    assert (await client.get("/v1/commerce/onboarding/stores")).json()["onboardings"] == []
    page = await browser.press(await browser.open(f"{path}?step=live"), "Register store")
    page = await until(browser, page, "The store can go live.")
    name = "Other" if change == "save" else STORE["name"]
    page = await browser.press(page, "Activate")
    assert page.heading == name
    assert len(page.rows("Items")) == (2 if change == "save" else 1)
