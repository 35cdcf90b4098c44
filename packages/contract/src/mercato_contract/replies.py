"""What a store's reply to validate, place or cancel means.

No reply raises an exception: it is an acceptance, a rejection with errors, or invalid. Its texts are bounded and lose
their control characters.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato_contract.amounts import (
    InvalidAmountsError,
    PriceChangedError,
    StoreAmounts,
    Sums,
    apply_store_amounts,
)
from mercato_contract.decoding.decode import Member, decoded, one_line, read_object, unreadable
from mercato_contract.problems import OTHER, OrderError, default_message, order_error_code
from mercato_contract.texts import is_blank
from mercato_contract.unread_members import denies, unread_members
from mercato_contract.wire import parse_instant

MAX_ERRORS: Final = 100
MESSAGE_LENGTH: Final = 500
POINTER_LENGTH: Final = 500
PARTNER_ORDER_ID_LENGTH: Final = 255

REASON_LENGTH: Final = 255

VALIDATE_MEMBERS: Final = ("isValid", "errors", "amounts", "estimatedReadyAt")
PLACE_MEMBERS: Final = ("accepted", "errors", "partnerOrderId", "estimatedReadyAt", "amounts")
CANCEL_MEMBERS: Final = ("accepted", "reason", "detail", "message", "title", "errors")
"""What is read of a 2xx reply to each call. The first is its verdict."""

REFUSALS: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.PAYMENT_REQUIRED,
        HTTPStatus.CONFLICT,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""The statuses by which a store rejects an order, or doesn't cancel it."""

_code: Final = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII).fullmatch
_pointer: Final = re.compile(r"(?:/(?:[^~/\x00-\x1f\x7f]|~[01])*)+").fullmatch
_integer: Final = re.compile(r"-?\d+", re.ASCII).fullmatch
_controls: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]").search


class Acceptance(Struct, frozen=True):
    """The store accepts the order; `amounts` as it sent them, not applied yet.

    `warning` tells the merchant that its reply may be meant otherwise: it says no verdict, and something that isn't
    read.
    """

    is_final: ClassVar[bool] = True
    amounts: StoreAmounts | None = None
    estimated_ready_at: datetime | None = None
    partner_order_id: str | None = None
    warning: str | None = None


class Quote(Struct, frozen=True):
    """The amounts at which the store accepts the order."""

    sums: Sums
    estimated_ready_at: datetime | None
    warning: str | None = None


class Rejection(Struct, frozen=True):
    """The store rejects the order, with at least one error.

    `known` is what the reply says of an order that the store has already: a 409 to a place call that names the store's
    own order and carries no refusal.
    """

    is_final: ClassVar[bool] = True
    errors: tuple[OrderError, ...]
    known: Acceptance | None = None


class InvalidReply(Struct, frozen=True):
    """No reply, or one that can't be used: not final, so the store may be called again.

    The message is for the merchant, in the delivery log.
    """

    is_final: ClassVar[bool] = False
    message: str


class CancelAcceptance(Struct, frozen=True):
    """The store has cancelled the order."""


class CancelRejection(Struct, frozen=True):
    """The store doesn't cancel the order; `reason` is for the storefront."""

    reason: str | None


CancelReply = CancelAcceptance | CancelRejection | InvalidReply

R = TypeVar("R")


class _Reply(msgspec.Struct, frozen=True, rename="camel"):
    """The members of both replies, each still raw JSON: one that can't be read doesn't hide the others."""

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
    reason: Member = UNSET


class _Error(msgspec.Struct, frozen=True):
    code: Member = UNSET
    message: Member = UNSET
    pointer: Member = UNSET


def read_validate(status: int, body: bytes) -> Acceptance | Rejection | InvalidReply:
    """Read the reply to a validate call. `quote` applies its amounts."""
    match _read(status, body):
        case _Reply() as reply:
            return _verdict(reply, reply.is_valid, "isValid") or _warned(
                _validated(reply), body, verdict=reply.is_valid, read=VALIDATE_MEMBERS
            )
        case other:
            return other


def _validated(reply: _Reply) -> Acceptance | InvalidReply:
    try:
        amounts = decoded(reply.amounts, StoreAmounts)
    except msgspec.ValidationError:
        return InvalidReply("amounts must be an object.")
    return Acceptance(amounts, _instant(reply.estimated_ready_at))


def read_place(status: int, body: bytes) -> Acceptance | Rejection | InvalidReply:
    """Read the reply to a place call. Amounts that can't be read are ignored."""
    match _read(status, body):
        case _Reply() as reply:
            return _verdict(reply, reply.accepted, "accepted") or _warned(
                _placed(reply), body, verdict=reply.accepted, read=PLACE_MEMBERS
            )
        case Rejection() as rejection if status == HTTPStatus.CONFLICT:
            return replace(rejection, known=_known(body))
        case other:
            return other


def _warned(reply: R, body: bytes, *, verdict: Member, read: Sequence[str]) -> R:
    """Return an acceptance with a warning if it says yes only by default, and something that isn't read."""
    if not isinstance(reply, Acceptance) or decoded(verdict) is not None:
        return reply
    unread = unread_members(body, read)
    if unread is None:
        return reply
    name = read[0]
    warning = f"This counted as a yes, because it doesn't say {name}. {unread} Say {name}: true or false."
    return replace(reply, warning=warning)


def _placed(reply: _Reply) -> Acceptance:
    return Acceptance(
        _or_none(reply.amounts, StoreAmounts),
        _instant(reply.estimated_ready_at),
        _partner_order_id(reply.partner_order_id),
    )


def _known(body: bytes) -> Acceptance | None:
    """Return what a 409 says of the store's own order; None if it names none, or carries a refusal."""
    reply = read_object(body, _Reply)
    if reply is None:
        return None
    try:
        refuses = decoded(reply.accepted, bool) is False or decoded(reply.errors) or decoded(reply.error_code)
    except msgspec.ValidationError:
        return None
    placed = _placed(reply)
    return None if refuses or placed.partner_order_id is None or denies(body) else placed


def read_cancel(status: int, body: bytes) -> CancelReply:
    """Read the reply to a cancel call. It must say `accepted`, unless its status is a refusal."""
    reply = read_object(body, _Reply)
    if status in REFUSALS:
        return CancelRejection(_reason(reply or _Reply()))
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return InvalidReply(
            f"The store answered {status}. 2xx with accepted, or 400, 402, 409 or 422, is expected.{advice_on(status)}"
        )
    accepted = None if reply is None else _or_none(reply.accepted, bool)
    if reply is None and body.strip():
        return InvalidReply(
            f"The store answered {status} with {unreadable(body)}. A JSON object is expected."
        )
    if reply is None or accepted is None:
        unread = None if reply is None else unread_members(body, CANCEL_MEMBERS)
        more = "" if unread is None else f" {unread}"
        return InvalidReply(f"The store answered {status} without accepted: true or false.{more}")
    return CancelAcceptance() if accepted else CancelRejection(_reason(reply))


def _reason(reply: _Reply) -> str | None:
    """Return why a cancellation is refused: what the reply says itself, or the first of its errors that says it."""
    listed: list[msgspec.Raw] = _or_none(reply.errors, list[msgspec.Raw]) or []
    errors = (_or_none(raw, _Error) for raw in listed[:MAX_ERRORS])
    messages = (error.message for error in errors if error is not None)
    own = (reply.reason, reply.detail, reply.message, reply.title)
    texts = (_or_none(raw, str) for raw in (*own, *messages))
    return one_line(next(filter(None, texts), ""), REASON_LENGTH) or None


def quote(sums: Sums, reply: Acceptance | Rejection | InvalidReply) -> Quote | Rejection | InvalidReply:
    """Return the order's amounts with those that the store set."""
    match reply:
        case Acceptance(amounts, ready_at) as reply:
            try:
                return Quote(apply_store_amounts(sums, amounts), ready_at, reply.warning)
            except InvalidAmountsError as error:
                return InvalidReply(str(error))
            except PriceChangedError as changed:
                return Rejection((changed.error,))
        case other:
            return other


class ReplyParser(Generic[R]):
    """Parses the replies to one call with `read`, and keeps the last one."""

    def __init__(self, read: Callable[[int, bytes], R]) -> None:
        self._read = read
        self.reply: R | InvalidReply = InvalidReply("The store gave no answer.")

    @property
    def warning(self) -> str | None:
        """What the merchant should know of a reply that is used, None if nothing."""
        match self.reply:
            case Acceptance(warning=warning) | Quote(warning=warning):
                return warning
        return None

    def __call__(self, status: int, body: bytes) -> str | None:
        """Return why the reply is invalid, or None."""
        self.reply = self._read(status, body)
        match self.reply:
            case InvalidReply(message):
                return message
        return None


# --- members of a reply ---------------------------------------------------------------------------


def _read(status: int, body: bytes) -> _Reply | Rejection | InvalidReply:
    """Return the reply of a 2xx; for any other status, what the status means."""
    reply = read_object(body, _Reply)
    if status in REFUSALS:
        return _rejection(reply if reply is not None else _Reply())
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return InvalidReply(f"The store answered {status}.{advice_on(status)}")
    if reply is None:
        content = f"with {unreadable(body)}" if body.strip() else "without a body"
        return InvalidReply(f"The store answered {status} {content}. A JSON object is expected.")
    return reply


def _verdict(reply: _Reply, raw: Member, name: str) -> Rejection | InvalidReply | None:
    """Return the rejection of a 2xx, or None if it accepts. Without the member `name`, errors mean a rejection."""
    try:
        accepts = decoded(raw, bool)
    except msgspec.ValidationError:
        return InvalidReply(f"{name} must be true or false.")
    if accepts is None:
        try:
            accepts = not decoded(reply.errors)
        except msgspec.ValidationError:
            accepts = False
    return None if accepts else _rejection(reply)


def _rejection(reply: _Reply) -> Rejection:
    listed: list[Any] = _or_none(reply.errors, list[msgspec.Raw]) or []
    if listed:
        return Rejection(tuple(map(_listed_error, listed[:MAX_ERRORS])))
    texts = (_or_none(raw, str) for raw in (reply.detail, reply.message, reply.title))
    return Rejection((_error(reply.error_code, next(filter(None, texts), None)),))


def _listed_error(raw: msgspec.Raw) -> OrderError:
    entry: _Error | None = _or_none(raw, _Error)
    if entry is None:
        return _error(UNSET, _or_none(raw, str))
    return _error(entry.code, _or_none(entry.message, str), _or_none(entry.pointer, str))


def _error(raw_code: Member, message: str | None, pointer: str | None = None) -> OrderError:
    code = _or_none(raw_code, str)
    code = order_error_code(code) if code is not None and _code(code) else OTHER
    if pointer is not None and (len(pointer) > POINTER_LENGTH or not _pointer(pointer)):
        pointer = None
    message = one_line(message or "", MESSAGE_LENGTH) or default_message(code)
    return OrderError(code=code, message=message, pointer=pointer)


def _instant(raw: Member) -> datetime | None:
    text = None if raw is UNSET else _or_none(raw, str)
    return None if text is None else parse_instant(text)


def _partner_order_id(raw: Member) -> str | None:
    """Return the store's order number, a text or an integer; None if it can't be stored unchanged."""
    if raw is UNSET:
        return None
    digits = bytes(raw)[: 2 * PARTNER_ORDER_ID_LENGTH].decode("latin-1").strip()
    text = digits if _integer(digits) else _or_none(raw, str)
    if text is None or is_blank(text) or len(text) > PARTNER_ORDER_ID_LENGTH or _controls(text):
        return None
    return text


def _or_none(raw: Member, kind: Any) -> Any:
    try:
        return None if raw is UNSET else decoded(raw, kind)
    except msgspec.ValidationError:
        return None


def advice_on(status: int) -> str:
    """Return what to look at if a receiver doesn't accept who calls; nothing for other statuses."""
    if status not in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return ""
    return (
        " It doesn't trust the call: compare the signing secret and the bearer token that it expects with those of "
        "this account, and its clock."
    )
