"""What is kept of a payment: nothing. It goes to the store as it was sent; here it is taken out and blotted out."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from mercato.kernel.wire import as_json
from mercato.kernel.wire.parts import read_json

LEAST_SECRET: Final = 3
"""Characters of a text or number in a payment from which on a store's message may not repeat it: a CVV has three."""

MOST_SECRETS: Final = 50

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_MEMBER: Final = b'"payment":'
"""In a body of ours, which has no spaces, there is no payment without it: in a text its quotes are escaped."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_as_written: Final = msgspec.json.Decoder(float_hook=str)
"""Reads numbers that are no integers, or too long for one, as the texts that they are."""


def without_payment(body: bytes) -> bytes:
    """Return the body of a place webhook as it may be kept and shown."""
    if _MEMBER not in body:
        return body
    envelope = _members(body)
    data = _members(envelope["data"])
    data.pop("payment", None)
    return as_json(envelope | {"data": data})


def carries_payment(body: bytes) -> bool:
    """Tell whether the body of a place webhook has a payment."""
    return _MEMBER in body


def secrets_in(body: bytes) -> tuple[str, ...]:
    """Return the texts and numbers of the body's payment that nobody may read in a log: all but its type."""
    if _MEMBER not in body:
        return ()
    payment = _members(_members(body)["data"]).get("payment")
    members = None if payment is None else _as_written.decode(payment)
    if not isinstance(members, dict):
        return ()
    texts = _texts({name: value for name, value in members.items() if name not in {"type", "processorType"}})
    found = dict.fromkeys(text for text in texts if len(text) >= LEAST_SECRET)
    return tuple(found)[:MOST_SECRETS]


def repeats(text: str, secrets: Iterable[str]) -> bool:
    """Tell whether the text holds one of the secrets, however it is spaced, punctuated or capitalised."""
    plain = _letters_and_digits(text)
    return any(
        len(secret) >= LEAST_SECRET and secret in plain for secret in map(_letters_and_digits, secrets)
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


def fault_of(payment: msgspec.Raw | UnsetType) -> str | None:
    """Return why a payment can't go to a store, None if it can; null is none, as on every optional member."""
    try:
        said = None if isinstance(payment, UnsetType) else read_json(payment)
    except _UNREADABLE:
        return "payment cannot be read: it holds a number out of range, a broken text or too many levels."
    return None if said is None or isinstance(said, dict) else "payment must be an object."


def canonical(payment: msgspec.Raw | UnsetType) -> bytes:
    """Return the payment in the one spelling that equal payments share; one that can't be read has its own."""
    if isinstance(payment, UnsetType):
        return b"null"
    try:
        return msgspec.json.encode(read_json(payment), order="deterministic")
    except _UNREADABLE:
        return bytes(payment)
