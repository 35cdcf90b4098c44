"""The price of a line, and the rules of modifiers."""

from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from tests.catalog.documents import CAKE, EXTRAS, LEMON, MILK, NOWHERE, TEA, cafe, compiled

from mercato_catalog.carts.errors import (
    CatalogSetRequired,
    ItemUnavailable,
    LineItemNotFound,
    MissingStoreId,
)
from mercato_catalog.carts.pricing import price
from mercato_catalog.carts.rules import StoreMenu, add_item, get_catalog_ref, remove_item, update_item
from mercato_contract.carts import AddCartItemRequest, LineItem, RemoveCartItemRequest, UpdateCartItemRequest
from mercato_contract.clock import new_id
from mercato_contract.refusals import Problem, ValidationFailed

STORE, SET, OLD_SET = uuid4(), uuid4(), uuid4()
Json = dict[str, Any]


def line(item: str, quantity: int = 1, *groups: Json, **more: Any) -> Json:
    return {"itemId": item, "quantity": quantity, "modifierGroups": list(groups)} | more


def group(group_id: str, *lines: Json) -> Json:
    return {"modifierGroupId": group_id, "lineItems": list(lines)}


def extras(*lines: Json) -> Json:
    return group(EXTRAS, *lines)


def cart_of(*lines: Json, set_id: UUID = SET) -> Json:
    return {"catalogSetId": str(set_id), "storeId": str(STORE), "lineItems": list(lines)}


def menu(document: Json | None = None, *sold_out: str) -> StoreMenu:
    return StoreMenu(STORE, SET, compiled(document or cafe()), frozenset(map(UUID, sold_out)))


def add(item: Json, cart: Json | None = None, *, by: StoreMenu | None = None) -> Json:
    body = {"item": item, "cart": cart, "storeId": str(STORE), "catalogSetId": str(SET)}
    request = msgspec.convert(body, AddCartItemRequest)
    get_catalog_ref(request)
    return as_json(add_item(request, by or menu(), new_id))


def remove(cart: Json, line_item_id: str, *, by: StoreMenu | None = None) -> Json:
    request = msgspec.convert({"cart": cart, "lineItemId": line_item_id}, RemoveCartItemRequest)
    get_catalog_ref(request)
    return as_json(remove_item(request, by or menu(), new_id))


def update(cart: Json, line_item_id: str, quantity: int, *, by: StoreMenu | None = None) -> Json:
    body = {"cart": cart, "lineItemId": line_item_id, "quantity": quantity}
    request = msgspec.convert(body, UpdateCartItemRequest)
    get_catalog_ref(request)
    return as_json(update_item(request, by or menu(), new_id))


def as_json(answer: Any) -> Json:
    made: Json = msgspec.json.decode(msgspec.json.encode(answer))
    return made


def errors_of(cart: Json) -> list[tuple[str, str]]:
    """Return code and pointer of each of a cart's errors."""
    return [(error["code"], error["pointer"]) for error in cart["errors"]]


def unit_price(item: Json, document: Json) -> str:
    cart = add(item, by=menu(document))
    price: str = cart["lineItems"][0]["amounts"]["unitPrice"]
    return price


def faults(
    problem: type[Problem], item: Json, cart: Json | None = None, *, by: StoreMenu | None = None
) -> Any:
    with pytest.raises(problem) as refused:
        add(item, cart, by=by)
    return [(fault.code, fault.pointer) for fault in refused.value.errors]


# --- prices ---------------------------------------------------------------------------------------


def test_a_line_costs_quantity_times_base_price_and_modifiers():
    cart = add(line(TEA, 3, extras(line(MILK, 2))))
    assert cart["lineItems"][0]["amounts"] == {"unitPrice": "3.10", "total": "9.30"}
    assert cart["amounts"] == {"currency": "USD", "subTotal": "9.30", "total": "9.30"}


def test_a_groups_override_comes_before_the_base_price():
    assert unit_price(line(TEA, 1, extras(line(LEMON))), cafe()) == "2.60"


def test_the_same_rule_holds_at_every_depth():
    document = cafe()
    inner = "99999999-9999-5999-8999-999999999990"
    document["modifierGroups"][inner] = {"itemIds": [LEMON], "freeQuantity": 1}
    document["items"][MILK]["modifierGroupIds"] = [inner]
    milk = line(MILK, 2, group(inner, line(LEMON, 3)))
    # Two milks, each with three lemons of which one is free.
    assert unit_price(line(TEA, 1, extras(milk)), document) == "3.90"


def test_the_cheapest_units_of_a_group_are_free_whatever_their_order():
    document = cafe()
    document["modifierGroups"][EXTRAS] |= {"freeQuantity": 2, "maximumAllowed": 5}
    for lines in ([line(MILK, 2), line(LEMON)], [line(LEMON), line(MILK), line(MILK)]):
        assert unit_price(line(TEA, 1, extras(*lines)), document) == "2.80"


def test_free_units_are_shown_on_the_cheapest_choices_and_of_equal_ones_on_the_earlier():
    document = cafe()
    document["modifierGroups"][EXTRAS] |= {"freeQuantity": 3, "maximumAllowed": 9}
    lines = [line(TEA, 2, extras(line(LEMON, 2), line(MILK, 2), line(LEMON, 2)))]
    got = price(
        msgspec.convert(lines, list[LineItem]),
        catalog=compiled(document),
        sold_out=(),
        new_id=new_id,
        itemized=True,
    )
    [bought] = list[Any](as_json(got.lines))
    told = [
        (one["amounts"]["unitPrice"], one["amounts"]["total"], one.get("freeQuantity"))
        for one in bought["modifierGroups"][0]["lineItems"]
    ]
    assert told == [("0.10", "0.00", 2), ("0.30", "0.60", None), ("0.10", "0.10", 1)]
    assert bought["amounts"] == {"unitPrice": "3.20", "total": "6.40"}


def test_modifiers_of_a_free_choice_are_not_free():
    document = cafe()
    inner = "99999999-9999-5999-8999-999999999990"
    document["modifierGroups"][inner] = {"itemIds": [LEMON]}
    document["items"][MILK]["modifierGroupIds"] = [inner]
    document["modifierGroups"][EXTRAS]["freeQuantity"] = 1
    assert unit_price(line(TEA, 1, extras(line(MILK, 1, group(inner, line(LEMON))))), document) == "2.70"


def test_an_item_without_a_base_price_is_free_as_a_modifier_and_not_sold_by_itself():
    document = cafe()
    del document["items"][MILK]["basePrice"]
    assert unit_price(line(TEA, 1, extras(line(MILK, 2))), document) == "2.50"
    assert faults(ItemUnavailable, line(MILK), by=menu(document)) == [("ITEM_UNAVAILABLE", "/item")]


@pytest.mark.parametrize(
    ("currency", "price", "total"),
    [("JPY", "110", "220"), ("KWD", "1.105", "2.210"), ("USD", "-1.5", "-3.00")],
)
def test_amounts_have_the_currencys_own_scale(currency: str, price: str, total: str):
    document = {"currency": currency, "items": {CAKE: {"name": "Cake", "basePrice": price}}}
    assert add(line(CAKE, 2), by=menu(document))["amounts"]["total"] == total


# --- modifier rules -------------------------------------------------------------------------------


def test_a_required_group_that_is_left_out_is_required_and_points_at_the_line():
    document = cafe()
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = 1
    required = ("MODIFIER_REQUIRED", "/item/modifierGroups")
    assert faults(ValidationFailed, line(TEA), by=menu(document)) == [required]
    few = line(TEA, 1, extras())
    assert faults(ValidationFailed, few, by=menu(document)) == [
        ("MODIFIER_REQUIRED", "/item/modifierGroups/0")
    ]


def test_the_rules_count_units_not_lines():
    document = cafe()
    document["modifierGroups"][EXTRAS] |= {"minimumAllowed": 2, "maximumAllowed": 3}
    add(line(TEA, 1, extras(line(MILK, 2))), by=menu(document))
    add(line(TEA, 1, extras(line(MILK, 2), line(LEMON))), by=menu(document))
    many = line(TEA, 1, extras(line(MILK, 2), line(LEMON, 2)))
    exceeded = [("MODIFIER_LIMIT_EXCEEDED", "/item/modifierGroups/0")]
    assert faults(ValidationFailed, many, by=menu(document)) == exceeded


def test_maximum_per_item_limits_a_choice_even_if_it_is_split():
    document = cafe()
    document["modifierGroups"][EXTRAS] |= {"maximumPerItem": 1}
    add(line(TEA, 1, extras(line(MILK), line(LEMON))), by=menu(document))
    exceeded = [("MODIFIER_LIMIT_EXCEEDED", "/item/modifierGroups/0")]
    assert (
        faults(ValidationFailed, line(TEA, 1, extras(line(MILK), line(MILK))), by=menu(document)) == exceeded
    )
    parts = line(TEA, 1, extras(line(MILK)), extras(line(MILK)))
    assert faults(ValidationFailed, parts, by=menu(document)) == exceeded


def test_an_items_maximum_quantity_counts_over_the_cart():
    assert faults(ValidationFailed, line(CAKE, 4)) == [("VALIDATION_FAILED", "/item/quantity")]
    cart = add(line(CAKE, 2))
    assert faults(ValidationFailed, line(CAKE, 2), cart) == [("VALIDATION_FAILED", "/item/quantity")]


def test_all_faults_are_listed_one_for_each_group_and_an_unavailable_item_makes_it_a_400():
    document = cafe()
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = 1
    cart = cart_of(
        line(TEA), line(NOWHERE), line(TEA, 1, extras(line(CAKE))), line(CAKE, 1, extras(line(MILK)))
    )
    assert sorted(faults(ItemUnavailable, line(TEA, 2, extras(line(MILK, 3))), cart, by=menu(document))) == [
        ("ITEM_UNAVAILABLE", "/cart/lineItems/1"),
        ("ITEM_UNAVAILABLE", "/cart/lineItems/2/modifierGroups/0/lineItems/0"),
        ("ITEM_UNAVAILABLE", "/cart/lineItems/3/modifierGroups/0"),
        ("MODIFIER_LIMIT_EXCEEDED", "/item/modifierGroups/0"),
        ("MODIFIER_REQUIRED", "/cart/lineItems/0/modifierGroups"),
    ]


def test_add_lists_the_faults_of_the_cart_and_of_the_merged_item_together():
    document = cafe()
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = 1
    cart = cart_of(line(TEA), line(CAKE, 2**31 - 1), line(TEA, 1, extras(line(MILK))))
    unknown = line(TEA, 1, extras(line(MILK)), group(NOWHERE))
    assert sorted(faults(ItemUnavailable, unknown, cart, by=menu(document))) == [
        ("ITEM_UNAVAILABLE", "/item/modifierGroups/1"),
        ("MODIFIER_REQUIRED", "/cart/lineItems/0/modifierGroups"),
        ("VALIDATION_FAILED", "/cart/lineItems/1/quantity"),
    ]
    gone = menu(document, MILK)
    assert sorted(faults(ItemUnavailable, line(CAKE), cart, by=gone)) == [
        ("ITEM_UNAVAILABLE", "/cart/lineItems/2/modifierGroups/0/lineItems/0"),
        ("MODIFIER_REQUIRED", "/cart/lineItems/0/modifierGroups"),
        ("VALIDATION_FAILED", "/item/quantity"),
        ("VALIDATION_FAILED", "/item/quantity"),
    ]


def test_a_fault_has_the_ids_and_the_limit_that_its_message_names():
    document = cafe()
    sizes, unknown = str(uuid4()), str(uuid4())
    document["modifierGroups"][EXTRAS] |= {"minimumAllowed": 1, "maximumAllowed": 3, "maximumPerItem": 2}
    document["modifierGroups"][sizes] = {"itemIds": [CAKE], "minimumAllowed": 2}
    document["items"][TEA]["modifierGroupIds"] = [EXTRAS, sizes]
    cart = cart_of(
        line(TEA),
        line(TEA, 1, extras(line(MILK, 4)), group(sizes, line(LEMON, 2))),
        line(TEA, 1, extras(line(LEMON, 3)), group(sizes, line(CAKE, 2)), group(unknown)),
        line(CAKE, 4),
        line(NOWHERE),
    )
    with pytest.raises(ItemUnavailable) as refused:
        add(line(LEMON), cart, by=menu(document, LEMON))
    errors = [msgspec.to_builtins(error) for error in refused.value.errors]
    members = ("itemId", "modifierGroupId", "minimum", "maximum")
    assert [(one["pointer"], {name: one[name] for name in members if name in one}) for one in errors] == [
        ("/cart/lineItems/0/modifierGroups", {"itemId": TEA, "modifierGroupId": EXTRAS, "minimum": 1}),
        ("/cart/lineItems/0/modifierGroups", {"itemId": TEA, "modifierGroupId": sizes, "minimum": 2}),
        ("/cart/lineItems/1/modifierGroups/0", {"itemId": TEA, "modifierGroupId": EXTRAS, "maximum": 3}),
        (
            "/cart/lineItems/1/modifierGroups/1/lineItems/0",
            {"itemId": LEMON, "modifierGroupId": sizes},
        ),
        ("/cart/lineItems/2/modifierGroups/0/lineItems/0", {"itemId": LEMON}),
        ("/cart/lineItems/2/modifierGroups/0", {"itemId": LEMON, "modifierGroupId": EXTRAS, "maximum": 2}),
        ("/cart/lineItems/2/modifierGroups/2", {"itemId": TEA, "modifierGroupId": unknown}),
        ("/cart/lineItems/4", {"itemId": NOWHERE}),
        ("/item", {"itemId": LEMON}),
        ("/cart/lineItems/3/quantity", {"itemId": CAKE, "maximum": 3}),
    ]


def test_a_fault_without_ids_has_no_members_for_them():
    with pytest.raises(ValidationFailed) as refused:
        add(
            line(CAKE, 2**31 - 1),
            cart_of(line(CAKE, 2**31 - 1)),
            by=menu({"items": {CAKE: {"basePrice": "0.01"}}}),
        )
    (error,) = refused.value.errors
    assert msgspec.to_builtins(error) == {
        "code": "VALIDATION_FAILED",
        "message": "quantity together with the cart's may be at most 2147483647.",
        "pointer": "/item/quantity",
        "maximum": 2**31 - 1,
    }


def test_an_unavailable_item_makes_it_a_400_after_any_number_of_broken_rules():
    document = cafe()
    document["modifierGroups"] |= {
        f"{number:08}-0000-5000-8000-000000000000": {"itemIds": [MILK], "minimumAllowed": 1}
        for number in range(120)
    }
    document["items"][TEA]["modifierGroupIds"] = list(document["modifierGroups"])
    found = faults(ItemUnavailable, line(NOWHERE), cart_of(line(TEA)), by=menu(document))
    assert len(found) == 100
    assert found[-1] == ("ITEM_UNAVAILABLE", "/item")


def test_items_that_the_document_or_the_store_marks_as_sold_out_are_unavailable():
    document = cafe()
    document["items"][CAKE]["isAvailable"] = False
    assert faults(ItemUnavailable, line(CAKE), by=menu(document)) == [("ITEM_UNAVAILABLE", "/item")]
    at = "/item/modifierGroups/0/lineItems/0"
    milky = line(TEA, 1, extras(line(MILK)))
    assert faults(ItemUnavailable, milky, by=menu(None, MILK)) == [("ITEM_UNAVAILABLE", at)]


def test_a_fault_of_a_merged_line_points_at_its_choice_and_at_the_items():
    cart = cart_of(line(TEA, 1, extras(line(LEMON), line(MILK))))
    again = line(TEA, 1, extras(line(MILK), line(LEMON)))
    assert faults(ItemUnavailable, again, cart, by=menu(None, MILK)) == [
        ("ITEM_UNAVAILABLE", "/cart/lineItems/0/modifierGroups/0/lineItems/1"),
        ("ITEM_UNAVAILABLE", "/item/modifierGroups/0/lineItems/0"),
    ]


def test_an_item_that_merges_into_a_faulty_line_is_reported_too():
    assert faults(ItemUnavailable, line(CAKE), cart_of(line(TEA), line(CAKE)), by=menu(None, CAKE)) == [
        ("ITEM_UNAVAILABLE", "/cart/lineItems/1"),
        ("ITEM_UNAVAILABLE", "/item"),
    ]
    # A line of something else with a fault says nothing about the item.
    assert faults(ItemUnavailable, line(TEA), cart_of(line(TEA), line(CAKE)), by=menu(None, CAKE)) == [
        ("ITEM_UNAVAILABLE", "/cart/lineItems/1"),
    ]
    document = cafe()
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = 1
    assert faults(ValidationFailed, line(TEA), cart_of(line(TEA)), by=menu(document)) == [
        ("MODIFIER_REQUIRED", "/cart/lineItems/0/modifierGroups"),
        ("MODIFIER_REQUIRED", "/item/modifierGroups"),
    ]


def test_a_quantity_beyond_the_maximum_points_at_the_request():
    cart = add(line(CAKE))
    with pytest.raises(ValidationFailed) as refused:
        update(cart, cart["lineItems"][0]["lineItemId"], 4)
    assert [fault.pointer for fault in refused.value.errors] == ["/quantity"]


# --- changes --------------------------------------------------------------------------------------


def test_add_merges_the_same_choice_in_any_order_and_keeps_the_lines_id():
    cart = add(line(TEA, 1, extras(line(MILK), line(LEMON))))
    more = add(line(TEA, 2, extras(line(LEMON), line(MILK)), lineItemId=str(uuid4())), cart)
    assert [(one["lineItemId"], one["quantity"]) for one in more["lineItems"]] == [
        (cart["lineItems"][0]["lineItemId"], 3)
    ]


def test_an_unknown_group_is_unavailable_also_in_a_merged_line():
    cart = add(line(TEA, 1, extras(line(MILK))))
    at = "/item/modifierGroups/1"
    unknown = line(TEA, 1, extras(line(MILK)), group(NOWHERE))
    assert faults(ItemUnavailable, unknown, cart) == [("ITEM_UNAVAILABLE", at)]
    (tea,) = add(line(TEA, 1, extras(line(MILK)), extras()), cart)["lineItems"]
    assert tea["quantity"] == 2


def test_add_appends_what_differs_in_a_modifier_or_in_how_many_of_it():
    cart = add(line(TEA, 1, extras(line(MILK))))
    for other in (line(TEA), line(TEA, 1, extras(line(LEMON))), line(TEA, 1, extras(line(MILK, 2)))):
        assert len(add(other, cart)["lineItems"]) == 2


def test_lines_merge_only_if_their_notes_are_equal_also_those_of_modifiers():
    cart = add(line(TEA, 1, extras(line(LEMON)), note="Hot"))
    assert cart["lineItems"][0]["note"] == "Hot"
    assert cart["lineItems"][0]["modifierGroups"][0]["lineItems"][0]["note"] is None
    merged = add(line(TEA, 2, extras(line(LEMON)), note="Hot"), cart)
    assert [one["quantity"] for one in merged["lineItems"]] == [3]
    for other in (
        line(TEA, 1, extras(line(LEMON))),
        line(TEA, 1, extras(line(LEMON)), note="Cold"),
        line(TEA, 1, extras(line(LEMON, note="Thin")), note="Hot"),
    ):
        assert [one["note"] for one in add(other, cart)["lineItems"]] == ["Hot", other.get("note")]


def test_an_empty_note_is_none():
    cart = add(line(TEA, note=""), add(line(TEA, note=None), add(line(TEA))))
    assert [(one["quantity"], one["note"]) for one in cart["lineItems"]] == [(3, None)]


def test_every_line_has_an_id_the_callers_if_it_is_unique():
    mine, twice = str(uuid4()), str(uuid4())
    cart = cart_of(line(CAKE, lineItemId=twice), line(TEA, 1, extras(line(MILK, lineItemId=twice))))
    answer = add(line(TEA, lineItemId=mine), cart)
    cake, tea, added = answer["lineItems"]
    milk = tea["modifierGroups"][0]["lineItems"][0]
    assert (cake["lineItemId"], added["lineItemId"]) == (twice, mine)
    assert len({one["lineItemId"] for one in (cake, tea, milk, added)}) == 4


def test_a_duplicate_id_stays_with_the_first_line_also_in_a_split_group():
    document = cafe()
    sizes = "99999999-9999-5999-8999-999999999990"
    document["modifierGroups"][sizes] = {"itemIds": [CAKE]}
    document["items"][TEA]["modifierGroupIds"] = [EXTRAS, sizes]
    twice = str(uuid4())
    parts = (
        extras(line(MILK)),
        group(sizes, line(CAKE, lineItemId=twice)),
        extras(line(LEMON, lineItemId=twice)),
    )
    (tea,) = add(line(TEA, 1, *parts), by=menu(document))["lineItems"]
    assert [part["modifierGroupId"] for part in tea["modifierGroups"]] == [EXTRAS, sizes, EXTRAS]
    _, cake, lemon = [part["lineItems"][0]["lineItemId"] for part in tea["modifierGroups"]]
    assert cake == twice != lemon


def test_remove_and_update_find_a_line_at_any_depth():
    cart = add(line(TEA, 1, extras(line(MILK), line(LEMON))))
    milk = cart["lineItems"][0]["modifierGroups"][0]["lineItems"][0]["lineItemId"]
    assert remove(cart, milk)["amounts"]["total"] == "2.60"
    with pytest.raises(ValidationFailed) as refused:
        update(cart, milk, 2)
    assert refused.value.errors[0].pointer == "/cart/lineItems/0/modifierGroups/0"
    assert update(remove(cart, milk), cart["lineItems"][0]["lineItemId"], 5)["amounts"]["total"] == "13.00"


def test_update_to_zero_is_remove():
    cart = add(line(CAKE), add(line(TEA)))
    tea = cart["lineItems"][0]["lineItemId"]
    assert update(cart, tea, 0) == remove(cart, tea)


def test_an_unknown_line_item_is_not_found():
    for change in (
        lambda c: remove(c, NOWHERE),
        lambda c: update(c, NOWHERE, 0),
        lambda c: update(c, NOWHERE, 1),
    ):
        with pytest.raises(LineItemNotFound):
            change(add(line(TEA)))


def test_remove_never_refuses_for_modifier_rules():
    document = cafe()
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = 1
    cart = add(line(TEA, 1, extras(line(MILK))), by=menu(document))
    milk = cart["lineItems"][0]["modifierGroups"][0]["lineItems"][0]["lineItemId"]
    plain = remove(cart, milk, by=menu(document))
    assert plain["amounts"]["total"] == "2.50"
    assert plain["lineItems"][0]["modifierGroups"] == []


def test_a_removal_that_leaves_a_rule_broken_lists_it_on_the_cart():
    document = cafe()
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = 1
    cart = add(line(TEA, 1, extras(line(MILK))), add(line(CAKE)), by=menu(document))
    cake, tea = cart["lineItems"]
    milk = tea["modifierGroups"][0]["lineItems"][0]["lineItemId"]
    for left in (remove(cart, milk, by=menu(document)), update(cart, milk, 0, by=menu(document))):
        assert errors_of(left) == [("MODIFIER_REQUIRED", "/cart/lineItems/1/modifierGroups")]
        assert left["errors"][0]["message"] == "Extras: choose at least 1, not 0."
    alone = remove(remove(cart, milk, by=menu(document)), cake["lineItemId"], by=menu(document))
    assert errors_of(alone) == [("MODIFIER_REQUIRED", "/cart/lineItems/0/modifierGroups")]
    assert alone["amounts"]["total"] == "2.50"
    assert errors_of(remove(cart, cake["lineItemId"], by=menu(document))) == []


def test_errors_of_a_priced_cart_point_into_the_response():
    cart = add(line(LEMON), add(line(TEA, 1, extras(line(MILK))), add(line(CAKE))))
    left = remove(cart, cart["lineItems"][0]["lineItemId"], by=menu(None, MILK, LEMON))
    assert errors_of(left) == [
        ("ITEM_UNAVAILABLE", "/cart/lineItems/0/modifierGroups/0/lineItems/0"),
        ("ITEM_UNAVAILABLE", "/cart/lineItems/1"),
    ]


def test_a_valid_cart_has_no_errors():
    assert add(line(TEA))["errors"] == []


def test_an_unavailable_line_has_no_amounts_and_neither_has_its_cart():
    cart = add(line(CAKE), add(line(TEA, 1, extras(line(MILK), line(LEMON)))))
    cart = add(line(LEMON), cart)
    left = remove(cart, cart["lineItems"][1]["lineItemId"], by=menu(None, MILK))
    assert "amounts" not in left
    tea, lemon = left["lineItems"]
    assert (tea["unavailable"], "amounts" in tea) == (True, False)
    assert lemon["amounts"] == {"unitPrice": "0.20", "total": "0.20"}
    assert [one.get("unavailable") for one in tea["modifierGroups"][0]["lineItems"]] == [True, None]
    assert "unavailable" not in lemon


def test_a_cart_of_a_superseded_set_is_returned_with_the_current_one():
    answer = add(line(CAKE), cart_of(line(TEA), set_id=OLD_SET))
    assert answer["catalogSetId"] == str(SET)


def test_amounts_and_marks_of_an_earlier_answer_are_ignored():
    cart = add(line(TEA)) | {"amounts": "none"}
    cart["lineItems"][0] |= {"amounts": {"unitPrice": 7}, "unavailable": "yes"}
    assert add(line(TEA), cart)["amounts"]["total"] == "5.00"


def test_an_empty_cart_needs_the_requests_own_ids_whatever_it_carries():
    empty = {"catalogSetId": OLD_SET, "storeId": STORE, "lineItems": []}
    other = uuid4()
    body = {"item": line(TEA), "cart": empty, "storeId": other, "catalogSetId": SET}
    got = get_catalog_ref(msgspec.convert(body, AddCartItemRequest))
    assert (got.store_id, got.catalog_set_id) == (other, SET)
    body = {"item": line(TEA), "cart": empty | {"lineItems": [line(TEA)]}, "storeId": other}
    assert get_catalog_ref(msgspec.convert(body, AddCartItemRequest)).store_id == STORE


@pytest.mark.parametrize("is_empty", [False, True], ids=["new", "empty"])
def test_a_new_or_empty_cart_needs_a_store_and_a_set(is_empty: bool):
    empty = {"catalogSetId": SET, "storeId": STORE, "lineItems": []}
    cart = {"cart": empty} if is_empty else {}
    for more, problem, codes in (
        ({}, MissingStoreId, ["MISSING_STORE_ID", "CATALOGSET_REQUIRED"]),
        ({"catalogSetId": SET}, MissingStoreId, ["MISSING_STORE_ID"]),
        ({"storeId": STORE}, CatalogSetRequired, ["CATALOGSET_REQUIRED"]),
        ({"storeId": STORE, "catalogSetId": None}, CatalogSetRequired, ["CATALOGSET_REQUIRED"]),
    ):
        with pytest.raises(problem) as refused:
            get_catalog_ref(msgspec.convert({"item": line(TEA)} | cart | more, AddCartItemRequest))
        assert [error.code for error in refused.value.errors] == codes


# --- bounds ---------------------------------------------------------------------------------------


def test_a_cart_has_at_most_two_hundred_lines_including_modifiers():
    lines = [line(TEA, 1, extras(line(MILK))) for _ in range(99)]
    full = add(line(TEA, 1), cart_of(*lines, line(LEMON)))
    assert len(full["lineItems"]) == 101
    assert faults(ValidationFailed, line(CAKE), full) == [("VALIDATION_FAILED", "/item")]
    # One more of a line that is there already is no line more.
    assert add(line(LEMON), full)["lineItems"][99]["quantity"] == 2
    with pytest.raises(ValidationFailed):
        remove(cart_of(*[line(TEA, 1, extras(line(MILK)))] * 101), NOWHERE)


def test_modifiers_have_at_most_eight_levels_which_is_checked_first():
    deep = line(NOWHERE)
    for _ in range(8):
        deep = line(NOWHERE, 1, extras(deep))
    assert faults(ItemUnavailable, deep) == [("ITEM_UNAVAILABLE", "/item")]
    at = "/item" + "/modifierGroups/0/lineItems/0" * 9
    assert faults(ValidationFailed, line(NOWHERE, 1, extras(deep))) == [("VALIDATION_FAILED", at)]


def test_totals_beyond_int64_are_refused_also_by_remove():
    document = {
        "items": {CAKE: {"name": "C", "basePrice": "92233720368547758.07"}, TEA: {"basePrice": "0.01"}}
    }
    assert add(line(CAKE), by=menu(document))["amounts"]["total"] == "92233720368547758.07"
    assert faults(ValidationFailed, line(CAKE, 2), by=menu(document)) == [("VALIDATION_FAILED", "/item")]
    both = cart_of(line(CAKE), line(TEA), line(TEA, lineItemId=NOWHERE))
    assert faults(ValidationFailed, line(TEA), cart_of(line(CAKE)), by=menu(document)) == [
        ("VALIDATION_FAILED", "/cart/lineItems")
    ]
    with pytest.raises(ValidationFailed):
        remove(both, NOWHERE, by=menu(document))


def test_quantities_whose_sum_is_not_an_int32_are_refused():
    document = {"items": {TEA: {"name": "T", "basePrice": "0.01"}}}
    cart = add(line(TEA, 2**31 - 1), by=menu(document))
    assert faults(ValidationFailed, line(TEA), cart, by=menu(document)) == [
        ("VALIDATION_FAILED", "/item/quantity")
    ]
