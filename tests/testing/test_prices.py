"""A double's own sums agree with the service's, cart by cart."""

import json
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.documents import ONBOARDING, built
from tests.generated import examples

from mercato_catalog.building.packed import unpack
from mercato_catalog.carts.pricing import price
from mercato_catalog.model import served_id
from mercato_client.testing import shopper, shops
from mercato_client.testing.prices import Menu, UnknownItemError, corrupt, faults_of, total_of, with_tax
from mercato_contract.carts import LineItem
from mercato_contract.clock import new_id

DOCUMENTS = {"pizzeria": shops.pizzeria(), "ramen": shops.ramen_house(), "grocery": shops.grocery()}
SOUP, SALT, SIZE = (str(UUID(int=number)) for number in (1, 2, 3))


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return {name: built(document) for name, document in DOCUMENTS.items()}


@given(st.sampled_from(sorted(DOCUMENTS)), st.integers(0, 2**32))
@settings(max_examples=examples(200), database=None)
def test_random_carts_are_valid_and_cost_what_the_service_computes(
    made: dict[str, Any], name: str, seed: int
) -> None:
    catalog = unpack(made[name].compiled)
    document = served(DOCUMENTS[name])
    lines = shopper.wanted(document, seed, 1)
    items = msgspec.convert(lines, list[LineItem])
    got = price(items, catalog=catalog, sold_out=(), new_id=new_id)
    assert lines
    assert got.total is not None
    assert (got.faults, got.overflows) == ((), ())
    own = Menu.of(DOCUMENTS[name]).sub_total(with_document_ids(lines, ids_of(DOCUMENTS[name])))
    assert Decimal(got.total).scaleb(-catalog.scale) == own == Menu.of(document).sub_total(lines)


def ids_of(document: Any) -> dict[str, str]:
    """Return the ids of the document by those that the service serves."""
    groups = document.get("modifierGroups") or {}
    listed = groups if isinstance(groups, dict) else [group["modifierGroupId"] for group in groups]
    return {
        served_id(one, onboarding_id=ONBOARDING, addressed=True): one for one in (*document["items"], *listed)
    }


def with_document_ids(lines: list[Any], ids: dict[str, str]) -> list[Any]:
    """Return the lines as a store is told of them."""
    return [
        one
        | {"partnerItemId": ids[one["itemId"]]}
        | {
            "modifierGroups": [
                part
                | {"partnerModifierGroupId": ids[part["modifierGroupId"]]}
                | {"lineItems": with_document_ids(part["lineItems"], ids)}
                for part in one["modifierGroups"]
            ]
        }
        for one in lines
    ]


def served(document: Any) -> Any:
    """Return the document with dictionaries for lists and the ids that the service serves."""
    menu, ids = Menu.of(document), {own: one for one, own in ids_of(document).items()}
    sections = document["sections"]
    listed = sections.values() if isinstance(sections, dict) else sections
    return {
        "items": {ids[one]: item for one, item in menu.items.items()},
        "modifierGroups": {ids[one]: group for one, group in menu.groups.items()},
        "sections": {
            str(at): section | {"itemIds": [ids[one] for one in section.get("itemIds", ())]}
            for at, section in enumerate(listed)
        },
    }


def line(item: str, quantity: int = 1, *groups: Any) -> dict[str, Any]:
    return {"itemId": item, "quantity": quantity, "modifierGroups": list(groups)}


def test_free_units_are_the_cheapest_and_an_override_counts() -> None:
    menu = Menu.of(
        {
            "items": {SOUP: {"basePrice": "4.00"}, SALT: {"basePrice": "1.00"}},
            "modifierGroups": {SIZE: {"freeQuantity": 1, "priceOverrides": {SALT: "0.75"}}},
        }
    )
    chosen = {"modifierGroupId": SIZE.upper(), "lineItems": [line(SALT, 3)]}
    assert menu.sub_total([line(SOUP.upper(), 2, chosen)]) == Decimal("11.00")


def test_an_unknown_item_is_reported_with_its_pointer() -> None:
    menu = Menu.of({"items": {SOUP: {}}})
    with pytest.raises(UnknownItemError) as unknown:
        menu.sub_total([line(SOUP), line(SALT)])
    assert (str(unknown.value), unknown.value.pointer) == (
        f"{SALT} isn't in the catalog.",
        "/cart/lineItems/1/itemId",
    )
    chosen = {"modifierGroupId": SIZE, "lineItems": [line(SOUP)]}
    with pytest.raises(UnknownItemError):
        menu.sub_total([line(SOUP, 1, chosen)])


def test_lines_are_priced_by_the_ids_of_the_document() -> None:
    menu = Menu.of(
        {
            "items": {"soup": {"basePrice": "4.00"}, "salt": {"basePrice": "1.00"}},
            "modifierGroups": {"size": {"priceOverrides": {"salt": "0.75"}}},
        }
    )

    def named(item: str, quantity: int, *groups: Any) -> dict[str, Any]:
        return line(str(uuid4()), quantity, *groups) | {"partnerItemId": item}

    size = {
        "modifierGroupId": str(uuid4()),
        "partnerModifierGroupId": "size",
        "lineItems": [named("salt", 2)],
    }
    assert menu.sub_total([named("soup", 2, size)]) == Decimal("11.00")
    with pytest.raises(UnknownItemError, match="cake isn't in the catalog"):
        menu.sub_total([named("cake", 1)])
    # An item isn't a group.
    with pytest.raises(UnknownItemError, match="soup isn't in the catalog"):
        menu.sub_total([named("soup", 1, {**size, "partnerModifierGroupId": "soup"})])
    with pytest.raises(UnknownItemError):
        menu.sub_total([line(str(uuid4()))])


@pytest.mark.parametrize("member", ["total", "subTotal", "taxes"])
def test_amounts_that_are_wrong_by_one_unit_are_found(member: str) -> None:
    sent = {"subTotal": "36.20", "tip": "2.00", "total": "38.20"}
    right = {**sent, **with_tax(sent, None)}
    assert (right["taxes"], right["total"], faults_of(right)) == ("1.81", "40.01", [])
    wrong = corrupt(right, member)
    assert abs(Decimal(wrong[member]) - Decimal(right[member])) == Decimal("0.01")
    assert faults_of(wrong)
    assert json.dumps(right) != json.dumps(wrong)


def test_promotions_are_subtracted() -> None:
    amounts = {"subTotal": "10.00", "promotions": "3.00", "fees": "1.00", "adjustments": "-0.50", "tip": None}
    assert total_of(amounts) == Decimal("7.50")
