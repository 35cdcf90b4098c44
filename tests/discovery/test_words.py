"""By words: any script, any case; every word, the last by its beginning; and nothing in a query is syntax."""

# ruff: noqa: RUF001  # letters of many scripts are what it is about

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.calibration import cpu_within
from tests.databases import mostly_sqlite, on_both
from tests.discovery.store_index import StoreIndex
from tests.discovery.test_typed_names import has

from mercato.features.discovery.text import render_query, text_query_of
from mercato_catalog.words import (
    MAX_BYTES,
    MAX_LETTERS,
    MAX_WORDS,
    added_words,
    split,
    terms_of,
    words_of,
)

pytestmark = mostly_sqlite

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
    "cocacola": "Joe's Café",
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
        assert has(words, term), term


async def test_every_script_is_found_in_both_databases_alike(full: StoreIndex):
    for query, name in FOUND.items():
        assert await full.names(query=query) == [name], query


async def test_missing_words_find_nothing(full: StoreIndex):
    for query in ("joe's pizza", "oes", "caf x", "司寿", "ラメーン", "zza", "straß 8", "p"):
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
        assert has(words, term)


@given(st.text(max_size=60))
def test_words_are_letters_digits_signs_and_pictures(text: str):
    for word in words_of([text]):
        assert not set(word) & set("\"'\\*:&|!()<> \t\n\0\ue000")
        assert split(word)


@given(st.text(alphabet="aB1_.'` -\n", max_size=12))
@example("Ada\nL.")
@example("K.F.C.")
def test_a_mark_that_joins_nothing_makes_no_name_in_parts(text: str):
    """With a line after it, a mark isn't the text's last."""
    assert list(added_words(text)) == list(added_words(f"{text}\nz"))


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


FORGIVEN = {
    "changed": ("margharita", "margherits", "nargherita", "margh3rita"),
    "missing": ("margerita", "argherita", "Margherta"),
    "added": ("margheritta", "smargherita", "margheritas"),
}


@pytest.mark.parametrize("fault", FORGIVEN)
async def test_search_forgives_one_letter_in_words_of_five_letters_and_more(index: StoreIndex, fault: str):
    await index.put_all(
        [("Margherita", None, {"items": ["Olive"]}), ("Sushi 7", None, {"items": ["Margarine"]})]
    )
    for query in FORGIVEN[fault]:
        assert await index.names(query=query) == ["Margherita"], query
        assert await index.names(query=f"{query} oliva") == ["Margherita"], query
        assert await index.names(query=f"{query} ol") == ["Margherita"], query


async def test_search_forgives_in_words_of_other_alphabets_and_in_words_with_accents(index: StoreIndex):
    await index.put_all((name, None, {"items": []}) for name in ("Чайная", "Καφενείο", "Crème", "السلام"))
    for query, name in {
        "чайна": "Чайная",
        "чайноя": "Чайная",
        "чйная": "Чайная",
        "καφενεο": "Καφενείο",
        "crime": "Crème",
        "السلم": "السلام",
    }.items():
        assert await index.names(query=query) == [name], query


@on_both
async def test_search_does_not_forgive_two_letters_short_words_or_numbers(index: StoreIndex):
    await index.put_all(
        [
            ("Margherita", None, {"items": []}),
            ("Cafe 12345", None, {"items": []}),
            ("Sushi", None, {"items": []}),
        ]
    )
    for query in ("magerita", "marghritta", "cofe", "caf e", "12346", "1234 5"):
        assert await index.names(query=query) == [], query
    assert await index.names(query="susi") == ["Sushi"]


async def test_search_forgives_beside_every_other_filter(index: StoreIndex):
    await index.put("Margherita", (52.37, 4.89), items=[], categories=("Pizza",))
    near, far = {"latitude": 52.37, "longitude": 4.9}, {"latitude": 40.0, "longitude": 4.9}
    for more in ({}, {"openNow": True}, {"fulfillmentType": "PICKUP"}, {"categories": ["pizza"]}):
        assert await index.names(query="margerita", **more) == ["Margherita"], more
        assert await index.names(query="margerita", location=near, **more) == ["Margherita"], more
        assert await index.names(query="margerita", location=far, **more) == [], more
    assert await index.names(query="margerita", categories=["sushi"]) == []


async def test_search_forgives_only_if_nothing_is_written_as_in_the_query(index: StoreIndex):
    await index.put_all((name, None, {"items": []}) for name in ("Ramen", "Rames"))
    assert await index.names(query="ramen") == ["Ramen"]
    assert await index.names(query="ramek") == ["Ramen", "Rames"]


async def test_a_query_of_many_long_words_is_forgiven_in_the_first_three(index: StoreIndex):
    await index.put("Alpha Bravo Charlie Delta", items=[])
    assert await index.names(query="alpho brava charly delta") == []
    assert await index.names(query="alpho brava charlee delta") == ["Alpha Bravo Charlie Delta"]
    assert await index.names(query="alpho brava charlee delto") == []


def _letters(first: int, count: int, length: int) -> str:
    return "".join(chr(first + 5 * at % count) for at in range(length))


LONG = {
    "Latin": " ".join(letter * 60 for letter in "abc"),
    "accents": " ".join(letter * 60 for letter in "éжб"),
    "Cyrillic": " ".join(_letters(0x430 + at, 24, 24) for at in range(3)),
    "letters of four bytes": " ".join(_letters(0x1E922 + at, 30, 24) for at in range(3)),
    "many alphabets": "".join("aжγհאبაᎠⲁꙁ"[at % 10] for at in range(24)),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
async def test_a_search_of_the_longest_words_is_answered_at_a_bounded_cost(index: StoreIndex, text: str):
    await index.put("Margherita", items=[])
    assert await index.names(query="margerita") == ["Margherita"]
    with cpu_within(20):
        assert await index.names(query=text) == []


async def test_a_word_of_more_than_24_letters_is_not_forgiven(index: StoreIndex):
    await index.put_all((name, None, {"items": []}) for name in ("a" * 24, "b" * 25))
    assert await index.names(query="a" * 23 + "x") == ["a" * 24]
    assert await index.names(query="b" * 24 + "x") == []


def test_a_word_that_begins_longer_ones_is_searched_once_among_them():
    text_query = text_query_of("ramen soup", [], mode=None, circle=None)
    assert text_query is not None
    named = text_query.complete(["soup", "soups"])
    assert render_query("sqlite", named) == '"ramen" AND ("soup" OR "soups")'
    assert render_query("sqlite", named.complete(["soup"])) == '"ramen" AND "soup"'
    assert render_query("sqlite", text_query) == '"ramen" AND "soup" *'
