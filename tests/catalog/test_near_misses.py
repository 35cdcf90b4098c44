"""Warnings of members and prices that are probably misspelled."""

import re
from collections import Counter
from typing import Any

import pytest
from tests.calibration import cpu_within
from tests.catalog.documents import CAKE, CATALOG, DRINKS, EXTRAS, LEMON, TEA, cafe, outcome
from tests.catalog.test_catalog_published import MENUS

from mercato_catalog.validation.document import CATALOGS, GROUPS, ITEMS, SECTIONS, TableSchema
from mercato_catalog.validation.findings import Rule
from mercato_catalog.validation.near_misses import _WORDS, MAX_NEAR


def near(document: Any) -> list[tuple[str, str]]:
    """Return path and end of the message of each warning about a near miss."""
    made = outcome(document)
    rules = {Rule.MISNAMED_MEMBER.id, Rule.NEGATIVE_PRICE.id}
    return [(warning.path, warning.message) for warning in made.warnings if warning.rule in rules]


@pytest.mark.parametrize(
    ("table", "entity", "member", "written"),
    [
        ("items", TEA, "modifierGroupIds", "modifierGroups"),
        ("items", TEA, "modifierGroupIds", "modifier_group_ids"),
        ("items", TEA, "basePrice", "price"),
        ("items", TEA, "basePrice", "basePrise"),
        ("items", TEA, "basePrice", "BasePrice"),
        ("sections", DRINKS, "itemIds", "items"),
        ("sections", DRINKS, "itemIds", "item_ids"),
        ("sections", DRINKS, "name", "title"),
        ("modifierGroups", EXTRAS, "minimumAllowed", "min"),
        ("modifierGroups", EXTRAS, "maximumAllowed", "maximum_allowed"),
        ("catalogs", CATALOG, "sectionIds", "sections"),
    ],
)
def test_a_member_with_a_name_close_to_a_known_one_is_a_warning(
    table: str, entity: str, member: str, written: str
):
    document = cafe()
    row = document[table][entity]
    row[written] = row.pop(member)
    [(path, message)] = near(document)
    assert path == f"/{table}/{entity}/{written}"
    assert message.endswith(f"has the member {written}, which isn't known here. Did you mean {member}?")


def test_a_table_under_another_name_is_warned_of():
    document = cafe()
    document["categories"] = document.pop("sections")
    document["catalogs"][CATALOG]["sectionIds"] = []
    [(path, message)] = near(document)
    assert (path, message.endswith("Did you mean sections?")) == ("/categories", True)


def test_other_unknown_members_are_not_warnings():
    document = cafe()
    document["items"][TEA] |= {"kcal": 2, "vegan": True, "price": "9.99", "id": "x"}
    document["note"] = "hello"
    assert near(document) == []


def test_one_warning_has_the_count_of_entities_with_the_member():
    document = cafe()
    for item in document["items"].values():
        item["price"] = item.pop("basePrice")
    [(path, message)] = near(document)
    assert path == f"/items/{TEA}/price"
    assert message.endswith("Did you mean basePrice? 4 items have it.")


def test_a_price_below_zero_is_warned_of():
    document = cafe()
    document["items"][CAKE]["basePrice"] = "-4.00"
    document["modifierGroups"][EXTRAS]["priceOverrides"] = {LEMON: "-0.10"}
    assert [path for path, _ in near(document)] == [
        f"/items/{CAKE}/basePrice",
        f"/modifierGroups/{EXTRAS}/priceOverrides",
    ]


def test_names_without_end_cost_little_and_are_warned_of_within_bounds():
    document = cafe()
    for number in range(400):
        document["items"][f"{number:08x}-0000-5000-8000-000000000000"] = {
            f"nam{number:03}e": "x",
            "name": "x",
        }
    document["items"][TEA] |= {f"{'_' * number}base_price": "1.00" for number in range(1, 20)}
    del document["items"][TEA]["basePrice"]
    with cpu_within(10):
        found = near(document)
    assert len(found) == MAX_NEAR


@pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus here")
def test_published_menus_have_no_near_misses():
    found = {path.name: near(path.read_bytes()) for path in MENUS.glob("*.json")}
    assert all(warnings == [] for warnings in found.values()), found


@pytest.mark.parametrize(
    ("table", "entity", "written", "member"),
    [
        *[
            ("modifierGroups", EXTRAS, written, "minimumAllowed")
            for written in (
                *(
                    "minimumRequired",
                    "minSelections",
                    "min",
                    "minimum",
                    "minPermitted",
                    "min_permitted",
                    "minSelected",
                ),
                *(
                    "min_selected_modifiers",
                    "minimumSelections",
                    "minQuantity",
                    "minChoices",
                    "requiredCount",
                ),
            )
        ],
        *[
            ("modifierGroups", EXTRAS, written, "maximumAllowed")
            for written in (
                "max",
                "maximum",
                "maxSelections",
                "max_permitted",
                "maxSelectedModifiers",
                "limit",
            )
        ],
        *[
            ("modifierGroups", EXTRAS, written, "itemIds")
            for written in ("options", "modifierOptions", "choiceIds")
        ],
        *[
            ("items", TEA, written, "basePrice")
            for written in ("price", "priceMoney", "price_info", "unitPrice")
        ],
        *[
            ("items", TEA, written, "modifierGroupIds")
            for written in ("addOns", "variations", "optionGroups")
        ],
        *[("sections", DRINKS, written, "itemIds") for written in ("products", "menuItems", "entities")],
        *[("catalogs", CATALOG, written, "sectionIds") for written in ("categories", "category_ids")],
    ],
)
def test_another_vendors_word_is_warned_of_with_the_member_that_is_meant(
    table: str, entity: str, written: str, member: str
):
    document = cafe()
    row = document[table][entity]
    row[written] = row.pop(member, 1)
    [(path, message)] = near(document)
    assert path == f"/{table}/{entity}/{written}"
    assert f"isn't known here. Did you mean {member}?" in message


@pytest.mark.parametrize(
    ("table", "entity", "written", "value", "end"),
    [
        ("modifierGroups", EXTRAS, "required", True, "must be chosen has minimumAllowed 1."),
        ("modifierGroups", EXTRAS, "selectionType", "SINGLE", "one thing is chosen has maximumAllowed 1."),
        ("modifierGroups", EXTRAS, "quantity_info", {"quantity": {}}, "are members of the group itself."),
        ("items", TEA, "soldOut", True, "isAvailable? An item that is sold out has isAvailable false."),
        ("items", TEA, "priceCents", 450, 'basePrice? A basePrice is a decimal string, such as "4.50".'),
        ("sections", DRINKS, "openingHours", [], "what is sold at other hours into a catalog of its own."),
        ("sections", DRINKS, "parentId", "x", "lists the ids of the sections in it, in sectionIds."),
        ("catalogs", CATALOG, "service_availability", [], "Did you mean availability?"),
    ],
)  # fmt: skip
def test_what_renaming_alone_doesnt_say_is_said(table: str, entity: str, written: str, value: Any, end: str):
    document = cafe()
    row = document[table][entity]
    for member in ("minimumAllowed", "maximumAllowed", "basePrice", "availability"):
        row.pop(member, None)
    row[written] = value
    [(path, message)] = near(document)
    assert (path, message.endswith(end)) == (f"/{table}/{entity}/{written}", True), message


@pytest.mark.parametrize("written", ["required", "mandatory"])
def test_a_group_of_which_nothing_must_be_chosen_is_not_warned_of(written: str):
    document = cafe()
    document["modifierGroups"][EXTRAS].pop("minimumAllowed", None)
    document["modifierGroups"][EXTRAS][written] = False
    assert near(document) == []


@pytest.mark.parametrize(
    ("member", "written"),
    [
        ("dayOfWeek", "day"),
        ("dayOfWeek", "day_of_week"),
        ("start", "startTime"),
        ("start", "from"),
        ("end", "closes_at"),
        ("end", "to"),
    ],
)
def test_another_word_in_a_window_is_named_in_its_fault(member: str, written: str):
    window = {"dayOfWeek": "Monday", "start": "09:00:00", "end": "17:00:00"}
    window[written] = window.pop(member)
    document = cafe()
    document["catalogs"][CATALOG]["availability"] = [window]
    (fault,) = outcome(document).faults
    assert fault.path == f"/catalogs/{CATALOG}/availability/0/{member}"
    assert fault.message.endswith(f" {written} isn't known here. Did you mean {member}?")


def test_each_word_means_one_member_and_is_none():
    schemas: list[TableSchema[Any]] = [CATALOGS, SECTIONS, ITEMS, GROUPS]
    for member, schema in zip(_WORDS, schemas, strict=True):
        words = [word for text in _WORDS[member].values() for word in text.split(" ")]
        assert [word for word, count in Counter(words).items() if count > 1] == [], member
        forms = {*schema.forms, "partnerItemId"}
        assert not {name.lower() for name in forms} & set(words), member
        assert {meaning.member for meaning in _WORDS[member]} - {None} <= forms, member
        assert all(word == re.sub("[^a-z0-9]", "", word) for word in words), member
