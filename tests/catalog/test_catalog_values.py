"""Members of the wrong type, invalid prices, contradictory counts: each reported with its pointer."""

from typing import Any

import pytest
from tests.catalog.documents import (
    CAKE,
    CATALOG,
    DRINKS,
    EXTRAS,
    HOT,
    MILK,
    TEA,
    cafe,
    compiled,
    faults,
    json_with,
    outcome,
    warnings,
)

from mercato_catalog.model import BuildFailed, Built

PLACES = {"catalogs": CATALOG, "sections": HOT, "items": TEA, "modifierGroups": EXTRAS}


@pytest.mark.parametrize(
    ("table", "member", "value", "answer"),
    [
        ("catalogs", "name", 1, "name must be a string, not a number."),
        ("catalogs", "sectionIds", "x", "sectionIds must be a list of strings, not a string."),
        ("catalogs", "availability", {}, "availability must be a list, not an object."),
        ("sections", "name", ["x"], "name must be a string, not a list."),
        ("sections", "itemIds", {}, "itemIds must be a list of strings, not an object."),
        ("sections", "imageUrl", False, "imageUrl must be a string, not false."),
        ("sections", "sectionId", 5, "sectionId must be a string, not a number."),
        ("items", "name", 1.5, "name must be a string, not a number."),
        ("items", "description", {}, "description must be a string, not an object."),
        ("items", "basePrice", True, "basePrice must be a decimal string or a number, not true."),
        ("items", "basePrice", ["1"], "basePrice must be a decimal string or a number, not a list."),
        ("items", "isAvailable", "yes", "isAvailable must be true or false, not a string."),
        ("items", "isAvailable", 1, "isAvailable must be true or false, not a number."),
        ("items", "tags", "vegan", "tags must be a list, not a string."),
        ("items", "partnerItemId", 7, "partnerItemId must be a string, not a number."),
        ("items", "maximumQuantity", "3", "maximumQuantity must be a whole number, not a string."),
        ("items", "maximumQuantity", True, "maximumQuantity must be a whole number, not true."),
        (
            "items",
            "maximumQuantity",
            2.5,
            'maximumQuantity must be a whole number, not "2.5".',
        ),
        ("items", "modifierGroupIds", 1, "modifierGroupIds must be a list of strings, not a number."),
        ("modifierGroups", "minimumAllowed", "1", "minimumAllowed must be a whole number, not a string."),
        ("modifierGroups", "priceOverrides", [], "priceOverrides must be an object of prices, not a list."),
        ("modifierGroups", "itemIds", "all", "itemIds must be a list of strings, not a string."),
    ],
)
def test_a_member_of_the_wrong_type_is_a_fault(table: str, member: str, value: Any, answer: str):
    document = cafe()
    document[table][PLACES[table]][member] = value
    assert faults(document)[f"/{table}/{PLACES[table]}/{member}"] == answer


@pytest.mark.parametrize("table", list(PLACES))
@pytest.mark.parametrize(
    ("value", "answer"), [("x", "a string"), (None, "null"), (1, "a number"), ([], "a list")]
)
def test_an_entity_that_is_not_an_object_is_a_fault(table: str, value: Any, answer: str):
    document = cafe()
    document[table][PLACES[table]] = value
    noun = {"items": "An item", "modifierGroups": "A modifier group"}.get(
        table, f"A {table.removesuffix('s')}"
    )
    assert faults(document)[f"/{table}/{PLACES[table]}"] == f"{noun} must be an object, not {answer}."


def test_an_entry_of_a_list_that_is_not_an_object_is_a_fault():
    document = cafe()
    document["sections"] = [*document["sections"].values(), "more"]
    assert faults(document) == {"/sections/2": "A section must be an object, not a string."}


def test_a_reference_that_is_not_a_string_is_a_fault_and_the_others_keep_their_indexes():
    document = cafe()
    document["sections"][HOT]["itemIds"] = [TEA, 5, None, "none", CAKE]
    assert faults(document) == {
        f"/sections/{HOT}/itemIds/1": "itemIds must list ids as strings, not a number.",
        f"/sections/{HOT}/itemIds/2": "itemIds must list ids as strings, not null.",
        f"/sections/{HOT}/itemIds/3": (
            f'The section "Hot" ({HOT}) refers to item none, which is not in items.'
        ),
    }


@pytest.mark.parametrize(("value", "answer"), [("x", "a string"), (1, "a number"), (True, "true")])
@pytest.mark.parametrize("table", ["catalogs", "sections", "modifierGroups"])
def test_a_table_of_the_wrong_type_is_a_fault(table: str, value: Any, answer: str):
    document = {"items": {}, table: value}
    assert faults(document) == {f"/{table}": f"{table} must be an object or a list, not {answer}."}


@pytest.mark.parametrize("table", ["catalogs", "sections", "modifierGroups"])
def test_a_null_table_is_an_absent_one(table: str):
    assert faults({"items": {}, table: None}) == {}


@pytest.mark.parametrize("table", list(PLACES))
def test_null_on_an_optional_member_is_the_same_as_absent(table: str):
    document = cafe()
    entity = document[table][PLACES[table]]
    for member in list(entity):
        entity[member] = None
    assert faults(document) == {}
    for member in list(entity):
        del entity[member]
    without = compiled(document)
    entity |= dict.fromkeys(
        ("name", "description", "basePrice", "minimumAllowed", "itemIds", "tags", "availability")
    )
    assert compiled(document) == without


@pytest.mark.parametrize("value", ["3.0", "3e0", "30E-1", "3"])
def test_a_number_with_a_point_can_be_an_integer(value: str):
    text = json_with(TEA, "maximumQuantity", value)
    assert faults(text) == {}
    assert next(iter(compiled(text).items.values())).maximum_quantity == 3


@pytest.mark.parametrize(
    "raw",
    ["1180591620717411303424", "1e400", "99999999999", "1" * 5000, "9007199254740993.0", "-1", "-1.0", "1.5"],
)
@pytest.mark.parametrize("member", ["maximumQuantity"])
def test_a_count_that_is_negative_broken_or_beyond_32_bits_is_a_fault(raw: str, member: str):
    assert list(faults(json_with(TEA, member, raw))) == [f"/items/{TEA}/{member}"]


@pytest.mark.parametrize("member", ["minimumAllowed", "maximumAllowed", "maximumPerItem", "freeQuantity"])
@pytest.mark.parametrize("count", [-1, 2**31])
def test_a_groups_counts_are_not_negative_and_fit_a_quantity(member: str, count: int):
    document = cafe()
    document["modifierGroups"][EXTRAS][member] = count
    assert list(faults(document)) == [f"/modifierGroups/{EXTRAS}/{member}"]


def test_a_minimum_above_the_maximum_is_a_fault():
    document = cafe()
    document["modifierGroups"][EXTRAS] |= {"minimumAllowed": 3, "maximumAllowed": 2}
    assert list(faults(document)) == [f"/modifierGroups/{EXTRAS}/minimumAllowed"]


def test_a_groups_contradiction_is_listed_beside_anothers_count_out_of_range():
    document = cafe()
    document["modifierGroups"][EXTRAS] |= {"minimumAllowed": 3, "maximumAllowed": 2}
    document["modifierGroups"]["sizes"] = {"name": "Sizes", "itemIds": [TEA], "minimumAllowed": -1}
    document["modifierGroups"]["both"] = {
        "name": "Both", "itemIds": [TEA], "minimumAllowed": 5, "maximumAllowed": -2,
    }  # fmt: skip
    assert list(faults(document)) == [
        "/modifierGroups/sizes/minimumAllowed",
        "/modifierGroups/both/maximumAllowed",
        f"/modifierGroups/{EXTRAS}/minimumAllowed",
    ]


@pytest.mark.parametrize(
    ("rules", "warned"),
    [
        ({"minimumAllowed": 3, "maximumAllowed": None, "maximumPerItem": 1}, True),
        ({"minimumAllowed": 2, "maximumAllowed": None, "maximumPerItem": 1}, False),
        ({"minimumAllowed": 9, "maximumAllowed": None}, False),
        ({"minimumAllowed": 1, "itemIds": []}, True),
        ({"minimumAllowed": 0, "itemIds": []}, False),
    ],
)
def test_a_minimum_that_cannot_be_reached_is_warned_of(rules: dict[str, Any], warned: bool):  # a table
    document = cafe()
    document["modifierGroups"][EXTRAS] |= rules | {"priceOverrides": {}}
    assert (f"/modifierGroups/{EXTRAS}/minimumAllowed" in warnings(document)) is warned


@pytest.mark.parametrize("currency", ["usd", "US", "XAU", "XXX", "", "EURO", "ABC"])
def test_an_unknown_currency_is_a_fault(currency: str):
    document = cafe() | {"currency": currency}
    assert faults(document) == {"/currency": f'"{currency}" isn\'t an ISO 4217 currency code such as USD.'}


def test_a_currency_of_the_wrong_type_is_a_fault():
    assert faults(cafe() | {"currency": 840}) == {"/currency": "currency must be a string, not a number."}


@pytest.mark.parametrize("currency", [{}, {"currency": None}])
def test_without_a_currency_the_services_default_is_used(currency: dict[str, None]):
    document = {"items": {"tea": {"name": "Tea", "basePrice": "1"}}} | currency
    result = outcome(document, default_currency="KWD")
    assert isinstance(result, Built)
    assert result.summary.currency == "KWD"
    assert b'"basePrice":"1.000"' in result.body


@pytest.mark.parametrize("name", [{}, {"name": None}, {"name": ""}])
@pytest.mark.parametrize("table", list(PLACES))
def test_a_missing_or_empty_name_is_warned_of(table: str, name: dict[str, Any]):
    document = cafe()
    entity = document[table][PLACES[table]]
    del entity["name"]
    entity |= name
    assert list(warnings(document)) == [f"/{table}/{PLACES[table]}"]


@pytest.mark.parametrize("price", [{}, {"basePrice": None}])
def test_an_item_without_a_price_is_warned_of(price: dict[str, None]):
    document = cafe()
    del document["items"][MILK]["basePrice"]
    document["items"][MILK] |= price
    assert warnings(document) == {
        f"/items/{MILK}": f'The item "Milk" ({MILK}) has no basePrice: it can\'t be sold by itself, '
        "and is free as a modifier."
    }


def test_warnings_of_one_kind_are_bounded_and_counted_in_full():
    document = {"items": {f"{n:08x}-0000-5000-8000-000000000000": {"name": "x"} for n in range(1234)}}
    result = outcome(document)
    assert isinstance(result, Built)
    assert result.summary.warnings == 1234
    assert len(result.warnings) == 201
    assert result.warnings[-1].message == "1034 more warnings like the one before."


def test_a_failed_document_has_its_warnings_too():
    document = cafe()
    document["items"][MILK]["name"] = ""
    document["sections"][DRINKS]["itemIds"] = ["none"]
    result = outcome(document)
    assert isinstance(result, BuildFailed)
    assert [warning.path for warning in result.warnings] == [f"/items/{MILK}"]


def test_messages_have_no_line_breaks_or_direction_marks_but_emoji_and_spaces_of_all_scripts():
    document = cafe()
    family = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{IDEOGRAPHIC SPACE}\N{GIRL}"
    document["sections"]["mine"] = {"name": f"{family}\u2028\u202e\u00ad\x85", "itemIds": ["none"]}
    (message,) = faults(document).values()
    assert family + 4 * "\N{REPLACEMENT CHARACTER}" in message


def test_messages_have_no_control_characters_for_any_names():
    document = cafe()
    document["items"][MILK] = {"name": "\x00\x1b[31m\r\n", "basePrice": "\x00\x1b"}
    document["sections"]["\x00\n"] = {"name": "\x7f", "itemIds": ["\x00"]}
    for path, message in faults(document).items():
        assert path.isprintable()
        assert message.isprintable()
