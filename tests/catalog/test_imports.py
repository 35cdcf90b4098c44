"""Menus in other formats become CatalogSets that an ingest accepts; every loss is reported by pointer."""

import copy
import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect as info
from tests.calibration import cpu_within
from tests.generated import examples

from mercato_contract.problems import Reason
from mercato_contract.refusals import Problem
from mercato_contract.wire import as_json
from mercato_tools.imports.convert import FORMATS, Imported, UnknownCurrencyError, convert
from mercato_tools.imports.draft import ImportOptions, Losses, windows
from mercato_tools.imports.square import MAX_BOUNDS
from mercato_tools.lint import lint

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ASKED = ImportOptions(default_currency="USD", now=NOW)

Menu = dict[str, Any]


class Result:
    """An import, its CatalogSet by names, and its losses by pointer."""

    def __init__(self, made: Imported) -> None:
        self.made = made
        self.document: Menu = json.loads(made.document)
        self.lost = {one.path: one.message for one in made.losses}

    def item(self, name: str) -> Menu:
        [found] = [one for one in self.document["items"].values() if one.get("name") == name]
        return dict(found)

    def group(self, name: str) -> Menu:
        [found] = [one for one in self.document["modifierGroups"].values() if one.get("name") == name]
        return dict(found)

    def names(self, table: str, ids: list[str]) -> list[str]:
        return [self.document[table][one].get("name", "") for one in ids]

    def choices(self, group: str) -> dict[str, str | None]:
        """Return what each choice costs in the group."""
        found = self.group(group)
        prices = found.get("priceOverrides", {})
        items = {one: self.document["items"][one] for one in found["itemIds"]}
        return {item["name"]: prices.get(key, item.get("basePrice")) for key, item in items.items()}


def imported(name: str, document: Any, **requested: Any) -> Result:
    made = convert(name, json.dumps(document).encode(), msgspec_replace(ASKED, **requested))
    report, _ = lint(made.document, default_currency="USD", max_bytes=32 << 20)
    assert report.valid, report.errors
    return Result(made)


def msgspec_replace(requested: ImportOptions, **changes: Any) -> ImportOptions:
    given = {name: getattr(requested, name) for name in ("default_currency", "now", "currency", "language")}
    return ImportOptions(**given | changes)


def text(**languages: str) -> Menu:
    return {"translations": languages}


def uber() -> Menu:
    """Return a menu in Uber's format: nested groups, overrides, hours across midnight, a suspended item."""
    sugar = {"context_type": "MODIFIER_GROUP", "context_value": "sugars"}
    return {
        "menus": [
            {
                "id": "evening",
                "title": text(en_us="Evening", fr="Soir"),
                "service_availability": [
                    {"day_of_week": "friday", "time_periods": [{"start_time": "18:00", "end_time": "02:00"}]},
                    {"day_of_week": "sunday", "time_periods": [{"start_time": "00:00", "end_time": "23:59"}]},
                    {"day_of_week": "someday", "time_periods": []},
                ],
                "category_ids": ["drinks", "gone"],
            }
        ],
        "categories": [
            {
                "id": "drinks",
                "title": text(en_us="Drinks"),
                "entities": [{"id": "coffee", "type": "ITEM"}, {"id": "tea", "type": "ITEM"}],
            }
        ],
        "items": [
            {
                "id": "coffee", "title": text(en_us="Coffee", fr="Café"), "image_url": "https://i.example/c.jpg",
                "price_info": {"price": 300, "overrides": [{"context_type": "ITEM", "context_value": "x", "price": 1}]},
                "tax_info": {"tax_rate": 8}, "quantity_info": {"quantity": {"max_permitted": 9}},
                "modifier_group_ids": {"ids": ["sugars"]},
            },
            {
                "id": "tea", "title": text(en_us="Tea"), "price_info": {"price": 250},
                "suspension_info": {"suspension": {"suspend_until": 4_000_000_000, "reason": "out"}},
            },
            {
                "id": "cane", "title": text(en_us="Cane"),
                "price_info": {"price": 20, "overrides": [sugar | {"price": 0}]},
                "quantity_info": {"overrides": [sugar | {"quantity": {"max_permitted": 2}}]},
                "modifier_group_ids": {"ids": ["origin"]},
            },
            {"id": "java", "title": text(en_us="Java"), "price_info": {"price": 5}},
        ],
        "modifier_groups": [
            {
                "id": "sugars", "title": text(en_us="Sugars"), "display_type": None,
                "quantity_info": {"quantity": {"min_permitted": 1, "max_permitted": 2, "min_permitted_unique": 1}},
                "modifier_options": [{"id": "cane", "type": "ITEM"}],
            },
            {"id": "origin", "title": text(en_us="Origin"), "modifier_options": [{"id": "java", "type": "ITEM"}]},
        ],
    }  # fmt: skip


def test_uber_menus_keep_prices_groups_hours_and_nesting():
    made = imported("uber", uber(), currency="EUR")
    assert made.document["currency"] == "EUR"
    coffee = made.item("Coffee")
    assert (coffee["basePrice"], coffee["partnerItemId"], coffee["maximumQuantity"]) == ("3.00", "coffee", 9)
    assert coffee["imageUrl"] == "https://i.example/c.jpg"
    assert made.item("Tea")["isAvailable"] is False
    assert made.choices("Sugars") == {"Cane": "0.00"}
    sugars = made.group("Sugars")
    assert (sugars["minimumAllowed"], sugars["maximumAllowed"], sugars["maximumPerItem"]) == (1, 2, 2)
    assert made.names("modifierGroups", made.item("Cane")["modifierGroupIds"]) == ["Origin"]
    [evening] = made.document["catalogs"].values()
    assert evening["availability"] == [
        {"dayOfWeek": "Sunday", "start": "00:00:00", "end": "00:00:00"},
        {"dayOfWeek": "Friday", "start": "18:00:00", "end": "00:00:00"},
        {"dayOfWeek": "Saturday", "start": "00:00:00", "end": "02:00:00"},
    ]
    assert set(made.lost) == {
        "/menus/0/title/translations/fr",
        "/menus/0/service_availability/1/time_periods/0",
        "/menus/0/service_availability/2/day_of_week",
        "/menus/0/category_ids/1",
        "/items/0/title/translations/fr",
        "/items/0/price_info/overrides/0",
        "/items/0/tax_info",
        "/items/1/suspension_info/suspension",
        "/items/1/suspension_info/suspension/reason",
        "/modifier_groups/0/quantity_info/quantity/min_permitted_unique",
    }


def test_a_language_can_be_chosen_and_an_ended_suspension_is_ignored():
    document = uber()
    document["items"][1]["suspension_info"]["suspension"]["suspend_until"] = 1_000
    made = imported("uber", document, language="fr")
    assert made.item("Café")["basePrice"] == "3.00"
    assert "isAvailable" not in made.item("Tea")
    assert "/items/0/title/translations/en_us" in made.lost


def deliverect() -> list[Menu]:
    """Return a menu in Deliverect's format: nested modifiers, a bundle, hours of a category, a snoozed product."""
    return [
        {
            "menu": "Web", "menuId": "m1", "menuType": 0, "currency": "EUR", "nestedModifiers": True,
            "availabilities": [{"dayOfWeek": 1, "startTime": "10:00", "endTime": "22:00"}],
            "categories": [
                {"_id": "c1", "name": "Mains", "products": ["p1", "p3"], "nameTranslations": {"nl": "Hoofd"}},
                {
                    "_id": "c2", "name": "Lunch", "products": ["p2"],
                    "availabilities": [{"dayOfWeek": 7, "startTime": "11:00", "endTime": "14:00"}],
                },
            ],
            "products": {
                "p1": {
                    "name": "Pizza", "plu": "PIZ", "price": 1250, "productType": 1, "subProducts": ["g1"],
                    "deliveryTax": 9000, "productTags": [1],
                },
                "p2": {
                    "name": "Soup", "plu": "SOUP", "price": 500, "snoozed": True,
                    "overloads": [{"bundles": ["b1"], "price": 150}],
                },
                "p3": {"name": "Meal", "plu": "MEAL", "price": 1500, "subProducts": ["b1"]},
            },
            "modifiers": {
                "x1": {"name": "Cheese", "plu": "CH", "price": 100, "subProducts": ["g2"]},
                "x2": {"name": "Blue", "plu": "BL", "price": 0},
            },
            "modifierGroups": {
                "g1": {"name": "Toppings", "subProducts": ["x1", "gone"], "min": 0, "max": 3, "multiMax": 2},
                "g2": {"name": "Which", "subProducts": ["x2"], "min": 1, "max": 1},
            },
            "bundles": {"b1": {"name": "Choose", "subProducts": ["p1", "p2"], "min": 1, "max": 1}},
        }
    ]  # fmt: skip


def test_deliverect_menus_keep_bundles_nested_modifiers_and_hours_of_categories():
    made = imported("deliverect", deliverect())
    assert made.document["currency"] == "EUR"
    assert (made.item("Pizza")["basePrice"], made.item("Pizza")["partnerItemId"]) == ("12.50", "PIZ")
    assert made.item("Soup")["isAvailable"] is False
    toppings = made.group("Toppings")
    assert ("minimumAllowed" in toppings, toppings["maximumAllowed"], toppings["maximumPerItem"]) == (
        False,
        3,
        2,
    )
    assert made.names("modifierGroups", made.item("Cheese")["modifierGroupIds"]) == ["Which"]
    assert made.choices("Choose") == {"Pizza": "0.00", "Soup": "1.50"}
    hours = {
        tuple(made.names("sections", one["sectionIds"])): one["availability"]
        for one in made.document["catalogs"].values()
    }
    assert hours == {
        ("Mains",): [{"dayOfWeek": "Monday", "start": "10:00:00", "end": "22:00:00"}],
        ("Lunch",): [{"dayOfWeek": "Sunday", "start": "11:00:00", "end": "14:00:00"}],
    }
    assert set(made.lost) == {
        "/0/categories/0/nameTranslations/nl",
        "/0/products/p1/deliveryTax",
        "/0/products/p1/productTags",
        "/0/modifierGroups/g1/subProducts/1",
    }


def test_prices_are_read_with_the_decimals_of_the_menu():
    [menu] = deliverect()
    assert imported("deliverect", menu | {"currency": "JPY"}).item("Pizza")["basePrice"] == "12"
    assert imported("deliverect", menu | {"currency": "KWD"}).item("Pizza")["basePrice"] == "12.500"
    exact = imported("deliverect", menu | {"currency": "JPY", "decimalDigits": 0})
    assert exact.item("Pizza")["basePrice"] == "1250"
    assert "/products/p1/price" not in exact.lost


def hubrise() -> Menu:
    """Return a catalog in HubRise's format: sizes with options of their own, nested categories, a deal."""
    return {
        "id": "87yu4", "name": "Web", "location_id": "3r4s3-1",
        "data": {
            "categories": [
                {"ref": "FOOD", "name": "Food"},
                {"ref": "PIZ", "name": "Pizzas", "parent_ref": "FOOD", "image_ids": ["abc"]},
            ],
            "products": [
                {
                    "ref": "MAR", "category_ref": "PIZ", "name": "Margarita", "tags": ["vegetarian"],
                    "skus": [
                        {"ref": "MAR-SM", "name": "Small", "price": "9.80 EUR", "option_list_refs": ["SAU"]},
                        {"ref": "MAR-LG", "name": "Large", "price": "16.80 EUR", "option_list_refs": ["SAU", "TOP"]},
                    ],
                },
                {
                    "ref": "COKE", "name": "Coke",
                    "skus": [{"ref": "COK33", "price": "2.50 EUR", "restrictions": {"dow": "123----"}}],
                },
            ],
            "option_lists": [
                {
                    "ref": "SAU", "name": "Sauce", "type": "single",
                    "options": [{"ref": "BBQ", "name": "BBQ", "price": "0.50 EUR", "default": True}],
                },
                {
                    "ref": "TOP", "name": "Toppings", "type": "multiple", "max_selections": 2,
                    "options": [{"ref": "HAM", "name": "Ham", "price": "1.00 EUR"}],
                },
            ],
            "deals": [{"ref": "D", "name": "Two for one", "lines": []}],
            "discounts": [],
        },
    }  # fmt: skip


def test_hubrise_sizes_become_choices_at_the_same_prices():
    made = imported("hubrise", hubrise())
    pizza = made.item("Margarita")
    assert (pizza["basePrice"], pizza["tags"]) == ("9.80", ["vegetarian"])
    assert made.choices("Margarita") == {"Small": "0.00", "Large": "7.00"}
    sizes = made.group("Margarita")
    assert (sizes["minimumAllowed"], sizes["maximumAllowed"]) == (1, 1)
    assert made.names("modifierGroups", made.item("Large")["modifierGroupIds"]) == ["Sauce", "Toppings"]
    assert made.item("Large")["partnerItemId"] == "MAR-LG"
    # A size can't be bought for its surcharge alone.
    assert "basePrice" not in made.item("Large")
    assert (made.item("Coke")["basePrice"], made.item("Coke")["partnerItemId"]) == ("2.50", "COK33")
    assert (made.group("Sauce")["minimumAllowed"], made.group("Sauce")["maximumAllowed"]) == (1, 1)
    assert (made.group("Toppings")["maximumAllowed"], made.group("Toppings")["maximumPerItem"]) == (2, 1)
    [catalog] = made.document["catalogs"].values()
    assert made.names("sections", catalog["sectionIds"]) == ["Food", "Web"]
    assert set(made.lost) == {
        "/data/categories/1/image_ids",
        "/data/products",
        "/data/products/0",
        "/data/products/1/skus/0/restrictions/dow",
        "/data/option_lists/0/options/0/default",
        "/data/deals",
    }


def test_a_hubrise_price_without_a_currency_is_in_the_catalogs():
    document = hubrise()
    document["data"]["products"][1]["skus"][0]["price"] = "2.50"
    made = imported("hubrise", document)
    assert made.item("Coke")["basePrice"] == "2.50"
    assert "/data/products/1/skus/0/price" not in made.lost


def test_hubrise_answers_refer_by_id_and_uploads_by_ref_to_the_same():
    data = hubrise()["data"]
    data["categories"][1] |= {"id": "c9"}
    data["option_lists"][0] |= {"id": "l9"}
    product = data["products"][0]
    product |= {"category_id": "c9", "category_ref": None}
    product["skus"] = [{"id": "s", "price": "9.80 EUR", "option_list_ids": ["l9"]}]
    made = imported("hubrise", data)
    assert made.names("modifierGroups", made.item("Margarita")["modifierGroupIds"]) == ["Sauce"]
    assert made.names("items", section(made, "Pizzas")["itemIds"]) == ["Margarita"]


def section(made: Result, name: str) -> Menu:
    [found] = [one for one in made.document["sections"].values() if one.get("name") == name]
    return dict(found)


def money(amount: int, currency: str = "USD") -> Menu:
    return {"amount": amount, "currency": currency}


def square() -> Menu:
    """Return a catalog in Square's format: variations, a list whose bounds an item changes, an image, a tax."""
    return {
        "objects": [
            {"type": "CATEGORY", "id": "C1", "category_data": {"name": "Drinks"}},
            {
                "type": "CATEGORY", "id": "C2",
                "category_data": {"name": "Hot", "parent_category": {"id": "C1", "ordinal": 1}},
            },
            {"type": "IMAGE", "id": "I1", "image_data": {"url": "https://i.example/tea.jpg", "name": "tea"}},
            {"type": "TAX", "id": "T1", "tax_data": {"name": "VAT"}},
            {
                "type": "MODIFIER_LIST", "id": "M1",
                "modifier_list_data": {
                    "name": "Milk", "selection_type": "SINGLE",
                    "modifiers": [
                        {"id": "O2", "modifier_data": {"name": "Oat", "price_money": money(60), "ordinal": 2}},
                        {"id": "O1", "modifier_data": {"name": "Whole", "price_money": money(0), "ordinal": 1}},
                        {"id": "O3", "is_deleted": True, "modifier_data": {"name": "Old"}},
                    ],
                },
            },
            {
                "type": "ITEM", "id": "P1", "version": 7, "updated_at": "2026-01-01T00:00:00Z",
                "item_data": {
                    "name": "Tea", "description": "Hot", "categories": [{"id": "C2", "ordinal": 5}],
                    "image_ids": ["I1", "I2"], "tax_ids": ["T1"],
                    "modifier_list_info": [{"modifier_list_id": "M1", "min_selected_modifiers": 1}],
                    "variations": [
                        {"id": "V2", "item_variation_data": {"name": "Large", "price_money": money(450), "ordinal": 2}},
                        {"id": "V1", "item_variation_data": {"name": "Small", "price_money": money(350), "ordinal": 1}},
                    ],
                },
            },
            {
                "type": "ITEM", "id": "P2",
                "item_data": {
                    "name": "Cake", "category_id": "C1",
                    "modifier_list_info": [{"modifier_list_id": "M1", "max_selected_modifiers": -1}],
                    "variations": [{"id": "V3", "item_variation_data": {"name": "Regular", "price_money": money(400)}}],
                },
            },
            {"type": "ITEM", "id": "P3", "item_data": {"name": "Gone", "is_archived": True}},
        ],
        "cursor": "x",
    }  # fmt: skip


def test_square_variations_lists_images_and_categories_are_kept():
    made = imported("square", square())
    tea = made.item("Tea")
    assert (tea["basePrice"], tea["imageUrl"]) == ("3.50", "https://i.example/tea.jpg")
    assert list(made.choices("Tea").items()) == [("Small", "0.00"), ("Large", "1.00")]
    assert made.item("Large")["partnerItemId"] == "V2"
    assert (made.item("Cake")["basePrice"], made.item("Cake")["partnerItemId"]) == ("4.00", "V3")
    milks = [one for one in made.document["modifierGroups"].values() if one["name"] == "Milk"]
    assert sorted(one.get("minimumAllowed", 0) for one in milks) == [0, 1]
    assert {one["maximumAllowed"] for one in milks} == {1}
    assert made.names("items", milks[0]["itemIds"]) == ["Whole", "Oat"]
    [catalog] = made.document["catalogs"].values()
    assert made.names("sections", catalog["sectionIds"]) == ["Drinks"]
    assert made.names("sections", section(made, "Drinks")["sectionIds"]) == ["Hot"]
    assert made.names("items", section(made, "Hot")["itemIds"]) == ["Tea"]
    assert set(made.lost) == {
        "/objects/2/image_data/name",
        "/objects/3",
        "/objects/3/tax_data",
        "/objects/4/modifier_list_data/modifiers/2",
        "/objects/5",
        "/objects/5/item_data/image_ids/1",
        "/objects/5/item_data/tax_ids",
        "/objects/7",
    }


@pytest.mark.parametrize(
    ("of_list", "of_item", "most"),
    [(0, -1, None), (0, None, None), (-1, 0, None), (2, 0, None), (2, -1, 2), (0, 3, 3)],
)
def test_a_maximum_of_0_is_no_limit_in_square(of_list: int, of_item: int | None, most: int | None):
    document = square()
    milk, cake = document["objects"][4]["modifier_list_data"], document["objects"][6]["item_data"]
    milk |= {"selection_type": "MULTIPLE", "max_selected_modifiers": of_list}
    cake["modifier_list_info"] = [{"modifier_list_id": "M1", "max_selected_modifiers": of_item}]
    made = imported("square", document)
    [group] = made.item("Cake")["modifierGroupIds"]
    assert made.document["modifierGroups"][group].get("maximumAllowed") == most


@pytest.mark.parametrize(
    ("mode", "least", "wanted"),
    [
        ("REQUIRED", None, 1),
        ("REQUIRED", 0, 1),
        ("REQUIRED", 2, 2),
        ("OPTIONAL_FORCE_SHOW", None, None),
        (None, 1, 1),
    ],
)
def test_a_group_that_toast_requires_needs_a_choice(mode: str | None, least: int | None, wanted: int | None):
    document = toast()
    document["modifierGroupReferences"]["1"] |= {"requiredMode": mode, "minSelections": least}
    assert imported("toast", document).group("Toppings").get("minimumAllowed") == wanted


@pytest.mark.parametrize("form", ["list", "one"])
def test_square_catalogs_may_be_a_list_or_one_object(form: str):
    objects = square()["objects"]
    document = objects if form == "list" else {"object": objects[5], "related_objects": objects[:5]}
    assert imported("square", document).item("Tea")["basePrice"] == "3.50"


def toast() -> Menu:
    """Return a menu in Toast's format: sizes, prices by time, nested groups, an item twice, a price of a group."""
    cheese = {
        "guid": "cheese",
        "name": "Cheese",
        "price": 12.10,
        "pricingStrategy": "BASE_PRICE",
        "modifierGroupReferences": [1],
        "taxInfo": ["rate"],
        "itemTags": [{"name": "Vegetarian", "guid": "t"}],
        "visibility": ["POS"],
    }
    sized = {
        "guid": "sized",
        "name": "Any size",
        "price": None,
        "pricingStrategy": "SIZE_PRICE",
        "pricingRules": {"timeSpecificPricingRules": [], "sizeSpecificPricingGuid": "size"},
        "modifierGroupReferences": [2, 3],
    }
    happy = {
        "guid": "beer",
        "name": "Beer",
        "pricingStrategy": "TIME_SPECIFIC_PRICE",
        "pricingRules": {
            "timeSpecificPricingRules": [{"timeSpecificPrice": 4, "basePrice": 6.5, "schedule": []}]
        },
    }
    opened = {"guid": "open", "name": "Catering", "price": None, "pricingStrategy": "OPEN_PRICE"}
    sequence = [{"sequence": 1, "price": 0.75}, {"sequence": 2, "price": 1}]
    rule = {
        "sizeName": "S",
        "sizeGuid": "s",
        "sequencePrices": sequence,
    }
    return {
        "restaurantGuid": "r",
        "lastUpdated": "2026-01-31T18:30:00.000+0000",
        "restaurantTimeZone": "America/New_York",
        "menus": [
            {
                "guid": "lunch",
                "name": "Lunch",
                "availability": {
                    "alwaysAvailable": False,
                    "schedule": [
                        {"days": ["MONDAY", "FRIDAY"], "timeRanges": [{"start": "18:00", "end": "02:00"}]},
                        {"days": ["SOMEDAY"], "timeRanges": []},
                    ],
                },
                "menuGroups": [
                    {
                        "guid": "pizza",
                        "name": "Pizza",
                        "menuItems": [cheese, sized],
                        "menuGroups": [{"guid": "drinks", "name": "Drinks", "menuItems": [happy, opened, cheese]}],
                    },
                    {"guid": "deals", "name": "Deals", "menuItems": [cheese | {"price": 9}]},
                ],
            }
        ],
        "modifierGroupReferences": {
            "1": {"guid": "toppings", "name": "Toppings", "referenceId": 1, "minSelections": 0, "maxSelections": None,
                  "isMultiSelect": True, "pricingStrategy": "NONE", "modifierOptionReferences": [10, 11, 99]},
            "2": {"guid": "size", "name": "Size", "referenceId": 2, "minSelections": 0, "maxSelections": 1,
                  "modifierOptionReferences": [12, 13]},
            "3": {"guid": "sauces", "name": "Sauces", "referenceId": 3, "minSelections": 1, "isMultiSelect": False,
                  "pricingStrategy": "SEQUENCE_PRICE", "pricingRules": {"sizeSequencePricingRules": [rule]},
                  "defaultOptionsChargePrice": "NO", "modifierOptionReferences": [14]},
        },
        "modifierOptionReferences": {
            "10": {"guid": "ham", "name": "Ham", "price": 1.5, "modifierGroupReferences": [3],
                   "allowsDuplicates": True},
            "11": {"guid": "olives", "name": "Olives", "price": 0},
            "12": {"guid": "small", "name": "Small", "price": 11},
            "13": {"guid": "large", "name": "Large", "price": 15.25},
            "14": {"guid": "chili", "name": "Chili", "price": None, "isDefault": True},
        },
    }  # fmt: skip


def test_a_menu_of_toast_has_its_prices_choices_and_hours():
    made = imported("toast", toast())
    prices = sorted(item["basePrice"] for item in made.document["items"].values() if item["name"] == "Cheese")
    assert prices == ["12.10", "9.00"]
    assert made.item("Beer")["basePrice"] == "6.50"
    assert "basePrice" not in made.item("Catering")
    assert made.choices("Toppings") == {"Ham": "1.50", "Olives": "0.00"}
    assert made.choices("Size") == {"Small": "11.00", "Large": "15.25"}
    assert made.choices("Sauces") == {"Chili": "0.75"}
    size, toppings, sauces = (made.group(name) for name in ("Size", "Toppings", "Sauces"))
    # What is sold by its size has no price without one.
    assert (made.item("Any size")["basePrice"], size["minimumAllowed"], size["maximumAllowed"]) == (
        "0.00",
        1,
        1,
    )
    assert "maximumPerItem" not in toppings
    assert (sauces["minimumAllowed"], sauces["maximumAllowed"], sauces["maximumPerItem"]) == (1, 1, 1)
    [catalog] = made.document["catalogs"].values()
    assert [one["dayOfWeek"] for one in catalog["availability"]] == [
        "Monday",
        "Tuesday",
        "Friday",
        "Saturday",
    ]
    assert {
        path: message for path, message in made.lost.items() if not message.endswith("has no counterpart.")
    } == {
        "": "The document names no currency, so USD is used. Set another if that is wrong.",
        "/menus/0/availability/schedule/1/days": "This isn't a day of the week.",
        "/menus/0/menuGroups/0/menuItems/1/pricingRules": (
            "Its price is that of its size, so without one it costs nothing."
        ),
        "/menus/0/menuGroups/0/menuGroups/0/menuItems/0/pricingRules": (
            "Its price differs by time. The base price is used at all times."
        ),
        "/menus/0/menuGroups/0/menuGroups/0/menuItems/1/price": (
            "It has no price of its own, so it can't be sold by itself."
        ),
        "/modifierGroupReferences/1/modifierOptionReferences/2": "It refers to something that isn't in the document.",
        "/modifierGroupReferences/3": "No option of a group is chosen beforehand.",
        "/modifierGroupReferences/3/defaultOptionsChargePrice": "A default option costs its price, as any other.",
        "/modifierGroupReferences/3/pricingRules": (
            "The price of its options differs by size or by how many are chosen. The first one is used."
        ),
    }


SAMPLES = {"uber": uber, "deliverect": deliverect, "hubrise": hubrise, "square": square, "toast": toast}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_document_has_the_same_ids_whenever_it_is_imported(name: str):
    first, second = (convert(name, json.dumps(SAMPLES[name]()).encode(), ASKED) for _ in range(2))
    assert first == second


def struct_places(value: Any, at: str = "") -> list[tuple[Menu, str]]:
    """Return every object of a document with its pointer, but for tables by id."""
    if isinstance(value, list):
        return [one for index, inner in enumerate(value) for one in struct_places(inner, f"{at}/{index}")]
    if not isinstance(value, dict):
        return []
    inner = [one for key, inner in value.items() for one in struct_places(inner, f"{at}/{key}")]
    tables = (
        "/modifierGroupReferences",
        "/modifierOptionReferences",
        "/products",
        "/modifiers",
        "/modifierGroups",
        "/bundles",
        "/translations",
        "Translations",
    )
    unread = ("/tax_info", "/deals", "/tax_data")
    table = at.endswith(tables)
    return inner if table or any(part in at for part in unread) else [(value, at), *inner]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_unread_member_is_reported(name: str):
    document = SAMPLES[name]()
    places = struct_places(document)
    for value, _ in places:
        value["brand new"] = 0
    made = convert(name, json.dumps(document).encode(), ASKED)
    told = {one.path for one in made.losses if one.message == "brand new has no counterpart."}
    assert told == {f"{at}/brand new" for _, at in places}


def test_cycles_and_duplicates_are_removed_and_reported():
    document = uber()
    document["items"][3]["modifier_group_ids"] = {"ids": ["sugars", "origin"]}
    document["items"].append(document["items"][0] | {"title": text(en_us="Other")})
    document["categories"][0]["entities"] *= 2
    lost = imported("uber", document).lost
    assert "closes a cycle" in " ".join(lost.values())
    assert "the same id" in lost["/items/4"]
    assert "more than once" in lost["/categories/0/entities/2"]


@pytest.mark.parametrize(
    ("name", "document", "pointer"),
    [
        ("uber", {}, ""),
        ("uber", {"items": [{"id": 1}]}, "/items/0/id"),
        ("deliverect", [{"products": []}], "/0/products"),
        ("hubrise", {"data": {"products": [{"skus": 3}]}}, "/data/products/0/skus"),
        ("square", {"objects": [{"id": "x"}]}, "/objects/0"),
        ("square", "text", ""),
    ],
    ids=["empty", "number", "list", "skus", "type", "text"],
)
def test_a_document_of_another_format_is_refused_by_pointer(name: str, document: Any, pointer: str):
    with pytest.raises(Problem) as refused:
        convert(name, json.dumps(document).encode(), ASKED)
    assert any((one.pointer or "").startswith(pointer) for one in refused.value.errors)


def test_an_unknown_currency_and_broken_json_are_refused():
    with pytest.raises(UnknownCurrencyError):
        convert("uber", json.dumps(uber()).encode(), msgspec_replace(ASKED, currency="XXX"))
    for wrong in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(Problem):
            convert("uber", wrong, ASKED)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("08:00", "17:30", ["Sunday 08:00:00 17:30:00"]),
        ("08:00", "24:00", ["Sunday 08:00:00 00:00:00"]),
        ("08:00", "00:00", ["Sunday 08:00:00 00:00:00"]),
        ("22:00", "02:00", ["Sunday 22:00:00 00:00:00", "Monday 00:00:00 02:00:00"]),
        ("00:00", "23:59", ["Sunday 00:00:00 00:00:00"]),
        ("10:00", "23:59:59", ["Sunday 10:00:00 00:00:00"]),
        ("10:00", "23:59:59.999", ["Sunday 10:00:00 00:00:00"]),
        ("10:00", "23:58:59", ["Sunday 10:00:00 23:58:59"]),
        ("00:00", "00:00", ["Sunday 00:00:00 00:00:00"]),
        ("9:00", "9:30:15", ["Sunday 09:00:00 09:30:15"]),
        ("12:00", "12:00", ["Sunday 12:00:00 00:00:00", "Monday 00:00:00 12:00:00"]),
        ("25:00", "26:00", []),
        ("24:00", "02:00", []),
        ("noon", "late", []),
    ],
)
def test_hours_become_windows(start: str, end: str, expected: list[str]):
    losses = Losses()
    found = windows(0, start, end, "/here", losses)
    assert [f"{one['dayOfWeek']} {one['start']} {one['end']}" for one in found] == expected
    assert losses.count == (1 if not expected or end.startswith("23:59") or start == end else 0)


def test_hours_that_end_when_they_begin_and_just_before_midnight_are_losses_of_every_format_with_hours():
    of_uber = uber()
    periods = [{"start_time": "10:00", "end_time": "10:00"}, {"start_time": "22:00", "end_time": "23:59:59"}]
    of_uber["menus"][0]["service_availability"] = [{"day_of_week": "monday", "time_periods": periods}]
    of_deliverect = deliverect()
    of_deliverect[0]["availabilities"] = [
        {"dayOfWeek": 1, "startTime": one["start_time"], "endTime": one["end_time"]} for one in periods
    ]
    for name, document in (("uber", of_uber), ("deliverect", of_deliverect)):
        losses = convert(name, json.dumps(document).encode(), ASKED).losses
        assert [
            one.kind
            for one in losses
            if one.message == "Hours that end when they begin are read as 24 hours."
        ] == ["approximated"], name
        assert len([one for one in losses if "last minute of a day" in one.message]) >= 1, name


# --- any document at all ------------------------------------------------------------------------------

_TEXTS = (
    "", "a", "b", "c", "monday", "08:00", "23:59", "02:00", "MODIFIER_GROUP", "single", "SINGLE", "ITEM",
    "CATEGORY", "MODIFIER_LIST", "IMAGE", "VARIABLE_PRICING", "1.5 EUR", "9999999999999999999 EUR", "x EUR", "EUR",
)  # fmt: skip
_NUMBERS = (-(2**63), -1, 0, 1, 2, 7, 250, 2**31, 2**63 - 1)


def documents(kind: info.Type, *, within: tuple[type, ...] = ()) -> st.SearchStrategy[Any]:
    """Return documents of the type: few ids, so that they refer to each other, and numbers that hurt.

    An object within one of its own type has no others in turn.
    """
    match kind:
        case info.StructType():
            if within.count(kind.cls) > 1:
                return st.nothing()
            below = (*within, kind.cls)
            members = [(one, documents(one.type, within=below)) for one in kind.fields]
            return st.fixed_dictionaries(
                {one.encode_name: values for one, values in members if one.required},
                optional={one.encode_name: values for one, values in members if not one.required},
            )
        case info.ListType():
            inner = documents(kind.item_type, within=within)
            return st.lists(inner, max_size=0 if inner.is_empty else 3)
        case info.DictType():
            return st.dictionaries(
                st.sampled_from(("a", "b", "c", "0", "1", "d/~")),
                documents(kind.value_type, within=within),
                max_size=3,
            )
        case info.UnionType():
            return st.one_of(*(documents(one, within=within) for one in kind.types))
        case info.IntType():
            return st.sampled_from(_NUMBERS)
        case info.DecimalType():
            return st.sampled_from((-1, 0, 4.5, 12.005, 1e300, 2**70))
        case info.BoolType():
            return st.booleans()
        case info.StrType():
            return st.sampled_from(_TEXTS)
        case info.NoneType():
            return st.none()
    raise AssertionError(kind)


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=examples(50))
@given(data=st.data())
def test_any_document_of_a_format_becomes_a_catalog_that_an_ingest_accepts(name: str, data: st.DataObject):
    sample = data.draw(st.sampled_from([[], {}, {"data": {}}, {"object": {}}]))
    document = json.dumps(data.draw(documents_of(FORMATS[name].shape_of(sample)))).encode()
    try:
        made = convert(name, document, ASKED)
    except Problem:
        return  # drawn for one shape of the format, and read as another
    report, _ = lint(made.document, default_currency="USD", max_bytes=32 << 20)
    assert report.valid, (report.errors, document)
    assert msgspec.json.decode(made.document)["items"] is not None


ODD: list[Any] = [
    None, True, -1, 10**30, 1.5, "", "\x00", "\u202e", "a" * 5_000, "NaN", "-0", "99:99",
    [], {}, [[]], {"a": 1}, [None], {"": None},
]  # fmt: skip
"""What may stand anywhere in a document that somebody has written."""

SPELT = {
    "WIDE": "1e999999999999999999999",
    "LONG": "9" * 5_000,
    "DEEP": "[" * 2_000 + "]" * 2_000,
    "HALF": '"\\ud800"',
}
"""The same, as JSON that no value becomes."""


def places_in(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, one in inner for place in places_in(one, (*at, key)))]


@cache
def documents_of(shape: type) -> st.SearchStrategy[Any]:
    """Return documents of the type; to make the strategy takes as long as to draw from it."""
    return documents(info.type_info(shape))


def mutated(document: Any, chance: random.Random) -> bytes:
    """Return a document in which one to three places have something else, or another name."""
    made = copy.deepcopy(document)
    for _ in range(chance.choice([1, 1, 2, 3])):
        *above, name = chance.choice(places_in(made)[1:] or [("",)])
        held = made
        for step in above:
            held = held[step]
        if chance.random() < 0.2 and isinstance(held, dict) and name in held:
            held["x/~" + chance.choice(["", "a" * 5_000])] = held.pop(name)
        elif isinstance(held, dict | list) and name != "":
            held[name] = copy.deepcopy(chance.choice([*ODD, *SPELT]))
    text = json.dumps(made)
    for name, spelt in SPELT.items():
        text = text.replace(f'"{name}"', spelt)
    return text.encode()


def check_bounded(form: str, document: bytes) -> None:
    """Convert the document; what is wrong with it is a loss or a fault, each of a bounded length."""
    faults: Sequence[Reason] = ()
    made = None
    try:
        made = convert(form, document, ASKED)
    except Problem as problem:
        faults = problem.errors
    assert all(len(fault.message) < 1_000 for fault in faults)
    if made is None:
        return
    report, _ = lint(made.document, default_currency="USD", max_bytes=32 << 20)
    assert report.valid, (report.errors, document)
    assert all(len(loss.message) < 1_000 for loss in made.losses)
    as_json(made.losses)


@pytest.mark.parametrize("form", list(FORMATS))
def test_whatever_stands_anywhere_in_a_menu_is_a_loss_or_a_fault(form: str):
    sample = {"uber": uber, "deliverect": deliverect, "hubrise": hubrise, "square": square, "toast": toast}[
        form
    ]()
    chance = random.Random(form)
    for _ in range(examples(400)):
        check_bounded(form, mutated(sample, chance))


def test_a_list_of_square_with_many_limits_of_items_is_converted_within_bounds():
    modifiers = [{"id": f"m{n}"} for n in range(600)]
    items = [
        {"type": "ITEM", "id": f"i{n}", "item_data": {
            "name": f"Item {n}", "variations": [{"id": f"v{n}"}],
            "modifier_list_info": [{"modifier_list_id": "L", "min_selected_modifiers": n, "max_selected_modifiers": n}],
        }}
        for n in range(600)
    ]  # fmt: skip
    made = imported(
        "square",
        [{"type": "MODIFIER_LIST", "id": "L", "modifier_list_data": {"modifiers": modifiers}}, *items],
    )
    assert len(made.document["modifierGroups"]) == 1 + MAX_BOUNDS
    assert (
        made.lost["/600/item_data/modifier_list_info/0"]
        == "Too many items have limits of their own for this list."
    )


def test_a_type_of_square_that_is_very_long_is_a_short_loss():
    made = convert("square", json.dumps([{"type": "x" * 5_000, "id": "a"}]).encode(), ASKED)
    assert [len(loss.message) < 200 for loss in made.losses if loss.path == "/0"] == [True]


@pytest.mark.parametrize(
    ("form", "document", "pointer"),
    [
        (
            "toast",
            {"menus": [], "modifierOptionReferences": {"a/b": {"guid": "o", "price": 1.2345}}},
            "/modifierOptionReferences/a~1b/price",
        ),
        (
            "uber",
            {"items": [{"id": "i", "title": {"translations": {"en": "Tea", "fr/CA": "Thé"}}}]},
            "/items/0/title/translations/fr~1CA",
        ),
        (
            "square",
            [{"type": "ITEM", "id": "i", "item_data": {"name": "Tea", "category_id": "gone"}}],
            "/0/item_data/category_id",
        ),
    ],
)
def test_a_loss_is_reported_by_its_pointer(form: str, document: Any, pointer: str):
    assert pointer in imported(form, document).lost


def test_the_hours_of_a_menu_are_reported_where_a_later_category_has_none_of_its_own():
    own = [{"dayOfWeek": 1, "startTime": "10:00", "endTime": "11:00"}]
    menu = {
        "products": {},
        "categories": [{"_id": "a", "availabilities": own}, {"_id": "b"}, {"_id": "c"}],
        "availabilities": [{"dayOfWeek": 9, "startTime": "10:00", "endTime": "11:00"}],
    }
    made = convert("deliverect", json.dumps(menu).encode(), ASKED)
    assert [loss.path for loss in made.losses].count("/availabilities/0/dayOfWeek") == 1


# --- exports of real size -----------------------------------------------------------------------------


def chain_of_hubrise(count: int) -> Menu:
    """Return a catalog with so many products of three sizes, each with four option lists of twenty options."""
    lists = count // 10 + 1
    return {
        "categories": [{"id": f"c{n}", "name": f"Category {n}"} for n in range(count // 50 + 1)],
        "products": [
            {
                "id": f"p{n}", "ref": f"P{n}", "category_id": f"c{n // 50}", "name": f"Product {n}",
                "description": "Tasty " * 20, "tags": ["vegan"],
                "skus": [
                    {
                        "id": f"s{n}-{size}", "ref": f"S{n}-{size}", "name": "SML"[size], "price": f"{5 + size}.50 EUR",
                        "option_list_ids": [f"l{(n + place) % lists}" for place in range(4)],
                    }
                    for size in range(3)
                ],
            }
            for n in range(count)
        ],
        "option_lists": [
            {
                "id": f"l{n}", "name": f"Options {n}", "type": "multiple", "max_selections": 5,
                "options": [{"id": f"o{n}-{k}", "name": f"Option {k}", "price": "0.50 EUR"} for k in range(20)],
            }
            for n in range(lists)
        ],
    }  # fmt: skip


def chain_of_deliverect(count: int) -> list[Menu]:
    """Return four menus, which all repeat so many products in three languages, as channels get them."""
    groups = count // 10 + 1

    def texts(text: str) -> Menu:
        return {"en": text, "fr": f"{text} fr", "de": f"{text} de"}

    tables: Menu = {
        "products": {
            f"p{n}": {
                "name": f"Product {n}", "nameTranslations": texts(f"Product {n}"), "plu": f"P-{n}", "price": 1250,
                "descriptionTranslations": texts("Tasty " * 20),
                "subProducts": [f"g{(n + k) % groups}" for k in range(4)],
            }
            for n in range(count)
        },
        "modifiers": {f"m{n}": {"name": f"Extra {n}", "plu": f"M-{n}", "price": 50} for n in range(count)},
        "modifierGroups": {
            f"g{n}": {"name": f"Group {n}", "max": 3, "subProducts": [f"m{(n * 7 + k) % count}" for k in range(20)]}
            for n in range(groups)
        },
    }  # fmt: skip
    categories = [
        {"_id": f"c{n}", "name": f"Category {n}", "products": [f"p{k}" for k in range(n * 50, n * 50 + 50)]}
        for n in range(count // 50)
    ]
    return [
        {"menu": f"Menu {n}", "menuId": f"m{n}", "currency": "EUR", "categories": categories} | tables
        for n in range(4)
    ]


def categories_of_deliverect(count: int) -> Menu:
    """Return a menu of so many categories, all with the hours of the menu, which are many."""
    spans = [
        {"dayOfWeek": 1 + n % 7, "startTime": "10:00", "endTime": f"1{n % 10}:30"} for n in range(count // 4)
    ]
    return {
        "products": {f"p{n}": {"name": f"Product {n}", "price": 1250} for n in range(count)},
        "categories": [
            {"_id": f"c{n}", "name": f"Category {n}", "products": [f"p{n}"]} for n in range(count)
        ],
        "availabilities": spans,
    }


@pytest.mark.parametrize(
    ("form", "make", "factor"),
    [
        ("hubrise", chain_of_hubrise, 200),
        ("deliverect", chain_of_deliverect, 200),
        ("deliverect", categories_of_deliverect, 200),
    ],
)
def test_an_export_of_a_large_chain_is_converted_in_time_that_grows_with_it(
    form: str, make: Callable[[int], Any], factor: float
):
    large = json.dumps(make(2_000)).encode()
    with cpu_within(factor):
        made = convert(form, large, ASKED)
    report, _ = lint(made.document, default_currency="EUR", max_bytes=1 << 26)
    assert report.valid
    assert report.summary is not None
    assert report.summary.items >= 2_000
