"""Warnings of members and prices that are probably misspelled."""

from typing import Any

import pytest
from tests.calibration import cpu_within
from tests.catalog.documents import CAKE, CATALOG, DRINKS, EXTRAS, LEMON, TEA, cafe, outcome
from tests.catalog.test_catalog_published import MENUS

from mercato_catalog.validation.document import MAX_NEAR
from mercato_catalog.validation.findings import Rule


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
