"""`totalCount` is exact to a bound; beyond it the page and `hasMore` are still right."""

from typing import Any

import pytest
from tests.discovery.store_index import StoreIndex

from mercato.features.discovery import queries, service
from mercato_contract.discovery import EXACT_COUNT

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


@pytest.mark.parametrize("name", WAYS)
async def test_a_count_up_to_the_bound_is_exact_and_beyond_it_a_lower_bound(
    full: StoreIndex, name: str, monkeypatch: pytest.MonkeyPatch
):
    for bound, expected in (
        (STORES + 1, {"totalCount": STORES}),
        (STORES, {"totalCount": STORES}),
        (STORES - 1, {"totalCount": STORES - 1, "totalCountIsLowerBound": True}),
        (3, {"totalCount": 3, "totalCountIsLowerBound": True}),
    ):
        monkeypatch.setattr(service, "EXACT_COUNT", bound)
        for page in (await full.find(**WAYS[name], limit=2), await full.find(**WAYS[name], limit=100)):
            assert {key: page[key] for key in page if key.startswith("total")} == expected


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("chunk", [1, 4, 1_000])
async def test_pages_beyond_the_bound_have_every_store_once(
    full: StoreIndex, name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "EXACT_COUNT", 3)
    monkeypatch.setattr(queries, "CHUNK", chunk)
    pages = await everything(full, WAYS[name], limit=2)
    assert [len(page["stores"]) for page in pages] == [2] * (STORES // 2) + [1]
    assert [page["hasMore"] for page in pages] == [True] * (STORES // 2) + [False]
    names = [store["name"] for page in pages for store in page["stores"]]
    assert sorted(names) == sorted(full.ids)
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
