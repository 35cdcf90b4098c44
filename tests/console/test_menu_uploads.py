"""A person uploads a spreadsheet with a store's menu, sees what was read and what changes, and publishes it."""

from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import pytest
from tests.console.browser import Browser, Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import CATALOG, ITEM, SECTION, Client, MerchantServer, Service
from tests.sharing import own, shared
from tests.spreadsheets.sheets import HEAD, both, csv_of, ods_of, priced, xlsx_of

from mercato.console import rendering
from mercato.features.sign_in.roles import Role
from mercato_tools.imports.spreadsheets.headings import CHOICES
from mercato_tools.imports.spreadsheets.template import xlsx_template

pytestmark = [shared, pytest.mark.usefixtures("reads_here")]

UPLOAD = "/console/catalogs/upload"
MENU = [HEAD, ("Mains", "Soup", None, 5.5, "Size", None, None), (None, "Bread", "Rye", 2, None, "no", None)]
SIZES = [CHOICES.columns, ("Size", 1, 1, None, "Small", 0), (None, None, None, None, "Large", 1.5)]


@pytest.fixture
async def pos(mercato: Service) -> Client:
    return (await mercato.partner())[1]


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await mercato.live(pos, shop.host(CATALOG))


async def upload(browser: Browser, content: bytes, name: str = "menu.xlsx", **fields: Any) -> Page:
    return await browser.press(await browser.open(UPLOAD), "Upload", menu=(name, content), **fields)


async def published(mercato: Service, pos: Client, store: Any, page: Page) -> Any:
    """Return the set that the store serves once the run of the page has ended."""
    run_id = page.url.rpartition("/")[2]
    path = f"/v1/commerce/stores/{store['storeId']}/catalog-ingest/{run_id}/status"
    run = await mercato.until(pos, path, lambda run: run["status"] in {"succeeded", "failed"})
    assert run["status"] == "succeeded", run
    now = (await pos.get(f"/v1/commerce/stores/{store['storeId']}")).json()
    return (await pos.get(f"/v1/commerce/catalog-sets/{now['catalogSetId']}")).json()


@mostly_sqlite
@pytest.mark.parametrize("write", [xlsx_of, ods_of])
async def test_a_workbook_is_read_compared_and_published(
    mercato: Service, pos: Client, store: Any, write: Any
):
    browser = await enter_as_partner(mercato, pos)
    catalogs = await browser.open("/console/catalogs")
    assert UPLOAD in {link.attributes["href"] for link in catalogs.root.all("a")}
    page = await upload(browser, write(both(MENU, SIZES)), storeId=store["name"])
    assert page.status == 200, page.text
    check_frame(page)
    assert ["Mains", "Soup", "5.50", "Size", "yes"] in page.rows("Items")
    assert ["Mains", "Bread", "2.00", "\N{EN DASH}", "no"] in page.rows("Items")
    # The store has a soup already, by another system's id: it stays the same item.
    changes = {row[0] for row in page.rows("Changes")}
    assert changes >= {"Items added", "Modifier groups added"}
    assert "Items removed" not in changes
    before = (await pos.get(f"/v1/commerce/stores/{store['storeId']}")).json()
    assert before["catalogSetId"] == store["catalogSetId"]
    done = await browser.press(page, "Publish")
    assert "/console/catalogs/" in done.url
    served = await published(mercato, pos, store, done)
    names = {item["name"]: item for item in served["items"].values()}
    assert names["Soup"]["basePrice"] == "5.50"
    assert names["Soup"] == served["items"][ITEM]
    assert served["currency"] == "USD"
    again = await browser.press(page, "Publish")
    assert again.status == 409
    assert "has been published already" in again.text
    same = await upload(browser, write(both(MENU, SIZES)), storeId=store["storeId"])
    assert "The store serves the same menu now" in same.text


@mostly_sqlite
async def test_csv_files_take_the_second_one_for_choices(mercato: Service, pos: Client, store: Any):
    browser = await enter_as_partner(mercato, pos)
    menu = csv_of(MENU, delimiter=";", encoding="utf-16")
    page = await upload(browser, menu, "menu.csv", choices=("c.csv", csv_of(SIZES)), storeId=store["name"])
    assert ["Mains", "Soup", "5.50", "Size", "yes"] in page.rows("Items")


@only_sqlite
async def test_faults_are_shown_by_sheet_row_and_column_and_nothing_changes(
    mercato: Service, pos: Client, store: Any
):
    browser = await enter_as_partner(mercato, pos)
    page = await upload(browser, csv_of(priced("1,234", HOSTILE)), f"{HOSTILE}.csv", storeId=store["name"])
    assert page.status == 422
    check_frame(page)
    rows = page.rows("Faults")
    assert [row[1:3] for row in rows] == [["2", "price (B)"], ["3", "price (B)"]]
    assert "nothing in the file says which" in rows[0][4]
    assert "Publish" not in [button.text for button in page.root.all("button")]
    chosen = await upload(
        browser, csv_of(priced("1,234")), "m.csv", storeId=store["name"], decimal="point", currency="eur"
    )
    assert [row[2] for row in chosen.rows("Items")] == ["1234.00"]
    assert "Currency EUR" in chosen.text


@only_sqlite
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"storeId": ""}, "Choose the store whose menu it is"),
        ({"storeId": "nowhere"}, "No store has this name or id."),
        ({"currency": "EURO"}, "currency"),
        ({"menu": ("", b"")}, "No file was sent."),
    ],
)
async def test_a_wrong_field_is_named_beside_it(
    mercato: Service, pos: Client, store: Any, fields: Any, said: str
):
    browser = await enter_as_partner(mercato, pos)
    good = {"storeId": store["name"], "menu": ("m.csv", csv_of(priced(1)))}
    page = await browser.press(await browser.open(UPLOAD), "Upload", **good | fields)
    assert page.status == 422
    assert said in page.text


@only_sqlite
async def test_another_partners_store_and_menu_look_as_if_there_were_none(
    mercato: Service, pos: Client, store: Any, shop: MerchantServer
):
    other = (await mercato.partner())[1]
    theirs = await mercato.live(other, shop.host(CATALOG), name="theirs")
    browser = await enter_as_partner(mercato, pos)
    said = set()
    for text in (theirs["storeId"], str(uuid4())):
        page = await upload(browser, csv_of(priced(1)), "m.csv", storeId=text)
        assert page.status == 422
        [fault] = [one.text for one in page.root.all("span") if one.attributes.get("class") == "fault"]
        said.add(fault.replace(text, "…"))
    assert len(said) == 1, said
    good = await upload(browser, csv_of(priced(1)), "m.csv", storeId=store["name"])
    action = good.form("Publish").attributes["action"]
    stranger = await enter_as_partner(mercato, other)
    for form in ({"storeId": store["storeId"]}, {"storeId": theirs["storeId"]}):
        refused = await stranger.post(action, form)
        assert refused.status in {404, 409}
    assert (await browser.post(action, {"storeId": theirs["storeId"]})).status == 404
    assert (await browser.press(good, "Publish")).status == 200


@only_sqlite
async def test_a_session_for_one_store_uploads_for_that_store_alone(
    mercato: Service, pos: Client, store: Any, shop: MerchantServer
):
    second = await mercato.live(pos, shop.host(CATALOG), name="second")
    browser = await enter_as_partner(mercato, pos, store_id=store["storeId"])
    page = await upload(browser, csv_of(priced(1)), "m.csv")
    assert page.status == 200
    action = page.form("Publish").attributes["action"]
    assert (await browser.post(action, {"storeId": second["storeId"]})).status == 404
    assert (await browser.press(page, "Publish")).status == 200


@own()
@only_sqlite
async def test_only_who_may_change_catalogs_uploads_menus(mercato: Service, pos: Client, store: Any):
    made, client = await mercato.partner()
    support, _ = await enter_as_person(mercato, Role.SUPPORT, made.id)
    assert (await support.open(UPLOAD)).status == 403
    read_only = await enter_as_partner(mercato, client, read_only=True)
    assert (await read_only.post(UPLOAD, {})).status == 403
    operator = await enter_as_operator(mercato)
    assert (await operator.open(UPLOAD)).status == 404
    browser = await enter_as_partner(mercato, pos)
    other_site = await browser.post(UPLOAD, {"storeId": "x"}, **{"Sec-Fetch-Site": "cross-site"})
    assert other_site.status == 403
    assert (await browser.post(UPLOAD, {"storeId": "x"})).status == 400


@only_sqlite
async def test_a_file_of_30_megabytes_is_read_and_a_larger_one_refused(
    mercato: Service, pos: Client, store: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()  # with its process, whose memory is bounded
    browser = await enter_as_partner(mercato, pos)
    rows = [b"A,Item %d,%s,1,,,\r\n" % (number, b"x" * 120_000) for number in range(250)]
    large = csv_of([HEAD]) + b"".join(rows)
    assert len(large) > 30_000_000
    page = await upload(browser, large, "m.csv", storeId=store["name"])
    assert page.status in {200, 422}
    assert len(page.body) < 100_000
    page = await upload(browser, large + b"x" * (4 << 20), "m.csv", storeId=store["name"])
    assert page.status == 413


@pytest.mark.long
@only_sqlite
async def test_a_file_of_60_000_rows_is_read_on_a_small_page(
    mercato: Service, pos: Client, store: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()
    browser = await enter_as_partner(mercato, pos)
    rows = [HEAD, *[("A", f"Item {number}", None, 1, None, None, None) for number in range(60_000)]]
    page = await upload(browser, csv_of(rows), "m.csv", storeId=store["name"])
    assert (page.status, "60,000 items" in page.text) == (200, True)
    assert len(page.body) < 100_000


def test_the_template_to_download_is_the_one_that_the_command_writes(tmp_path: Path):
    """Apart from the time at which it was made."""
    kept = Path(rendering.__file__).with_name("static") / "menu-template.xlsx"
    made = tmp_path / "made.xlsx"
    made.write_bytes(xlsx_template())
    with ZipFile(kept) as old, ZipFile(made) as new:
        assert old.namelist() == new.namelist()
        for name in set(old.namelist()) - {"docProps/core.xml"}:
            assert old.read(name) == new.read(name), name


MORNING = {"dayOfWeek": "Monday", "start": "08:00:00", "end": "11:00:00"}
NIGHT = {"dayOfWeek": "Friday", "start": "18:00:00", "end": "00:00:00"}


async def test_a_menu_that_was_compared_with_another_one_is_not_published(
    mercato: Service, pos: Client, store: Any, shop: MerchantServer
):
    """It has the hours of that one, and the person saw the changes of that one."""
    browser = await enter_as_partner(mercato, pos)
    page = await upload(browser, csv_of(priced(1)), "m.csv", storeId=store["name"])
    catalog = {"c": {"name": "Menu", "sectionIds": [SECTION], "availability": [MORNING]}}
    url = shop.host(CATALOG | {"catalogs": catalog}, "/hours.json")
    assert (await mercato.run(pos, store["storeId"], url))["status"] == "succeeded"
    newer = (await pos.get(f"/v1/commerce/stores/{store['storeId']}")).json()["catalogSetId"]
    refused = await browser.press(page, "Publish")
    assert refused.status == 409
    assert "The store has got another menu meanwhile" in refused.text
    assert (await pos.get(f"/v1/commerce/stores/{store['storeId']}")).json()["catalogSetId"] == newer
    again = await upload(browser, csv_of(priced(1)), "m.csv", storeId=store["name"])
    served = await published(mercato, pos, store, await browser.press(again, "Publish"))
    [catalog] = served["catalogs"].values()
    assert catalog["availability"] == [MORNING]


@only_sqlite
@pytest.mark.parametrize(
    ("catalogs", "kept"),
    [
        ([[MORNING, NIGHT]], [MORNING, NIGHT]),
        ([[MORNING], [MORNING]], [MORNING]),
        ([[]], []),
        ([[MORNING], [NIGHT]], None),
    ],
)
async def test_a_menu_keeps_the_hours_of_the_one_before(
    mercato: Service, pos: Client, shop: MerchantServer, catalogs: Any, kept: Any
):
    named = {
        f"c{number}": {"name": "Menu", "sectionIds": [SECTION], "availability": windows}
        for number, windows in enumerate(catalogs)
    }
    store = await mercato.live(pos, shop.host(CATALOG | {"catalogs": named}))
    browser = await enter_as_partner(mercato, pos)
    page = await upload(browser, csv_of(priced(1)), "m.csv", storeId=store["name"])
    assert ("catalogs have different hours" in page.text) is (kept is None)
    served = await published(mercato, pos, store, await browser.press(page, "Publish"))
    [catalog] = served["catalogs"].values()
    if kept is None:
        assert len(catalog["availability"]) == 7
    else:
        assert catalog["availability"] == kept


@only_sqlite
async def test_an_item_keeps_its_id_when_its_name_begins_to_occur_in_a_section_above(
    mercato: Service, pos: Client, store: Any
):
    """Its sold-out mark and open carts hold for what they were of."""
    browser, head = await enter_as_partner(mercato, pos), ("section", "item", "price")

    async def publish(*rows: Any) -> dict[str, str]:
        page = await upload(browser, csv_of([head, *rows]), "m.csv", storeId=store["name"])
        assert page.status == 200, page.text
        served = await published(mercato, pos, store, await browser.press(page, "Publish"))
        return {item["basePrice"]: id_ for id_, item in served["items"].items()}

    before = await publish(("Hot", "Small", 1), ("Hot", "Bread", 3))
    after = await publish(("Cold", "Small", 2), ("Hot", "Small", 1), ("Cold", "Bread", 3))
    assert (after["1.00"], after["3.00"]) == (before["1.00"], before["3.00"])
    assert after["2.00"] not in before.values()


@only_sqlite
async def test_ids_that_another_system_gave_are_kept_and_not_mentioned(
    mercato: Service, pos: Client, shop: MerchantServer
):
    sections = {SECTION: {"name": "Drinks", "itemIds": ["4711"]}}
    items = {"4711": {"name": "Tea", "basePrice": "2.00"}}
    store = await mercato.live(pos, shop.host({"currency": "USD", "sections": sections, "items": items}))
    before = (await pos.get(f"/v1/commerce/catalog-sets/{store['catalogSetId']}")).json()
    browser = await enter_as_partner(mercato, pos)
    rows = [("section", "item", "price"), ("Drinks", "Tea", 3)]
    page = await upload(browser, csv_of(rows), "m.csv", storeId=store["name"])
    assert page.status == 200
    assert "UUID" not in page.text
    assert "4711" not in page.text
    served = await published(mercato, pos, store, await browser.press(page, "Publish"))
    assert set(served["items"]) == set(before["items"])
