"""Prices equal those of the reference pricing, to the last minor unit."""

import copy
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.carts.random_store import RandomStore, count
from tests.carts.reference_pricing import verdict
from tests.catalog.documents import compiled
from tests.generated import examples

from mercato_catalog.carts.pricing import MAX_FAULTS, price
from mercato_catalog.carts.rules import StoreMenu, add_item, remove_item
from mercato_client.testing.prices import booking_faults
from mercato_contract.carts import AddCartItemRequest, Cart, LineItem, PricedCart, RemoveCartItemRequest
from mercato_contract.clock import new_id
from mercato_contract.problems import OrderError
from mercato_contract.refusals import Problem

STORE, SET = uuid4(), uuid4()
QUICK = settings(max_examples=examples(1500), suppress_health_check=list(HealthCheck), database=None)
LONG = settings(QUICK, max_examples=10_000)
seeds = st.integers(0, 2**48)


def read(lines: list[Any]) -> list[LineItem]:
    return msgspec.convert(lines, list[LineItem])


def menu_of(world: RandomStore) -> StoreMenu:
    return StoreMenu(STORE, SET, compiled(world.document), frozenset(map(UUID, world.sold_out)))


def check_price(seed: int, careless: float) -> bool:
    """Compare the prices of one random cart; return whether it is valid."""
    world = RandomStore(seed, careless=careless)
    lines = world.lines()
    menu, expected = menu_of(world), verdict(world.document, world.sold_out, lines)
    got = price(read(lines), catalog=menu.catalog, sold_out=menu.sold_out, new_id=new_id)
    prices = [Fraction(line.amounts.total) if line.amounts else None for line in got.lines]
    assert prices == expected.prices
    told = Counter((error.code, str(error.pointer)) for error in (fault.error() for fault in got.faults))
    assert told.total() == min(len(expected.faults), MAX_FAULTS)
    assert told <= Counter(expected.faults)
    check_distinct(fault.error() for fault in got.faults)
    assert (None if got.total is None else Fraction(got.total, 10**menu.catalog.scale)) == expected.total
    return not expected.faults


def check_items(seed: int) -> None:
    """Check that the amounts of a random cart's lines and modifiers can be booked one by one."""
    world = RandomStore(seed, careless=0)
    menu = menu_of(world)
    got = price(
        read(world.lines()), catalog=menu.catalog, sold_out=menu.sold_out, new_id=new_id, itemized=True
    )
    # A random store may sell nothing by itself.
    assume(got.total is not None)
    assert got.total is not None
    bought = msgspec.to_builtins(got.lines)
    assert booking_faults({"lineItems": bought, "amounts": msgspec.to_builtins(got.amounts)}) == []
    items, groups = world.document["items"], world.document["modifierGroups"]
    for line in bought:
        assert own_price(line) == Fraction(items[line["itemId"]]["basePrice"])
        assert "freeQuantity" not in line
        check_choices(line, items, groups)


def own_price(line: Any) -> Fraction:
    below = [Fraction(one["amounts"]["total"]) for one in choices_of(line)]
    return Fraction(line["amounts"]["unitPrice"]) - sum(below, Fraction())


def choices_of(line: Any) -> list[Any]:
    return [choice for group in line["modifierGroups"] for choice in group["lineItems"]]


def check_choices(line: Any, items: Any, groups: Any) -> None:
    """Check that a group's choices cost what the document says, and that its cheapest units are free."""
    by_group: dict[str, list[Any]] = {}
    for part in line["modifierGroups"]:
        by_group.setdefault(part["modifierGroupId"], []).extend(part["lineItems"])
    for group_id, choices in by_group.items():
        group = groups[group_id]
        prices, charged = [], []
        for choice in choices:
            base = items[choice["itemId"]].get("basePrice")
            own = Fraction(group.get("priceOverrides", {}).get(choice["itemId"], base or 0))
            assert own_price(choice) == own
            prices += [own] * choice["quantity"]
            charged += [own] * (choice["quantity"] - choice.get("freeQuantity", 0))
            check_choices(choice, items, groups)
        assert sorted(charged) == sorted(prices)[group.get("freeQuantity", 0) :]


def check_distinct(errors: Iterable[OrderError]) -> None:
    """Check that no two faults differ in their message alone."""
    facts = [replace(error, message="") for error in errors]
    assert len(set(facts)) == len(facts)


def check_merge(seed: int) -> None:
    """Check the faults of a cart of which one line is added again."""
    world = RandomStore(seed, careless=1)
    lines = world.lines()
    cart = {"catalogSetId": SET, "storeId": STORE, "lineItems": lines}
    body = {"item": shuffled(world, world.random.choice(lines)), "cart": cart}
    try:
        add_item(msgspec.convert(body, AddCartItemRequest), menu_of(world), new_id)
    except Problem as refused:
        check_distinct(refused.errors)


def check_growth(seed: int) -> None:
    """Check that a cart that grows line by line has the price of all its lines, however they were merged."""
    world = RandomStore(seed, careless=0)
    lines = world.lines()
    twice = [*lines, *reversed(lines)]
    expected = verdict(world.document, set(), twice)
    if expected.faults or count(twice) > 200:
        return
    menu, cart = menu_of(world), None
    for line in twice:
        request = {"item": shuffled(world, line), "cart": cart, "storeId": STORE, "catalogSetId": SET}
        answer = add_item(msgspec.convert(request, AddCartItemRequest), menu, new_id)
        cart = msgspec.to_builtins(answer)
    assert cart is not None
    assert total_of(answer) == expected.total
    assert len(cart["lineItems"]) <= len(lines)
    assert len(ids := all_ids(cart["lineItems"])) == len(set(ids)) == count(cart["lineItems"])
    while cart["lineItems"]:
        first = cart["lineItems"][0]
        body = {"cart": cart, "lineItemId": first["lineItemId"]}
        answer = remove_item(msgspec.convert(body, RemoveCartItemRequest), menu, new_id)
        left = msgspec.to_builtins(answer)
        assert total_of(answer) == Fraction(cart["amounts"]["total"]) - Fraction(first["amounts"]["total"])
        cart = left


def all_ids(lines: list[Any]) -> list[str]:
    below = [one for line in lines for group in line["modifierGroups"] for one in all_ids(group["lineItems"])]
    return [line["lineItemId"] for line in lines] + below


def shuffled(world: RandomStore, line: Any) -> Any:
    """Return the same choice in another order."""
    line = copy.deepcopy(line)
    for group in line["modifierGroups"]:
        group["lineItems"] = [shuffled(world, below) for below in group["lineItems"]]
        world.random.shuffle(group["lineItems"])
    world.random.shuffle(line["modifierGroups"])
    return line


def check_removal(seed: int) -> None:
    """Check that a line can be removed from any invalid cart, and that the other prices stay."""
    world = RandomStore(seed, careless=1)
    lines = world.lines()
    body = {"catalogSetId": SET, "storeId": STORE, "lineItems": lines}
    for line in lines:
        line["lineItemId"] = str(uuid4())
    gone = world.random.randrange(len(lines))
    request = RemoveCartItemRequest(
        cart=msgspec.convert(body, Cart), line_item_id=UUID(lines[gone]["lineItemId"])
    )
    answer = remove_item(request, menu_of(world), new_id)
    expected = verdict(world.document, world.sold_out, lines[:gone] + lines[gone + 1 :])
    assert len(answer.line_items) == len(expected.prices)
    for line_item, cost in zip(answer.line_items, expected.prices, strict=True):
        assert (line_item.unavailable is True) == (cost is None)
        assert cost is None or Fraction(amounts(line_item)["total"]) == cost
    if expected.total is None:
        assert "amounts" not in msgspec.to_builtins(answer)
    else:
        assert total_of(answer) == expected.total


def amounts(answer: Any) -> Any:
    return msgspec.to_builtins(answer)["amounts"]


def total_of(answer: PricedCart) -> Fraction:
    told = amounts(answer)
    assert told["subTotal"] == told["total"]
    return Fraction(told["total"])


def test_random_carts_are_both_valid_and_invalid():
    bought = sum(check_price(seed, 0.5) for seed in range(300))
    assert 60 < bought < 240


@QUICK
@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
@example(seed=7812624, careless=1.0)  # more unavailable modifiers than faults are reported
def test_prices_and_faults_equal_those_of_the_reference_pricing(seed: int, careless: float):
    check_price(seed, careless)


@settings(QUICK, max_examples=examples(500))
@given(seeds)
def test_every_line_and_modifier_of_an_order_can_be_booked_for_its_own_price(seed: int):
    check_items(seed)


@settings(QUICK, max_examples=examples(300))
@given(seeds)
def test_no_two_faults_of_an_added_line_differ_in_their_message_alone(seed: int):
    check_merge(seed)


@settings(QUICK, max_examples=examples(300))
@given(seeds)
def test_a_cart_that_grows_line_by_line_has_the_price_of_its_lines(seed: int):
    check_growth(seed)


@settings(QUICK, max_examples=examples(300))
@given(seeds)
def test_a_line_can_be_removed_from_any_invalid_cart(seed: int):
    check_removal(seed)


@pytest.mark.long
@LONG
@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
def test_ten_thousand_prices_and_faults_equal_those_of_the_reference_pricing(seed: int, careless: float):
    check_price(seed, careless)
    check_items(seed)


@pytest.mark.long
@LONG
@given(seeds)
def test_ten_thousand_carts_grow_and_lose_lines(seed: int):
    check_growth(seed)
    check_removal(seed)
