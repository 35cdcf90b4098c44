"""What a store answers to validate and place: yes, no with reasons, or nothing that can be used.

Nothing that a store sends raises here; what it sends is bounded, and freed of control characters.
"""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct

from mercato.domain.orders.amounts import PriceChanged, StoreAmounts, StoreFault, Sums, apply_store_amounts
from mercato.domain.orders.reasons import reason_of, words_for
from mercato.kernel.errors import OTHER, OrderError
from mercato.kernel.wire import parse_instant
from mercato.kernel.wire.decode import Member, decoded, readable

MOST_ERRORS: Final = 100
MESSAGE_LENGTH: Final = 500
POINTER_LENGTH: Final = 500
PARTNER_ORDER_ID_LENGTH: Final = 255

REFUSALS: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.PAYMENT_REQUIRED,
        HTTPStatus.CONFLICT,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""The statuses that are a no."""

_code: Final = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII).fullmatch
_pointer: Final = re.compile(r"(?:/(?:[^~/\x00-\x1f\x7f]|~[01])*)+").fullmatch
_integer: Final = re.compile(r"-?\d+", re.ASCII).fullmatch
_controls: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]").search


class ValidateSaid(Struct, frozen=True):
    """The store would take the order."""

    amounts: StoreAmounts | None = None
    estimated_ready_at: datetime | None = None


class PlaceSaid(Struct, frozen=True):
    """The store has taken the order."""

    partner_order_id: str | None = None
    estimated_ready_at: datetime | None = None
    amounts: StoreAmounts | None = None


class Agreed(Struct, frozen=True):
    """The store would take the order, at these amounts."""

    sums: Sums
    estimated_ready_at: datetime | None


class Refused(Struct, frozen=True):
    """The store's no; there is at least one reason."""

    errors: tuple[OrderError, ...]


class Fault(Struct, frozen=True):
    """No answer that can be used. The words are for the merchant, in the delivery log."""

    words: str


R = TypeVar("R")


class _Reply(msgspec.Struct, frozen=True, rename="camel"):
    """Every member that either reply may have, unread: one that can't be read doesn't hide the others."""

    is_valid: Member = UNSET
    accepted: Member = UNSET
    amounts: Member = UNSET
    errors: Member = UNSET
    error_code: Member = UNSET
    detail: Member = UNSET
    message: Member = UNSET
    title: Member = UNSET
    estimated_ready_at: Member = UNSET
    partner_order_id: Member = UNSET


class _Reason(msgspec.Struct, frozen=True):
    code: Member = UNSET
    message: Member = UNSET
    pointer: Member = UNSET


def read_validate(status: int, body: bytes) -> ValidateSaid | Refused | Fault:
    """Return what the reply to a validate call says. Its amounts still have to be taken (`agree`)."""
    reply = _read(status, body)
    if not isinstance(reply, _Reply):
        return reply
    said = _verdict(reply, reply.is_valid, "isValid")
    if said is not None:
        return said
    try:
        amounts = decoded(reply.amounts, StoreAmounts)
    except msgspec.ValidationError:
        return Fault("amounts must be an object.")
    return ValidateSaid(amounts=amounts, estimated_ready_at=_instant(reply.estimated_ready_at))


def read_place(status: int, body: bytes) -> PlaceSaid | Refused | Fault:
    """Return what the reply to a place call says."""
    reply = _read(status, body)
    if not isinstance(reply, _Reply):
        return reply
    said = _verdict(reply, reply.accepted, "accepted")
    if said is not None:
        return said
    return PlaceSaid(
        partner_order_id=_partner_order_id(reply.partner_order_id),
        estimated_ready_at=_instant(reply.estimated_ready_at),
        amounts=_or_none(reply.amounts, StoreAmounts),
    )


def agree(sums: Sums, said: ValidateSaid | Refused | Fault) -> Agreed | Refused | Fault:
    """Return the order's amounts with what the store set of them."""
    if not isinstance(said, ValidateSaid):
        return said
    match apply_store_amounts(sums, said.amounts):
        case StoreFault(words):
            return Fault(words)
        case PriceChanged(error):
            return Refused((error,))
        case Sums() as agreed:
            return Agreed(agreed, said.estimated_ready_at)


class ReplyParser(Generic[R]):
    """Parses the replies to one call with `read`, and keeps the last one."""

    def __init__(self, read: Callable[[int, bytes], R | Refused | Fault]) -> None:
        self._read = read
        self.reply: R | Refused | Fault = Fault("The store gave no answer.")

    def __call__(self, status: int, body: bytes) -> str | None:
        """Return why the reply can't be used, if so."""
        self.reply = self._read(status, body)
        return self.reply.words if isinstance(self.reply, Fault) else None


# --- the parts of a reply -------------------------------------------------------------------------


def _read(status: int, body: bytes) -> _Reply | Refused | Fault:
    """Return the reply of a 2xx; for any other status what follows from it."""
    reply: _Reply | None = _or_none(msgspec.Raw(body), _Reply)
    if status in REFUSALS:
        return _refused(reply if reply is not None else _Reply())
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Fault(f"The store answered {status}.")
    if reply is None:
        what = (
            "that is no JSON object" if body.strip() else "and nothing else, where a JSON object is expected"
        )
        return Fault(f"The store answered {status} {what}.")
    return reply


def _verdict(reply: _Reply, raw: Member, name: str) -> Refused | Fault | None:
    """Return the no of a 2xx, or None for a yes. What is said expressly counts; else reasons are a no."""
    try:
        yes = decoded(raw, bool)
    except msgspec.ValidationError:
        return Fault(f"{name} must be true or false.")
    if yes is None:
        yes = not _said_anything(reply.errors)
    return None if yes else _refused(reply)


def _said_anything(raw: Member) -> bool:
    try:
        return bool(decoded(raw))
    except msgspec.ValidationError:
        return True


def _refused(reply: _Reply) -> Refused:
    listed: list[Any] = _or_none(reply.errors, list[msgspec.Raw]) or []
    if listed:
        return Refused(tuple(_reason(raw) for raw in listed[:MOST_ERRORS]))
    code = _known(_or_none(reply.error_code, str))
    told = (_or_none(raw, str) for raw in (reply.detail, reply.message, reply.title))
    return Refused((_error(code, _first(told), None),))


def _reason(raw: msgspec.Raw) -> OrderError:
    entry: _Reason | None = _or_none(raw, _Reason)
    if entry is None:
        return _error(OTHER, _or_none(raw, str), None)
    return _error(
        _known(_or_none(entry.code, str)), _or_none(entry.message, str), _or_none(entry.pointer, str)
    )


def _error(code: str, message: str | None, pointer: str | None) -> OrderError:
    words = readable(message or "", MESSAGE_LENGTH) or words_for(code)
    if pointer is not None and (len(pointer) > POINTER_LENGTH or not _pointer(pointer)):
        pointer = None
    return OrderError(code=code, message=words, pointer=pointer)


def _known(code: str | None) -> str:
    return reason_of(code) if code is not None and _code(code) else OTHER


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text), None)


def _instant(raw: Member) -> datetime | None:
    text = _or_none(raw, str)
    return None if text is None else parse_instant(text)


def _partner_order_id(raw: Member) -> str | None:
    """Return the store's own number of the order; one that can't be kept as it is, is left out."""
    if raw is UNSET:
        return None
    written = bytes(raw)[: 2 * PARTNER_ORDER_ID_LENGTH].decode("latin-1").strip()
    text = written if _integer(written) else _or_none(raw, str)
    if not text or len(text) > PARTNER_ORDER_ID_LENGTH or _controls(text):
        return None
    return text


def _or_none(raw: Member, kind: Any) -> Any:
    try:
        return None if raw is UNSET else decoded(raw, kind)
    except msgspec.ValidationError:
        return None
