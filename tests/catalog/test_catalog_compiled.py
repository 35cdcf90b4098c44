"""What pricing reads: minor units by UUID, what each choice costs, and when each item is sold."""

import json
import pickle
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

import pytest
from tests.catalog.documents import (
    CAKE,
    CATALOG,
    DRINKS,
    EXTRAS,
    HOT,
    LEMON,
    MILK,
    TEA,
    built,
    cafe,
    compiled,
    faults,
    outcome,
)

from mercato_catalog import build
from mercato_catalog.building.packed import unpack
from mercato_catalog.diff import diff
from mercato_catalog.model import CompiledCatalog, CompiledItem
from mercato_catalog.words import MAX_WORDS, unpack_search

NOON = datetime.fromisoformat("2026-01-05 12:00:00")  # a Monday
NIGHT = datetime.fromisoformat("2026-01-05 23:00:00")
LUNCH = [{"dayOfWeek": "Monday", "start": "11:00:00", "end": "14:00:00"}]
OWNER = UUID(int=7)
EVENING = [{"dayOfWeek": "Monday", "start": "18:00:00", "end": "00:00:00"}]


def sold(catalog: CompiledCatalog, item: str, when: datetime) -> bool:
    return catalog.is_sold(catalog.items[UUID(item).int], when)


def test_items_are_compiled_by_uuid():
    catalog = compiled(cafe())
    assert (catalog.currency, catalog.scale) == ("USD", 2)
    assert catalog.items[UUID(TEA).int] == CompiledItem("Tea", 250, (UUID(EXTRAS).int,), True, None, None, 0)
    assert catalog.items[UUID(CAKE).int].maximum_quantity == 3
    assert list(catalog.items) == [UUID(key).int for key in cafe()["items"]]


def test_unavailable_items_and_the_partners_ids_are_compiled():
    document = cafe()
    document["items"][CAKE] |= {"isAvailable": False, "partnerItemId": "C1"}
    document["items"][MILK] |= {"isAvailable": True}
    items = compiled(document).items
    assert [item.available for item in items.values()] == [True, False, True, True]
    assert [item.partner_item_id for item in items.values()] == [None, "C1", None, None]


def test_a_choice_costs_its_override_or_its_base_price_or_nothing():
    document = cafe()
    del document["items"][MILK]["basePrice"]
    group = document["modifierGroups"][EXTRAS]
    group["itemIds"] = [LEMON, CAKE, MILK]
    choices = compiled(document).groups[UUID(EXTRAS).int].choices
    assert list(choices.items()) == [(UUID(LEMON).int, 10), (UUID(CAKE).int, 400), (UUID(MILK).int, 0)]


def test_an_override_of_zero_is_a_price():
    document = cafe()
    document["modifierGroups"][EXTRAS]["priceOverrides"] = {MILK: "0"}
    assert compiled(document).groups[UUID(EXTRAS).int].choices[UUID(MILK).int] == 0


def test_a_groups_rules_have_their_defaults():
    document = cafe()
    document["modifierGroups"][EXTRAS] = {"itemIds": [MILK]}
    group = compiled(document).groups[UUID(EXTRAS).int]
    assert (group.name, group.minimum, group.maximum, group.maximum_per_item, group.free) == (
        "",
        0,
        None,
        None,
        0,
    )
    rules = {"minimumAllowed": 1, "maximumAllowed": 4, "maximumPerItem": 2, "freeQuantity": 3, "name": "E"}
    document["modifierGroups"][EXTRAS] |= rules
    group = compiled(document).groups[UUID(EXTRAS).int]
    assert (group.name, group.minimum, group.maximum, group.maximum_per_item, group.free) == ("E", 1, 4, 2, 3)


def test_an_item_is_sold_when_a_catalog_that_reaches_its_section_is_available():
    document = cafe()
    document["catalogs"] = {
        "noon": {"name": "Noon", "sectionIds": [DRINKS], "availability": LUNCH},
        "night": {"name": "Night", "sectionIds": ["sweets"], "availability": EVENING},
    }
    document["sections"]["sweets"] = {"name": "Sweets", "itemIds": [CAKE]}
    document["sections"][HOT]["itemIds"] = [TEA]
    document["sections"]["hidden"] = {"name": "Hidden", "itemIds": [LEMON]}
    catalog = compiled(document)
    assert [sold(catalog, key, NOON) for key in (TEA, CAKE, LEMON, MILK)] == [True, False, False, False]
    assert [sold(catalog, key, NIGHT) for key in (TEA, CAKE, LEMON, MILK)] == [False, True, False, False]
    document["sections"][HOT]["itemIds"] = [TEA, CAKE]
    assert sold(compiled(document), CAKE, NOON)
    assert sold(compiled(document), CAKE, NIGHT)


def test_an_item_that_no_section_lists_is_never_sold_by_itself():
    catalog = compiled(cafe())
    assert sold(catalog, TEA, NOON)
    assert not sold(catalog, MILK, NOON)


@pytest.mark.parametrize("as_written", [str.upper, str.title, lambda own: str(uuid5(OWNER, own))])
def test_an_item_of_no_section_is_not_sold_however_the_others_are_written(as_written: Callable[[str], str]):
    """As many ids as items are listed, but they are of one item."""
    own = TEA if as_written("a") == "A" else "tea"
    document = {
        "items": {own: {"basePrice": "1.00"}, "hidden": {"basePrice": "2.00"}},
        "sections": {"s": {"itemIds": [own]}, "t": {"itemIds": [as_written(own)]}},
    }
    catalog = build(json.dumps(document).encode(), onboarding_id=OWNER).compiled
    assert [catalog.is_sold(item, NOON) for item in catalog.items.values()] == [True, False]


@pytest.mark.parametrize("catalogs", [{}, {"catalogs": {}}])
def test_without_catalogs_any_section_sells_at_any_time(catalogs: dict[str, Any]):
    document = cafe()
    del document["catalogs"]
    catalog = compiled(document | catalogs)
    assert [sold(catalog, key, NIGHT) for key in (TEA, CAKE, MILK)] == [True, True, False]


@pytest.mark.parametrize("sections", [{}, {"sections": {}}])
def test_without_sections_any_item_is_sold(sections: dict[str, Any]):
    document = cafe()
    del document["catalogs"], document["sections"]
    catalog = compiled(document | sections)
    assert all(sold(catalog, key, NIGHT) for key in (TEA, CAKE, MILK, LEMON))


def test_catalogs_without_sections_open_the_store_and_sell_any_item():
    document = cafe()
    document["catalogs"] = {CATALOG: {"name": "All", "sectionIds": [], "availability": LUNCH}}
    document["sections"] = {}
    catalog = compiled(document)
    assert (catalog.is_open(NOON), catalog.is_open(NIGHT)) == (True, False)
    assert sold(catalog, MILK, NIGHT)


def test_items_that_are_in_every_catalog_share_one_reach():
    document = cafe()
    document["sections"][HOT]["itemIds"] = [TEA, CAKE, MILK, LEMON]
    catalog = compiled(document)
    assert catalog.reaches == (1,)
    assert all(sold(catalog, key, NOON) for key in (TEA, CAKE, MILK, LEMON))


def test_items_that_only_an_unreached_section_lists_are_never_sold():
    document = cafe()
    document["sections"][HOT]["itemIds"] = [TEA, CAKE, MILK, LEMON]
    document["catalogs"][CATALOG]["sectionIds"] = []
    assert not sold(compiled(document), TEA, NOON)


def test_reach_is_handed_down_through_many_levels_and_meeting_branches():
    document: dict[str, Any] = {
        "items": {TEA: {"name": "Tea", "basePrice": "1"}},
        "catalogs": {f"c{n}": {"name": "x", "sectionIds": [f"s{n}"]} for n in range(70)},
        "sections": {f"s{n}": {"name": "x", "sectionIds": [f"s{n + 1}"]} for n in reversed(range(69))},
    }
    document["sections"]["s69"] = {"name": "x", "itemIds": [TEA]}
    catalog = compiled(document)
    assert catalog.reaches[catalog.items[UUID(TEA).int].reach] == 2**70 - 1


def test_more_than_a_thousand_catalogs_are_refused():
    document = {"items": {}, "catalogs": [{"name": "x"} for _ in range(1001)]}
    assert outcome(document).faults[0].message == "catalogs has more than 1,000 catalogs."


def test_too_many_modifier_groups_of_an_item_are_refused():
    groups = {f"g{n}": {"name": "x"} for n in range(501)}
    tea = {"name": "Tea", "basePrice": "1", "modifierGroupIds": list(groups)}
    document: dict[str, Any] = {"items": {TEA: tea}, "modifierGroups": groups}
    path = f"/items/{TEA}/modifierGroupIds"
    assert faults(document) == {path: f'The item "Tea" ({TEA}) lists more than 500 modifier groups.'}
    tea["modifierGroupIds"] = ["g0"] * 501
    assert faults(document).keys() == {path}, "it is examined once per entry"
    tea["modifierGroupIds"] = list(groups)[1:]
    assert len(compiled(document).items[UUID(TEA).int].groups) == 500


def test_too_many_windows_are_refused():
    windows = [
        {
            "dayOfWeek": "Sunday",
            "start": f"{n // 60:02}:{n % 60:02}:00",
            "end": f"{n // 60:02}:{n % 60:02}:30",
        }
        for n in range(1000)
    ]
    catalogs = [{"name": "x", "availability": windows} for _ in range(10)]
    document: dict[str, Any] = {"items": {}, "catalogs": catalogs}
    assert sum(len(hours.windows or ()) for hours in compiled(document).catalogs) == 10_000
    catalogs.append({"name": "x", "availability": windows[:1]})
    assert faults(document) == {
        "/catalogs": "The catalogs have more than 10,000 windows of availability together."
    }


def test_a_name_is_served_whole_and_repeated_up_to_256_characters():
    document = cafe()
    document["items"][TEA]["name"] = "t" * 1001
    document["modifierGroups"][EXTRAS]["name"] = "e" * 100_000
    made = built(document)
    catalog = unpack(made.compiled)
    assert catalog.items[UUID(TEA).int].name == "t" * 256
    assert catalog.groups[UUID(EXTRAS).int].name == "e" * 256
    assert catalog.items[UUID(CAKE).int].name == "Cake"
    served = json.loads(made.body)
    assert len(served["items"][TEA]["name"]) == 1001
    assert len(served["modifierGroups"][EXTRAS]["name"]) == 100_000


def test_a_compiled_form_of_another_version_is_not_read():
    packed = built(cafe()).compiled
    for other in (b"", b"\x00" + packed[1:], packed[:-1], packed[:1] + b"\x01", b"{}"):
        with pytest.raises(ValueError, match="compiled"):
            unpack(other)


def test_the_outcomes_travel_between_processes():
    for document in (cafe(), {"items": {"a": {"basePrice": "x"}}}):
        result = outcome(document)
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301  # our own bytes
    unchanged = outcome(cafe(), previous_hash=built(cafe()).content_hash)
    assert pickle.loads(pickle.dumps(unchanged)) == unchanged  # noqa: S301  # our own bytes


def test_the_summary_counts_and_the_search_text_names():
    result = built(cafe())
    counted = (
        result.summary.catalogs,
        result.summary.sections,
        result.summary.items,
        result.summary.modifier_groups,
    )
    assert counted == (1, 2, 4, 1)
    assert (result.summary.currency, result.summary.warnings) == ("USD", 0)
    search = unpack_search(result.search)
    assert search.words == ("drinks", "hot", "tea", "cake", "milk", "lemon")


def test_the_search_words_are_bounded_and_hold_no_nul():
    document = cafe()
    document["items"][TEA]["name"] = "a\x00b " + " ".join(f"w{number}" for number in range(100_000))
    words = unpack_search(built(document).search).words
    assert len(words) == MAX_WORDS
    assert {"drinks", "a", "b", "w1"} <= set(words)
    assert "\x00" not in "".join(words)


def change(document: dict[str, Any]) -> dict[str, Any]:
    document["items"][TEA]["basePrice"] = "2.75"
    document["items"][CAKE]["name"] = "Pie"
    document["items"][MILK] |= {"modifierGroupIds": ["new"]}
    del document["items"][LEMON]
    document["items"]["ginger"] = {"name": "Ginger", "basePrice": "1"}
    document["modifierGroups"][EXTRAS] |= {"itemIds": [MILK], "priceOverrides": {}, "maximumAllowed": 1}
    document["modifierGroups"]["new"] = {"name": "New", "itemIds": []}
    document["sections"][HOT]["itemIds"].append("ginger")
    document["sections"]["more"] = {"name": "More"}
    document["catalogs"][CATALOG]["availability"] = LUNCH
    return document


def test_a_diff_counts_and_lists_what_a_new_set_changes():
    found = diff(compiled(cafe()), compiled(change(cafe())))
    assert not found.identical
    assert found.currency is None
    assert [entry.name for entry in found.items.added.entries] == ["Ginger"]
    assert [entry.name for entry in found.items.removed.entries] == ["Lemon"]
    assert [(e.id, e.before, e.after) for e in found.items.repriced.entries] == [(TEA, "2.50", "2.75")]
    assert [entry.name for entry in found.items.reoptioned.entries] == ["Milk"]
    assert [entry.name for entry in found.items.changed.entries] == ["Pie"]
    assert [entry.name for entry in found.modifier_groups.added.entries] == ["New"]
    assert [entry.name for entry in found.modifier_groups.changed.entries] == ["Extras"]
    assert [entry.name for entry in found.sections.added.entries] == ["More"]
    assert [entry.name for entry in found.sections.changed.entries] == ["Hot"]
    assert [entry.id for entry in found.catalogs.changed.entries] == [CATALOG]
    assert found.catalogs.removed.count == 0


def test_a_set_does_not_differ_from_itself():
    assert diff(compiled(cafe()), compiled(cafe())).identical


def test_another_currency_reprices_everything():
    found = diff(compiled(cafe()), compiled(cafe() | {"currency": "KWD"}))
    assert found.currency is not None
    assert (found.currency.before, found.currency.after) == ("USD", "KWD")
    assert found.items.repriced.count == 4
    assert (found.items.repriced.entries[0].before, found.items.repriced.entries[0].after) == (
        "2.50",
        "2.500",
    )


def test_a_long_diff_is_listed_up_to_a_bound():
    many = {f"{n:08x}-0000-5000-8000-000000000000": {"name": f"{n}", "basePrice": "1"} for n in range(300)}
    found = diff(compiled({"items": {}}), compiled({"items": many}))
    assert (found.items.added.count, len(found.items.added.entries)) == (300, 100)
