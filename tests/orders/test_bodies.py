"""The bodies of order webhooks."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.catalog.documents import CAKE, EXTRAS, LEMON, TEA
from tests.orders.samples import HOME, NOW, PARTNER, STORE, STOREFRONT, checked, core, delivery, order

from mercato.features.orders.record import (
    Notes,
    OrderContent,
    OrderRow,
    StoreAnswer,
    cancelled_data,
    event_data,
    webhook_order,
    with_notes,
)
from mercato.features.orders.store_messages import (
    MAX_PAYMENT_DEPTH,
    payment_fault,
    payment_of,
    place_body,
    secrets_in,
    with_payment,
    without_payment,
)
from mercato.features.orders.validation import validate_body
from mercato_contract.amounts import wire
from mercato_contract.events import OrderEventData, OrderPlaceData, envelope
from mercato_contract.orders import OrderState, OrderStatus
from mercato_contract.wire import as_json

ORDER = PARTNER
CUSTOMER = {"email": "a@example.com", "firstName": "A", "lastName": "B", "phone": "+1", "partnerUserId": None}
SENT = order(fulfillment=delivery(HOME), customer=CUSTOMER, amounts={"tip": "1.00"}, more="ignored")


def row(**changes: Any) -> OrderRow:
    request, found = core(json.dumps(SENT).encode()), checked(SENT)
    assert found.sums is not None
    members: dict[str, Any] = {
        "id": ORDER,
        "partner_id": PARTNER,
        "storefront_id": STOREFRONT,
        "store_id": STORE,
        "partner_store_id": "shop-1",
        "state": OrderState.OPEN,
        "status": OrderStatus.PENDING,
        "answer": StoreAnswer.WAITING,
        "errors": (),
        "partner_order_id": None,
        "estimated_ready_at": None,
        "cancel_reason": None,
        "currency": "USD",
        "total": found.sums.total,
        "content": as_json(OrderContent(cart=found.cart, amounts=wire(found.sums))),
        "cart": found.cart,
        "amounts": wire(found.sums),
        "fulfillment": found.fulfillment,
        "customer": request.customer,
        "client_context": request.client_context,
        "token_id": None,
        "sequence": 1,
        "entries": 1,
        "traceparent": "",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return OrderRow(**members | changes)


def check_order(told: Any) -> None:
    """Check that it is an OrderCore that the service itself would read, priced, with names and the merchant's ids."""
    tea, cake = told["cart"]["lineItems"]
    [extras] = tea["modifierGroups"]
    [lemon] = extras["lineItems"]
    assert (tea["partnerItemId"], cake["partnerItemId"]) == (TEA, CAKE)
    assert (extras["partnerModifierGroupId"], lemon["partnerItemId"]) == (EXTRAS, LEMON)
    assert (extras["name"], lemon["amounts"]) == ("Extras", {"unitPrice": "0.10", "total": "0.10"})
    assert set(told) == {"cart", "clientContext", "fulfillment", "note", "amounts", "customer"}
    core(json.dumps(told).encode())
    assert [one["name"] for one in told["cart"]["lineItems"]] == ["Tea", "Cake"]
    assert told["cart"]["lineItems"][0]["modifierGroups"][0]["lineItems"][0]["name"] == "Lemon"
    assert told["amounts"]["total"] == "10.20"
    assert told["amounts"]["tipDescription"] == [{"amount": "1.00", "description": "Tip"}]
    assert told["fulfillment"]["address"]["address1"] == "1 Main St"
    assert told["customer"] == CUSTOMER


def test_a_validate_call_has_the_order_and_its_store():
    request = core(json.dumps(SENT).encode())
    found = checked(SENT)
    assert found.sums is not None
    body = json.loads(validate_body(found, request, found.sums, now=NOW))
    assert (body["type"], body["timestamp"]) == ("order.validate", "2026-03-04T12:00:00.000Z")
    assert set(body) == {"type", "timestamp", "data"}
    assert set(body["data"]) == {"storeId", "partnerStoreId", "order"}
    assert (body["data"]["storeId"], body["data"]["partnerStoreId"]) == (str(STORE), "shop-1")
    check_order(body["data"]["order"])


def test_a_place_call_has_the_payment_byte_for_byte():
    sent = b'{ "type":"cardOnFile",  "amount": 10.50, "cardToken" : "tok_\\u00e4\\/1"}'
    bare = place_body(row(), now=NOW)
    body = with_payment(bare, payment_of(msgspec.Raw(sent)))
    assert sent in body
    assert without_payment(body) == bare
    told = json.loads(body)
    assert told["type"] == "order.place"
    assert set(told["data"]) == {"orderId", "storeId", "partnerStoreId", "order", "payment"}
    assert told["data"]["orderId"] == str(ORDER)
    check_order(told["data"]["order"])


@pytest.mark.parametrize("note", [None, "no sugar"])
def test_a_place_call_is_the_order_whose_cart_is_stored_without_its_notes(note: str | None):
    stored = row()
    cart, notes = stored.cart, None
    if note is not None:
        notes = Notes(order="Ring twice", lines={cart.line_items[0].line_item_id: note})
        cart = with_notes(cart, notes)
    placed = replace(stored, cart=cart, notes=notes)
    data = OrderPlaceData(
        order_id=ORDER, store_id=STORE, partner_store_id="shop-1", order=webhook_order(placed)
    )
    assert place_body(placed, now=NOW) == envelope("order.place", occurred_at=NOW, data=data)
    assert (note is None) == (as_json(cart) in placed.content)


def test_without_a_payment_the_member_is_absent():
    for payment in (UNSET, msgspec.Raw(b"null")):
        body = with_payment(place_body(row(), now=NOW), payment_of(payment))
        assert "payment" not in json.loads(body)["data"]


def test_an_absent_customer_is_absent_from_the_body():
    bare = row(customer=None, client_context=None)
    told = json.loads(place_body(bare, now=NOW))["data"]["order"]
    assert set(told) == {"cart", "clientContext", "fulfillment", "note", "amounts"}
    # The specification requires it of every order.
    assert told["clientContext"] == {"ip": "", "userAgent": ""}


def test_a_cancellation_has_its_reason():
    told = json.loads(as_json(cancelled_data(row(cancel_reason="STORE_UNREACHABLE"))))
    assert set(told) == {"orderId", "storeId", "partnerStoreId", "cancelReason", "order"}
    assert told["cancelReason"] == "STORE_UNREACHABLE"
    check_order(told["order"])


def test_an_order_event_has_a_sequence_and_the_order_without_its_payment():
    body = as_json(event_data(row(sequence=3)))
    assert as_json(msgspec.json.decode(body, type=OrderEventData)) == body
    told = json.loads(body)
    assert set(told) == {"orderId", "storeId", "partnerStoreId", "sequence", "order"}
    assert told["sequence"] == 3
    for member in ("orderId", "storeId", "partnerStoreId"):
        assert told[member] == told["order"][member]
    assert "payment" not in told["order"]
    assert "partner" not in json.dumps(told["order"]["cart"])


def test_the_content_of_an_order_from_before_modifiers_had_amounts_is_read():
    stored = json.loads(as_json(OrderContent(cart=row().cart, amounts=row().amounts)))
    [extras] = stored["cart"]["lineItems"][0]["modifierGroups"]
    del extras["name"]
    for line in (*stored["cart"]["lineItems"], *extras["lineItems"]):
        line.pop("note")
    for line in extras["lineItems"]:
        del line["amounts"]
    content = msgspec.json.decode(as_json(stored), type=OrderContent)
    [lemon] = content.cart.line_items[0].modifier_groups[0].line_items
    assert (lemon.note, lemon.amounts, lemon.free_quantity) == (None, UNSET, UNSET)
    assert json.loads(as_json(content))["cart"]["lineItems"][0]["modifierGroups"][0]["lineItems"] == [
        {"note": None} | line for line in extras["lineItems"]
    ]


def nested_payment(levels: int) -> bytes:
    """Return a payment of so many levels, the object included."""
    return b'{"token":%s"tok_4242"%s}' % (b"[" * (levels - 1), b"]" * (levels - 1))


def test_a_payment_may_have_a_hundred_levels():
    assert payment_fault(msgspec.Raw(nested_payment(MAX_PAYMENT_DEPTH))) is None
    fault = payment_fault(msgspec.Raw(nested_payment(MAX_PAYMENT_DEPTH + 1)))
    assert fault == "payment may be nested at most 100 levels deep."
    many = b'{"a":[%s]}' % b",".join([b"{}"] * MAX_PAYMENT_DEPTH)
    assert payment_fault(msgspec.Raw(many)) is None


def test_the_secrets_of_every_accepted_payment_can_be_read_however_deep_they_are():
    body = place_body(row(), now=NOW)
    accepted = [
        sent
        for levels in range(1, 1100)
        if payment_fault(msgspec.Raw(sent := nested_payment(levels))) is None
    ]
    assert all(secrets_in(with_payment(body, sent)) == ("tok_4242",) for sent in accepted)
