"""A webhook is genuine exactly if Standard Webhooks accepts it; otherwise the reason is given."""

import base64
import json
import pickle
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any

import pytest
from standardwebhooks import Webhook

from mercato_client import Receiver, UnknownData, UnreadableWebhookError, WebhookError, types, verify_webhook
from mercato_contract.debugger.explain import Secret, SecretOrigin, explain
from mercato_contract.debugger.explain import Webhook as Received
from mercato_contract.signing import webhook_headers

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(32)).decode()
NOW = datetime(2026, 1, 31, 18, 30, tzinfo=UTC)
RUN = "0190f5fe-7e3b-7ccc-8000-000000000001"
DATA = {"catalogIngestId": RUN, "storeId": RUN, "status": "succeeded", "errors": [], "later": 1}
BODY = json.dumps(
    {"type": "catalog.sync.succeeded", "timestamp": "2026-01-31T18:30:00.000Z", "data": DATA}
).encode()


def signed(body: bytes = BODY, *secrets: str, at: datetime = NOW) -> dict[str, str]:
    return webhook_headers(
        webhook_id=RUN,
        timestamp=int(at.timestamp()),
        body=body,
        secrets=secrets or (SECRET,),
        token=None,
        traceparent=None,
    )


def verified(headers: Any, body: bytes, secrets: Any = SECRET) -> Any:
    return verify_webhook(headers, body, secrets, now=lambda: NOW)


def test_a_genuine_webhook_is_a_typed_event():
    event = verified(signed(), BODY)
    assert (event.id, event.type, event.timestamp) == (
        RUN,
        "catalog.sync.succeeded",
        "2026-01-31T18:30:00.000Z",
    )
    assert isinstance(event.data, types.CatalogSyncWebhookData)
    assert str(event.data.store_id) == RUN


def test_headers_may_be_of_any_kind_and_case():
    message = Message()
    for name, value in signed().items():
        message[name.upper()] = value
    assert verified(message, BODY).id == RUN


def test_either_secret_of_a_rotation_is_enough_on_either_side():
    assert verified(signed(BODY, OTHER, SECRET), BODY).id == RUN
    assert verified(signed(BODY, OTHER), BODY, [SECRET, OTHER]).id == RUN


def test_an_event_of_a_later_version_is_recognised():
    body = b'{"type": "order.sung", "timestamp": "2026-01-31T18:30:00.000Z", "data": {"a": [1]}}'
    event = verified(signed(body), body)
    assert isinstance(event.data, UnknownData)
    assert bytes(event.data.raw) == b'{"a": [1]}'


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b'{"type": "order.place", "timestamp": "", "data": {}}']
)
def test_a_genuine_webhook_that_cannot_be_read_is_not_a_forgery(body: bytes):
    with pytest.raises(UnreadableWebhookError, match=RUN):
        verified(signed(body), body)


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in signed().items() if key != name}


def replaced(name: str, value: str) -> dict[str, str]:
    return signed() | {name: value}


PRETTY = json.dumps(json.loads(BODY), indent=2).encode()
UNBELIEVED: dict[str, tuple[dict[str, str], bytes, str, str]] = {
    "wrong key": (signed(BODY, OTHER), BODY, SECRET, "WRONG_KEY"),
    "no secret": (signed(), BODY, "sk_123", "KEY_UNUSABLE"),
    "changed": (signed(), BODY.replace(b"succeeded", b"failed", 1), SECRET, "WRONG_KEY"),
    "pretty": (signed(), PRETTY, SECRET, "BODY_RESERIALISED"),
    "late": (signed(at=NOW - timedelta(seconds=301)), BODY, SECRET, "CLOCK_SKEW"),
    "early": (signed(at=NOW + timedelta(seconds=301)), BODY, SECRET, "CLOCK_SKEW"),
    "no id": (without("webhook-id"), BODY, SECRET, "MISSING_HEADER"),
    "no time": (without("webhook-timestamp"), BODY, SECRET, "MISSING_HEADER"),
    "no signature": (without("webhook-signature"), BODY, SECRET, "MISSING_HEADER"),
    "milliseconds": (
        replaced("webhook-timestamp", f"{int(NOW.timestamp())}000"), BODY, SECRET, "TIMESTAMP_UNREADABLE",
    ),
    "other version": (replaced("webhook-signature", "v2,AAAA"), BODY, SECRET, "SIGNATURE_VERSION"),
    "empty": ({}, b"", SECRET, "MISSING_HEADER"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNBELIEVED)
def test_a_refused_webhook_is_explained_as_by_the_service(name: str):
    headers, body, secret, code = UNBELIEVED[name]
    with pytest.raises(WebhookError) as refused:
        verified(headers, body, secret)
    webhook = Received(headers=headers, body=body, received_at=NOW)
    explanation = explain(webhook, secrets=[Secret(secret, SecretOrigin.GIVEN)], now=NOW)
    assert not explanation.valid
    assert refused.value.explanation == explanation
    assert refused.value.code == explanation.code == code
    assert str(refused.value).startswith(f"{code}: ")
    assert secret not in repr(refused.value) + str(refused.value)


def test_an_explanation_is_computed_at_its_first_use():
    with pytest.raises(WebhookError) as refused:
        verified({}, b"")
    assert "explanation" not in vars(refused.value)


@pytest.mark.parametrize("seconds", [-330, -270, 0, 270, 330])
def test_a_webhook_is_accepted_when_the_libraries_accept_it(seconds: int):
    headers = signed(at=datetime.now(UTC) + timedelta(seconds=seconds))
    theirs = True
    try:
        Webhook(SECRET).verify(BODY, headers)
    except Exception:  # noqa: BLE001  # whatever the library says is its no
        theirs = False
    try:
        ours = verify_webhook(headers, BODY, SECRET).id == RUN
    except WebhookError:
        ours = False
    assert ours is theirs


def test_a_refusal_that_is_handed_to_another_process_says_why_and_has_no_secret():
    with pytest.raises(WebhookError) as refused:
        verified(signed(), BODY + b" ")
    written = pickle.dumps(refused.value)
    again = pickle.loads(written)  # noqa: S301  # its own
    assert (again.code, str(again)) == (refused.value.code, str(refused.value))
    assert SECRET.removeprefix("whsec_").encode() not in written


def test_text_is_refused_in_place_of_bytes():
    text: Any = BODY.decode()
    with pytest.raises(TypeError, match="bytes"):
        verified(signed(), text)


def order_webhook(kind: str) -> bytes:
    amounts: dict[str, Any] = dict.fromkeys(
        ("adjustments", "fees", "promotions", "subTotal", "taxes", "tip", "total"), "0.00"
    )
    lists: dict[str, Any] = {
        f"{name}Description": [] for name in ("adjustments", "fees", "promotions", "taxes", "tip")
    }
    order = {
        "cart": {"catalogSetId": RUN, "storeId": RUN, "lineItems": []},
        "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
        "amounts": {"currency": "USD"} | amounts | lists,
    }
    data = {"orderId": RUN, "storeId": RUN, "partnerStoreId": "1", "order": order, "cancelReason": None}
    envelope = {"type": kind, "timestamp": "2026-01-31T18:30:00.000Z", "data": data}
    return json.dumps(envelope | {"data": data | {"payment": {"cardToken": "tok_4242"}}}).encode()


def cancel_webhook() -> bytes:
    ids = {"orderId": RUN, "storeId": RUN, "partnerStoreId": "1", "cancellationId": RUN}
    data: dict[str, Any] = {**ids, "partnerOrderId": None, "reason": "CHANGED_MIND", "message": None}
    envelope = {"type": "order.cancel", "timestamp": "2026-01-31T18:30:00.000Z", "data": data}
    return json.dumps(envelope).encode()


def fresh(body: bytes) -> dict[str, str]:
    return signed(body, at=datetime.now(UTC))


def test_a_receiver_calls_its_functions_and_answers_in_the_services_format():
    requested: list[Any] = []
    seen: list[Any] = []

    def validate(question: types.OrderValidateData) -> types.ValidateReply:
        requested.append(question.order.fulfillment)
        return types.ValidateReply(is_valid=False, errors=[types.StoreOrderError(code="STORE_CLOSED")])

    def place(order: types.OrderPlaceData) -> types.PlaceReply:
        requested.append(str(order.order_id))
        return types.PlaceReply(accepted=True, partner_order_id="A-1")

    def cancel(request: types.OrderCancelData) -> types.CancelReply:
        requested.append(str(request.cancellation_id))
        return types.CancelReply(accepted=False, reason="Too late")

    receiver = Receiver(
        SECRET, validate=validate, place=place, cancel=cancel, event=seen.append, refused=seen.append
    )
    body = order_webhook("order.validate")
    status, response = receiver.answer(fresh(body), body)
    assert (status, json.loads(response)) == (200, {"isValid": False, "errors": [{"code": "STORE_CLOSED"}]})
    body = order_webhook("order.place")
    status, response = receiver.answer(fresh(body), body)
    assert (status, json.loads(response)) == (200, {"accepted": True, "partnerOrderId": "A-1"})
    assert requested[1] == RUN
    body = cancel_webhook()
    status, response = receiver.answer(fresh(body), body)
    assert (status, json.loads(response)) == (200, {"accepted": False, "reason": "Too late"})
    assert requested[2] == RUN
    body = order_webhook("order.cancelled")
    assert receiver.answer(fresh(body), body) == (204, b"")
    assert isinstance(seen[0].data, types.OrderCancelledData)
    assert receiver.answer({}, body) == (401, b"")
    assert isinstance(seen[1], WebhookError)
    assert receiver.answer(fresh(b"{}"), b"{}") == (400, b"")
    assert isinstance(seen[2], UnreadableWebhookError)


def test_a_receiver_without_functions_accepts_every_genuine_webhook_and_cancels_nothing():
    receiver = Receiver([OTHER, SECRET])
    body = order_webhook("order.validate")
    assert receiver.answer(fresh(body), body) == (200, b'{"isValid":true}')
    body = order_webhook("order.place")
    assert receiver.answer(fresh(body), body) == (200, b'{"accepted":true}')
    body = cancel_webhook()
    assert receiver.answer(fresh(body), body) == (200, b'{"accepted":false}')
    assert receiver.answer(fresh(BODY), BODY).status == 204


def test_a_cards_token_is_in_no_text_of_an_event():
    body = order_webhook("order.place")
    event = verify_webhook(fresh(body), body, SECRET)
    assert isinstance(event.data, types.OrderPlaceData)
    assert b"tok_4242" in bytes(event.data.payment or b"")
    assert "tok_4242" not in repr(event) + repr(event.data)
