"""Keep payments out of everything that is stored in plain text. A payment goes to the store unchanged."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from mercato.platform.wire.walk import read_json
from mercato_contract.placements import NOT_AN_OBJECT
from mercato_contract.wire import as_json

MIN_SECRET_LENGTH: Final = 3
"""Shorter texts and numbers of a payment aren't masked in a store's messages. A CVV has three characters."""

MAX_SECRETS: Final = 50

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_MEMBER: Final = b'"payment":'
"""Every body with a payment contains it: our JSON has no spaces, and inside a string its quotes are escaped."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_as_written: Final = msgspec.json.Decoder(float_hook=str)
"""Decodes numbers that aren't int64 as their text."""


def payment_of(member: msgspec.Raw | UnsetType) -> bytes | None:
    """Return the payment of a request byte for byte; None if it has none."""
    return None if member is UNSET or bytes(member).strip() == b"null" else bytes(member)


def without_payment(body: bytes) -> bytes:
    """Return the body of a place webhook without its payment, for storing and showing."""
    if _MEMBER not in body:
        return body
    envelope = _members(body)
    data = _members(envelope["data"])
    data.pop("payment", None)
    return as_json(envelope | {"data": data})


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
    texts = _texts({name: value for name, value in members.items() if name not in {"type", "processorType"}})
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


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case int() if not isinstance(value, bool):
            yield str(value)
        case dict():
            for below in value.values():
                yield from _texts(below)
        case list():
            for below in value:
                yield from _texts(below)
        case _:
            pass


def payment_fault(payment: msgspec.Raw | UnsetType) -> str | None:
    """Return why a payment can't be sent to a store, or None. Null means no payment."""
    try:
        value = None if isinstance(payment, UnsetType) else read_json(payment)
    except _UNREADABLE:
        return (
            "payment can't be read: a number is out of range, a text is malformed, or it is nested too deep."
        )
    return None if value is None or isinstance(value, dict) else NOT_AN_OBJECT


def canonical(payment: msgspec.Raw | UnsetType) -> bytes:
    """Return bytes that are the same for equal payments. One that can't be read is returned as it is."""
    if isinstance(payment, UnsetType):
        return b"null"
    try:
        return msgspec.json.encode(read_json(payment), order="deterministic")
    except _UNREADABLE:
        return bytes(payment)
