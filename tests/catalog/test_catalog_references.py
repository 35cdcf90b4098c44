"""Every reference must resolve, and none may close a cycle."""

from typing import Any

import pytest
from tests.catalog.documents import (
    CAKE,
    CATALOG,
    DRINKS,
    EXTRAS,
    HOT,
    LEMON,
    MILK,
    NOWHERE,
    TEA,
    cafe,
    compiled,
    faults,
    outcome,
    warnings,
)

from mercato_catalog.model import BuildFailed
from mercato_catalog.validation.references import find_cycles


def test_the_cafe_has_no_faults_and_no_warnings():
    assert faults(cafe()) == {}
    assert warnings(cafe()) == {}


@pytest.mark.parametrize(
    ("table", "key", "member", "missing_from"),
    [
        ("catalogs", CATALOG, "sectionIds", "sections"),
        ("sections", DRINKS, "sectionIds", "sections"),
        ("sections", HOT, "itemIds", "items"),
        ("items", TEA, "modifierGroupIds", "modifierGroups"),
        ("modifierGroups", EXTRAS, "itemIds", "items"),
    ],
)
def test_an_unresolved_reference_is_reported(table: str, key: str, member: str, missing_from: str):
    document = cafe()
    document[table][key][member].append(NOWHERE)
    last = len(document[table][key][member]) - 1
    [(path, message)] = faults(document).items()
    assert path == f"/{table}/{key}/{member}/{last}"
    assert message.endswith(f"{NOWHERE}, which is not in {missing_from}.")


def test_an_override_of_a_missing_item_is_reported():
    document = cafe()
    document["modifierGroups"][EXTRAS]["priceOverrides"][NOWHERE] = "1.00"
    assert list(faults(document)) == [f"/modifierGroups/{EXTRAS}/priceOverrides/{NOWHERE}"]


def test_pointers_into_a_list_count_its_entries():
    document = cafe()
    document["sections"] = list(document["sections"].values())
    document["sections"][1]["itemIds"].insert(0, NOWHERE)
    assert list(faults(document)) == ["/sections/1/itemIds/0"]


def test_pointers_are_escaped_as_rfc_6901_requires():
    assert list(faults({"items": {"a/b~c": {"modifierGroupIds": ["x"]}}})) == [
        "/items/a~1b~0c/modifierGroupIds/0"
    ]


def test_each_of_many_faults_is_listed_at_once():
    document = cafe()
    document["sections"][HOT]["itemIds"] = [NOWHERE, TEA, NOWHERE[:-1] + "0"]
    document["items"][CAKE]["basePrice"] = "dear"
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = -1
    document["currency"] = "ABC"
    assert set(faults(document)) == {
        "/currency",
        f"/sections/{HOT}/itemIds/0",
        f"/sections/{HOT}/itemIds/2",
        f"/items/{CAKE}/basePrice",
        f"/modifierGroups/{EXTRAS}/minimumAllowed",
    }


@pytest.mark.parametrize("missing", [99, 100, 101, 5000])
def test_at_most_a_hundred_faults_are_listed_and_the_last_has_the_count_of_the_others(missing: int):
    document = cafe()
    document["sections"][HOT]["itemIds"] = [f"none {number}" for number in range(missing)]
    result = outcome(document)
    assert isinstance(result, BuildFailed)
    if missing <= 100:
        assert len(result.faults) == missing
    else:
        assert len(result.faults) == 100
        assert result.faults[-1].message.startswith(f"{missing - 99} more faults")
        assert result.faults[-1].path == ""


def test_a_table_of_the_wrong_type_is_one_fault_not_one_for_every_reference_into_it():
    document = cafe()
    document["modifierGroups"] = "none"
    assert faults(document) == {
        "/modifierGroups": "modifierGroups must be an object or a list, not a string."
    }


def test_a_section_that_holds_itself_is_a_cycle():
    document = cafe()
    document["sections"][HOT]["sectionIds"] = [HOT]
    assert faults(document) == {
        f"/sections/{HOT}/sectionIds/0": f'Sections form a cycle: "Hot" ({HOT}) → "Hot" ({HOT}).'
    }


def test_a_section_cycle_is_named_at_the_reference_that_closes_it():
    document = cafe()
    document["sections"][HOT]["sectionIds"] = [DRINKS]
    [(path, message)] = faults(document).items()
    assert path == f"/sections/{HOT}/sectionIds/0"
    assert message == f'Sections form a cycle: "Drinks" ({DRINKS}) → "Hot" ({HOT}) → "Drinks" ({DRINKS}).'


def test_a_cycle_that_no_catalog_reaches_fails_too():
    document = cafe()
    document["sections"] |= {"a": {"name": "A", "sectionIds": ["b"]}, "b": {"name": "B", "sectionIds": ["a"]}}
    assert list(faults(document)) == ["/sections/b/sectionIds/0"]


def test_a_modifier_cycle_is_named():
    document = cafe()
    document["items"][MILK]["modifierGroupIds"] = [EXTRAS]
    [(path, message)] = faults(document).items()
    assert path == f"/items/{MILK}/modifierGroupIds/0"
    assert message == (
        f'Items and modifier groups form a cycle: "Extras" ({EXTRAS}) → "Milk" ({MILK}) → "Extras" ({EXTRAS}).'
    )


def test_a_long_cycle_is_cut_in_the_middle():
    ring = {f"s{n}": {"name": f"S{n}", "sectionIds": [f"s{(n + 1) % 500}"]} for n in range(500)}
    [(path, message)] = faults({"items": {}, "sections": ring}).items()
    assert path == "/sections/s499/sectionIds/0"
    assert "494 more" in message
    assert len(message) < 200


def test_branches_that_meet_again_are_not_a_cycle():
    document = cafe()
    document["sections"][DRINKS]["sectionIds"] = [HOT, "other"]
    document["sections"]["other"] = {"name": "Other", "sectionIds": [HOT]}
    document["items"][CAKE]["modifierGroupIds"] = [EXTRAS]
    assert faults(document) == {}


def test_an_item_and_a_group_may_have_the_same_id():
    document = cafe()
    document["modifierGroups"][TEA] = {"name": "Tea's namesake", "itemIds": [MILK]}
    document["items"][MILK]["modifierGroupIds"] = []
    document["items"][TEA]["modifierGroupIds"] = [TEA]
    assert faults(document) == {}


@pytest.mark.parametrize("kind", ["sections", "modifiers"])
def test_a_chain_of_fifty_thousand_is_walked_without_recursion(kind: str):
    size = 50_000
    document: dict[str, Any]
    if kind == "sections":
        chain = {f"s{n}": {"name": "x", "sectionIds": [f"s{n + 1}"]} for n in range(size)}
        document = {"items": {}, "catalogs": {"c": {"name": "C", "sectionIds": ["s0"]}}}
        document["sections"] = chain | {f"s{size}": {"name": "end"}}
    else:
        ids = [f"{n:08x}-0000-5000-8000-000000000000" for n in range(size + 1)]
        document = {
            "items": {key: {"name": "x", "basePrice": "1", "modifierGroupIds": [key]} for key in ids[:-1]}
            | {ids[-1]: {"name": "end", "basePrice": "1"}},
            "modifierGroups": {ids[n]: {"name": "x", "itemIds": [ids[n + 1]]} for n in range(size)},
        }
    assert faults(document) == {}


def test_cycles_are_found_in_time_that_grows_with_the_edges_only():
    layers = {f"{n}": [f"{n + 1}"] * 30 for n in range(2000)}
    assert list(find_cycles(layers)) == []
    assert next(find_cycles(layers | {"2000": ["0"]})) == [str(n) for n in range(2001)]


def test_an_id_listed_twice_is_only_warned_of():
    document = cafe()
    document["sections"][HOT]["itemIds"] = [TEA, CAKE, TEA]
    assert warnings(document) == {
        f"/sections/{HOT}/itemIds": f'The section "Hot" ({HOT}) lists an id more than once in itemIds.'
    }


def test_an_override_of_an_item_that_the_group_lacks_is_only_warned_of():
    document = cafe()
    document["modifierGroups"][EXTRAS]["priceOverrides"][CAKE] = "1.00"
    assert list(warnings(document)) == [f"/modifierGroups/{EXTRAS}/priceOverrides"]
    assert len(next(iter(compiled(document).groups.values())).choices) == 2
    assert LEMON not in warnings(document)
