"""By words: any script, any case; every word, the last by its beginning; and nothing in a query is syntax."""

# ruff: noqa: RUF001  # letters of many scripts are what it is about

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.discovery.store_index import StoreIndex

from mercato.features.catalogs.words import MAX_BYTES, MAX_LETTERS, MAX_WORDS, split, terms_of, words_of

STORES = {
    "Joe's Café": ["Crème brûlée", "Smørrebrød", "Coca-Cola 0.5l"],
    "Straße 7": ["ŁÓDŹ soup", "Öl"],
    "寿司屋": ["ラーメン", "ﾗｰﾒﾝ大盛"],
    "مطعم السلام": ["شاورما دجاج", "مُشَكَّل"],
    "Сытый Ёж": ["Борщ"],
    "ร้านอาหาร": ["ก๋วยเตี๋ยว"],
    "김치나라": ["김치찌개"],
    "मसाला": ["पनीर टिक्का"],
    "Pizza 🍕": ["ＰＩＺＺＡ Ｍ"],
}


@pytest.fixture
async def full(index: StoreIndex) -> StoreIndex:
    await index.put_all((name, None, {"items": items}) for name, items in STORES.items())
    return index


FOUND = {
    "joes": "Joe's Café",
    "JOE'S": "Joe's Café",
    "joe\u2019s cafe": "Joe's Café",
    "CAFÉ": "Joe's Café",
    "creme brulee": "Joe's Café",
    "smorrebrod": "Joe's Café",
    "cola coca": "Joe's Café",
    "coc": "Joe's Café",
    "strasse": "Straße 7",
    "lodz": "Straße 7",
    "ol": "Straße 7",
    "寿司": "寿司屋",
    "司": "寿司屋",
    "屋": "寿司屋",
    "ラーメン": "寿司屋",
    "ﾗｰﾒﾝ": "寿司屋",
    "大盛 寿司": "寿司屋",
    "شاورما": "مطعم السلام",
    "مشكل": "مطعم السلام",
    "السلا": "مطعم السلام",
    "БОРЩ": "Сытый Ёж",
    "еж": "Сытый Ёж",
    "ก๋วยเตี๋ยว": "ร้านอาหาร",
    "อาหาร": "ร้านอาหาร",
    "찌개": "김치나라",
    "김치": "김치나라",
    "पनीर": "मसाला",
    "मसा": "मसाला",
    "🍕": "Pizza 🍕",
    "pi": "Pizza 🍕",
    "pizza m": "Pizza 🍕",
}


@pytest.mark.parametrize("number", range(len(FOUND)))
def test_the_words_of_a_query_are_among_those_of_its_store(number: int):
    query, name = list(FOUND.items())[number]
    words = words_of([name, *STORES[name]])
    for term in terms_of(query):
        assert any(word.startswith(term.text) if term.prefix else word == term.text for word in words), term


async def test_every_script_is_found_in_both_databases_alike(full: StoreIndex):
    for query, name in FOUND.items():
        assert await full.names(query=query) == [name], query


async def test_missing_words_find_nothing(full: StoreIndex):
    for query in ("joe's pizza", "oes", "caf x", "司寿", "ラメーン", "zza", "straß 8", "p", "cocacola"):
        assert await full.names(query=query) == [], query


async def test_a_query_without_letters_and_digits_is_ignored(full: StoreIndex):
    for query in ("", "  ", "!?", "***", "\"'", "---", "()", "\u3000", "&|!:*<->"):
        assert (await full.find(query=query))["totalCount"] == len(STORES), query


SYNTAX = (
    '"', "'", 'pizza"', "'pizza'", "pizza AND", "AND", "OR pizza", "NOT", "NEAR", "NEAR(pizza soup)", "piz*", "*piz",
    "-pizza", "pizza:soup", "words: pizza", "^pizza", "{pizza}", "(pizza", "pizza)", "pizza & !soup", "pizza:*",
    "pizza <-> soup", "\\", "pizza\\", "%", "_", "pizza; DROP TABLE stores", "--", "\ue000npizza", "$1", ":words",
)  # fmt: skip


async def test_nothing_in_a_query_is_syntax(full: StoreIndex):
    for query in SYNTAX:
        for more in ({}, {"categories": [query]}, {"openNow": True}, {"location": {"lat": 0, "lng": 0}}):
            await full.find(query=query, **more)
    for query in ("piz*", '"pizza"', "-pizza", "pizza:*", "(pizza"):
        assert await full.names(query=query) == ["Pizza 🍕"], query


async def test_matches_in_names_come_first_and_the_rest_in_the_order_of_joining(index: StoreIndex):
    await index.put("First", items=["Ramen"])
    await index.put("Second", categories=("Ramen",))
    await index.put("Ramen house", items=["Tea"])
    await index.put("House of ramen")
    await index.put("Third", description="ramen")
    everything = ["Ramen house", "House of ramen", "First", "Second", "Third"]
    for query in ("ramen", "rame"):
        assert await index.names(query=query) == everything
        found = [(await index.find(query=query, limit=2, offset=at))["stores"] for at in range(5)]
        assert [[one["name"] for one in page] for page in found] == [
            everything[at : at + 2] for at in range(5)
        ]
    assert await index.names(query="ramen house") == ["Ramen house", "House of ramen"]
    assert await index.names(query="ramen", openNow=True) == everything
    assert await index.names(query="ramen", location={"lat": 0, "lng": 0}) == []


async def test_without_a_query_stores_are_ordered_by_name_ignoring_case_and_accents(index: StoreIndex):
    for name in ("beta", "Álpha", "Alpha 2", "ALPHA 1", "Zeta", "éta"):
        await index.put(name, categories=("All",))
    expected = ["Álpha", "ALPHA 1", "Alpha 2", "beta", "éta", "Zeta"]
    assert await index.names() == expected
    assert await index.names(categories=["ALL"]) == expected


@given(st.text(max_size=60))
def test_a_query_that_is_a_text_finds_the_text(text: str):
    words = words_of([text])
    for term in terms_of(text):
        assert any(word.startswith(term.text) if term.prefix else word == term.text for word in words)


@given(st.text(max_size=60))
def test_words_are_letters_digits_signs_and_pictures(text: str):
    for word in words_of([text]):
        assert not set(word) & set("\"'\\*:&|!()<> \t\n\0\ue000")
        assert split(word)


def test_words_are_bounded_in_number_length_and_bytes():
    assert words_of(["x" * 500]) == ["x" * MAX_LETTERS]
    assert terms_of("x" * 500)[0].text == "x" * MAX_LETTERS
    assert len(words_of([f"w{number}" for number in range(50_000)])) == MAX_WORDS
    long = words_of(["\u0436" * 60 + f"{number}" for number in range(MAX_WORDS)])
    assert 0 < sum(len(word.encode()) for word in long) < MAX_BYTES


async def test_a_store_with_as_many_words_as_are_kept_can_be_written_and_found(index: StoreIndex):
    items = [f"dish{number} {'q' * 50}{number}" for number in range(MAX_WORDS)]
    await index.put("Grocer", items=items, description="Everything")
    assert await index.names(query="dish77 everything") == ["Grocer"]
