"""Every reason against an order is 200 to validate, and the problem of its code to place."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.api.examples import in_turn
from tests.api.trade import ADDRESS, MERCHANT, VALIDATE, Trade, line, tea, trade
from tests.catalog.documents import CAKE, CATALOG, EXTRAS, LEMON, MILK, TEA, cafe
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import shared

pytestmark = [shared, mostly_sqlite]

CARTS = "/v1/marketfront/carts"
NEVER = "cccccccc-cccc-5ccc-8ccc-cccccccccccc"
ALONE = "dddddddd-dddd-5ddd-8ddd-dddddddddddd"


def document() -> dict[str, Any]:
    """Return the café, where cake needs a modifier, and some items are unavailable."""
    made = cafe()
    made["items"][CAKE]["modifierGroupIds"] = [NEVER]
    made["modifierGroups"][NEVER] = {
        "modifierGroupId": NEVER, "minimumAllowed": 1, "maximumPerItem": 2, "itemIds": [LEMON, MILK],
    }  # fmt: skip
    made["items"][ALONE] = {"itemId": ALONE, "name": "In no section", "basePrice": "1.00"}
    return made


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, catalog=document())


def choice(*lines: Any) -> dict[str, Any]:
    return {"modifierGroupId": NEVER, "lineItems": list(lines)}


def delivery(**address: Any) -> dict[str, Any]:
    return {
        "mode": "DELIVERY_BY_MERCHANT", "scheduleType": "ASAP", "deliveryType": "DOOR_TO_DOOR", "address": address,
    }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An order that can't be placed, and why: code, pointer, and the status of place."""

    order: dict[str, Any]
    reasons: list[tuple[str, str | None]]
    status: int = 400
    store: dict[str, Any] | None = None


def cart(*lines: Any) -> dict[str, Any]:
    return {"lines": list(lines)}


CASES = {
    "no lines": Case(cart(), [("CART_EMPTY", "/cart/lineItems")]),
    "an item the set lacks": Case(cart(tea(), line(NEVER)), [("ITEM_UNAVAILABLE", "/cart/lineItems/1")]),
    "an item without a price": Case(cart(line(ALONE)), [("ITEM_UNAVAILABLE", "/cart/lineItems/0")]),
    "no choice in a required group": Case(
        cart(line(CAKE)), [("MODIFIER_REQUIRED", "/cart/lineItems/0/modifierGroups")]
    ),
    "too many chosen": Case(
        cart(line(TEA, 1, {"modifierGroupId": EXTRAS, "lineItems": [line(MILK, 3)]})),
        [("MODIFIER_LIMIT_EXCEEDED", "/cart/lineItems/0/modifierGroups/0")],
    ),
    "too many of one choice": Case(
        cart(line(CAKE, 1, choice(line(MILK, 3)))),
        [("MODIFIER_LIMIT_EXCEEDED", "/cart/lineItems/0/modifierGroups/0")],
    ),
    "more than the maximum of an item": Case(
        cart(line(CAKE, 4, choice(line(MILK)))), [("VALIDATION_FAILED", "/cart/lineItems/0/quantity")], 422
    ),
    "delivery that the store doesn't offer": Case(
        {"fulfillment": delivery(**ADDRESS)}, [("VALIDATION_FAILED", "/fulfillment/mode")], 422,
        store={"deliveryAllowed": False},
    ),
    "pickup that the store doesn't offer": Case(
        {}, [("VALIDATION_FAILED", "/fulfillment/mode")], 422, store={"pickupAllowed": False}
    ),
    "too little": Case({}, [("ORDER_BELOW_MINIMUM", "/cart/lineItems")], store={"minimumOrderAmount": "5.81"}),
    "an address without anything": Case(
        {"fulfillment": delivery()},
        [("ADDRESS_INVALID", f"/fulfillment/address/{part}") for part in ("address1", "city", "postalCode")],
    ),
    "blank parts of an address": Case(
        {"fulfillment": delivery(address1=" ", city="X", postalCode=None)},
        [("ADDRESS_INVALID", f"/fulfillment/address/{part}") for part in ("address1", "postalCode")],
    ),
}  # fmt: skip


@only_sqlite
@in_turn("name", CASES)
async def test_errors_of_an_order_are_listed_by_validate_and_refuse_place(
    here: Trade, database_kind: str, name: str
):
    case = CASES[name]
    order = case.order.copy()
    if case.store is not None:
        path = f"/v1/commerce/stores/{here.store['storeId']}"
        assert (await here.pos.call("PUT", path, case.store)).status == 200
    lines = order.pop("lines", None)
    order = here.order(**order)
    if lines is not None:
        order["cart"]["lineItems"] = lines
    await check_errors(here, order, case.reasons, case.status)
    if case.store is not None:
        before = {name: here.store.get(name) for name in case.store}
        assert (await here.pos.call("PUT", path, before)).status == 200


def was_not_called(shop: MerchantServer) -> bool:
    """Tell whether only catalog webhooks arrived."""
    calls = [shop.received.get_nowait()[0] for _ in range(shop.received.qsize())]
    return set(calls) <= {"/hooks/catalog-sync"}


def without_times(errors: Any) -> str:
    """Return the errors as text, without the times of day at which they were found."""
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "", json.dumps(errors))


async def check_errors(
    here: Trade, order: Any, reasons: list[tuple[str, str | None]], status: int = 400
) -> None:  # fmt: skip
    """Assert that both operations give these reasons, and that no store was called and nothing was stored."""
    said = await here.validate(order)
    assert said["isValid"] is False
    assert said["validatedOrderToken"] is None
    assert [(e["code"], e["pointer"]) for e in said["order"]["errors"]] == reasons
    assert all(e["message"] for e in said["order"]["errors"])
    reply = await here.place(order)
    problem = reply.json()
    assert (reply.status, problem["errorCode"]) == (status, reasons[0][0]), problem
    assert without_times(problem["errors"]) == without_times(said["order"]["errors"])
    assert problem["retryable"] is False
    assert "orderId" not in problem
    assert was_not_called(here.shop)
    assert (await here.pos.get(MERCHANT)).json()["orders"] == []


async def test_all_errors_are_listed_and_the_first_determines_the_problem(here: Trade):
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    await here.pos.post(f"{path}/status", {"status": "paused", "pauseReason": "rest"})
    await here.pos.call("PUT", path, {"minimumOrderAmount": "100"})
    order = here.order(tea(1), fulfillment=delivery(address1="1 Main St", postalCode="1"))
    await check_errors(
        here,
        order,
        [
            ("STORE_CLOSED", None),
            ("ORDER_BELOW_MINIMUM", "/cart/lineItems"),
            ("ADDRESS_INVALID", "/fulfillment/address/city"),
        ],
    )


async def test_a_broken_rule_of_the_menu_has_the_statuses_that_its_page_states(here: Trade):
    def codes(errors: list[dict[str, Any]]) -> list[str]:
        return [error["code"] for error in errors]

    many = line(CAKE, 4, choice(line(LEMON)))
    for broken, code, status in ((line(CAKE), "MODIFIER_REQUIRED", 400), (many, "VALIDATION_FAILED", 422)):
        said = await here.validate(here.order(broken))
        assert (said["isValid"], codes(said["order"]["errors"])) == (False, [code])
        placed = await here.place(here.order(broken))
        assert (placed.status, placed.json()["errorCode"]) == (status, code)
        cart = here.order(broken, tea() | {"lineItemId": TEA})["cart"]
        added = await here.front.post(f"{CARTS}/add", {"cart": cart, "item": tea(1)})
        assert (added.status, added.json()["errorCode"]) == (422, "VALIDATION_FAILED")
        assert codes(added.json()["errors"]) == [code]
        gone = await here.front.post(f"{CARTS}/add", {"cart": cart, "item": line(NEVER)})
        assert (gone.status, gone.json()["errorCode"]) == (400, "ITEM_UNAVAILABLE")
        assert sorted(codes(gone.json()["errors"])) == sorted([code, "ITEM_UNAVAILABLE"])
        for change, body in (("remove", {}), ("update", {"quantity": 0})):
            left = await here.front.post(f"{CARTS}/{change}", {"cart": cart, "lineItemId": TEA} | body)
            assert (left.status, codes(left.json()["errors"])) == (200, [code])


async def test_a_pause_that_ends_by_itself_closes_the_store_no_longer(here: Trade):
    path = f"/v1/commerce/stores/{here.store['storeId']}/status"
    resume = datetime.now(UTC) + timedelta(hours=1)
    await here.pos.post(path, {"status": "paused", "resumeAt": resume.isoformat()})
    await check_errors(here, here.order(), [("STORE_CLOSED", None)])
    later = {"mode": "PICKUP", "scheduleType": "SCHEDULED"}
    order = here.order(fulfillment=later | {"scheduledTime": (resume + timedelta(minutes=1)).isoformat()})
    said = await here.validate(order)
    assert said["isValid"] is True, said["order"]["errors"]
    order["validatedOrderToken"] = said["validatedOrderToken"]
    placed = await here.place(order)
    assert placed.status == 201, placed.body
    assert placed.json()["fulfillment"]["scheduledTime"].endswith("Z")


async def test_sold_out_items_are_unavailable_and_as_modifiers_too(here: Trade):
    path = f"/v1/commerce/stores/{here.store['storeId']}/item-availability"
    await here.pos.post(path, {"items": [{"itemId": MILK, "available": False}]})
    where = "/cart/lineItems/0/modifierGroups/0/lineItems/0"
    await check_errors(here, here.order(), [("ITEM_UNAVAILABLE", where)])
    await here.pos.post(path, {"items": [{"itemId": TEA, "available": False}]})
    said = await here.validate(here.order())
    codes = {e["code"] for e in said["order"]["errors"]}
    assert codes == {"ITEM_UNAVAILABLE"}
    assert "amounts" not in said["order"]


async def test_hours_of_catalogs_and_of_items_apply(here: Trade):
    made = document()
    made["catalogs"][CATALOG]["availability"] = []
    await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(made))
    await check_errors(here, here.order(), [("STORE_CLOSED", None)])
    refused = (await here.place(here.order())).json()
    (error,) = refused["errors"]
    assert [(one["opensAt"], one["closesAt"]) for one in (refused, error)] == [(None, None)] * 2


async def test_an_item_in_no_section_of_an_open_catalog_is_not_on_offer(here: Trade):
    made = document()
    made["items"][ALONE]["basePrice"] = "1.00"
    await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(made))
    await check_errors(here, here.order(line(ALONE)), [("ITEM_UNAVAILABLE", "/cart/lineItems/0")])


# --- what is wrong with the request itself --------------------------------------------------------

PAST = "2020-01-01T00:00:00Z"
SCHEDULED = {"mode": "PICKUP", "scheduleType": "SCHEDULED"}

FAULTS: dict[str, tuple[dict[str, Any], int, list[str | None]]] = {
    "a negative tip": ({"amounts": {"tip": "-0.01"}}, 422, ["/amounts/tip"]),
    "a tip of too many digits": ({"amounts": {"tip": "0.001"}}, 422, ["/amounts/tip"]),
    "a tip as a number": ({"amounts": {"tip": 1}}, 400, ["/amounts/tip"]),
    "a tip that is out of range": ({"amounts": {"tip": "9" * 40}}, 422, ["/amounts/tip"]),
    "a tip that brings the total out of range": (
        {"amounts": {"tip": "92233720368547758.07"}}, 422, ["/amounts/tip"],
    ),
    "scheduled for no time": ({"fulfillment": SCHEDULED}, 422, ["/fulfillment/scheduledTime"]),
    "scheduled in the past": (
        {"fulfillment": SCHEDULED | {"scheduledTime": PAST}}, 422, ["/fulfillment/scheduledTime"],
    ),
    "scheduled without an offset": (
        {"fulfillment": SCHEDULED | {"scheduledTime": "2100-01-01T00:00:00"}}, 422, ["/fulfillment/scheduledTime"],
    ),
    "no mode": ({"fulfillment": {"scheduleType": "ASAP"}}, 400, ["/fulfillment/mode"]),
    "another mode": (
        {"fulfillment": {"mode": "DRONE", "scheduleType": "ASAP"}}, 422, ["/fulfillment/mode"],
    ),
    "no client context": ({"clientContext": None}, 400, ["/clientContext"]),
    "half a customer": (
        {"customer": {"email": "a@b", "firstName": "A"}}, 400, ["/customer/lastName", "/customer/phone"],
    ),
    "two faults at once": (
        {"amounts": {"tip": "-1"}, "fulfillment": SCHEDULED}, 422, ["/fulfillment/scheduledTime", "/amounts/tip"],
    ),
}  # fmt: skip


@only_sqlite
@in_turn("name", FAULTS)
async def test_what_is_wrong_with_a_request_is_a_problem_of_both(here: Trade, database_kind: str, name: str):
    change, status, pointers = FAULTS[name]
    order = here.order() | change
    for reply in (await here.front.post(VALIDATE, order), await here.place(order)):
        said = reply.json()
        code = "INVALID_REQUEST" if status == 400 else "VALIDATION_FAILED"
        assert (reply.status, said["errorCode"]) == (status, code), said
        assert [e["pointer"] for e in said["errors"]] == pointers
    assert here.shop.received.empty()


@only_sqlite
@in_turn(
    "payment",
    [b'"card"', b"[1]", b"1", b"true", b'{"cardToken": "\xff"}', b'{"n": 1e999}', b'{"a":' * 3000 + b"1" + b"}" * 3000],
)  # fmt: skip
async def test_a_payment_that_no_store_could_read_is_refused(here: Trade, database_kind: str, payment: bytes):
    raw = json.dumps(here.order()).encode()[:-1] + b', "payment": ' + payment + b"}"
    reply = await here.front.post("/v1/marketfront/orders/place", raw, headers={"Idempotency-Key": "k"})
    assert (reply.status, reply.json()["errorCode"]) == (400, "INVALID_REQUEST"), reply.body
    assert here.shop.received.empty()


@only_sqlite
async def test_201_lines_are_refused_and_200_are_not(here: Trade, database_kind: str):
    order = here.order(*[line(TEA)] * 201)
    for reply in (await here.front.post(VALIDATE, order), await here.place(order)):
        assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED")
    assert (await here.validate(here.order(*[line(TEA)] * 200)))["isValid"] is True


@only_sqlite
@in_turn("quantity", [0, -1, 2**31, 2**63])
async def test_quantities_are_positive_int32(here: Trade, database_kind: str, quantity: int):
    order = here.order(line(TEA, quantity))
    for reply in (await here.front.post(VALIDATE, order), await here.place(order)):
        assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED")
        assert reply.json()["errors"][0]["pointer"] == "/cart/lineItems/0/quantity"


async def test_unknown_stores_and_sets_are_404(here: Trade):
    for member, code in (("storeId", "STORE_NOT_FOUND"), ("catalogSetId", "CATALOGSET_NOT_FOUND")):
        order = here.order()
        order["cart"][member] = str(uuid4())
        for reply in (await here.front.post(VALIDATE, order), await here.place(order)):
            assert (reply.status, reply.json()["errorCode"]) == (404, code)


async def test_a_cart_of_a_superseded_set_is_rebased_onto_the_current_one(here: Trade):
    made = document()
    made["items"][MILK]["name"] = "Oat milk"
    await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(made))
    said = await here.validate(here.order())
    assert said["isValid"] is True
    assert said["order"]["cart"]["catalogSetId"] != here.store["catalogSetId"]
    placed = await here.placed(here.order())
    assert placed["cart"]["catalogSetId"] == said["order"]["cart"]["catalogSetId"]
    modifier = placed["cart"]["lineItems"][0]["modifierGroups"][0]["lineItems"][0]
    assert modifier["name"] == "Oat milk"
