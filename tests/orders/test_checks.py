"""The price of an order, and every error that prevents it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.carts.random_store import RandomStore
from tests.carts.reference_pricing import verdict
from tests.catalog.documents import compiled
from tests.orders.samples import (
    CAKE,
    EXTRAS,
    HOME,
    MILK,
    NOW,
    SET,
    STORE,
    TEA,
    Json,
    cafe,
    checked,
    codes,
    delivery,
    line,
    order,
    placing,
    shop,
)

from mercato.features.orders.checks import OrderCheck, check_order
from mercato.features.orders.errors import problem_of
from mercato.features.stores.model import SoldOut
from mercato_catalog.building.build import MAX_NAME
from mercato_contract.amounts import Sums
from mercato_contract.clock import new_id
from mercato_contract.decoding import Decoder
from mercato_contract.placements import OrderCore
from mercato_contract.refusals import InvalidRequest, Problem, ValidationFailed
from mercato_contract.stores import Address

LUNCH = [{"dayOfWeek": "Wednesday", "start": "11:00:00", "end": "14:00:00"}]
PICKUP = {"mode": "PICKUP", "scheduleType": "ASAP"}


def scheduled(time: Any, kind: str = "SCHEDULED") -> Json:
    return {"mode": "PICKUP", "scheduleType": kind, "scheduledTime": time}


def errors_of(body: Json | None = None, **world: Any) -> list[tuple[str, str | None]]:
    return codes(checked(body, **world).errors)


def refused(body: Json, kind: type[Problem] = ValidationFailed, **world: Any) -> list[str | None]:
    with pytest.raises(kind) as caught:
        checked(body, **world)
    return [fault.pointer for fault in caught.value.errors]


def placed(**members: Any) -> OrderCheck:
    request = placing(msgspec.json.encode(order(**members)))
    return check_order(request, store=shop(), catalog=compiled(cafe()), now=NOW, new_id=new_id)


# --- price ----------------------------------------------------------------------------------------


def test_an_order_is_priced_like_its_cart_and_its_lines_have_names():
    found = checked(order(amounts={"tip": "1.00", "subTotal": "0.01", "fees": "99.00"}))
    assert found.errors == ()
    assert found.sums == Sums("USD", 2, 920, tip=100)
    told = msgspec.to_builtins(found.cart)
    assert (told["catalogSetId"], told["storeId"]) == (str(SET), str(STORE))
    assert told["amounts"] == {"currency": "USD", "subTotal": "9.20", "total": "9.20"}
    tea, cake = told["lineItems"]
    assert (tea["name"], tea["amounts"]) == ("Tea", {"unitPrice": "2.60", "total": "5.20"})
    assert (cake["name"], cake["amounts"]) == ("Cake", {"unitPrice": "4.00", "total": "4.00"})
    (lemon,) = tea["modifierGroups"][0]["lineItems"]
    assert lemon["name"] == "Lemon"
    assert len({tea["lineItemId"], cake["lineItemId"], lemon["lineItemId"]}) == 3


def test_an_order_with_an_item_without_a_price_has_no_amounts():
    found = checked(order(line(str(new_id())), line(TEA)))
    assert found.sums is None
    assert codes(found.errors) == [("ITEM_UNAVAILABLE", "/cart/lineItems/0")]
    told = msgspec.to_builtins(found.cart)
    assert "amounts" not in told
    assert [entry.get("unavailable") for entry in told["lineItems"]] == [True, None]
    assert [entry.get("name") for entry in told["lineItems"]] == [None, "Tea"]


@pytest.mark.parametrize("seed", range(40))
def test_the_carts_faults_and_price_are_those_of_the_cart_helpers(seed: int):
    world = RandomStore(seed, careless=0.5)
    lines = world.lines()
    expected = verdict(world.document, world.sold_out, lines)
    gone = tuple(SoldOut(UUID(item), None) for item in world.sold_out)
    found = checked(order(*lines), document=world.document, store=shop(sold_out=gone))
    own = [reason for reason in codes(found.errors) if reason != ("VALIDATION_FAILED", "/cart/lineItems")]
    assert sorted(map(str, own)) == sorted(map(str, expected.faults))
    assert (found.sums is None) == (expected.total is None)
    if found.sums is not None and expected.total is not None:
        assert found.sums.total == expected.total * 10**found.sums.scale


# --- errors ---------------------------------------------------------------------------------------


def test_an_empty_cart_is_an_error():
    found = checked(order() | {"cart": {"catalogSetId": str(SET), "storeId": str(STORE), "lineItems": []}})
    assert codes(found.errors) == [("CART_EMPTY", "/cart/lineItems")]
    assert found.sums == Sums("USD", 2, 0)


def test_broken_rules_of_the_catalog_are_errors_with_pointers():
    document = cafe()
    document["modifierGroups"][EXTRAS]["minimumAllowed"] = 1
    body = order(line(TEA), line(TEA, 1, line(MILK, 3)), line(CAKE, 4))
    assert errors_of(body, document=document) == [
        ("MODIFIER_REQUIRED", "/cart/lineItems/0/modifierGroups"),
        ("MODIFIER_LIMIT_EXCEEDED", "/cart/lineItems/1/modifierGroups/0"),
        ("VALIDATION_FAILED", "/cart/lineItems/2/quantity"),
    ]


def test_an_item_that_is_in_no_section_is_not_sold():
    assert errors_of(order(line(MILK), line(TEA))) == [("ITEM_UNAVAILABLE", "/cart/lineItems/0")]


def test_without_sections_or_without_catalogs_anything_is_sold():
    document = cafe()
    del document["catalogs"]
    assert errors_of(order(line(TEA)), document=document) == []
    del document["sections"]
    assert errors_of(order(line(MILK)), document=document) == []


def two_menus() -> Json:
    """Return a café with tea all day and cake at lunch time only."""
    document = cafe()
    sections = document["sections"]
    first, second = sections
    sections[first] |= {"itemIds": [TEA], "sectionIds": []}
    sections[second]["itemIds"] = [CAKE]
    lunch = str(UUID(int=5))
    document["catalogs"][lunch] = {"name": "Lunch", "sectionIds": [second], "availability": LUNCH}
    return document


def test_an_item_is_sold_while_a_catalog_that_reaches_it_is_available():
    later = NOW.replace(hour=14)
    assert errors_of(document=two_menus(), now=NOW) == []
    found = checked(document=two_menus(), now=later)
    assert codes(found.errors) == [("ITEM_UNAVAILABLE", "/cart/lineItems/1")]
    assert found.errors[0].message == "Cake is not on offer on Wednesday at 14:00:00, the store's time."
    assert found.errors[0].item_id == UUID(CAKE)
    assert (
        errors_of(order(fulfillment=scheduled("2026-03-11T13:59:59Z")), document=two_menus(), now=later) == []
    )


def test_an_unavailable_item_is_one_error_of_its_line():
    gone = shop(sold_out=(SoldOut(UUID(MILK), None),))
    assert errors_of(order(line(MILK)), store=gone) == [("ITEM_UNAVAILABLE", "/cart/lineItems/0")]


def test_an_item_that_is_back_by_then_can_be_ordered_for_then():
    back = shop(sold_out=(SoldOut(UUID(CAKE), NOW + timedelta(hours=1)),))
    assert errors_of(store=back) == [("ITEM_UNAVAILABLE", "/cart/lineItems/1")]
    assert errors_of(order(fulfillment=scheduled("2026-03-04T13:00:00Z")), store=back) == []


def test_the_error_of_a_paused_store_has_the_end_of_the_pause():
    paused = shop(paused=True, resume_at=NOW + timedelta(hours=1))
    (error,) = checked(store=paused).errors
    assert (error.code, error.pointer) == ("STORE_CLOSED", None)
    assert error.message == "The store is paused until 2026-03-04T13:00:00.000Z."
    assert (error.opens_at, error.closes_at) == ("2026-03-04T13:00:00.000Z", None)
    assert problem_of([error]).extensions == {"opensAt": "2026-03-04T13:00:00.000Z", "closesAt": None}
    assert errors_of(store=paused, now=NOW + timedelta(hours=1)) == []
    assert errors_of(order(fulfillment=scheduled("2026-03-04T13:00:00Z")), store=paused) == []
    assert errors_of(order(fulfillment=scheduled("2026-03-04T12:59:59Z")), store=paused) == [
        ("STORE_CLOSED", "/fulfillment/scheduledTime")
    ]
    for_ever = shop(paused=True)
    assert errors_of(order(fulfillment=scheduled("2026-05-01T00:00:00Z")), store=for_ever) == [
        ("STORE_CLOSED", "/fulfillment/scheduledTime")
    ]


def test_outside_its_hours_a_store_is_closed_without_errors_of_items():
    document = cafe()
    next(iter(document["catalogs"].values()))["availability"] = LUNCH
    assert errors_of(document=document) == []
    (error,) = checked(document=document, store=shop(timezone="Asia/Tokyo")).errors
    assert error.code == "STORE_CLOSED"
    assert error.message == "No catalog of the store is available on Wednesday at 21:00:00."
    assert error.opens_at == "2026-03-11T02:00:00.000Z"


def test_a_mode_that_the_store_does_not_offer_is_an_error():
    assert errors_of(store=shop(pickup_allowed=False)) == [("VALIDATION_FAILED", "/fulfillment/mode")]
    body = order(fulfillment=delivery(HOME))
    assert errors_of(body) == errors_of(store=shop(delivery_allowed=False)) == []
    assert errors_of(body, store=shop(delivery_allowed=False)) == [("VALIDATION_FAILED", "/fulfillment/mode")]


def test_the_minimum_is_compared_with_the_subtotal_alone():
    least = shop(minimum_order_amount=921, minimum_order_currency="USD")
    (error,) = checked(order(amounts={"tip": "5.00"}), store=least).errors
    assert error.code == "ORDER_BELOW_MINIMUM"
    assert error.message == "The store's minimum order is 9.21 USD; the cart comes to 9.20."
    assert errors_of(store=shop(minimum_order_amount=920, minimum_order_currency="USD")) == []


def test_a_minimum_in_another_currency_is_ignored():
    assert errors_of(store=shop(minimum_order_amount=10**9, minimum_order_currency="JPY")) == []


def test_a_negative_total_is_an_error():
    document = cafe()
    document["items"][TEA]["basePrice"] = "-1.00"
    assert errors_of(order(line(TEA)), document=document) == [("VALIDATION_FAILED", "/cart/lineItems")]


ADDRESS = "/fulfillment/address"


@pytest.mark.parametrize(
    ("address", "missing"),
    [
        (None, ["address1", "city", "postalCode"]),
        ({}, ["address1", "city", "postalCode"]),
        (HOME, []),
        (HOME | {"address1": None}, ["address1"]),
        (HOME | {"address1": " "}, ["address1"]),
        (HOME | {"address1": None, "street": "1 Main St"}, []),
        (HOME | {"city": "", "postalCode": "\t"}, ["city", "postalCode"]),
    ],
    ids=["none", "empty", "whole", "no street", "blank street", "street by its other name", "blanks"],
)
def test_a_delivery_needs_street_city_and_postal_code(address: Json | None, missing: list[str]):
    assert errors_of(order(fulfillment=delivery(address))) == [
        ("ADDRESS_INVALID", f"{ADDRESS}/{member}") for member in missing
    ]


@pytest.mark.parametrize(
    ("store", "missing"),
    [
        ({"address": Address(country="US")}, ["address1", "city", "postalCode"]),
        ({"address": Address(country="United States")}, ["address1", "city", "postalCode"]),
        ({"address": Address(country="HK")}, ["address1"]),
        ({"address": Address(country="AE")}, ["address1"]),
        ({"address": Address(country="Dubai"), "timezone": "Asia/Dubai"}, ["address1"]),
        ({"timezone": "Asia/Hong_Kong"}, ["address1"]),
        ({"address": Address(country="SG")}, ["address1", "postalCode"]),
        ({"address": Address(country="Ghana")}, ["address1", "city"]),
        ({"address": Address(country="IE"), "timezone": "America/New_York"}, ["address1", "city"]),
        ({"address": Address(country="Atlantis")}, ["address1", "city", "postalCode"]),
        ({"timezone": "UTC"}, ["address1", "city", "postalCode"]),
    ],
    ids=[
        "US",
        "by name",
        "HK",
        "AE",
        "by zone",
        "HK by zone",
        "SG",
        "GH",
        "country first",
        "unknown",
        "none",
    ],
)
def test_an_address_needs_what_addresses_in_the_stores_country_need(store: Json, missing: list[str]):
    for address in (None, {}, {"address1": " ", "city": "", "postalCode": None}):
        found = errors_of(order(fulfillment=delivery(address)), store=shop(**store))
        assert found == [("ADDRESS_INVALID", f"{ADDRESS}/{member}") for member in missing]
    needed = dict.fromkeys(missing, "1")
    assert errors_of(order(fulfillment=delivery(needed)), store=shop(**store)) == []


def test_all_errors_are_listed_the_carts_first():
    document = cafe()
    document["catalogs"] = {str(UUID(int=1)): {"name": "x", "sectionIds": [], "availability": []}}
    least = shop(minimum_order_amount=10**6, minimum_order_currency="USD", delivery_allowed=False)
    body = order(line(CAKE, 4), fulfillment=delivery({}))
    assert [code for code, _ in errors_of(body, document=document, store=least)] == [
        "VALIDATION_FAILED",
        "STORE_CLOSED",
        "VALIDATION_FAILED",
        "ORDER_BELOW_MINIMUM",
        *["ADDRESS_INVALID"] * 3,
    ]


def test_at_most_a_hundred_errors_are_listed():
    assert len(errors_of(order(*[line(MILK)] * 200, fulfillment=delivery({})))) == 100


# --- faults of the request ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "time",
    [
        None,
        "",
        "tomorrow",
        "2026-03-04T13:00:00",
        "2026-03-04T12:00:00Z",
        "2026-03-03T12:00:00Z",
        "9999-12-31T23:59:59Z",
        "2027-04-08T12:00:00Z",
        "2026-05-03T12:00:00.001Z",
    ],
)
def test_a_scheduled_order_needs_an_instant_in_the_next_60_days(time: str | None):
    assert refused(order(fulfillment=scheduled(time))) == ["/fulfillment/scheduledTime"]


def test_an_order_can_be_scheduled_60_days_ahead():
    found = checked(order(fulfillment=scheduled("2026-05-03T12:00:00Z")))
    assert found.at == NOW + timedelta(days=60)


def test_the_time_of_an_unscheduled_order_is_ignored_but_must_be_an_instant():
    found = checked(order(fulfillment=scheduled("2020-01-01T00:00:00Z", "ASAP")))
    assert (found.at, found.fulfillment.scheduled_time) == (NOW, None)
    assert refused(order(fulfillment=scheduled("soon", "ASAP"))) == ["/fulfillment/scheduledTime"]


def test_all_faults_of_the_request_are_listed():
    body = order(
        line(CAKE, 2**31 - 1), amounts={"tip": "-1.00", "total": "0.001"}, fulfillment=scheduled(None)
    )
    document = cafe()
    document["items"][CAKE] |= {"basePrice": "90000000000000000.00", "maximumQuantity": None}
    request = placing(msgspec.json.encode(body))
    with pytest.raises(ValidationFailed) as caught:
        check_order(request, store=shop(), catalog=compiled(document), now=NOW, new_id=new_id)
    assert [fault.pointer for fault in caught.value.errors] == [
        "/fulfillment/scheduledTime",
        "/amounts/tip",
        "/amounts/total",
        "/cart/lineItems/0",
    ]


@pytest.mark.parametrize("currency", ["EUR", "usd", "", "US dollars"])
def test_a_currency_must_be_the_stores(currency: str):
    for read in (Decoder(OrderCore), placing):
        request = read(msgspec.json.encode(order(amounts={"currency": currency, "tip": "-1"})))
        with pytest.raises(ValidationFailed) as caught:
            check_order(request, store=shop(), catalog=compiled(cafe()), now=NOW, new_id=new_id)
        first, tip = caught.value.errors
        assert (first.code, first.pointer, tip.pointer) == (
            "VALIDATION_FAILED",
            "/amounts/currency",
            "/amounts/tip",
        )
        assert first.message.startswith("The store sells in USD, not in ")


@pytest.mark.parametrize("amounts", [{"currency": "USD"}, {"currency": None}, {}])
def test_the_stores_own_currency_may_be_sent(amounts: Json):
    assert checked(order(amounts=amounts)).errors == ()


def test_a_tip_that_takes_the_total_out_of_range_is_a_fault():
    assert refused(order(amounts={"tip": "92233720368547758.07"})) == ["/amounts/tip"]


def test_bounds_are_checked_first():
    body = order(*[line(TEA, 1, line(MILK))] * 101, fulfillment=scheduled(None))
    assert refused(body) == ["/cart/lineItems"]


def test_a_payment_is_an_object_or_nothing():
    payment: Any
    for payment in ({"type": "external"}, {}, None):
        assert placed(payment=payment).errors == ()
    for payment in ("card", 1, [], True, [{}]):
        with pytest.raises(InvalidRequest) as caught:
            placed(payment=payment, amounts={"tip": "-1.00"})
        assert [(one.code, one.pointer) for one in caught.value.errors] == [
            ("VALIDATION_FAILED", "/amounts/tip"),
            ("INVALID_REQUEST", "/payment"),
        ]


def test_a_tip_is_a_decimal_in_the_currencys_scale():
    for text, minor in ((None, 0), ("0", 0), ("1.5", 150), ("1.500", 150), ("-0", 0)):
        sums = checked(order(amounts={"tip": text})).sums
        assert sums is not None
        assert sums.tip == minor
    for text in ("-0.01", "1.005", "92233720368547758.08", "9" * 60):
        assert refused(order(amounts={"tip": text})) == ["/amounts/tip"]


def test_a_claimed_total_is_a_decimal_in_the_currencys_scale():
    with pytest.raises(ValidationFailed) as caught:
        placed(amounts={"total": "1.001"})
    assert [fault.pointer for fault in caught.value.errors] == ["/amounts/total"]
    assert placed(amounts={"total": "-1"}).total == -100
    assert placed(amounts={"total": "9.2"}).total == 920
    assert placed(amounts={"tip": "1.00"}).total is None


# --- what goes on ---------------------------------------------------------------------------------


def test_the_fulfillment_is_normalized():
    sent = delivery(
        HOME | {"address1": None, "street": "1 Main St", "coordinates": {"lat": 1, "lng": 2}},
        scheduleType="SCHEDULED",
        scheduledTime="2026-03-04T14:00:00.5+01:00",
        instructions="Ring twice",
    )
    found = checked(order(fulfillment=sent))
    assert found.at == datetime(2026, 3, 4, 13, 0, 0, 500_000, tzinfo=UTC)
    assert msgspec.to_builtins(found.fulfillment) == {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "SCHEDULED",
        "deliveryType": "DOOR_TO_DOOR",
        "address": {
            "address1": "1 Main St",
            "address2": None,
            "city": "Springfield",
            "coordinates": {"lat": 1.0, "lng": 2.0},
            "postalCode": "12345",
            "state": None,
        },
        "instructions": "Ring twice",
        "scheduledTime": "2026-03-04T13:00:00.500Z",
    }


def test_line_ids_are_kept_where_they_are_unique():
    one = str(new_id())
    found = checked(order(line(TEA, lineItemId=one), line(CAKE, lineItemId=one)))
    ids = [entry.line_item_id for entry in found.cart.line_items]
    assert ids[0] == UUID(one)
    assert len(set(ids)) == len(found.lines) == 2


def test_names_in_order_lines_are_cut_to_256_characters():
    document = cafe()
    for item in document["items"].values():
        item["name"] = "x" * (MAX_NAME + 1)
    (tea, cake) = checked(document=document).cart.line_items
    lemon = tea.modifier_groups[0].line_items[0]
    assert {tea.name, cake.name, lemon.name} == {"x" * MAX_NAME}
    assert MAX_NAME == 256
