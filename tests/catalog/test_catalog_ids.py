"""Ids: dictionary or list, own id or none, UUID or not; what is served can always be addressed by UUID."""

import copy
import json
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.documents import (
    CAKE,
    CATALOG,
    DRINKS,
    EXTRAS,
    HOT,
    LEMON,
    MILK,
    ONBOARDING,
    TEA,
    cafe,
    compiled,
    faults,
    served,
    warnings,
)

from mercato_catalog.model import pack_ids

NAMED: dict[str, Any] = {
    "items": {
        "tea": {"itemId": "tea", "name": "Tea", "basePrice": "1", "modifierGroupIds": ["extras"]},
        "milk": {"name": "Milk", "basePrice": "2", "partnerItemId": "M-1"},
    },
    "sections": {"hot": {"name": "Hot", "itemIds": ["tea", "milk"]}},
    "modifierGroups": [
        {"modifierGroupId": "extras", "name": "Extras", "itemIds": ["milk"], "priceOverrides": {"milk": "1"}}
    ],
}


def of(text: str) -> str:
    """Return the UUID that replaces an id which isn't one."""
    return str(uuid5(ONBOARDING, text))


@pytest.mark.parametrize(
    ("table", "own", "key"),
    [
        ("catalogs", "catalogId", CATALOG),
        ("sections", "sectionId", DRINKS),
        ("items", "itemId", TEA),
        ("modifierGroups", "modifierGroupId", EXTRAS),
    ],
)
def test_a_key_that_differs_from_the_entitys_own_id_is_a_fault(table: str, own: str, key: str):
    document = cafe()
    document[table][key][own] = "another"
    assert faults(document) == {f"/{table}/{key}/{own}": f'{own} "another" differs from its key "{key}".'}


OWN_IDS = {
    "catalogs": "catalogId",
    "sections": "sectionId",
    "items": "itemId",
    "modifierGroups": "modifierGroupId",
}


def without_own_ids(document: dict[str, Any]) -> dict[str, Any]:
    for table, own in OWN_IDS.items():
        for entity in document[table].values():
            entity.pop(own, None)
    return document


def test_served_entities_always_carry_their_own_id():
    assert served(without_own_ids(cafe())) == served(cafe())
    assert list(served(without_own_ids(cafe()))["items"]) == list(served(cafe())["items"])


def test_served_entities_carry_their_own_id_where_ids_are_not_uuids():
    document = NAMED | {"catalogs": {"all day": {"name": "All day", "sectionIds": ["hot"]}}}
    copy = served(document)
    for table, own in OWN_IDS.items():
        assert all(entity[own] == key for key, entity in copy[table].items())


def test_an_own_id_of_null_is_served_as_the_key():
    document = cafe()
    document["items"][TEA]["itemId"] = None
    del document["items"][CAKE]["itemId"]
    assert served(document) == served(cafe())


@pytest.mark.parametrize("indent", [None, 1])
def test_a_repeated_key_is_found_where_own_ids_are_added(indent: int | None):
    document = without_own_ids(cafe())
    document["items"][TEA]["itemId"] = None
    document["items"][LEMON] = {}
    text = json.dumps(document, indent=indent, separators=(",", ":"))
    assert faults(text) == {}
    repeated = text.replace('"basePrice":"4.00"', '"basePrice":"4.00","basePrice":"4.00"')
    assert list(faults(repeated)) == [f"/items/{CAKE}/basePrice"]


def test_the_documents_ids_are_compiled_as_they_are_written():
    assert [item.document_id for item in compiled(NAMED).items.values()] == ["tea", "milk"]
    assert [group.document_id for group in compiled(NAMED).groups.values()] == ["extras"]
    assert {item.document_id for item in compiled(cafe()).items.values()} == {None}
    document = cafe()
    document["items"]["ginger"] = document["items"].pop(LEMON) | {"itemId": None, "partnerItemId": "G-1"}
    document["items"][MILK.upper()] = document["items"].pop(MILK)
    document["modifierGroups"][EXTRAS] |= {"itemIds": ["ginger"], "priceOverrides": {}}
    items = compiled(document).items
    assert items[UUID(of("ginger")).int].document_id == "ginger"
    assert items[UUID(of("ginger")).int].partner_item_id == "G-1"
    assert items[UUID(TEA).int].document_id is None


def test_a_documents_id_of_more_than_255_characters_is_not_compiled():
    document: dict[str, Any] = {"items": {"a" * 255: {"name": "x"}, "b" * 256: {"name": "y"}}}
    assert [item.document_id for item in compiled(document).items.values()] == ["a" * 255, None]


def test_a_uuid_in_upper_case_is_compiled_as_the_document_writes_it():
    shouted = "ABCDEF00-0000-5000-8000-00000000000A"
    [item] = compiled({"items": {shouted: {"name": "Loud"}}}).items.values()
    assert item.document_id == shouted


@pytest.mark.parametrize("table", ["catalogs", "sections", "modifierGroups"])
def test_a_list_is_served_as_the_dictionary_that_it_could_have_been(table: str):
    document = cafe()
    document[table] = list(document[table].values())
    assert served(document) == served(cafe())
    assert compiled(document) == compiled(cafe())


def test_items_cannot_be_a_list():
    document = cafe()
    document["items"] = list(document["items"].values())
    assert faults(document)["/items"] == "items must be an object, not a list."


@pytest.mark.parametrize("own", [{}, {"sectionId": None}])
def test_a_list_entry_without_an_id_gets_a_stable_one_from_its_pointer(own: dict[str, None]):
    document = cafe()
    del document["catalogs"]
    document["sections"] = [
        own | {"name": "First", "itemIds": [TEA]},
        own | {"name": "Second", "itemIds": [CAKE]},
    ]
    sections = served(document)["sections"]
    assert [section["name"] for section in sections.values()] == ["First", "Second"]
    assert all(section["sectionId"] == key == str(UUID(key)) for key, section in sections.items())
    assert sections == served(document)["sections"]


@pytest.mark.parametrize(
    ("table", "own", "key"),
    [
        ("sections", "sectionId", HOT),
        ("modifierGroups", "modifierGroupId", EXTRAS),
        ("catalogs", "catalogId", CATALOG),
    ],
)
def test_two_list_entries_with_the_same_id_are_a_fault(table: str, own: str, key: str):
    document = cafe()
    document[table] = [*document[table].values(), {own: key, "name": "Again"}]
    last = len(document[table]) - 1
    [(path, message)] = faults(document).items()
    assert path == f"/{table}/{last}/{own}"
    assert f'has the id "{key}" already' in message


def test_ids_that_are_not_uuids_are_replaced_throughout_the_served_copy():
    copy = served(NAMED)
    assert list(copy["items"]) == [of("tea"), of("milk")]
    assert copy["items"][of("tea")]["itemId"] == of("tea")
    assert copy["items"][of("tea")]["modifierGroupIds"] == [of("extras")]
    assert copy["sections"]["hot"]["itemIds"] == [of("tea"), of("milk")]
    group = copy["modifierGroups"][of("extras")]
    assert (group["modifierGroupId"], group["itemIds"]) == (of("extras"), [of("milk")])
    assert group["priceOverrides"] == {of("milk"): "1.00"}


def test_a_replaced_id_becomes_the_partner_item_id_unless_there_is_one():
    copy = served(NAMED)
    assert copy["items"][of("tea")]["partnerItemId"] == "tea"
    assert copy["items"][of("milk")]["partnerItemId"] == "M-1"
    items = compiled(NAMED).items
    assert {item.partner_item_id for item in items.values()} == {"tea", "M-1"}


def test_a_replaced_id_is_warned_of():
    assert warnings(NAMED) == {
        "/items/tea": f'The item id "tea" is not a UUID: it is served as {of("tea")}.',
        "/items/milk": f'The item id "milk" is not a UUID: it is served as {of("milk")}.',
        "/modifierGroups/0": f'The modifier group id "extras" is not a UUID: it is served as {of("extras")}.',
    }


def test_ids_of_sections_and_catalogs_stay_as_they_are():
    document = NAMED | {"catalogs": {"all day": {"name": "All day", "sectionIds": ["hot"]}}}
    assert list(served(document)["sections"]) == ["hot"]
    assert list(served(document)["catalogs"]) == ["all day"]


def test_a_reference_may_already_name_the_uuid_that_an_id_is_served_as():
    document = NAMED | {"sections": {"hot": {"name": "Hot", "itemIds": [of("tea"), "milk"]}}}
    assert served(document)["sections"]["hot"]["itemIds"] == [of("tea"), of("milk")]


def test_uuids_are_read_in_any_letter_case_and_served_in_lower_case():
    shouted = "ABCDEF00-0000-5000-8000-00000000000A"
    document = cafe()
    document["items"][shouted] = {"itemId": shouted.lower(), "name": "Loud", "basePrice": "1"}
    document["items"][CAKE] |= {"itemId": CAKE.upper()}
    document["sections"][HOT]["itemIds"] = [shouted.swapcase(), TEA.upper(), shouted, CAKE]
    copy = served(document)
    assert shouted.lower() in copy["items"]
    assert copy["items"][CAKE]["itemId"] == CAKE
    assert copy["sections"][HOT]["itemIds"] == [shouted.lower(), TEA, shouted.lower(), CAKE]
    assert "partnerItemId" not in copy["items"][shouted.lower()]


def test_uuids_that_differ_only_in_letter_case_are_the_same():
    document = cafe()
    shouted = "abcdef00-0000-5000-8000-00000000000a"
    document["items"] |= {
        shouted: {"name": "a", "basePrice": "1"},
        shouted.upper(): {"name": "b", "basePrice": "1"},
    }
    [(path, message)] = faults(document).items()
    assert path == f"/items/{shouted.upper()}"
    assert f"/items/{shouted} has the id" in message


def test_an_id_that_equals_the_served_id_of_another_is_a_duplicate():
    document = {
        "items": {"tea": {"name": "Tea", "basePrice": "1"}, of("tea"): {"name": "Twin", "basePrice": "1"}}
    }
    assert list(faults(document)) == [f"/items/{of('tea')}"]


@pytest.mark.parametrize(
    "text", ["", "\x00", "ключ", "a" * 10_000, "{" + TEA + "}", "urn:uuid:" + TEA, TEA.replace("-", "")]
)
def test_any_text_can_be_an_id(text: str):
    document = {
        "items": {text: {"name": "x", "basePrice": "1"}},
        "sections": {text: {"name": "s", "itemIds": [text]}},
    }
    copy = served(document)
    assert list(copy["items"]) == [of(text)]
    assert copy["sections"][text]["itemIds"] == [of(text)]
    assert all(warning.isprintable() for pair in warnings(document).items() for warning in pair)


def test_faults_of_replaced_ids_point_to_where_they_are_written():
    document = copy.deepcopy(NAMED)
    document["items"]["tea"]["basePrice"] = "dear"
    document["modifierGroups"][0]["priceOverrides"] = {"milk": "cheap", "none": "1", "tea": None}
    document["modifierGroups"][0]["itemIds"] = ["none", 5, "tea"]
    assert set(faults(document)) == {
        "/items/tea/basePrice",
        "/modifierGroups/0/priceOverrides/milk",
        "/modifierGroups/0/priceOverrides/none",
        "/modifierGroups/0/priceOverrides/tea",
        "/modifierGroups/0/itemIds/0",
        "/modifierGroups/0/itemIds/1",
        "/modifierGroups/0/itemIds/2",
    }


def test_an_override_that_names_an_item_in_two_letter_cases_is_a_fault():
    shouted = "abcdef00-0000-5000-8000-00000000000a"
    document = cafe()
    document["items"][shouted] = {"name": "a", "basePrice": "1"}
    group = document["modifierGroups"][EXTRAS]
    group["itemIds"] = [MILK, LEMON, shouted]
    group["priceOverrides"] = {shouted: "1", shouted.upper(): "2"}
    assert list(faults(document)) == [f"/modifierGroups/{EXTRAS}/priceOverrides/{shouted.upper()}"]


@given(
    st.lists(
        st.uuids().map(str)
        | st.text("0123456789abcdefABCDEF-\n", min_size=35, max_size=37)
        | st.text(max_size=3)
    )
)
def test_ids_are_canonical_exactly_when_each_is_a_uuid_in_lower_case(ids: list[str]):
    def canonical(text: str) -> bool:
        try:
            return str(UUID(text)) == text
        except ValueError:
            return False

    assert (pack_ids(ids) is not None) is all(map(canonical, ids))


def test_one_other_id_among_many_canonical_ids_is_found():
    ids = [str(uuid4()) for _ in range(500)]
    assert pack_ids(ids) == b"".join(UUID(text).bytes for text in ids)
    for stranger in (
        "",
        ids[0].upper(),
        ids[0][:-1] + "g",
        ids[0][:8] + ids[0][9:] + "0",
        ids[0] + "\n" + ids[1][1:],
    ):
        assert pack_ids([*ids[:250], stranger, *ids[250:]]) is None
