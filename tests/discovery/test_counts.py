"""`totalCount` is exact to a bound; beyond it the page and `hasMore` are still right."""

from typing import Any

import pytest
from sqlalchemy import text
from tests.databases import mostly_sqlite, on_both
from tests.discovery.store_index import StoreIndex

from mercato.features.discovery import queries, service
from mercato.features.discovery.tables import FIRST
from mercato_contract.discovery import EXACT_COUNT

pytestmark = mostly_sqlite

STORES = 13
WAYS: dict[str, dict[str, Any]] = {
    "all": {},
    "word": {"query": "soup"},
    "word in names and elsewhere": {"query": "house"},
    "beginning of a word": {"query": "sou"},
    "two words": {"query": "house soup"},
    "category": {"categories": ["Food"]},
    "category and fulfilment": {"query": "soup", "categories": ["Food"], "fulfillmentType": "PICKUP"},
    "place": {"location": {"lat": 10, "lng": 10}},
    "place and word": {"query": "soup", "location": {"lat": 10, "lng": 10}},
}
WAYS |= {f"{name}, open now": way | {"openNow": True} for name, way in WAYS.items()}


@pytest.fixture
async def full(index: StoreIndex) -> StoreIndex:
    await index.put_all(
        (
            f"{'House' if number % 3 else 'Place'} {number}",
            (10 + number / 1000, 10.0),
            {"items": ["Soup"], "categories": ("Food",), "description": "A house"},
        )
        for number in range(STORES)
    )
    return index


async def everything(index: StoreIndex, way: dict[str, Any], *, limit: int) -> list[dict[str, Any]]:
    """Return all pages, read until there is no more."""
    pages = [await index.find(**way, limit=limit)]
    while pages[-1]["hasMore"]:
        offset = sum(len(page["stores"]) for page in pages)
        pages.append(await index.find(**way, limit=limit, offset=offset))
    return pages


def test_the_count_is_exact_to_a_thousand():
    assert EXACT_COUNT == 1_000


async def test_a_count_up_to_the_bound_is_exact_and_beyond_it_a_lower_bound(
    full: StoreIndex, monkeypatch: pytest.MonkeyPatch
):
    for bound, expected in (
        (STORES + 1, {"totalCount": STORES}),
        (STORES, {"totalCount": STORES}),
        (STORES - 1, {"totalCount": STORES - 1, "totalCountIsLowerBound": True}),
        (3, {"totalCount": 3, "totalCountIsLowerBound": True}),
    ):
        monkeypatch.setattr(service, "EXACT_COUNT", bound)
        for name, way in WAYS.items():
            for page in (await full.find(**way, limit=2), await full.find(**way, limit=100)):
                assert {key: page[key] for key in page if key.startswith("total")} == expected, name


@pytest.mark.parametrize("chunk", [1, 4, 1_000])
async def test_pages_beyond_the_bound_have_every_store_once(
    full: StoreIndex, chunk: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "EXACT_COUNT", 3)
    monkeypatch.setattr(queries, "CHUNK", chunk)
    for name, way in WAYS.items():
        pages = await everything(full, way, limit=2)
        assert [len(page["stores"]) for page in pages] == [2] * (STORES // 2) + [1], name
        assert [page["hasMore"] for page in pages] == [True] * (STORES // 2) + [False], name
        names = [store["name"] for page in pages for store in page["stores"]]
        assert sorted(names) == sorted(full.ids), name
        if name == "word in names and elsewhere":
            assert [one.startswith("House") for one in names] == sorted(
                map(bool, (n % 3 for n in range(STORES))), reverse=True
            )


@pytest.mark.parametrize("bound", [2, 3, 5, 100])
async def test_names_come_first_then_whole_words_then_longer_ones_whatever_the_bound_is(
    index: StoreIndex, bound: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "EXACT_COUNT", bound)
    await index.put("One", items=["Soups"])
    await index.put("Two", items=["Soup"])
    await index.put("Three", items=["Soups", "Soup"])
    await index.put("Soupery", items=["Tea"])
    await index.put("Soup bar", items=["Tea"])
    names = ["Soupery", "Soup bar", "Two", "Three", "One"]
    pages = await everything(index, {"query": "soup"}, limit=1)
    assert [store["name"] for page in pages for store in page["stores"]] == names
    assert (await index.find(query="soup", openNow=True))["stores"][-1]["name"] == "One"
    assert [page["totalCount"] for page in pages] == [min(bound, 5)] * 5


async def test_a_page_beyond_the_last_store_is_empty_and_says_no_more(full: StoreIndex):
    for way in WAYS.values():
        page = await full.find(**way, offset=STORES + 5)
        assert (page["stores"], page["hasMore"], page["totalCount"]) == ([], False, STORES)


async def test_the_order_by_words_does_not_depend_on_what_was_changed_last(full: StoreIndex):
    before = [store["name"] for store in (await full.find(query="soup"))["stores"]]
    await full.put(
        "House 1", (10.001, 10.0), items=["Soup"], categories=("Food",), description="A house", paused=True
    )
    assert [store["name"] for store in (await full.find(query="soup"))["stores"]] == before


@pytest.mark.parametrize("chunk", [1, 4, 1_000])
@on_both
async def test_stores_beyond_the_first_part_of_the_index_are_found_and_counted_after_those_in_it(
    index: StoreIndex, chunk: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queries, "CHUNK", chunk)
    async with index.db.write() as tx:
        if tx.dialect == "postgresql":
            await tx.execute(text(f"SELECT setval('store_search_number_seq', {FIRST - 5})"))
    for number in range(5):
        await index.put(f"House {number}", items=["Houses"])
        await index.put(f"Place {number}", items=["House"] if number % 2 else ["Houses"])
    names = [f"House {number}" for number in range(5)]
    names += ["Place 1", "Place 3", "Place 0", "Place 2", "Place 4"]
    for bound in (2, 4, 9, 10, 11):
        monkeypatch.setattr(service, "EXACT_COUNT", bound)
        for way in ({"query": "house"}, {"query": "house", "openNow": True}):
            for limit in (1, 3, 100):
                pages = await everything(index, way, limit=limit)
                found = [store["name"] for page in pages for store in page["stores"]]
                assert found == names if chunk == 1_000 else sorted(found) == sorted(names)
                assert [page["totalCount"] for page in pages] == [min(bound, 10)] * len(pages)


@pytest.mark.parametrize("way", ["word", "beginning of a word", "category", "category and fulfilment"])
async def test_the_nearest_stores_come_first_if_more_are_found_than_are_counted(
    index: StoreIndex, way: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "EXACT_COUNT", 3)
    metres = [20, 900, 3_000, 5_000, 9_000, 15_000, 24_000]
    # The farthest joined first.
    for one in reversed(metres):
        await index.put(f"{one}", (10 + one / 111_195, 10.0), items=["Soup"], categories=("Food",))
    await index.put("too far", (10.3, 10.0), items=["Soup"], categories=("Food",))
    asked = WAYS[way] | {"location": {"lat": 10, "lng": 10}}
    for limit in (1, 2, 3, 5):
        pages = await everything(index, asked, limit=limit)
        assert [store["name"] for page in pages for store in page["stores"]] == list(map(str, metres))
        assert all(page["totalCountIsLowerBound"] for page in pages)


@pytest.mark.parametrize("most", [0, 2, 128])
async def test_the_beginning_of_a_word_finds_all_words_that_begin_so_however_many_there_are(
    index: StoreIndex, most: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queries, "MAX_BEGINNING", most)
    words = ["pizza", "pizzaa", "pizza0", "pizza9x", "pizzazz", "pizzaü", "pizzaж", "pizza" + "z" * 60]
    for word in words:
        await index.put(f"House of {words.index(word)}", items=[f"{word} rolls"])
        await index.put(f"Other of {words.index(word)}", items=["pizz", "piz", "pizy", "pizzb", "rolls"])
    await index.put("Pizzaland", items=["Rolls"])
    found = [f"House of {number}" for number in range(len(words))]
    assert await index.names(query="rolls pizza") == [*found, "Pizzaland"]
    assert (await index.names(query="pizza"))[0] == "Pizzaland"
    assert await index.names(query="rolls pizza0") == ["House of 2"]
