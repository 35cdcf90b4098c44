"""A saved page with a menu of schema.org becomes a CatalogSet; every loss is reported by pointer."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calibration import cpu_within
from tests.catalog.test_imports import ASKED, Result, check_bounded, msgspec_replace, mutated
from tests.generated import examples

from mercato_contract.refusals import Problem
from mercato_tools.imports.convert import convert
from mercato_tools.lint import lint

Node = dict[str, Any]

ITEM = {
    "@type": "MenuItem",
    "name": "Caf&eacute; cr&egrave;me",
    "description": "With\nmilk",
    "image": ["https://example.com/c.jpg"],
    "offers": {
        "@type": "Offer",
        "price": "4.95",
        "priceCurrency": "EUR",
        "availability": "https://schema.org/InStock",
    },
    "nutrition": {"@type": "NutritionInformation", "calories": "170 calories"},
    "suitableForDiet": "https://schema.org/VeganDiet",
}
RESTAURANT = {
    "@context": "https://schema.org",
    "@type": "Restaurant",
    "name": "Some Restaurant",
    "hasMenu": {
        "@type": "Menu",
        "name": "Dinner",
        "hasMenuSection": [
            {
                "@type": ["MenuSection", "Thing"],
                "name": "Drinks",
                "hasMenuItem": [ITEM, {"@id": "#tea"}],
                "hasMenuSection": {
                    "@type": "http://schema.org/MenuSection",
                    "name": "Wine",
                    "hasMenuItem": {
                        "@type": "MenuItem",
                        "name": "Red",
                        "offers": [
                            {"@type": "Offer", "name": "Glass", "price": 5.5, "priceCurrency": "EUR"},
                            {"@type": "Offer", "name": "Bottle", "price": 21, "priceCurrency": "EUR"},
                        ],
                    },
                },
            }
        ],
        "hasMenuItem": {
            "@type": "MenuItem",
            "name": "Steak",
            "offers": {"@type": "Offer", "price": "€ 1.234,50", "availability": "SoldOut"},
            "menuAddOn": [
                {"@type": "MenuSection", "name": "Sides", "hasMenuItem": [
                    {"@type": "MenuItem", "name": "Fries", "offers": {"price": "3.00"}}]},
                {"@type": "MenuItem", "name": "Sauce",
                 "offers": {"@type": "AggregateOffer", "lowPrice": 1, "highPrice": 2}},
            ],
        },
    },
}  # fmt: skip
TEA = {"@graph": [{"@type": "MenuItem", "@id": "#tea", "name": "Tea", "offers": {"price": "3"}}]}


def page(*blocks: Any, charset: str = "utf-8") -> bytes:
    texts = [block if isinstance(block, str) else json.dumps(block, ensure_ascii=False) for block in blocks]
    scripts = "".join(f'<script type="application/ld+json">{text}</script>' for text in texts)
    head = f'<meta charset="{charset}"><script>var x = {{}};</script>{scripts}'
    return f"<!doctype html><html><head>{head}</head><body><p>Menu</p></body></html>".encode(charset)


def imported(document: bytes, **requested: Any) -> Result:
    made = convert("schema-org", document, msgspec_replace(ASKED, **requested))
    report, _ = lint(made.document, default_currency="USD", max_bytes=32 << 20)
    assert report.valid, report.errors
    return Result(made)


def test_a_page_has_its_menu_with_sections_items_prices_and_what_can_be_added():
    made = imported(page(RESTAURANT, TEA))
    assert made.document["currency"] == "EUR"
    coffee = made.item("Café crème")
    assert (coffee["basePrice"], coffee["imageUrl"], coffee["description"]) == (
        "4.95",
        "https://example.com/c.jpg",
        "With\nmilk",
    )
    assert made.item("Tea")["basePrice"] == "3.00"
    assert (made.item("Steak")["basePrice"], made.item("Steak")["isAvailable"]) == ("1234.50", False)
    assert made.item("Red")["basePrice"] == "5.50"
    assert made.choices("Red") == {"Glass": "0.00", "Bottle": "15.50"}
    assert made.choices("Sides") == {"Fries": "3.00"}
    assert made.choices("Add-ons") == {"Sauce": "1.00"}
    sections = {one["name"]: one for one in made.document["sections"].values()}
    assert made.names("items", sections["Drinks"]["itemIds"]) == ["Café crème", "Tea"]
    assert made.names("sections", sections["Drinks"]["sectionIds"]) == ["Wine"]
    [catalog] = made.document["catalogs"].values()
    assert made.names("sections", catalog["sectionIds"]) == ["Drinks", "Dinner"]
    item = "/0/hasMenu/hasMenuSection/0/hasMenuItem/0"
    assert made.lost[f"{item}/nutrition"] == "nutrition has no counterpart."
    assert made.lost[f"{item}/suitableForDiet"] == "suitableForDiet has no counterpart."
    assert (
        made.lost["/0/hasMenu/hasMenuItem/menuAddOn/1/offers/lowPrice"]
        == "The lowest price of several is used."
    )


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252", "iso-8859-15"])
def test_a_page_is_read_in_its_own_encoding(charset: str):
    item = {"@type": "MenuItem", "name": "Crème brûlée", "offers": {"price": 3}}
    made = imported(page({"@type": "MenuSection", "name": "Süßes", "hasMenuItem": item}, charset=charset))
    assert made.item("Crème brûlée")["basePrice"] == "3.00"


def test_a_file_of_json_ld_alone_is_read_too():
    document = json.dumps([RESTAURANT, TEA]).encode()
    assert imported(document).document == imported(page(RESTAURANT, TEA)).document


def test_ids_are_the_same_at_every_import_and_those_of_names():
    first = imported(page(RESTAURANT, TEA)).document
    again = json.loads(json.dumps(RESTAURANT))
    again["hasMenu"]["hasMenuSection"][0]["hasMenuItem"][0]["offers"]["price"] = 9
    second = imported(page(again, TEA)).document
    assert set(first["items"]) == set(second["items"])


def test_a_block_that_is_no_json_is_a_loss():
    made = imported(page("{not json,}", RESTAURANT, TEA))
    assert made.lost["/0"] == "The block isn't JSON."


def test_offers_of_one_name_are_choices_at_their_own_prices():
    offers = [{"name": "Large", "price": "9.00"}, {"name": "Large", "price": "12.00"}]
    node = {"@type": "MenuSection", "hasMenuItem": {"@type": "MenuItem", "name": "Pizza", "offers": offers}}
    made = imported(page(node))
    [group] = made.document["modifierGroups"].values()
    assert made.item("Pizza")["basePrice"] == "9.00"
    assert [group["priceOverrides"][id_] for id_ in group["itemIds"]] == ["0.00", "3.00"]


@pytest.mark.parametrize("price", ["from 5", "1,234", "5-7", "", "free", "$3", True, {"a": 1}])
def test_a_price_that_is_no_amount_is_a_loss_and_never_guessed(price: Any):
    node = {
        "@type": "MenuSection",
        "hasMenuItem": {"@type": "MenuItem", "name": "A", "offers": {"price": price, "priceCurrency": "EUR"}},
    }
    made = imported(page(node))
    assert "basePrice" not in made.item("A")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"text",
        b"<html></html>",
        page({"@type": "Restaurant"}),
        page({"@type": "Menu", "@id": "x"}),
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
        b"NaN",
    ],
)
def test_a_file_without_a_menu_is_refused_with_what_to_do(document: bytes):
    with pytest.raises(Problem) as refused:
        convert("schema-org", document, ASKED)
    assert (
        "There is no menu" in refused.value.errors[0].message
        or "Save the page" in refused.value.errors[0].message
    )


def test_sections_that_contain_each_other_are_cut_and_reported():
    first = {"@type": "MenuSection", "@id": "#a", "name": "A", "hasMenuSection": {"@id": "#b"}}
    second = {"@type": "MenuSection", "@id": "#b", "name": "B", "hasMenuSection": {"@id": "#a"}}
    menu = {"@type": "Menu", "name": "M", "hasMenuSection": [{"@id": "#a"}], "hasMenuItem": ITEM}
    made = imported(page(menu, first, second))
    assert "This reference closes a cycle." in made.lost.values()


MEMBERS = [
    "@type",
    "@id",
    "@graph",
    "name",
    "hasMenu",
    "hasMenuSection",
    "hasMenuItem",
    "menuAddOn",
    "offers",
    "price",
    "priceCurrency",
    "lowPrice",
    "image",
    "description",
    "availability",
]
NODES = st.recursive(
    st.sampled_from(["", "Menu", "MenuItem", "#a", "4.95", "1.234", "EUR", 3, 4.5, -1, None, True]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(MEMBERS),
        inner | st.sampled_from(["Menu", "MenuSection", "MenuItem", "Offer"]), max_size=6,
    ),
    max_leaves=40,
)  # fmt: skip


@settings(max_examples=examples(200))
@given(NODES)
def test_any_json_ld_becomes_a_catalog_that_an_ingest_accepts_or_is_refused(node: Any):
    try:
        made = convert(
            "schema-org",
            json.dumps([{"@type": "Menu", "name": "M", "hasMenuSection": node}, node]).encode(),
            ASKED,
        )
    except Problem:
        return
    report, _ = lint(made.document, default_currency="USD", max_bytes=32 << 20)
    assert report.valid, report.errors


def test_a_large_page_is_converted_in_time_that_grows_with_it():
    items = [ITEM | {"name": f"Item {number}"} for number in range(5_000)]
    sections = [
        {"@type": "MenuSection", "name": f"S{n}", "hasMenuItem": items[n * 50 : n * 50 + 50]}
        for n in range(100)
    ]
    document = page({"@type": "Menu", "name": "M", "hasMenuSection": sections})
    with cpu_within(200):
        made = convert("schema-org", document, ASKED)
    assert len(json.loads(made.document)["items"]) == 5_000


def test_a_page_of_many_items_of_one_name_is_converted_in_time_that_grows_with_it():
    with cpu_within(200):
        made = convert(
            "schema-org", page({"@type": "Menu", "name": "M", "hasMenuItem": [ITEM] * 5_000}), ASKED
        )
    assert len(json.loads(made.document)["items"]) == 5_000


def test_what_can_be_added_to_many_items_is_one_group():
    extras = {"@type": "MenuSection", "@id": "#extras", "name": "Extras", "hasMenuItem": [ITEM] * 500}
    items = [ITEM | {"name": f"Item {number}", "menuAddOn": {"@id": "#extras"}} for number in range(500)]
    with cpu_within(200):
        made = imported(page({"@type": "Menu", "name": "M", "hasMenuItem": items}, extras))
    [group] = made.document["modifierGroups"].values()
    assert (group["name"], len(group["itemIds"])) == ("Extras", 500)


@pytest.mark.parametrize("price", ["1e999999999999999999999", "-1e-999999999999999999999"])
def test_a_number_beyond_any_amount_is_a_loss_at_its_place(price: str):
    item = json.dumps(ITEM | {"offers": {"@type": "Offer", "price": 0}}).replace(": 0", f": {price}")
    made = imported(page(f'{{"@type": "Menu", "name": "M", "hasMenuItem": {item}}}'))
    assert "/0/hasMenuItem/offers/price" in made.lost


def test_half_a_character_in_a_page_is_replaced():
    made = imported(
        page('{"@type": "Menu", "name": "M", "hasMenuItem": {"@type": "MenuItem", "name": "A\\ud800"}}')
    )
    assert made.item("A?")


def test_whatever_stands_anywhere_in_a_page_is_a_loss_or_a_fault():
    chance = random.Random("pages")
    for _ in range(examples(400)):
        check_bounded("schema-org", page(mutated(RESTAURANT, chance).decode()))


def test_an_unread_member_is_reported_by_its_pointer_and_shortly():
    made = imported(page({"@type": "Menu", "name": "M", "hasMenuItem": ITEM | {"a/b": 1, "x" * 5_000: 1}}))
    assert made.lost["/0/hasMenuItem/a~1b"] == "a/b has no counterpart."
    assert all(len(message) < 200 for message in made.lost.values())
