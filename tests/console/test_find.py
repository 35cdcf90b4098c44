"""The search field: an order, a store, a partner or a webhook is found by the words that people have."""

import asyncio
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select
from tests.api.trade import CUSTOMER, Time, trade
from tests.console.browser import Browser, Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter, enter_as_operator, enter_as_partner, enter_whole_account
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.features import offboarding
from mercato.features.orders import privacy, search
from mercato.features.orders.tables import order_search
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.features.stores.tables import stores
from mercato.features.upkeep import Upkeep
from mercato_contract import clock

pytestmark = mostly_sqlite

GROUPS = ("Orders", "Stores", "Partners", "Runs", "Webhooks", "Refused requests")


async def find(browser: Browser, text: str) -> Page:
    page = await browser.post("/console/search", {"text": text})
    assert page.status == 200, page.text
    return page


def groups(page: Page) -> dict[str, list[list[str]]]:
    """Return the rows of each group that the page has."""
    headings = [one.text for one in page.root.all("h2")]
    assert [name for name in GROUPS if name in page.captions] == headings
    return {name: page.rows(name) for name in headings}


def leads_to(page: Page, path: str) -> bool:
    return any(link.attributes["href"] == f"/console/{path}" for link in page.root.all("a"))


@on_both
async def test_an_order_is_found_by_every_word_that_people_have_for_it(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    where = {"address": {"country": "NL", "city": "Utrecht"}}
    assert (await deal.pos.call("PUT", f"/v1/commerce/stores/{deal.store['storeId']}", where)).status == 200
    customer = CUSTOMER | {"phone": "06 1234-5678", "email": "Ada@Example.com"}
    reply = await deal.place(deal.order(customer=customer), key="front-77")
    order = reply.json()["orderId"]
    await deal.placed()
    browser = await enter_as_operator(mercato)
    words = (
        "+31 6 12345678",
        "0031612345678",
        "(06) 12 34 56 78",
        "\u202a+31612345678\u202c",
        "ada@example.com",
    )
    front = await enter_as_partner(mercato, deal.front)
    # Words are spelled in one way before they are looked for, whoever looks.
    one_of_each = (words[0], words[-1], order[-8:].upper(), order)
    for who, spellings, numbers, others in (
        (
            browser,
            (*words, *one_of_each, order[:30]),
            ("A-1", "#a-1"),
            ("+31612345679", "bob@example.com", "A-Z"),
        ),
        (await enter_as_partner(mercato, deal.pos), one_of_each, ("#a-1",), ("+31612345679", "A-Z")),
        (front, one_of_each, ("#a-1",), ("bob@example.com", "A-Z")),
    ):
        for text in spellings:
            page = await find(who, text)
            assert leads_to(page, f"orders/{order}"), text
            expected = 2 if text == words[-1] else 1
            assert len(groups(page)["Orders"]) == expected, text
        for text in numbers:
            assert len(groups(await find(who, text))["Orders"]) == 2
        for text in others:
            assert not groups(await find(who, text)), text
    assert leads_to(await find(front, "front-77"), f"orders/{order}")


async def test_a_store_a_partner_and_a_webhook_are_found(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await deal.placed()
    path = "/v1/marketfront/webhook-deliveries"
    sent = (await mercato.until(deal.front, path, lambda page: page["deliveries"]))["deliveries"][0]
    made, client = await mercato.partner(name="Joe's <b>Pizza")
    assert (await client.get("/v1/commerce/stores/x", headers={"X-Request-Id": "mine"})).status == 404
    await mercato.app.request_log.flush()
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console")
    assert [one.attributes["type"] for one in page.root.all("input")] == ["search"]
    for text, there, group in (
        ("test store", f"stores/{deal.store['storeId']}", "Stores"),
        ("Test Sto", f"stores/{deal.store['storeId']}", "Stores"),
        ("store-1", f"stores/{deal.store['storeId']}", "Stores"),
        (deal.store["storeId"], f"stores/{deal.store['storeId']}", "Stores"),
        ("joe's <B>pizza", f"partners/{made.id}", "Partners"),
        ("Pizza", f"partners/{made.id}", "Partners"),
        (str(made.id), f"partners/{made.id}", "Partners"),
        (made.key, f"partners/{made.id}", "Partners"),
        (made.key[:18], f"partners/{made.id}", "Partners"),
        (sent["deliveryId"], f"webhooks/{sent['deliveryId']}", "Webhooks"),
        (sent["webhookId"], f"webhooks/{sent['deliveryId']}", "Webhooks"),
    ):
        found = await find(browser, f" {text} ")
        check_frame(found)
        assert leads_to(found, there), text
        assert group in groups(found)
        assert made.key not in found.body.decode()
    assert groups(await find(browser, "mine"))["Refused requests"][0][1] == "mine"


TYPED = (
    ("K.F.C.", "kfc"),
    ("Chick-fil-A Main St", "chickfila main"),
    ("O'Brien's Pub", "o brien"),
    ("O'Briens Pub", "pub o\u2019briens"),
    ("Ka\u02bbanapali Grill", "ka'anapali"),
    ("Caf\u00e9 Z\u00fcrich", "cafe zurich"),
    ("\u06a9\u0631\u06cc\u0645", "\u0643\u0631\u064a\u0645"),
    ("Schnitzel\u00adhaus \u0662\u0664", "schnitzelhaus 24"),
    ("Stra\u00dfe 7", "strasse"),
)


async def test_stores_and_partners_are_found_by_what_people_type_for_their_names(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    operator = await enter_as_operator(mercato)
    merchant = await enter_as_partner(mercato, deal.pos)
    front = await enter_as_partner(mercato, deal.front)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    for name, typed in TYPED:
        assert (await deal.pos.call("PUT", path, {"name": name})).status == 200
        partner = await mercato.create_partner(name.replace("\u00ad", ""), PartnerKind.COMMERCE)
        for browser in (operator, merchant, front):
            page = await find(browser, typed)
            assert leads_to(page, f"stores/{deal.store['storeId']}"), (name, typed)
            assert leads_to(page, f"partners/{partner.id}") is (browser is operator), (name, typed)
        assert not groups(await find(operator, f"{typed} xyz")), "each of the words"
    for browser in (merchant, front):
        assert not groups(await find(browser, f"{typed} xyz")), "each of the words"


async def test_a_storefront_does_not_find_the_stores_of_a_suspended_merchant(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    store_id = deal.store["storeId"]
    browser = await enter_as_partner(mercato, deal.front)
    operator = await enter_as_operator(mercato)
    words = ("test store", store_id, store_id[:13])
    for text in words:
        assert leads_to(await find(browser, text), f"stores/{store_id}"), text
    async with mercato.app.db.read() as tx:
        merchant_id = await tx.scalar(select(stores.c.partner_id))
    await offboarding.suspend(mercato.app.db, merchant_id, now=clock.now)
    for text in words:
        assert not groups(await find(browser, text)), text
    assert leads_to(await find(operator, store_id), f"stores/{store_id}")


@on_both
async def test_whatever_a_list_shows_shortened_is_found_by_pasting_it(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await deal.placed()
    assert (await mercato.run(deal.pos, deal.store["storeId"], shop.base + "/catalog.json"))["status"]
    operator = await enter_as_operator(mercato)
    merchant = await enter_as_partner(mercato, deal.pos)
    store = await enter_as_partner(mercato, deal.pos, store_id=deal.store["storeId"])
    for browser in (operator, merchant, store):
        for path in ("orders", "webhooks", "catalogs"):
            links = (await browser.open(f"/console/{path}")).row_links
            assert links, path
            for link in links:
                there = link.attributes["href"].removeprefix("/console/")
                # Capitals and the whole id are the same to whoever pastes them.
                others = (link.text.upper(), link.attributes["title"]) if browser is operator else ()
                for text in (link.text, *others):
                    assert leads_to(await find(browser, text), there), (path, text)


@on_both
async def test_orders_stores_partners_runs_and_webhooks_are_found_by_the_last_eight_digits_of_their_ids(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    order = (await deal.placed())["orderId"]
    path = "/v1/marketfront/webhook-deliveries"
    sent = (await mercato.until(deal.front, path, lambda page: page["deliveries"]))["deliveries"][0]
    operator = await enter_as_operator(mercato)
    merchant = await enter_as_partner(mercato, deal.pos)
    front = await enter_as_partner(mercato, deal.front)
    (run,) = (await operator.open("/console/catalogs")).row_links
    async with mercato.app.db.read() as tx:
        partner = await tx.scalar(select(stores.c.partner_id))
    ids = {
        f"orders/{order}": (operator, merchant, front),
        f"stores/{deal.store['storeId']}": (operator, merchant, front),
        f"partners/{partner}": (operator,),
        f"catalogs/{run.attributes['title']}": (operator, merchant),
        f"webhooks/{sent['deliveryId']}": (operator, front),
    }
    for there, readers in ids.items():
        for browser in (operator, merchant, front):
            others = (there[-8:].upper(), f" {there[-8:]} ") if browser is operator else ()
            for text in (there[-8:], *others):
                assert leads_to(await find(browser, text), there) is (browser in readers), (there, text)
    for name, there in (("storeId", f"stores/{deal.store['storeId']}"), ("partner", f"partners/{partner}")):
        listed = await operator.open(f"/console/orders?{name}={there[-8:]}")
        assert listed.ids("Orders") == [order], "the fields of filters take it, too"


@on_both
async def test_a_search_never_tells_what_other_partners_have(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    order = (await deal.placed())["orderId"]
    sent = (
        await mercato.until(deal.front, "/v1/marketfront/webhook-deliveries", lambda page: page["deliveries"])
    )["deliveries"][0]
    other = await mercato.create_partner("Another", PartnerKind.BOTH)
    merchant = (await mercato.partner())[1]
    made = await mercato.create_partner("Known Name", PartnerKind.COMMERCE)
    texts = [
        CUSTOMER["phone"],
        CUSTOMER["email"],
        "A-1",
        order,
        order[-8:],
        "Known Name",
        made.key,
        str(made.id),
        str(made.id)[-8:],
    ]
    browser = await enter_as_operator(mercato)
    (run,) = (await browser.open("/console/catalogs")).row_links
    texts += [run.text, run.attributes["title"]]
    texts += [sent["deliveryId"], sent["deliveryId"][-8:], sent["webhookId"]]
    own = [deal.store["storeId"], deal.store["storeId"][-8:], "Test Store", "store-1"]
    both = await enter_whole_account(mercato, other.id)
    strange = await enter_as_partner(mercato, merchant)
    unknown = (await find(strange, str(clock.new_id()))).text
    for text in texts:
        assert not groups(await find(both, text)), text
        page = await find(strange, text)
        assert not groups(page), text
        assert page.text.replace(text, "") == unknown, "as if there were nothing"
    for text in own:
        assert not groups(await find(strange, text)), "a merchant finds its own stores"
    page = await find(both, "Test Store")
    assert list(groups(page)) == ["Stores"], "every storefront finds every store"
    assert (await find(both, "store-1")).captions == [], "but not by its merchant's own id"


async def test_a_read_only_session_finds_no_order_by_its_customer(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = (await deal.placed())["orderId"]
    grant = Grant(partner_id=None, created_by="cli:eve", read_only=True)
    async with mercato.app.db.write() as tx:
        link = await sessions.create_link(tx, grant, now=clock.now())
    operator, _ = await enter(mercato, f"{mercato.base}/console/links/{link.token}")
    partner = await enter_as_partner(mercato, deal.front, read_only=True)
    for browser in (operator, partner):
        for text in (CUSTOMER["phone"], CUSTOMER["email"]):
            page = await find(browser, text)
            assert (groups(page), "sees no customers" in page.text) == ({}, True)
        assert leads_to(await find(browser, order[-8:]), f"orders/{order}")


async def test_a_session_for_one_store_finds_nothing_of_another(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = (await deal.placed())["orderId"]
    second = await mercato.live(
        deal.pos, shop.host(shop.documents["/catalog.json"], "/2.json"), name="store-2"
    )
    browser = await enter_as_partner(mercato, deal.pos, store_id=second["storeId"])
    for text in (order, "A-1", CUSTOMER["phone"], "store-1", deal.store["storeId"]):
        assert not groups(await find(browser, text)), text
    assert len(groups(await find(browser, "Test Store"))["Stores"]) == 1


async def entries(mercato: Service) -> dict[tuple[UUID, str], int]:
    async with mercato.app.db.read() as tx:
        rows = await tx.all(select(order_search))
    return {(row.order_id, row.kind): row.key for row in rows}


async def test_an_erased_customer_cannot_be_found(mercato: Service, shop: MerchantServer, clock_ahead: Time):
    deal = await trade(mercato, shop)
    first = UUID((await deal.placed())["orderId"])
    browser = await enter_as_operator(mercato)
    assert groups(await find(browser, CUSTOMER["phone"]))
    await privacy.erase_all(mercato.app.db, CUSTOMER["email"])
    second = UUID(
        (await deal.placed(deal.order(customer=CUSTOMER | {"email": "bob@example.com"})))["orderId"]
    )
    kinds = await entries(mercato)
    assert {kind for id_, kind in kinds if id_ == first} == {"number", "tail"}
    assert {kind for id_, kind in kinds if id_ == second} == {
        *("number", "tail", "phone", "email", "name1", "name2")
    }
    assert not groups(await find(browser, CUSTOMER["email"]))
    assert len(groups(await find(browser, CUSTOMER["phone"]))["Orders"]) == 1
    async with mercato.app.db.write() as tx:
        assert await privacy.erase_before(tx, before=clock.now(), limit=9) == 1, "by retention, too"
    assert {kind for _, kind in await entries(mercato)} == {"number", "tail"}
    assert not groups(await find(browser, CUSTOMER["phone"]))
    assert len(groups(await find(browser, "A-1"))["Orders"]) == 2, "its number is nobody's"


@on_both
async def test_an_erasure_by_any_spelling_takes_every_order_that_the_search_finds(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    where = {"address": {"country": "NL", "city": "Utrecht"}}
    assert (await deal.pos.call("PUT", f"/v1/commerce/stores/{deal.store['storeId']}", where)).status == 200
    browser = await enter_as_operator(mercato)
    for typed in ("+31 6 1234 5678", "0031612345678"):
        for phone in ("06-12345678", "+31612345678", "\uff10\uff16 1234 5678"):
            await deal.placed(deal.order(customer=CUSTOMER | {"phone": phone}))
        other = await deal.placed(deal.order(customer=CUSTOMER | {"phone": "+32612345678"}))
        assert len(groups(await find(browser, typed))["Orders"]) == 3
        found = await browser.post("/console/erasure/find", {"customer": typed})
        assert "erased from 3 orders" in found.text
        done = await browser.post("/console/erasure/erase", {"customer": typed})
        assert "The customer was erased from 3 orders." in done.text
        assert not groups(await find(browser, typed))
        assert not groups(await find(browser, "06 12345678"))
        assert leads_to(await find(browser, "+32612345678"), f"orders/{other['orderId']}"), (
            "another customer's"
        )
        kept = {kind for id_, kind in await entries(mercato) if id_ != UUID(other["orderId"])}
        assert kept == {"number", "tail"}
        await privacy.erase_all(mercato.app.db, "+32612345678")


@on_both
async def test_orders_of_an_earlier_release_are_indexed_in_the_background(
    mercato: Service, shop: MerchantServer, monkeypatch: Any
):
    monkeypatch.setattr(search, "BATCH", 2)
    monkeypatch.setattr(search, "BATCHES", 1)
    deal = await trade(mercato, shop)
    for _ in range(5):
        await deal.placed()
    await privacy.erase_all(mercato.app.db, "nobody")
    before = await entries(mercato)
    assert len(before) == 5 * 6
    async with mercato.app.db.write() as tx:
        await tx.execute(delete(order_search))
    upkeep = Upkeep(mercato.app.db, clock.now, catalog_days=7, delivery_days=30)
    await upkeep.once()
    async with asyncio.timeout(PATIENCE):
        while await entries(mercato) != before:
            await asyncio.sleep(0.02)
    await upkeep.once()
    async with mercato.app.db.read() as tx:
        from mercato.platform.db.tables import jobs

        waiting = select(func.count()).select_from(jobs).where(jobs.c.kind == search.REINDEX)
        assert await tx.scalar(waiting) == 0, "the oldest order has its entries"


@on_both
async def test_any_text_can_be_searched_for(mercato: Service, shop: MerchantServer, database_kind: str):
    deal = await trade(mercato, shop)
    await deal.placed()
    browser = await enter_as_operator(mercato)
    partner = await enter_as_partner(mercato, deal.pos)
    hostile = (
        "%",
        "_",
        "",
        "\\",
        "'",
        '"',
        "\N{SNOWMAN}" * 99,
        "+",
        "+" * 20,
        "(((((((",
        "@",
        "1@",
        "-" * 36,
    )
    arabic = (
        "\u0645\u0637\u0639\u0645",
        "\u202e\u05e9\u05dc\u05d5\u05dd",
        "\u0660" * 10,
        "\u0667" * 12 + "@",
    )
    texts = (
        *hostile,
        *arabic,
        HOSTILE,
        "%" * 10_000,
        "a" * 10_000,
        "\u05d0" * 10_000,
        "\ud83d",
        "9" * 400,
    )
    for number, text in enumerate(texts):
        # An operator searches everywhere; a partner is sent half of the texts to each database.
        for one in (browser, partner) if number % 2 == (database_kind == "sqlite") else (browser,):
            page = await find(one, text.encode(errors="replace").decode())
            check_frame(page)
            assert not groups(page), text
            if text:
                assert "Nothing found" in page.text
    assert "Nothing found" not in (await browser.open("/console/search")).text
