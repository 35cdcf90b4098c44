"""Orders are found by the words of their customer's name, for those who may see customers, until it is erased."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select
from tests.api.trade import CUSTOMER, Trade, trade
from tests.console.browser import Browser
from tests.console.test_find import entries, find, groups, leads_to
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.features.orders import privacy, search
from mercato.features.orders.search import MAX_WORDS, NAMES, ContactKeys, SearchKind, name_words
from mercato.features.orders.tables import order_search
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in.roles import Role
from mercato.features.upkeep import Upkeep
from mercato.platform import jobs as queue
from mercato.platform.db.tables import jobs
from mercato_contract import clock
from mercato_contract.placements import Customer

pytestmark = mostly_sqlite


async def place(deal: Trade, first: str, last: str, **more: str) -> str:
    placed = await deal.placed(deal.order(customer=CUSTOMER | {"firstName": first, "lastName": last} | more))
    order_id: str = placed["orderId"]
    return order_id


async def found_orders(browser: Browser, text: str) -> list[str]:
    """Return the ids of the orders that the search lists, in their order."""
    page = await find(browser, text)
    return [
        link.attributes["title"]
        for link in page.row_links
        if link.attributes["href"].startswith("/console/orders/")
    ]


@pytest.mark.parametrize(
    ("first", "last", "typed"),
    [
        ("Ada", "Lovelace", ("ada", "LOVELACE", "lovelace ada", " Ada  Lovelace ", "Lovelace, Ada")),
        ("José María", "Núñez", ("jose", "nunez", "Maria Nunez", "Nun\u0303ez")),
        ("Anne-Marie", "O'Brien", ("anne", "annemarie", "Anne-Marie", "obrien", "O\u2019Brien", "o brien")),
        ("山田", "太郎", ("山田", "太郎", "山田太郎", "太郎山田", "山田 太郎")),
        ("민수", "김", ("김민수", "김 민수")),
        ("Ольга", "Ёлкина", ("ольга", "ЁЛКИНА", "Елкина")),
        ("علي", "محمد", ("علي", "علی", "محمد علي")),
        ("Ada\u200b", "Love\u00adlace", ("ada lovelace",)),
    ],
)  # fmt: skip
def test_a_name_is_found_by_its_words_in_any_spelling(first: str, last: str, typed: tuple[str, ...]):
    keys = ContactKeys([b"k" * 32])
    customer = Customer(email="a@example.com", first_name=first, last_name=last, phone="+31612345678")
    stored = {key for kind, key in keys.entries_of(customer, "NL").items() if kind in NAMES}
    for text in typed:
        (wanted,) = keys.name_candidates(text)
        assert wanted, text
        assert stored >= set(wanted), text
    for text in ("grace", f"{first} hopper", "ad", "lovelac"):
        (wanted,) = keys.name_candidates(text)
        assert not stored >= set(wanted), text


def test_words_of_a_name_are_bounded_and_every_customer_has_one():
    assert len(name_words(" ".join(map(str, range(99))), "x" * 256)) == MAX_WORDS
    assert name_words("", "...") == [""]
    assert max(map(len, name_words("y" * 256, "x" * 256))) == 64
    keys = ContactKeys([b"k" * 32, b"o" * 32])
    assert [len(one) for one in keys.name_candidates("ada lovelace")] == [2, 2], "of each secret"
    for text in ("", "...", "+31 6 1234", "1042", "ada@example.com"):
        assert not any(keys.name_candidates(text)), text


@on_both
async def test_orders_are_found_by_their_customers_name_newest_first(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    first = await place(deal, "Ada", "Lovelace")
    await place(deal, "Ada", "Byron")
    second = await place(deal, "Lovelace", "Ada")
    who = (
        await enter_as_partner(mercato, deal.pos),
        await enter_as_partner(mercato, deal.front),
        await enter_as_partner(mercato, deal.pos, store_id=deal.store["storeId"]),
        (await enter_as_person(mercato, Role.SUPPORT))[0],
    )
    for browser in who:
        for text in ("ada lovelace", "LOVELACE", "lovelace ada"):
            assert await found_orders(browser, text) == [second, first], text
        assert len(await found_orders(browser, "ada")) == 3
        rows = groups(await find(browser, "ada lovelace"))["Orders"]
        assert all(row[2] == "Test Store" and row[4] for row in rows), "with store and time"
        for text in ("ada hopper", "lovelac", "a"):
            page = await find(browser, text)
            assert "Orders" not in groups(page), text
            assert "whole words of their name" in page.text or groups(page)


async def test_only_those_who_may_see_customers_find_orders_by_a_name(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    order = await place(deal, "Ada", "Lovelace")
    stranger = await mercato.create_partner("Another", PartnerKind.BOTH)
    merchant = (await mercato.partner())[1]
    second = await mercato.live(
        deal.pos, shop.host(shop.documents["/catalog.json"], "/2.json"), name="store-2"
    )
    admin = await enter_as_operator(mercato)
    blind = {
        "read-only": (await enter_as_partner(mercato, deal.pos, read_only=True)),
        "admin": admin,
        "another merchant": (await enter_as_partner(mercato, merchant)),
        "another partner": (await enter_as_person(mercato, Role.MANAGER, stranger.id))[0],
        "another store": (await enter_as_partner(mercato, deal.pos, store_id=second["storeId"])),
    }
    for name, browser in blind.items():
        assert not groups(await find(browser, "ada lovelace")), name
    assert leads_to(await find(admin, CUSTOMER["phone"]), f"orders/{order}")
    page = await find(admin, "ada lovelace")
    assert "among operators, the role Support" in page.text
    assert "sees no customers" in (await find(blind["read-only"], "ada lovelace")).text


async def test_an_erased_customer_is_not_found_by_name(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    first = await place(deal, "Ada", "Lovelace")
    second = await place(deal, "Ada", "Lovelace", email="bob@example.com", phone="+31612345678")
    browser = await enter_as_partner(mercato, deal.pos)
    assert await found_orders(browser, "ada lovelace") == [second, first]
    await privacy.erase_all(mercato.app.db, CUSTOMER["email"])
    assert await found_orders(browser, "ada lovelace") == [second]
    assert {kind for id_, kind in await entries(mercato) if id_ == UUID(first)} == {"number", "tail"}
    async with mercato.app.db.write() as tx:
        assert await privacy.erase_before(tx, before=clock.now(), limit=9) == 1, "by retention, too"
    assert not await found_orders(browser, "ada lovelace")
    assert {kind for _, kind in await entries(mercato)} == {"number", "tail"}


async def test_a_customer_erased_by_a_server_of_the_previous_release_is_not_found_by_name(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    deal = await trade(mercato, shop)
    await place(deal, "Ada", "Lovelace")
    browser = await enter_as_partner(mercato, deal.pos)
    assert await found_orders(browser, "ada")
    monkeypatch.setattr(search, "CONTACTS", (SearchKind.PHONE, SearchKind.EMAIL))
    await privacy.erase_all(mercato.app.db, CUSTOMER["email"])
    assert not await found_orders(browser, "ada")


async def test_a_common_word_of_a_name_is_searched_for_among_the_newest(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    deal = await trade(mercato, shop)
    rare = await place(deal, "Ada", "Lovelace")
    common = [await place(deal, "Ada", "Byron") for _ in range(3)]
    browser = await enter_as_partner(mercato, deal.pos)
    monkeypatch.setattr(search, "MAX_NAMED", 2)
    assert await found_orders(browser, "ada") == common[:0:-1]
    assert await found_orders(browser, "ada lovelace") == [rare], "by its rarest word"


async def waiting(mercato: Service) -> int:
    async with mercato.app.db.read() as tx:
        kinds = (search.REINDEX, "order.reindex")
        count: int = await tx.scalar(select(func.count()).select_from(jobs).where(jobs.c.kind.in_(kinds)))
    return count


async def remade(mercato: Service, expected: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while await entries(mercato) != expected or await waiting(mercato):
            await asyncio.sleep(0.02)


@on_both
async def test_orders_of_a_release_without_names_get_them_in_the_background(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "BATCH", 2)
    monkeypatch.setattr(search, "BATCHES", 1)
    deal = await trade(mercato, shop)
    await place(deal, "Erased", "Before", email="eve@example.com")
    for _ in range(4):
        await place(deal, "Ada", "Lovelace")
    await place(deal, "", "...")
    await privacy.erase_all(mercato.app.db, "eve@example.com")
    before = await entries(mercato)
    async with mercato.app.db.write() as tx:
        await tx.execute(delete(order_search).where(order_search.c.kind.in_(NAMES)))
    upkeep = Upkeep(mercato.app.db, clock.now, catalog_days=7, delivery_days=30)
    await upkeep.once()
    await remade(mercato, before)
    await upkeep.once()
    assert await waiting(mercato) == 0, "the oldest order with a customer has its words"


async def test_a_job_that_the_previous_release_enqueued_begins_anew(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await place(deal, "Ada", "Lovelace")
    await place(deal, "Ada", "Lovelace")
    before = await entries(mercato)
    async with mercato.app.db.write() as tx:
        await tx.execute(delete(order_search).where(order_search.c.kind.in_(NAMES)))
        payload = search.OrderReindexJob(before=min(id_ for id_, _ in before))
        await queue.enqueue(tx, "order.reindex", payload, ordering_key="order.reindex", dedup="order.reindex")
    await remade(mercato, before)
