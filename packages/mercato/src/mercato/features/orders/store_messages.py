"""The bodies of calls to stores, and their payments. Pure: nothing here makes a call.

The payment goes to the store unchanged, and into nothing that is stored or shown in plain text. What a store replies
is read by `mercato_contract.replies`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from mercato.features.orders.record import OrderRow, StoredCancellation, place_data
from mercato_contract.decoding.walk import read_json
from mercato_contract.events import EventType, OrderCancelData, envelope
from mercato_contract.excerpts import masked
from mercato_contract.placements import NOT_AN_OBJECT
from mercato_contract.problems import ORDER_ERROR_CODES, OTHER, OrderError, default_message
from mercato_contract.texts import texts_in
from mercato_contract.wire import as_json

MIN_SECRET_LENGTH: Final = 3
"""Shorter texts and numbers of a payment aren't masked in a store's messages. A CVV has three characters."""

MAX_SECRETS: Final = 50

MAX_PAYMENT_DEPTH: Final = 100
"""Levels of a payment, far fewer than Python's stack has: what is accepted can be read again anywhere."""

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_MEMBER: Final = b'"payment":'
"""Every body with a payment contains it: our JSON has no spaces, and inside a string its quotes are escaped."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_as_written: Final = msgspec.json.Decoder(float_hook=str)
"""Decodes numbers that aren't int64 as their text."""


# --- what a store is sent ---------------------------------------------------------------------------


def place_body(row: OrderRow, *, now: datetime) -> bytes:
    """Return the body of a place call without its payment, the same for every attempt."""
    return envelope(EventType.ORDER_PLACE, occurred_at=now, data=place_data(row))


def cancel_body(row: OrderRow, cancellation: StoredCancellation) -> bytes:
    """Return the body of a cancel call, the same for every attempt."""
    data = OrderCancelData(
        order_id=row.id,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        cancellation_id=cancellation.id,
        partner_order_id=cancellation.partner_order_id,
        reason=cancellation.reason,
        message=cancellation.message,
    )
    return envelope(EventType.ORDER_CANCEL, occurred_at=cancellation.requested_at, data=data)


# --- payments -------------------------------------------------------------------------------------


def payment_of(member: msgspec.Raw | UnsetType) -> bytes | None:
    """Return the payment of a request byte for byte; None if it has none."""
    return None if member is UNSET or bytes(member).strip() == b"null" else bytes(member)


def without_payment(body: bytes) -> bytes:
    """Return the body of a place webhook without its payment, for storing and showing."""
    if _MEMBER not in body:
        return body
    members = _members(body)
    data = _members(members["data"])
    data.pop("payment", None)
    return as_json(members | {"data": data})


def with_payment(body: bytes, payment: bytes | None) -> bytes:
    """Return the body of a place webhook with the payment as its last member: the opposite of `without_payment`."""
    return body if payment is None else b"%s,%s%s}}" % (body[:-2], _MEMBER, payment)


def carries_payment(body: bytes) -> bool:
    """Return whether the body of a place webhook has a payment."""
    return _MEMBER in body


def secrets_in(body: bytes) -> tuple[str, ...]:
    """Return the texts and numbers of the body's payment to mask in logs: all except its types."""
    if _MEMBER not in body:
        return ()
    payment = _members(_members(body)["data"]).get("payment")
    members = None if payment is None else _as_written.decode(payment)
    if not isinstance(members, dict):
        return ()
    texts = texts_in(
        {name: value for name, value in members.items() if name not in {"type", "processorType"}}
    )
    found = dict.fromkeys(text for text in texts if len(text) >= MIN_SECRET_LENGTH)
    return tuple(found)[:MAX_SECRETS]


def contains_secret(text: str, secrets: Iterable[str]) -> bool:
    """Return whether the text contains one of the secrets, ignoring case, spaces and punctuation."""
    letters = _letters_and_digits(text)
    return any(
        len(secret) >= MIN_SECRET_LENGTH and secret in letters for secret in map(_letters_and_digits, secrets)
    )


def _letters_and_digits(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def payment_fault(payment: msgspec.Raw | UnsetType) -> str | None:
    """Return why a payment can't be sent to a store, or None. Null means no payment."""
    if isinstance(payment, UnsetType):
        return None
    try:
        value = read_json(payment)
    except _UNREADABLE:
        return (
            "payment can't be read: a number is out of range, a text is malformed, or it is nested too deep."
        )
    if value is not None and not isinstance(value, dict):
        return NOT_AN_OBJECT
    # Most payments have fewer brackets than levels are allowed.
    brackets = bytes(payment)
    if brackets.count(b"[") + brackets.count(b"{") > MAX_PAYMENT_DEPTH and _is_too_deep(value):
        return f"payment may be nested at most {MAX_PAYMENT_DEPTH} levels deep."
    return None


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_PAYMENT_DEPTH):
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below += node.values()
            elif isinstance(node, list):
                below += node
        if not below:
            return False
        level = below
    return any(isinstance(node, dict | list) for node in level)


def canonical_payment(payment: msgspec.Raw | UnsetType) -> bytes:
    """Return bytes that are the same for equal payments. One that can't be read is returned as it is."""
    if isinstance(payment, UnsetType):
        return b"null"
    try:
        return msgspec.json.encode(read_json(payment), order="deterministic")
    except _UNREADABLE:
        return bytes(payment)


def mask_payment(error: OrderError, hidden: Sequence[str]) -> OrderError:
    """Mask the payment in the error. Members that contain it in another form are replaced."""
    message, code, pointer = masked(error.message, hidden=hidden), error.code, error.pointer
    if code not in ORDER_ERROR_CODES and contains_secret(code, hidden):
        code = OTHER
    if contains_secret(message, hidden):
        message = default_message(code)
    if pointer is not None and contains_secret(pointer, hidden):
        pointer = None
    return OrderError(code=code, message=message, pointer=pointer)
